#!/bin/sh
# Builds the big programs that tests need and keeps them outside the checkout.
#
#   test/parts.sh build kubelab|tofu   builds it unless it is there; prints its path
#   test/parts.sh path kubelab|tofu    prints its path; fails if it isn't built
#
# A part is kept under the hash of all that goes into it. The cache is
# $YUBA_CACHE, by default ~/.cache/yuba-parts.
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
*) usage ;;
esac
go=${GO:-go}
# One set of flags everywhere, or Go compiles Kubernetes once for each set.
# GOFLAGS and GOWORK of the caller are for the caller's own module.
export CGO_ENABLED=0 GOFLAGS= GOWORK=off

# What goes into the part: this script, the sources, the compiler.
key=$(
	{
		cat parts.sh
		find "$source" -type f ! -name '*_test.go' | LC_ALL=C sort | while IFS= read -r file; do
			sha256sum "$file"
		done
		cd "$source" && "$go" env GOVERSION GOOS GOARCH GOAMD64 GOEXPERIMENT
	} | sha256sum | cut -c1-16
)
cache=${YUBA_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME or YUBA_CACHE must be set}/.cache}/yuba-parts}
dir=$cache/$part-$key
program=$dir/$part

case $verb in
path)
	[ -x "$program" ] || {
		echo "$part is not built: run 'make $target'" >&2
		exit 1
	}
	;;
build)
	mkdir -p "$cache"
	# One heavy build at a time on this machine.
	exec 9>"$cache/lock"
	[ -x "$program" ] || flock 9
	if [ ! -x "$program" ]; then
		echo "building $part (the first time, this takes many minutes)" >&2
		rm -rf "$cache"/tmp.* # of a build that was killed
		temp=$(mktemp -d "$cache/tmp.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		trap 'exit 130' INT TERM HUP
		(
			cd "$source"
			case $part in
			kubelab)
				version=$("$go" list -m -f '{{.Version}}' k8s.io/kubernetes)
				minor=${version#v1.}
				x=k8s.io/component-base/version
				"$go" build -trimpath -o "$temp/$part" -ldflags "-s -w \
					-X $x.gitVersion=$version -X $x.gitMajor=1 -X $x.gitMinor=${minor%%.*} \
					-X $x.gitTreeState=clean -X $x.buildDate=1970-01-01T00:00:00Z \
					-X k8s.io/client-go/pkg/version.gitVersion=$version" . >&2
				;;
			tofu)
				"$go" build -trimpath -o "$temp/$part" -ldflags "-s -w \
					-X github.com/opentofu/opentofu/version.dev=no" github.com/opentofu/opentofu/cmd/tofu >&2
				;;
			esac
		)
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
echo "$program"
