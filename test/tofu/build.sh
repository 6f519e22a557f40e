#!/bin/sh
# Builds stock OpenTofu into the file $1.
set -eu
"$GO" build -o "$1" -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" github.com/opentofu/opentofu/cmd/tofu
