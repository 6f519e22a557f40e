package kubernetes

import (
	"context"
	"errors"
	"sync"

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
	Spire          bool     // the nodes get identities of a SPIRE server outside of the cluster
}

// Doctor looks whether the cluster has what a deploy needs, and changes
// nothing. What the kubeconfig's user must not see, and what the API server
// can't answer now, is a finding and no error; no API server at all is one.
func (c *Cluster) Doctor(ctx context.Context, o DoctorOptions) ([]Finding, error) {
	api := c.session.client
	facts := doctor.Facts{RuntimeClassName: o.RuntimeClass, StorageClassNames: o.StorageClasses,
		Permissions: needed(o), Refused: map[doctor.Request]doctor.Refusal{}}
	var refused sync.Mutex
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	ask := func(r doctor.Request, question func() error) {
		group.Go(func() error {
			err := question()
			status := apierrors.APIStatus(nil)
			switch {
			case err == nil:
				return nil
			case !errors.As(err, &status), apierrors.IsUnauthorized(err):
				return err
			}
			refused.Lock()
			defer refused.Unlock()
			facts.Refused[r] = doctor.Refusal{Forbidden: apierrors.IsForbidden(err), Message: err.Error()}
			return nil
		})
	}
	ask(doctor.GetVersion, func() (err error) {
		facts.Version, err = api.Version(gctx)
		return err
	})
	ask(doctor.GetRuntimeClass, func() error {
		class, err := api.Get(gctx, client.Builtin("node.k8s.io/v1", "RuntimeClass"), "", o.RuntimeClass)
		if apierrors.IsNotFound(err) {
			return nil
		}
		facts.RuntimeClass = class
		return err
	})
	for r, l := range map[doctor.Request]struct {
		kind client.Kind
		into *[]doctor.Object
	}{
		doctor.ListNodes:          {client.Builtin("v1", "Node"), &facts.Nodes},
		doctor.ListStorageClasses: {client.Builtin("storage.k8s.io/v1", "StorageClass"), &facts.StorageClasses},
		doctor.ListDaemonSets:     {client.Builtin("apps/v1", "DaemonSet"), &facts.DaemonSets},
	} {
		ask(r, func() (err error) {
			*l.into, _, err = api.List(gctx, l.kind, "", client.ListOptions{})
			return err
		})
	}
	for i := range facts.Permissions {
		p := &facts.Permissions[i]
		ask(doctor.ReviewAccess, func() error {
			review, err := api.Review(gctx, client.Access{
				Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Namespace: p.Namespace})
			p.Answered, p.Allowed, p.Reason, p.Failure = err == nil, review.Allowed, review.Reason, review.Failure
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return doctor.Examine(facts), nil
}

// needed is what a deploy must be allowed.
func needed(o DoctorOptions) []doctor.Permission {
	var all []doctor.Permission
	namespace, role := o.Namespace, doctor.Own
	add := func(namespace, group, resource, sub, purpose string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, doctor.Permission{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, For: purpose, Role: role})
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
	if !o.Spire {
		return all
	}
	const rbac = "rbac.authorization.k8s.io"
	for _, r := range [][2]string{{"", "serviceaccounts"}, {"", "configmaps"}, {rbac, "roles"}, {rbac, "rolebindings"}} {
		add(namespace, r[0], r[1], "", "it is what a deploy with SPIRE applies", "get", "list", "create", "patch", "delete")
	}
	for _, resource := range []string{"clusterroles", "clusterrolebindings"} {
		add("", rbac, resource, "", "it is what a deploy with SPIRE applies", "get", "create", "patch", "delete")
	}
	add(namespace, "", "secrets", "", "the token of the SPIRE server is made there", "get", "create")
	// Nobody gives on by a role what he does not have himself, unless he may give on all.
	// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
	role = doctor.Given
	const given = "the SPIRE server is given it, by whom has it"
	add(namespace, "", "pods", "", given, "get")
	add("", "", "nodes", "", given, "get")
	add("", "authentication.k8s.io", "tokenreviews", "", given, "create")
	role = doctor.Giving
	add(namespace, rbac, "roles", "", "", "escalate", "bind")
	add("", rbac, "clusterroles", "", "", "escalate", "bind")
	return all
}
