#!/bin/sh
# Builds kubelab into the file $1. Kubernetes takes its version from the linker.
set -eu
version=$("$GO" list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
x=k8s.io/component-base/version
"$GO" build -o "$1" -ldflags "-s -w \
	-X $x.gitVersion=$version -X $x.gitMajor=1 -X $x.gitMinor=${minor%%.*} \
	-X $x.gitTreeState=clean -X $x.buildDate=1970-01-01T00:00:00Z \
	-X k8s.io/client-go/pkg/version.gitVersion=$version" .
