// Package doctor judges whether a cluster can run nodes: pure functions from
// what the API server says to findings, one for each thing a deploy needs.
package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// Verdict is how a check ended.
type Verdict string

const (
	OK      Verdict = "ok"
	Missing Verdict = "missing" // a deploy would fail
	Unknown Verdict = "unknown" // the API server does not tell, or not this user
)

// Finding is what one check says.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Message string  `json:"message"` // what was found
	Advice  string  `json:"advice"`  // what to do, "" when all is well
}

// Request is one that a check is made of.
type Request string

// The requests whose answers are the facts.
const (
	GetVersion         Request = "get on the path /version"
	GetRuntimeClass    Request = "get on runtimeclasses.node.k8s.io"
	ListNodes          Request = "list on nodes"
	ListStorageClasses Request = "list on storageclasses.storage.k8s.io"
	ListDaemonSets     Request = "list on daemonsets.apps, in all namespaces"
	ReviewAccess       Request = "create on selfsubjectaccessreviews.authorization.k8s.io"
)

// Refusal is why a request was not answered. That says nothing of what was
// asked for.
type Refusal struct {
	Forbidden bool   // the kubeconfig's user must not make it
	Message   string // what the API server said, when it is something else
}

// Facts are what the checks look at, as the API server answered.
type Facts struct {
	// Refused are the requests without an answer; what they ask for is not set.
	Refused      map[Request]Refusal
	Version      string // of the API server: "v1.37.2+k3s1"
	RuntimeClass Object // nil: there is none
	// RuntimeClassName and StorageClassNames are what the group asks for; ""
	// is the cluster's default StorageClass.
	RuntimeClassName  string
	StorageClassNames []string
	Nodes             []Object
	StorageClasses    []Object
	DaemonSets        []Object
	Permissions       []Permission
}

// Object is a Kubernetes object as decoded JSON.
type Object = field.Object

// Role is what a permission is for besides the requests of the deploy itself.
type Role int

const (
	Own    Role = iota // the deploy makes such requests
	Given              // the deploy gives it on, for which one must have it, or all that is Giving
	Giving             // it lets one give on what one does not have
)

// Permission is something that a deploy must be allowed, and whether it is.
type Permission struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string // "": of the cluster
	For                                string // what fails without it
	Role                               Role
	Answered                           bool // the rest is set; otherwise ReviewAccess is refused
	Allowed                            bool
	Reason                             string // the authorizer's, may be ""
	Failure                            string // why the authorizer could not judge, "" when it could
}

// unanswered is the finding about a check that a refused request is needed for;
// ok is false when there was an answer. without says what else lacks it.
func (f Facts) unanswered(check string, r Request, without string) (_ Finding, ok bool) {
	refusal, ok := f.Refused[r]
	if !ok {
		return Finding{}, false
	}
	if refusal.Forbidden {
		return Finding{check, Unknown, "the kubeconfig's user lacks the permission to ask: " + string(r), "allow " + string(r) + " by a ClusterRole: " + without}, true
	}
	return Finding{check, Unknown, fmt.Sprintf("there is no answer (%s): %s", r, refusal.Message), "run this again"}, true
}

// forThisOnly is about requests that no deploy makes.
const forThisOnly = "this check needs it, a deploy does not"

// Examine runs all checks, in an order in which an administrator would set the
// cluster right.
func Examine(f Facts) []Finding {
	findings := []Finding{version(f)}
	findings = append(findings, runtimeClass(f)...)
	findings = append(findings, userNamespaces(f))
	findings = append(findings, storageClasses(f)...)
	findings = append(findings, networkPolicy(f))
	return append(findings, permissions(f)...)
}

// oldest is the first minor version of Kubernetes 1 in which hostUsers: false
// works without a feature gate.
// https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
const oldest = 33

var minorVersion = regexp.MustCompile(`^v?1\.(\d+)`)

func version(f Facts) Finding {
	if finding, ok := f.unanswered("server version", GetVersion, "the cluster role system:public-info-viewer has it"); ok {
		return finding
	}
	finding := Finding{Check: "server version", Verdict: OK, Message: "Kubernetes " + f.Version}
	m := minorVersion.FindStringSubmatch(f.Version)
	if m == nil {
		finding.Verdict, finding.Advice = Unknown, fmt.Sprintf("see that it has what Kubernetes 1.%d has", oldest)
		return finding
	}
	if minor, err := strconv.Atoi(m[1]); err != nil || minor < oldest {
		finding.Verdict = Missing
		finding.Advice = fmt.Sprintf("upgrade to 1.%d or newer, or turn on the feature gate UserNamespacesSupport of the API server and of each kubelet", oldest)
	}
	return finding
}

