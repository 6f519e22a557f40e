#!/bin/sh
# Runs a command with one control plane and registry for all that it tests.
# YUBA_LAB_FLAGS are further flags of "kubelab up".
set -eu
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
kubelab=$(test/parts.sh path kubelab)

# The control plane ends when the pipe to it does, also if this shell is killed.
mkfifo "$dir/stdin"
# shellcheck disable=SC2086 # a list
"$kubelab" up -dir "$dir/lab" -stdin ${YUBA_LAB_FLAGS-} <"$dir/stdin" >"$dir/lab.log" 2>&1 &
lab=$!
exec 3>"$dir/stdin"
trap 'exec 3>&-; wait "$lab" 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

until [ -e "$dir/lab/kubeconfig" ]; do
	kill -0 "$lab" 2>/dev/null || {
		cat "$dir/lab.log" >&2
		exit 1
	}
	sleep 0.1
done

YUBA_TEST_LAB=$dir/lab
YUBA_TEST_KUBELAB=$kubelab
YUBA_TEST_YUBA=$PWD/bin/yuba
YUBA_TEST_TOFU=$(test/parts.sh path tofu 2>/dev/null || :)
export YUBA_TEST_LAB YUBA_TEST_KUBELAB YUBA_TEST_YUBA YUBA_TEST_TOFU
"$@" 3>&-
