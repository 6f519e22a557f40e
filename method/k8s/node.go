package k8s

// target is a node with all that its objects are made from.
type target struct {
	Node
	group      *Group
	namespace  string
	repository string
	source     string
}

// Labels that every object carries, in the manner that Kubernetes recommends.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelPartOf    = "app.kubernetes.io/part-of"
	labelManagedBy = "app.kubernetes.io/managed-by"
)

// labels returns the labels of the objects of the whole group.
func (g *Group) labels(namespace string) map[string]string {
	return map[string]string{labelInstance: namespace, labelPartOf: g.Name, labelManagedBy: "yuba"}
}

// labels returns the labels of the objects of the node.
func (t target) labels() map[string]string {
	m := t.group.labels(t.namespace)
	m[labelName] = t.Name
	return m
}

// selector returns what selects the pod of the node. It can't be changed once
// the Deployment exists, thus it holds nothing but what names the node.
func (t target) selector() map[string]string { return map[string]string{labelName: t.Name} }

// ClaimSuffix is what the name of a node's PersistentVolumeClaim has behind the
// node's.
const ClaimSuffix = "-state"

// claim returns the name of the node's PersistentVolumeClaim.
func (t target) claim() string { return t.Name + ClaimSuffix }

// Names of the node's resources in the configuration. The prefixes make an HCL
// identifier of any DNS label, also of one that starts with a digit.
func (t target) uuidAddr() []string  { return []string{"random_uuid", "node_" + t.Name} }
func (t target) claimAddr() []string { return []string{"kubernetes_object", "claim_" + t.Name} }
func (t target) deploymentAddr() []string {
	return []string{"kubernetes_object", "deployment_" + t.Name}
}
func (t target) rolloutAddr() []string { return []string{"kubernetes_rollout", "node_" + t.Name} }

// image returns the reference of the node's image by the digest that the
// registry gave.
func (t target) image() expr {
	return template(t.repository+"@", index(t.Name, "local", "digests"))
}

// write writes the node's resources.
func (t target) write(f *file) {
	f.block("resource", t.uuidAddr())
	f.block("resource", t.claimAddr(),
		attr{"manifest", t.claimManifest()},
		attr{"depends_on", list(ref("kubernetes_object", "namespace"))},
	)
	// A claim with another StorageClass is another claim, and the old one is not
	// gone before the pod that uses it is: with it goes the Deployment. A
	// claim that just grows stays, with its uid.
	claim := t.claimAddr()
	after := []expr{ref("kubernetes_object", "network_policy"), ref(claim...)}
	if t.group.Spire != nil {
		t.writeAccount(f)
		after = append(after, ref(t.accountAddr()...), ref("spire_handoff", "this"))
	}
	f.add(block{kind: "resource", labels: t.deploymentAddr(), attrs: []attr{
		{"manifest", t.deploymentManifest()},
		{"unless", index(t.Name, "local", "missing")},
		{"depends_on", list(after...)},
	}, blocks: []block{{kind: "lifecycle", attrs: []attr{{"replace_triggered_by", list(ref(claim[0], claim[1], "uid"))}}}}})
	deployment := t.deploymentAddr()
	f.block("resource", t.rolloutAddr(),
		attr{"namespace", str(t.namespace)},
		attr{"name", str(t.Name)},
		attr{"uid", ref(deployment[0], deployment[1], "uid")},
		attr{"generation", ref(deployment[0], deployment[1], "generation")},
		attr{"timeout", str(t.group.RolloutTimeout.String())},
	)
}

func (t target) metadata(name string) expr {
	return obj(
		attr{"name", str(name)},
		attr{"namespace", str(t.namespace)},
		attr{"labels", stringMap(t.labels())},
	)
}

// claimManifest is the volume of /var/lib. It is an object of its own, so that
// it stays when the pod or the Deployment is replaced.
func (t target) claimManifest() expr {
	spec := []attr{{"accessModes", list(str("ReadWriteOnce"))}}
	if t.Storage.Class != "" {
		spec = append(spec, attr{"storageClassName", str(t.Storage.Class)})
	}
	spec = append(spec, attr{"resources", obj(
		attr{"requests", obj(attr{"storage", str(t.Storage.Size)})},
	)})
	return obj(
		attr{"apiVersion", str("v1")},
		attr{"kind", str("PersistentVolumeClaim")},
		attr{"metadata", t.metadata(t.claim())},
		attr{"spec", obj(spec...)},
	)
}

func (t target) deploymentManifest() expr {
	return obj(
		attr{"apiVersion", str("apps/v1")},
		attr{"kind", str("Deployment")},
		attr{"metadata", t.metadata(t.Name)},
		attr{"spec", obj(
			attr{"replicas", num(1)},
			// Never two pods: they would share one /var/lib and one machine ID.
			attr{"strategy", obj(attr{"type", str("Recreate")})},
			attr{"selector", obj(attr{"matchLabels", stringMap(t.selector())})},
			attr{"template", obj(
				attr{"metadata", obj(attr{"labels", stringMap(t.labels())})},
				attr{"spec", t.podSpec()},
			)},
		)},
	)
}
