package main

import (
	"context"
	"errors"
	"fmt"

	core "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// createObjects makes what an administrator of a cluster would have made: nodes,
// a default StorageClass, and the RuntimeClass that the method asks for.
func (c *cluster) createObjects(ctx context.Context, client kubernetes.Interface) error {
	cpu, err := resource.ParseQuantity(c.nodeCPU)
	if err != nil {
		return fmt.Errorf("-node-cpu: %w", err)
	}
	memory, err := resource.ParseQuantity(c.nodeMemory)
	if err != nil {
		return fmt.Errorf("-node-memory: %w", err)
	}
	capacity := core.ResourceList{core.ResourceCPU: cpu, core.ResourceMemory: memory, core.ResourcePods: resource.MustParse("500")}
	for i := range c.fakeNodes {
		name := fmt.Sprintf("fake-%d", i)
		_, err := client.CoreV1().Nodes().Create(ctx, &core.Node{
			ObjectMeta: meta.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{fakeNode: "fake"},
				Labels: map[string]string{core.LabelHostname: name, core.LabelOSStable: "linux", core.LabelArchStable: "amd64",
					"type": "kwok"},
			},
			Status: core.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}, meta.CreateOptions{})
		if ignoreExists(err) != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	remove, later := core.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  meta.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisionerName, ReclaimPolicy: &remove, VolumeBindingMode: &later,
	}, meta.CreateOptions{})
	if ignoreExists(err) != nil {
		return fmt.Errorf("storage class: %w", err)
	}
	_, err = client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
		ObjectMeta: meta.ObjectMeta{Name: "systemd"}, Handler: "systemd",
	}, meta.CreateOptions{})
	if ignoreExists(err) != nil {
		return fmt.Errorf("runtime class: %w", err)
	}
	return nil
}

// usable says what is still missing before a pod can run.
func usable(ctx context.Context, client kubernetes.Interface, count int) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) < count {
		return fmt.Errorf("%d of %d nodes are there", len(nodes.Items), count)
	}
	for _, n := range nodes.Items {
		if len(n.Spec.Taints) > 0 || n.Spec.PodCIDR == "" {
			return fmt.Errorf("node %s is not ready", n.Name)
		}
	}
	if _, err := client.CoreV1().ServiceAccounts(meta.NamespaceDefault).Get(ctx, "default", meta.GetOptions{}); err != nil {
		return errors.Join(errors.New("the default service account"), err)
	}
	_, err = client.CoreV1().ConfigMaps(meta.NamespaceDefault).Get(ctx, "kube-root-ca.crt", meta.GetOptions{})
	return err
}
