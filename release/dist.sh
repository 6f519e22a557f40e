#!/bin/sh
# Writes DIR/yuba-VERSION-src.tar.gz: the last commit, with the modules that it is
# built from in vendor/, their licences too. In the tarball, "make build" needs
# Go, and neither a network nor a module cache. The same commit, version and
# epoch give the same bytes.
#
#   release/dist.sh VERSION EPOCH DIR
set -eu
[ $# -eq 3 ] || {
	sed -n 's/^#   //p' "$0" >&2
	exit 2
}
name=yuba-$1-src epoch=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$temp/$name"
git archive HEAD | tar x -C "$temp/$name"
(
	cd "$temp/$name"
	printf 'VERSION ?= %s\nEPOCH ?= %s\n' "$1" "$epoch" >release.mk
	GOFLAGS= GOWORK=off "${GO:-go}" mod vendor
)
# Modes are those that a umask of 022 gives, whatever this user's is.
LC_ALL=C tar --sort=name --format=ustar --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' \
	-C "$temp" -cf "$temp/tar" "$name"
gzip -9 -n <"$temp/tar" >"$out/$name.tar.gz.part"
mv "$out/$name.tar.gz.part" "$out/$name.tar.gz"
cd "$out"
sha256sum "$name.tar.gz" >"$name.tar.gz.sha256"
echo "$out/$name.tar.gz"