// runtimeClass looks at the class and at the nodes that have its handler.
func runtimeClass(f Facts) []Finding {
	finding, ok := f.unanswered("RuntimeClass", GetRuntimeClass, "each plan reads "+f.RuntimeClassName)
	if ok {
		return []Finding{finding}
	}
	finding = Finding{Check: "RuntimeClass", Verdict: OK}
	if f.RuntimeClass == nil {
		finding.Verdict, finding.Message = Missing, fmt.Sprintf("there is no RuntimeClass %s", f.RuntimeClassName)
		finding.Advice = "create it, with a handler that gives systemd a writable cgroup file system (docs/runtime-class.md)"
		return []Finding{finding}
	}
	handler := field.String(f.RuntimeClass, "handler")
	finding.Message = fmt.Sprintf("%s has the handler %s", f.RuntimeClassName, handler)
	runtime, ok := f.unanswered("container runtime", ListNodes, forThisOnly)
	if ok {
		return []Finding{finding, runtime}
	}
	nodes := f.eligible()
	runtime = Finding{Check: "container runtime", Verdict: OK}
	if len(nodes) == 0 {
		runtime.Verdict, runtime.Message = Missing, "no node can run the pods"
		runtime.Advice = "add a node, or change scheduling.nodeSelector and scheduling.tolerations of the RuntimeClass " + f.RuntimeClassName + ": they choose nodes and cover taints"
		return []Finding{finding, runtime}
	}
	var without, old, silent []string
	for _, n := range nodes {
		name := field.String(n, "metadata", "name")
		handlers := field.List(n, "status", "runtimeHandlers")
		switch h := named(handlers, handler); {
		case len(handlers) == 0:
			silent = append(silent, name)
		case h == nil:
			without = append(without, name)
		}
		if v := field.String(n, "status", "nodeInfo", "containerRuntimeVersion"); tooOld(v) {
			old = append(old, name+" ("+v+")")
		}
	}
	switch {
	case len(without) == len(nodes):
		runtime.Verdict, runtime.Message = Missing, fmt.Sprintf("no node has the handler %s", handler)
		runtime.Advice = "configure it in the container runtime of the nodes and restart that (docs/runtime-class.md)"
	case len(without) > 0:
		runtime.Verdict, runtime.Message = Missing, fmt.Sprintf("%s without the handler %s: pods that land there do not start", some("node", without), handler)
		runtime.Advice = "configure it there, or let scheduling.nodeSelector of the RuntimeClass choose the nodes that have it"
	case len(old) > 0:
		runtime.Verdict, runtime.Message = Missing, some("node", old)+" with a container runtime that can't give a writable cgroup file system in a user namespace"
		runtime.Advice = "upgrade to containerd 2.1 or newer, or to CRI-O 1.30 or newer besides 1.35.0 (docs/runtime-class.md)"
	case len(silent) > 0:
		runtime.Verdict, runtime.Message = Unknown, fmt.Sprintf("%s which do not tell their handlers", some("node", silent))
		runtime.Advice = "see that the handler " + handler + " is configured there"
	default:
		runtime.Message = fmt.Sprintf("%s with the handler %s", count(len(nodes), "node"), handler)
	}
	return []Finding{finding, runtime}
}

var runtimeVersion = regexp.MustCompile(`^([a-z-]+)://v?(\d+)\.(\d+)`)

// tooOld says that a container runtime lacks what a handler for systemd needs:
// containerd's cgroup_writable came with 2.1; CRI-O mounts the cgroup tree
// writable for /sbin/init since long, and 1.35.0 alone does not give it to the
// pod's root (https://github.com/cri-o/cri-o/commit/e826ac15c7).
func tooOld(version string) bool {
	m := runtimeVersion.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[2])
	minor, _ := strconv.Atoi(m[3])
	switch m[1] {
	case "containerd":
		return major < 2 || major == 2 && minor < 1
	case "cri-o":
		return major < 1 || major == 1 && minor < 30 || version == "cri-o://1.35.0"
	}
	return false
}

// kernel is the oldest Linux that maps the owners of tmpfs, of which the pod
// has three volumes.
var kernel = [2]int{6, 3}

var kernelVersion = regexp.MustCompile(`^(\d+)\.(\d+)`)

