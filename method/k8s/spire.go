package k8s

import (
	"fmt"
	"strconv"
	"strings"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/reach"
)

// sourceSpire is the source address of the provider for the spire node, without
// the default registry host.
const sourceSpire = "fediversity/spire"

// defaultTrustDomain is that of a spire node of which nothing else is said.
const defaultTrustDomain = "fediversity"

// Names of the objects that SPIRE needs in the namespace.
const (
	spireServerAccount = "spire-server" // whose token the spire node gets
	spireConfigMap     = "spire-agent"
	spireBundle        = "bundle.pem" // in the ConfigMap, and in the pod
)

// What the pod has of SPIRE. /var/run would be made a directory where the image
// has no link there yet, /run/secrets is a link where sops-nix is in use, and /etc
// is made by NixOS. https://kubernetes.io/docs/concepts/storage/projected-volumes/
const (
	spireVolume    = "spire"
	spireDir       = "/run/yuba/spire"
	spireToken     = "token"
	spireNamespace = "namespace" // the agent's cluster is named after it and the node
	// spireTokenLife is in seconds. The kubelet makes a new token when four
	// fifths of it are over; the API server takes no less than 600.
	spireTokenLife = 3600
)

// Spire is the spire node of the central group, whose SPIRE server gives the
// nodes their identities.
type Spire struct {
	reach.Node
	// TrustDomain is the trust domain of the server, without "spiffe://".
	TrustDomain string
}

var spireKeys = []string{"host", "port", "user", "hostKeys", "options", "command", "trustDomain"}

// read fills s from the object of the spire node.
func (s *Spire) read(o fields) {
	s.Host = o.string("host", true, reach.CheckHost)
	s.User = o.string("user", false, reach.CheckUser)
	s.Command = o.string("command", false, reach.CheckCommand)
	s.TrustDomain = defaultTrustDomain
	if o.has("trustDomain", false) {
		s.TrustDomain = o.string("trustDomain", false, isTrustDomain)
	}
	if v, ok := o.typed("port", kindNumber, false); ok {
		n, err := strconv.Atoi(v.text)
		if err != nil {
			n = 0 // a fraction
		}
		if err := reach.CheckPort(n); err != nil {
			o.r.add(o.at.child("port"), "is %s, must be a port: 1 to 65535", quote(v.text))
		}
		s.Port = n
	}
	own := false
	for _, line := range o.strings("hostKeys", func(line string) error {
		_, err := reach.ParseHostKey(line)
		return err
	}) {
		// In one form, so that another comment is no change.
		if k, err := reach.ParseHostKey(line); err == nil {
			own = own || k.Host == ""
			s.HostKeys = append(s.HostKeys, k.String())
		} else {
			own = true // it is reported already
		}
	}
	if o.has("hostKeys", true) && o.m["hostKeys"].kind == kindArray && !own {
		o.r.add(o.at.child("hostKeys"), "has no key of the spire node itself: without one, anybody could be it")
	}
	if options, ok := o.child("options", false, reach.Options()...); ok {
		s.Options = map[string]string{}
		for _, name := range reach.Options() {
			if options.has(name, false) {
				s.Options[name] = options.string(name, false, func(v string) error { return reach.CheckOption(name, v) })
			}
		}
	}
}

// isTrustDomain is handoff's rule, in the words of the group file.
func isTrustDomain(s string) error {
	if handoff.IsTrustDomain(s) != nil {
		return fmt.Errorf(`%s is not a trust domain (SPIFFE-ID): 1 to 255 of a-z, 0-9, ".", "-" and "_", without "spiffe://"`, quote(s))
	}
	return nil
}

// noProviders refuses a group whose own roster has a spiffe provider.
func (g *Group) noProviders(o fields) {
	v, _ := o.typed("spiffeProviders", kindArray, false)
	var names []string
	for _, elem := range v.elems {
		names = append(names, quote(elem.text))
	}
	if len(names) > 0 {
		o.r.add(o.at.child("spiffeProviders"), "the roster of group %s has %s as spiffe provider: that spire node would be a pod of the same deployment, which can't give its own pods their identities; "+
			"take the provider out of the roster, and name the spire node of the central group in spire", quote(g.Name), strings.Join(names[:min(len(names), 5)], ", "))
	}
}

