#!/bin/sh
# Looks for known vulnerabilities in what the program calls. The database is a
# module too, so only the proxy is asked.
set -eu
cd "$(dirname "$0")/vuln"
GO=${GO:-go}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
(
	export GOWORK=off
	"$GO" build -o "$temp/govulncheck" golang.org/x/vuln/cmd/govulncheck
	"$GO" build -o "$temp/vuln" .
	"$GO" mod download golang.org/x/vulndb
)
db=$(GOWORK=off "$GO" list -m -f '{{.Dir}}' golang.org/x/vulndb)
cd ../..
"$temp/govulncheck" -db "file://$db/data/osv" -format json ./cmd/yuba >"$temp/found.json"
"$temp/vuln" <"$temp/found.json"
