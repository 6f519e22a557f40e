#!/bin/sh
# Builds spire-server and spire-agent into the directory $1, from their module.
# The server's SQLite is C, so it needs a C compiler.
set -eu
mkdir -p "$1"
CGO_ENABLED=1 "$GO" build -tags netgo,osusergo -o "$1/" -ldflags '-s -w' \
	github.com/spiffe/spire/cmd/spire-server github.com/spiffe/spire/cmd/spire-agent
