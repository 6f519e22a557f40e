package k8s

import "fmt"

// GraphFile is the name of the one file of a graph. There is but one, so that
// an export over an older one leaves nothing of a node that is gone.
const GraphFile = "main.tf"

// Source addresses of the providers, without the default registry host.
const (
	sourceKubernetes = "fediversity/kubernetes"
	sourceOCI        = "fediversity/oci"
	sourceRandom     = "hashicorp/random"
)

// Images is the resource whose objects are the images of all nodes. A destroy
// forgets them.
const Images = "oci_image.node"

// Graph returns the OpenTofu configuration that deploys the group: files by
// name, in native HCL. It is the same for the same group and environment, byte
// for byte, and holds no credential.
func (g *Group) Graph(env Env) (map[string][]byte, error) {
	namespace, targets, err := g.targets(env)
	if err != nil {
		return nil, err
	}
	var f file
	f.comment("Group " + g.Name + ", target " + g.Target + ". Written by yuba from the group file; do not edit.")
	g.writeSettings(&f)
	g.writeImages(&f, targets)
	g.writeNamespace(&f, namespace)
	g.writeSpire(&f, namespace, targets)
	f.comment("What the pods of all nodes have in common.")
	f.block("locals", nil, attr{podLocal, g.commonPod()})
	for _, t := range targets {
		f.comment("Node " + t.Name)
		t.write(&f)
	}
	writeOutputs(&f, namespace, targets)
	return map[string][]byte{GraphFile: f.b.Bytes()}, nil
}

// targets returns the nodes of the graph with what their objects are made from,
// and their namespace.
func (g *Group) targets(env Env) (namespace string, targets []target, err error) {
	if err := isRegistry(env.Registry); err != nil {
		return "", nil, fmt.Errorf("%s: %w", envRegistry, err)
	}
	if namespace, err = g.Namespace(env); err != nil {
		return "", nil, err
	}
	nodes := g.EnabledNodes()
	targets = make([]target, len(nodes))
	for i, n := range nodes {
		repo, err := repository(env, namespace, n.Name)
		if err != nil {
			return "", nil, err
		}
		// The directory of the group file, or the path of the bundle, is part of it.
		source := g.Source(n)
		if err := isPath(source); err != nil {
			return "", nil, fmt.Errorf("the image of node %s: its source %w", n.Name, err)
		}
		targets[i] = target{Node: n, group: g, namespace: namespace, repository: repo, source: source}
	}
	return namespace, targets, nil
}

// Teardown returns the configuration for a destroy: settings, the look at the
// spire node, and no objects.
// OpenTofu destroys what the state holds, in the order that the state knows.
// A destroy thus needs neither the images nor the RuntimeClass to be there.
//
// The images, which stay in the registry, are forgotten. Destroyed, each of them
// would wait for each object: core goes through these n times 3n edges once for
// each image.
func (g *Group) Teardown() map[string][]byte {
	var f file
	g.writeSettings(&f)
	f.comment("The images stay in the registry, and are no longer in the state.")
	f.add(block{kind: "resource", labels: []string{"oci_image", "node"}, attrs: []attr{
		{"for_each", obj()},
	}, blocks: []block{{kind: "lifecycle", attrs: []attr{{"destroy", boolean(false)}}}}})
	f.block("provider", []string{"kubernetes"}, attr{"timeout", str(g.RemovalTimeout.String())})
	return map[string][]byte{GraphFile: f.b.Bytes()}
}

// writeSettings writes the providers and the backend. Providers have no version
// constraint: yuba links exactly one, and a mirror that it lays out holds that
// one. What differs from run to run is configured by the environment.
func (g *Group) writeSettings(f *file) {
	provider := func(source string) expr { return obj(attr{"source", str(source)}) }
	providers := []attr{
		{"kubernetes", provider(sourceKubernetes)},
		{"oci", provider(sourceOCI)},
		{"random", provider(sourceRandom)},
	}
	if g.Spire != nil {
		providers = append(providers, attr{"spire", provider(sourceSpire)})
	}
	f.add(block{kind: "terraform", blocks: []block{
		{kind: "required_providers", attrs: providers},
		{kind: "backend", labels: []string{"http"}},
	}})
	g.writeRegistry(f)
	g.writeSpireSettings(f)
}

