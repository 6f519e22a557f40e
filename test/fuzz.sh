#!/usr/bin/env bash
# Runs every fuzz target for $1 (such as 60s), as many at once as there are cores.
# What crashes one is left in its package's testdata/fuzz, to be committed as a test.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1
GO=${GO:-go}
export GO time

targets=$(git grep -hoE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | wc -l)
[ "$targets" -gt 0 ]
begin=$SECONDS
git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' |
	sed -E 's|^(.*)/[^/]+:func (.*)$|./\1 \2|' |
	xargs -P "$(nproc)" -L 1 bash -c '
		if out=$("$GO" test -run "^$" -fuzz "^$1\$" -fuzztime "$time" -fuzzminimizetime 10s -parallel 1 "$0" 2>&1); then
			echo "ok $0 $1: $(grep "^fuzz: elapsed" <<<"$out" | tail -n 1)"
		else
			printf "FAIL %s %s\n%s\n" "$0" "$1" "$out"
			exit 1
		fi'
echo "$targets fuzz targets, $time each: $((SECONDS - begin)) s"
