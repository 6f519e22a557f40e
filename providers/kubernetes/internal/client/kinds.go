package client

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind as the API server serves it.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural in the URL, such as "deployments".
	Resource string
	// Namespaced is false for kinds that live outside of namespaces.
	Namespaced bool
}

// APIVersion is the group and version as manifests write them.
func (k Kind) APIVersion() string { return k.GroupVersion().String() }

// path gives the URL path of a collection (name == "") or of one object.
func (k Kind) path(namespace, name string) string {
	var b strings.Builder
	b.WriteString(groupPath(k.GroupVersion()))
	if k.Namespaced && namespace != "" {
		b.WriteString("/namespaces/" + url.PathEscape(namespace))
	}
	b.WriteString("/" + k.Resource)
	if name != "" {
		b.WriteString("/" + url.PathEscape(name))
	}
	return b.String()
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// builtin holds the kinds whose resource and scope have never changed since
// they are GA, so that a plan needs no discovery for them.
// "-" before the resource marks kinds outside of namespaces.
func builtin(gvk schema.GroupVersionKind) (Kind, bool) {
	var res string
	switch gvk.GroupVersion().String() {
	case "v1":
		switch gvk.Kind {
		case "Namespace":
			res = "-namespaces"
		case "Node":
			res = "-nodes"
		case "PersistentVolume":
			res = "-persistentvolumes"
		case "ConfigMap":
			res = "configmaps"
		case "Secret":
			res = "secrets"
		case "Service":
			res = "services"
		case "ServiceAccount":
			res = "serviceaccounts"
		case "PersistentVolumeClaim":
			res = "persistentvolumeclaims"
		case "Pod":
			res = "pods"
		case "Event":
			res = "events"
		case "ResourceQuota":
			res = "resourcequotas"
		case "LimitRange":
			res = "limitranges"
		}
	case "apps/v1":
		switch gvk.Kind {
		case "Deployment":
			res = "deployments"
		case "ReplicaSet":
			res = "replicasets"
		case "StatefulSet":
			res = "statefulsets"
		case "DaemonSet":
			res = "daemonsets"
		case "ControllerRevision":
			res = "controllerrevisions"
		}
	case "batch/v1":
		switch gvk.Kind {
		case "Job":
			res = "jobs"
		case "CronJob":
			res = "cronjobs"
		}
	case "networking.k8s.io/v1":
		switch gvk.Kind {
		case "NetworkPolicy":
			res = "networkpolicies"
		case "Ingress":
			res = "ingresses"
		}
	case "rbac.authorization.k8s.io/v1":
		switch gvk.Kind {
		case "Role":
			res = "roles"
		case "RoleBinding":
			res = "rolebindings"
		case "ClusterRole":
			res = "-clusterroles"
		case "ClusterRoleBinding":
			res = "-clusterrolebindings"
		}
	case "storage.k8s.io/v1":
		if gvk.Kind == "StorageClass" {
			res = "-storageclasses"
		}
	case "node.k8s.io/v1":
		if gvk.Kind == "RuntimeClass" {
			res = "-runtimeclasses"
		}
	case "apiextensions.k8s.io/v1":
		if gvk.Kind == "CustomResourceDefinition" {
			res = "-customresourcedefinitions"
		}
	}
	if res == "" {
		return Kind{}, false
	}
	plural, clusterScoped := strings.CutPrefix(res, "-")
	return Kind{GroupVersionKind: gvk, Resource: plural, Namespaced: !clusterScoped}, true
}

// Builtin gives a kind that Kubernetes itself defines, without asking a
// server. It panics for a kind that is not in the table: callers name
// constants.
func Builtin(apiVersion, kind string) Kind {
	k, ok := builtin(schema.FromAPIVersionAndKind(apiVersion, kind))
	if !ok {
		panic("client: no builtin kind " + apiVersion + " " + kind)
	}
	return k
}

// NotServedError says that the API server knows no such kind (yet).
type NotServedError struct {
	GVK    schema.GroupVersionKind
	Server string
}

func (e *NotServedError) Error() string {
	return fmt.Sprintf("the API server %s serves no kind %s in %s: check apiVersion and kind, or apply its CustomResourceDefinition first",
		e.Server, e.GVK.Kind, e.GVK.GroupVersion())
}
