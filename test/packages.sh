#!/bin/sh
# Installs those of the named Debian packages that are missing. As root.
set -eu
missing=
for package in "$@"; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
wait='-o DPkg::Lock::Timeout=300'
{
	apt-get $wait -qq update
	# shellcheck disable=SC2086 # a list
	apt-get $wait -qq install -y --no-install-recommends $missing
} >&2
