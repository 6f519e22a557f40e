package main

import (
	_ "github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/google/go-containerregistry/pkg/v1/remote"
	_ "k8s.io/client-go/informers"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	_ "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	_ "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	_ "sigs.k8s.io/sig-storage-lib-external-provisioner/v11/controller"
)