// writeImages writes the push of all images, and what must be true before it.
func (g *Group) writeImages(f *file, targets []target) {
	f.comment("Read while planning: without the RuntimeClass there is no plan, and nothing is pushed.")
	f.block("data", []string{"kubernetes_runtime_class", "this"}, attr{"name", str(g.RuntimeClass)})

	// Every other object is a block of its own. The images are one block with
	// for_each, because everything in the cluster waits for all of them, and
	// core writes into the state of each object every resource before it,
	// transitively: with a block per image the state of n nodes would list n
	// images in each of 3n objects. So it is one entry. Core evaluates for_each
	// once for each instance and then walks through all of it, therefore it is a
	// local that already is a map, of nothing but strings. What is there for all
	// nodes is a local, too: core makes the value of a whole resource anew for
	// each reference to it, and that of a local once.
	images := make([]attr, len(targets))
	for i, t := range targets {
		images[i] = attr{t.Name, obj(
			attr{"source", str(t.source)},
			attr{"repository", str(t.repository)},
			attr{"tag", str(t.Tag)},
		)}
	}
	f.block("locals", nil,
		attr{"images", call{"tomap", []expr{obj(images...)}}},
		attr{"tags", raw("tomap({ for name, image in local.images : name => image.tag })")},
		attr{"digests", raw("{ for name, image in oci_image.node : name => image.digest }")},
		attr{"missing", ref("ephemeral", "oci_manifests", "node", "missing")},
	)
	f.comment("One block for all images: an object's state lists every resource that it waits for.")
	f.add(block{kind: "resource", labels: []string{"oci_image", "node"}, attrs: []attr{
		{"for_each", ref("local", "tags")},
		{"source", raw("local.images[each.key].source")},
		{"repository", raw("local.images[each.key].repository")},
		{"tag", ref("each", "value")},
	}, blocks: []block{{kind: "lifecycle", attrs: []attr{{"create_before_destroy", boolean(true)}}}}})
	// A push that was planned, or an image that was there at the refresh, says
	// nothing about the moment in which a pod is stopped for it: a saved plan may
	// be days old.
	f.comment("Read again when applying, after all pushes: no pod is replaced for an image that has gone since.")
	f.block("ephemeral", []string{"oci_manifests", "node"},
		attr{"references", raw("{ for name, image in oci_image.node : name => image.id }")},
		attr{"depends_on", list(ref("oci_image", "node"))},
	)
	// What everything in the cluster waits for is written once, at the
	// provider: a deletion is configured nowhere else. The images are only
	// referred to, behind a condition that never lets their value through: an
	// import demands that the provider's configuration is known, also when the
	// state has no image. A replaced image is destroyed last (which leaves it in
	// the registry), or it would wait for the deletion of a node that waits for
	// its creation.
	f.comment("Nothing changes in the cluster, and nothing leaves it, before all images are pushed.")
	f.block("provider", []string{"kubernetes"},
		attr{"after", raw("true ? 0 : length(oci_image.node)")},
		attr{"timeout", str(g.RemovalTimeout.String())},
		attr{"persistence", str(g.Persistence.String())},
	)
}

// writeNamespace writes the namespace, before which all images are pushed, and
// the policy, before which nothing runs in it.
func (g *Group) writeNamespace(f *file, namespace string) {
	f.block("resource", []string{"kubernetes_object", "namespace"},
		attr{"manifest", obj(
			attr{"apiVersion", str("v1")},
			attr{"kind", str("Namespace")},
			attr{"metadata", obj(
				attr{"name", str(namespace)},
				attr{"labels", stringMap(g.labels(namespace))},
			)},
		)},
		attr{"depends_on", list(ref("data", "kubernetes_runtime_class", "this"))},
	)
	f.comment("The pods get connections from pods of this namespace only.")
	f.block("resource", []string{"kubernetes_object", "network_policy"},
		attr{"manifest", obj(
			attr{"apiVersion", str("networking.k8s.io/v1")},
			attr{"kind", str("NetworkPolicy")},
			attr{"metadata", obj(
				attr{"name", str("same-namespace")},
				attr{"namespace", str(namespace)},
				attr{"labels", stringMap(g.labels(namespace))},
			)},
			attr{"spec", obj(
				attr{"podSelector", obj()},
				attr{"policyTypes", list(str("Ingress"))},
				attr{"ingress", list(obj(
					attr{"from", list(obj(attr{"podSelector", obj()}))},
				))},
			)},
		)},
		attr{"depends_on", list(ref("kubernetes_object", "namespace"))},
	)
}

// writeOutputs writes what a deploy publishes.
func writeOutputs(f *file, namespace string, targets []target) {
	names := make([]expr, len(targets))
	images := make([]attr, len(targets))
	for i, t := range targets {
		names[i] = str(t.Name)
		images[i] = attr{t.Name, t.image()}
	}
	f.block("output", []string{"namespace"},
		attr{"description", str("Namespace of the nodes")}, attr{"value", str(namespace)})
	f.block("output", []string{"nodes"},
		attr{"description", str("Names of the nodes")}, attr{"value", list(names...)})
	f.block("output", []string{"images"},
		attr{"description", str("Image of each node, by digest")}, attr{"value", obj(images...)})
}