// writeSpireSettings writes how the spire node is reached, and the look at it.
// A destroy has both, so that it, too, ends before it begins when it could not
// take back what was handed over.
func (g *Group) writeSpireSettings(f *file) {
	s := g.Spire
	if s == nil {
		return
	}
	attrs := []attr{{"host", str(s.Host)}}
	if s.Port != 0 {
		attrs = append(attrs, attr{"port", num(int64(s.Port))})
	}
	if s.User != "" {
		attrs = append(attrs, attr{"user", str(s.User)})
	}
	keys := make([]expr, len(s.HostKeys))
	for i, k := range s.HostKeys {
		keys[i] = str(k)
	}
	attrs = append(attrs, attr{"host_keys", list(keys...)})
	if len(s.Options) > 0 {
		attrs = append(attrs, attr{"options", stringMap(s.Options)})
	}
	if s.Command != "" {
		attrs = append(attrs, attr{"command", str(s.Command)})
	}
	f.comment("The private key comes from SSH_PRIVATE_KEY_FILE; SSH_USER and SSH_NODES come before what is said here.")
	f.block("provider", []string{"spire"}, attrs...)
	f.comment("Read while planning: machine ID and trust bundle of the spire node.")
	f.block("data", []string{"spire_server", "this"}, attr{"trust_domain", str(s.TrustDomain)})
}

// writeSpire writes what the SPIRE server may see in the cluster, the trust
// bundle for the pods, and the hand-off of the nodes to the spire node.
func (g *Group) writeSpire(f *file, namespace string, targets []target) {
	if g.Spire == nil {
		return
	}
	const (
		rbacGroup = "rbac.authorization.k8s.io"
		rbac      = rbacGroup + "/v1"
	)
	labels := stringMap(g.labels(namespace))
	inside := func(name string) expr {
		return obj(attr{"name", str(name)}, attr{"namespace", str(namespace)}, attr{"labels", labels})
	}
	cluster := obj(attr{"name", str(spireClusterRole(namespace))}, attr{"labels", labels})
	rules := func(group, resource, verb string) expr {
		return obj(attr{"apiGroups", list(str(group))}, attr{"resources", list(str(resource))}, attr{"verbs", list(str(verb))})
	}
	binding := func(kind string, metadata expr, role, name string) expr {
		return obj(
			attr{"apiVersion", str(rbac)},
			attr{"kind", str(kind)},
			attr{"metadata", metadata},
			attr{"roleRef", obj(attr{"apiGroup", str(rbacGroup)}, attr{"kind", str(role)}, attr{"name", str(name)})},
			attr{"subjects", list(obj(
				attr{"kind", str("ServiceAccount")}, attr{"name", str(spireServerAccount)}, attr{"namespace", str(namespace)},
			))},
		)
	}
	f.comment("What the SPIRE server may see in the cluster, and what the pods know of it.")
	f.block("locals", nil,
		attr{"spire", obj(
			attr{"account", serviceAccount(inside(spireServerAccount))},
			attr{"role", obj(
				attr{"apiVersion", str(rbac)},
				attr{"kind", str("Role")},
				attr{"metadata", inside(spireServerAccount)},
				attr{"rules", list(rules("", "pods", "get"))},
			)},
			attr{"cluster_role", obj(
				attr{"apiVersion", str(rbac)},
				attr{"kind", str("ClusterRole")},
				attr{"metadata", cluster},
				attr{"rules", list(rules("authentication.k8s.io", "tokenreviews", "create"), rules("", "nodes", "get"))},
			)},
			attr{"agent", obj(
				attr{"apiVersion", str("v1")},
				attr{"kind", str("ConfigMap")},
				attr{"metadata", inside(spireConfigMap)},
				attr{"data", obj(
					attr{spireBundle, ref("data", "spire_server", "this", "bundle")},
					attr{"server", str(g.Spire.Host)},
					attr{"trust-domain", str(g.Spire.TrustDomain)},
				)},
			)},
		)},
		attr{"spire_bindings", obj(
			attr{"role", binding("RoleBinding", inside(spireServerAccount), "Role", spireServerAccount)},
			attr{"cluster_role", binding("ClusterRoleBinding", cluster, "ClusterRole", spireClusterRole(namespace))},
		)},
	)
	// Every pod waits for these, so that they are few blocks, as the images are.
	f.block("resource", []string{"kubernetes_object", "spire"},
		attr{"for_each", ref("local", "spire")},
		attr{"manifest", ref("each", "value")},
		attr{"depends_on", list(ref("kubernetes_object", "namespace"))},
	)
	// Who may not grant roles at will may bind one that is there and that gives
	// nothing that he does not have.
	// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-binding-creation-or-update
	f.block("resource", []string{"kubernetes_object", "spire_binding"},
		attr{"for_each", ref("local", "spire_bindings")},
		attr{"manifest", ref("each", "value")},
		attr{"depends_on", list(ref("kubernetes_object", "spire"))},
	)
	if len(targets) == 0 {
		return // what was handed over is taken back
	}
	names := make([]expr, len(targets))
	for i, t := range targets {
		names[i] = str(t.Name)
	}
	// It is in the state before anything is handed over, and stays there while a
	// hand-off is replaced, or fails: what is to be taken back is never forgotten.
	f.comment("What the spire node has of the namespace is taken back when no pod needs it any more.")
	f.block("resource", []string{"spire_namespace", "this"},
		attr{"name", str(namespace)},
		attr{"depends_on", list(ref("kubernetes_object", "spire_binding"))},
	)
	// The token that was handed over ends with its service account, as when
	// somebody has deleted the namespace.
	f.comment("The spire node knows the nodes before their pods start, and until those have ended.")
	f.add(block{kind: "resource", labels: []string{"spire_handoff", "this"}, attrs: []attr{
		{"machine_id", ref("data", "spire_server", "this", "machine_id")},
		{"namespace", ref("spire_namespace", "this", "name")},
		{"nodes", list(names...)},
	}, blocks: []block{{kind: "lifecycle", attrs: []attr{
		{"replace_triggered_by", list(raw(`kubernetes_object.spire["account"].uid`))},
	}}}})
}

