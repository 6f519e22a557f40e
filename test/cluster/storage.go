package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	provision "sigs.k8s.io/sig-storage-lib-external-provisioner/v11/controller"
)

// provisionerName is what a StorageClass names to be served by storage.
const provisionerName = "yuba.test/directory"

// storage makes a volume for each claim of a class that names it.
func storage() {
	fs := flag.NewFlagSet("storage", flag.ExitOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig file (required)")
	root := fs.String("root", "", "directory of the volumes (required)")
	klog.InitFlags(fs)
	_ = fs.Parse(os.Args[1:])
	if *kubeconfig == "" || *root == "" {
		fs.Usage()
		os.Exit(2)
	}
	ctx, client := connect(*kubeconfig)
	provision.NewProvisionController(ctx, client, provisionerName, directories{filepath.Clean(*root)},
		provision.LeaderElection(false),
		// A pod waits for its volume; its default of 15 s a try is for clouds.
		provision.ResyncPeriod(5*time.Second),
		provision.Threadiness(8),
	).Run(ctx)
}

// connect makes a client without rate limits; ctx ends with SIGTERM.
func connect(kubeconfig string) (context.Context, kubernetes.Interface) {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		fail(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	return ctx, client
}

// directories makes each volume a directory of the node that was chosen for
// the pod.
type directories struct{ root string }

func (d directories) Provision(_ context.Context, o provision.ProvisionOptions) (*core.PersistentVolume, provision.ProvisioningState, error) {
	if o.SelectedNode == nil {
		return nil, provision.ProvisioningFinished, errors.New("no node was chosen: the class needs volumeBindingMode WaitForFirstConsumer")
	}
	path := filepath.Join(d.root, strings.Join([]string{o.PVName, o.PVC.Namespace, o.PVC.Name}, "_"))
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, provision.ProvisioningFinished, err
	}
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: o.PVName},
		Spec: core.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      core.ResourceList{core.ResourceStorage: o.PVC.Spec.Resources.Requests[core.ResourceStorage]},
			PersistentVolumeSource:        core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
				MatchExpressions: []core.NodeSelectorRequirement{{
					Key: core.LabelHostname, Operator: core.NodeSelectorOpIn,
					Values: []string{o.SelectedNode.Labels[core.LabelHostname]},
				}},
			}}}},
		},
	}, provision.ProvisioningFinished, nil
}

func (d directories) Delete(_ context.Context, pv *core.PersistentVolume) error {
	if path := pv.Spec.Local.Path; filepath.Dir(path) == d.root {
		return os.RemoveAll(path)
	}
	return nil
}