func userNamespaces(f Facts) Finding {
	finding, ok := f.unanswered("user namespaces", ListNodes, forThisOnly)
	if ok {
		return finding
	}
	finding = Finding{Check: "user namespaces", Verdict: OK}
	if f.RuntimeClass == nil {
		finding.Verdict, finding.Message = Unknown, "they are a matter of the handler, and which one that is isn't known without the RuntimeClass"
		finding.Advice = "see to the RuntimeClass first"
		return finding
	}
	nodes := f.eligible()
	handler := field.String(f.RuntimeClass, "handler")
	var without, old, silent []string
	for _, n := range nodes {
		name := field.String(n, "metadata", "name")
		switch h := named(field.List(n, "status", "runtimeHandlers"), handler); {
		case h == nil:
			silent = append(silent, name)
		case !field.Bool(h, "features", "userNamespaces"):
			without = append(without, name)
		}
		v := field.String(n, "status", "nodeInfo", "kernelVersion")
		if m := kernelVersion.FindStringSubmatch(v); m != nil {
			major, _ := strconv.Atoi(m[1])
			minor, _ := strconv.Atoi(m[2])
			if major < kernel[0] || major == kernel[0] && minor < kernel[1] {
				old = append(old, name+" ("+v+")")
			}
		}
	}
	switch {
	case len(old) > 0:
		finding.Verdict, finding.Message = Missing, some("node", old)+" with a kernel that can't give tmpfs to a user namespace"
		finding.Advice = fmt.Sprintf("upgrade to Linux %d.%d or newer", kernel[0], kernel[1])
	case len(without) > 0:
		finding.Verdict, finding.Message = Missing, some("node", without)+" whose container runtime has no user namespaces"
		finding.Advice = "upgrade the container runtime and its OCI runtime: containerd 2.1 with runc 1.2 or crun 1.9"
	case len(silent) > 0 || len(nodes) == 0:
		finding.Verdict, finding.Message = Unknown, "no node tells whether its container runtime has user namespaces"
		finding.Advice = "see docs/runtime-class.md"
		if len(silent) > 0 && len(silent) < len(nodes) {
			finding.Message = some("node", silent) + " which does not tell whether its container runtime has user namespaces"
		}
	default:
		finding.Message = count(len(nodes), "node") + " with them"
	}
	return finding
}

const defaultClass = "storageclass.kubernetes.io/is-default-class"

func storageClasses(f Facts) []Finding {
	if finding, ok := f.unanswered("StorageClass", ListStorageClasses, forThisOnly); ok {
		return []Finding{finding}
	}
	var findings []Finding
	for _, name := range slices.Compact(slices.Sorted(slices.Values(f.StorageClassNames))) {
		finding := Finding{Check: "StorageClass", Verdict: OK}
		var class Object
		for _, c := range f.StorageClasses {
			if name == "" && field.String(c, "metadata", "annotations", defaultClass) == "true" || name != "" && field.String(c, "metadata", "name") == name {
				class = c
			}
		}
		switch {
		case class == nil && name == "":
			finding.Verdict, finding.Message = Missing, "the group names no StorageClass, and the cluster has no default one"
			finding.Advice = "name one as storage.class in the group file; there are: " + names(f.StorageClasses)
		case class == nil:
			finding.Verdict, finding.Message = Missing, "there is no StorageClass "+name
			finding.Advice = "create it, or name another one as storage.class in the group file; there are: " + names(f.StorageClasses)
		case field.String(class, "provisioner") == "kubernetes.io/no-provisioner":
			finding.Verdict, finding.Message = Unknown, field.String(class, "metadata", "name")+" makes no volumes by itself"
			finding.Advice = "create a PersistentVolume for each node beforehand"
		default:
			finding.Message = fmt.Sprintf("%s, of %s", field.String(class, "metadata", "name"), field.String(class, "provisioner"))
			if cmp.Or(field.String(class, "reclaimPolicy"), "Delete") == "Delete" {
				finding.Message += "; a volume goes with its claim"
			}
		}
		findings = append(findings, finding)
	}
	return findings
}

// enforcers are DaemonSets that are known to enforce NetworkPolicy, by a part
// of an image's name.
var enforcers = []string{"calico/node", "cilium/cilium", "antrea", "kube-router", "kube-network-policies", "ovn-kubernetes",
	"ovnkube", "weave-npc", "canal", "romana", "azure-npm", "terway"}

