#!/bin/sh
# Builds the server into the file $1; see ../parts.sh.
set -eu
"$GO" build -o "$1" -ldflags '-s -w' .
