package kubernetes

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/doctor"
)

// Finding is what one check of a cluster says.
type Finding = doctor.Finding

// The verdicts of a Finding.
const (
	FindingOK      = doctor.OK      // as it must be
	FindingMissing = doctor.Missing // a deploy would fail
	FindingUnknown = doctor.Unknown // the API server does not tell
)

// DoctorOptions say for which deploy the cluster is looked at.
type DoctorOptions struct {
	Namespace      string   // of the target; need not exist
	RuntimeClass   string   // name
	StorageClasses []string // names, "" for the cluster's default one
}

// Doctor looks whether the cluster has what a deploy needs, and changes
// nothing. What the kubeconfig's user must not see is a finding and no error.
func (c *Cluster) Doctor(ctx context.Context, o DoctorOptions) ([]Finding, error) {
	api := c.session.client
	facts := doctor.Facts{RuntimeClassName: o.RuntimeClass, StorageClassNames: o.StorageClasses}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	group.Go(func() (err error) {
		facts.Version, err = api.Version(gctx)
		return err
	})
	group.Go(func() error {
		class, err := api.Get(gctx, client.Builtin("node.k8s.io/v1", "RuntimeClass"), "", o.RuntimeClass)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // the latter is a finding of its own
			return nil
		case err != nil:
			return fmt.Errorf("reading RuntimeClass %s: %w", o.RuntimeClass, err)
		}
		facts.RuntimeClass = class
		return nil
	})
	for _, l := range []struct {
		kind client.Kind
		into *[]doctor.Object
	}{
		{client.Builtin("v1", "Node"), &facts.Nodes},
		{client.Builtin("storage.k8s.io/v1", "StorageClass"), &facts.StorageClasses},
		{client.Builtin("apps/v1", "DaemonSet"), &facts.DaemonSets},
	} {
		group.Go(func() error {
			items, _, err := api.List(gctx, l.kind, "", client.ListOptions{})
			switch {
			case apierrors.IsForbidden(err):
				return nil
			case err != nil:
				return fmt.Errorf("reading %s: %w", l.kind.Resource, err)
			}
			*l.into = append([]doctor.Object{}, items...)
			return nil
		})
	}
	facts.Permissions = needed(o.Namespace)
	for i := range facts.Permissions {
		p := &facts.Permissions[i]
		group.Go(func() (err error) {
			p.Allowed, p.Reason, err = api.Allowed(gctx, client.Access{
				Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Namespace: p.Namespace})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return doctor.Examine(facts), nil
}

// needed is what a deploy to the namespace must be allowed.
func needed(namespace string) []doctor.Permission {
	var all []doctor.Permission
	add := func(namespace, group, resource, sub, purpose string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, doctor.Permission{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, For: purpose})
		}
	}
	add("", "", "namespaces", "", "the target's namespace is made and removed", "get", "create", "patch", "delete")
	add("", "node.k8s.io", "runtimeclasses", "", "each plan reads the RuntimeClass", "get")
	const applied = "it is what a deploy applies"
	add(namespace, "apps", "deployments", "", applied, "get", "list", "watch", "create", "patch", "delete")
	add(namespace, "", "persistentvolumeclaims", "", applied, "get", "list", "create", "patch", "delete")
	add(namespace, "networking.k8s.io", "networkpolicies", "", applied, "get", "list", "create", "patch", "delete")
	add(namespace, "apps", "controllerrevisions", "", "the last good image is remembered there", "list", "create", "patch", "delete")
	add(namespace, "apps", "replicasets", "", "rollouts are watched", "list", "watch")
	add(namespace, "", "pods", "", "rollouts are watched", "list", "watch")
	return all
}