// spireClusterRole is the name of the ClusterRole, and of its binding. Namespaces
// of targets differ, thus these do; and nobody else's object has such a name: one
// that is there would be taken over, and deleted by a destroy.
func spireClusterRole(namespace string) string { return "yuba:" + namespace + ":" + spireServerAccount }

// serviceAccount is one whose token no pod gets without asking for it.
func serviceAccount(metadata expr) expr {
	return obj(
		attr{"apiVersion", str("v1")},
		attr{"kind", str("ServiceAccount")},
		attr{"metadata", metadata},
		attr{"automountServiceAccountToken", boolean(false)},
	)
}

// account returns the name of the node's service account, the identity in the
// token of its pod.
func (t target) account() string {
	return handoff.Identity{Namespace: t.namespace, Node: t.Name}.ServiceAccount()
}

func (t target) accountAddr() []string { return []string{"kubernetes_object", "account_" + t.Name} }

// writeAccount writes the node's service account.
func (t target) writeAccount(f *file) {
	f.block("resource", t.accountAddr(),
		attr{"manifest", serviceAccount(t.metadata(t.account()))},
		attr{"depends_on", list(ref("kubernetes_object", "namespace"))},
	)
}

// spireSources are the volume of the pod that holds its token and the trust
// bundle. The kubelet keeps both up to date.
func spireSources() expr {
	return obj(
		attr{"name", str(spireVolume)},
		attr{"projected", obj(
			// Of root of the node. Kubernetes widens this for a pod that names a user
			// or a group, which this one does not.
			attr{"defaultMode", num(0o400)},
			attr{"sources", list(
				obj(attr{"serviceAccountToken", obj(
					attr{"audience", str(handoff.Audience)},
					attr{"expirationSeconds", num(spireTokenLife)},
					attr{"path", str(spireToken)},
				)}),
				obj(attr{"configMap", obj(
					attr{"name", str(spireConfigMap)},
					attr{"items", list(obj(attr{"key", str(spireBundle)}, attr{"path", str(spireBundle)}, attr{"mode", num(0o444)}))},
				)}),
				obj(attr{"downwardAPI", obj(
					attr{"items", list(obj(attr{"path", str(spireNamespace)}, attr{"fieldRef", obj(attr{"fieldPath", str("metadata.namespace")})}))},
				)}),
			)},
		)},
	)
}
