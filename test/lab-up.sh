#!/bin/sh
# Starts a test cluster in a directory and leaves it running.
set -eu
dir=${1:?usage: lab-up.sh DIR}
cd "$(dirname "$0")/.."
[ ! -e "$dir" ] || {
	echo "$dir is there: a cluster runs in it ('make lab-down'), or it is a leftover to be removed" >&2
	exit 1
}
kubelab=$(test/parts.sh path kubelab)
log=$(mktemp)
"$kubelab" up -dir "$dir" -remove </dev/null >"$log" 2>&1 &
lab=$!
until [ -e "$dir/kubeconfig" ]; do
	kill -0 "$lab" 2>/dev/null || {
		cat "$log" >&2
		rm -f "$log"
		exit 1
	}
	sleep 0.1
done
cat "$log"
rm -f "$log"
cat <<END
export YUBA_TEST_LAB=$dir
$kubelab kubectl get nodes
END
