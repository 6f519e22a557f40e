#!/bin/sh
# Builds a container runtime into the directory $1, each program from its module.
# runc needs a C compiler and libseccomp.
set -eu
out=$1
mkdir -p "$out/cni"
version() { "$GO" list -m -f '{{.Version}}' "$1"; }

containerd=github.com/containerd/containerd/v2
containerd() { # PROGRAM TAGS
	"$GO" build -o "$out/$1" -tags "urfave_cli_no_docs $2" \
		-ldflags "-s -w -X $containerd/version.Version=$(version $containerd)" "$containerd/cmd/$1"
}
containerd containerd 'no_btrfs no_devmapper no_zfs'
containerd containerd-shim-runc-v2 no_grpc
for plugin in main/bridge main/loopback ipam/host-local meta/portmap; do
	"$GO" build -o "$out/cni/${plugin#*/}" -ldflags '-s -w' "github.com/containernetworking/plugins/plugins/$plugin"
done
"$GO" build -o "$out/pause" -ldflags '-s -w' ./pause
"$GO" build -o "$out/runc-nocgroup" -ldflags '-s -w' ./runc-nocgroup
runc=github.com/opencontainers/runc
CGO_ENABLED=1 "$GO" build -o "$out/runc" -tags 'seccomp urfave_cli_no_docs netgo osusergo' \
	-ldflags "-s -w -X main.version=$(version $runc) -extldflags -static" "$runc"
