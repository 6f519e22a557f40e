// Package yuba pins the modules that the rooms are built from.
package yuba

import (
	_ "github.com/google/go-containerregistry/pkg/registry"
	_ "github.com/google/go-containerregistry/pkg/v1/remote"
	_ "github.com/google/go-containerregistry/pkg/v1/tarball"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/hcl/v2/hclwrite"
	_ "github.com/hashicorp/terraform-plugin-framework/providerserver"
	_ "github.com/hashicorp/terraform-plugin-framework/resource"
	_ "github.com/hashicorp/terraform-plugin-framework/datasource"
	_ "github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/klauspost/pgzip"
	_ "github.com/opentofu/opentofu/yuba"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)
