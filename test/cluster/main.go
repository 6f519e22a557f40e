// Command kubelab is a Kubernetes cluster in one file, for tests: etcd, the
// control plane, fake nodes (kwok), a storage provisioner, an OCI registry and
// kubectl, all built from their modules.
//
//	kubelab up -dir DIR       start a cluster on loopback; ends with SIGTERM
//	kubelab registry -dir DIR an OCI registry alone
//	kubelab kubectl ...       kubectl
//	kubelab isolate CMD...    run CMD in namespaces in which a real node can run,
//	                          started by kubelab up -runtime DIR
//	kubelab PART ...          one part of the cluster, with its own flags
//
// What the fake nodes' pods do is decided by their images: see pods.go.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// commands are the programs in this file, by name. A program finds its
// arguments in os.Args, as if it were alone.
func commands() map[string]func() {
	return map[string]func(){
		"up":                      up,
		"etcd":                    etcd,
		"isolate":                 isolate,
		"isolated":                isolatedInit,
		"kube-apiserver":          apiserver,
		"kube-controller-manager": controllerManager,
		"kube-scheduler":          scheduler,
		"kubectl":                 kubectl,
		"kubelet":                 kubelet,
		"kube-proxy":              kubeProxy,
		"kwok":                    kwok,
		"netpol":                  netpol,
		"pods":                    pods,
		"registry":                registry,
		"storage":                 storage,
		"sweep":                   sweep,
	}
}

func main() {
	all := commands()
	run, ok := all[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		if run, ok = all[os.Args[1]]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: kubelab "+strings.Join(slices.Sorted(maps.Keys(all)), "|")+" ...")
		os.Exit(2)
	}
	run()
}

// fail ends the program with err.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubelab:", err)
	os.Exit(1)
}
