#!/bin/sh
# Builds the big parts that tests need and keeps them outside the checkout.
#
#   test/parts.sh build PART   builds it unless it is there; prints its path
#   test/parts.sh path PART    prints its path; fails if it isn't built
#
# PART is kubelab (the test cluster), tofu (stock OpenTofu), runtime (a directory:
# containerd, runc, network plugins) rootfs (a directory: nodes' root file systems),
# spire (a directory: spire-server, spire-agent) or vault (a server with the transit
# engine).
# A part is made by build.sh in its folder and kept under the hash of that folder.
# The cache is $YUBA_CACHE, by default ~/.cache/yuba-parts.
set -eu
cd "$(dirname "$0")"

usage() {
	sed -n 's/^#   //p' parts.sh >&2
	exit 2
}
[ $# -eq 2 ] || usage
verb=$1 part=$2
case $part in
kubelab) source=cluster target=lab ;;
tofu) source=tofu target=stock-tofu ;;
runtime) source=runtime target=runtime ;;
rootfs) source=rootfs target=rootfs ;;
spire) source=spire target=spire-programs ;;
vault) source=vault target=vault ;;
*) usage ;;
esac
GO=${GO:-go}
# One set of flags everywhere, or Go compiles Kubernetes once for each set.
# GOFLAGS and GOWORK of the caller are for the caller's own module.
export GO CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off

# What goes into the part: the sources with build.sh, the compiler.
key=$(
	{
		find "$source" -type f ! -name '*_test.go' | LC_ALL=C sort | while IFS= read -r file; do
			sha256sum "$file"
		done
		cd "$source" && "$GO" env GOVERSION GOOS GOARCH GOAMD64 GOEXPERIMENT
	} | sha256sum | cut -c1-16
)
cache=${YUBA_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME or YUBA_CACHE must be set}/.cache}/yuba-parts}
dir=$cache/$part-$key
result=$dir/$part

case $verb in
path)
	[ -e "$result" ] || {
		echo "$part is not built: run 'make $target'" >&2
		exit 1
	}
	;;
build)
	mkdir -p "$cache"
	# One heavy build at a time on this machine.
	exec 9>"$cache/lock"
	[ -e "$result" ] || flock 9
	if [ ! -e "$result" ]; then
		echo "building $part (the first time, this takes many minutes)" >&2
		rm -rf "$cache"/tmp.* # of a build that was killed
		temp=$(mktemp -d "$cache/tmp.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		trap 'exit 130' INT TERM HUP
		(cd "$source" && ./build.sh "$temp/$part") >&2
		chmod 755 "$temp"
		rm -rf "$dir"
		mv "$temp" "$dir"
	fi
	# Keep the three that were used last.
	touch "$dir"
	# shellcheck disable=SC2012 # the names are ours
	ls -1dt "$cache/$part"-* | tail -n +4 | while IFS= read -r old; do
		rm -rf "$old"
	done
	;;
*) usage ;;
esac
echo "$result"