func networkPolicy(f Facts) Finding {
	finding := Finding{Check: "NetworkPolicy", Verdict: OK}
	versions := []string{f.Version}
	for _, n := range f.Nodes {
		versions = append(versions, field.String(n, "status", "nodeInfo", "kubeletVersion"))
	}
	// k3s has kube-router in it, unless it was started without.
	if slices.ContainsFunc(versions, func(v string) bool { return strings.Contains(v, "+k3s") }) {
		finding.Message = "k3s enforces it, unless it was started with --disable-network-policy"
		return finding
	}
	for _, d := range f.DaemonSets {
		for _, c := range field.List(d, "spec", "template", "spec", "containers") {
			image := field.String(c, "image")
			if slices.ContainsFunc(enforcers, func(e string) bool { return strings.Contains(image, e) }) {
				finding.Message = fmt.Sprintf("the DaemonSet %s of namespace %s enforces it", field.String(d, "metadata", "name"), field.String(d, "metadata", "namespace"))
				return finding
			}
		}
	}
	const ask = "a cluster takes the policy also when nothing enforces it, and then every pod of the cluster reaches all ports of the nodes"
	if finding, ok := f.unanswered(finding.Check, ListDaemonSets, "one may be what enforces it"); ok {
		finding.Advice += ". Or ask the administrator: " + ask
		return finding
	}
	finding.Verdict, finding.Message = Unknown, "nothing is found that is known to enforce it"
	finding.Advice = "ask the administrator: " + ask
	return finding
}

func permissions(f Facts) []Finding {
	var findings []Finding
	if finding, ok := f.unanswered("permissions", ReviewAccess, "the cluster role system:basic-user has it"); ok {
		findings = append(findings, finding)
	}
	giving := !slices.ContainsFunc(f.Permissions, func(p Permission) bool { return p.Role == Giving && !p.Allowed })
	for _, p := range f.Permissions {
		if !p.Answered || p.Allowed || p.Role == Giving || p.Role == Given && giving {
			continue
		}
		resource := p.Resource
		if p.Subresource != "" {
			resource += "/" + p.Subresource
		}
		if p.Group != "" {
			resource += "." + p.Group
		}
		what := p.Verb + " " + resource
		if p.Namespace != "" {
			what += " in namespace " + p.Namespace
		}
		what += ": " + p.For
		if p.Failure != "" {
			findings = append(findings, Finding{Check: "permissions", Verdict: Unknown,
				Message: "the authorizer could not tell whether one may " + what + " (" + p.Failure + ")", Advice: "run this again, or see to the authorizer"})
			continue
		}
		if p.Reason != "" {
			what += " (" + p.Reason + ")"
		}
		advice := "grant the verb by a Role or ClusterRole (docs/k8s.md has the table)"
		if p.Role == Given {
			advice = "grant the verb, or escalate and bind of roles and clusterroles, by a Role or ClusterRole (docs/k8s.md has the table)"
		}
		findings = append(findings, Finding{Check: "permissions", Verdict: Missing, Message: "must not " + what, Advice: advice})
	}
	if findings == nil {
		return []Finding{{Check: "permissions", Verdict: OK, Message: "the kubeconfig's user may do all that a deploy needs"}}
	}
	return findings
}

// eligible are the nodes on which pods of the RuntimeClass may land: those that
// it selects, without taints that its tolerations don't cover. The pods have no
// tolerations of their own.
func (f Facts) eligible() (nodes []Object) {
	selector := field.Map(f.RuntimeClass, "scheduling", "nodeSelector")
	for _, n := range f.Nodes {
		fits := !field.Bool(n, "spec", "unschedulable")
		for _, taint := range field.List(n, "spec", "taints") {
			fits = fits && (field.String(taint, "effect") == "PreferNoSchedule" || f.tolerates(taint))
		}
		for label, value := range selector {
			fits = fits && field.String(n, "metadata", "labels", label) == value
		}
		if fits {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// tolerates says whether the RuntimeClass's tolerations cover a taint
// (Toleration.ToleratesTaint of k8s.io/api/core/v1, without the operators that
// compare numbers, which are behind a gate).
func (f Facts) tolerates(taint Object) bool {
	return slices.ContainsFunc(field.List(f.RuntimeClass, "scheduling", "tolerations"), func(t Object) bool {
		effect, key := field.String(t, "effect"), field.String(t, "key")
		if effect != "" && effect != field.String(taint, "effect") || key != "" && key != field.String(taint, "key") {
			return false
		}
		switch field.String(t, "operator") {
		case "Exists":
			return true
		case "", "Equal":
			return key != "" && field.String(t, "value") == field.String(taint, "value")
		}
		return false
	})
}

// some names the first few of many: "node a" or "5 nodes (a, b, c, ...)".
func some(what string, names []string) string {
	if len(names) == 1 {
		return "there is the " + what + " " + names[0]
	}
	shown := names
	more := ""
	if len(shown) > 3 {
		shown, more = shown[:3], ", ..."
	}
	return fmt.Sprintf("there are %d %ss (%s%s)", len(names), what, strings.Join(shown, ", "), more)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func names(objects []Object) string {
	var out []string
	for _, o := range objects {
		out = append(out, field.String(o, "metadata", "name"))
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

func named(objects []Object, name string) Object {
	for _, o := range objects {
		if field.String(o, "name") == name {
			return o
		}
	}
	return nil
}
