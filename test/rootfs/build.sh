#!/bin/sh
# Makes the nodes' root file systems in the directory $1: SUITE.tar, one for each
# version of systemd that is tested.
set -eu
mkdir -p "$1"
for suite in bookworm trixie; do
	./make.sh "$suite" "$1/$suite.tar"
done
