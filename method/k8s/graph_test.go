package k8s

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"fediversity.eu/yuba/spire/reach"
	"fediversity.eu/yuba/test/golden"
)

var testEnv = Env{Registry: "registry.example:5000/yuba", Namespace: "fediversity"}

// TestGoldenGraph shows in review what a change does to the graph of a group
// of two nodes, without SPIRE and with it.
func TestGoldenGraph(t *testing.T) {
	for _, dir := range []string{"testdata/two-nodes", "testdata/spire"} {
		data, err := os.ReadFile(dir + "/group.json")
		if err != nil {
			t.Fatal(err)
		}
		g := mustParse(t, string(data))
		files := mustGraph(t, g)
		checkGraph(t, g, files)
		if len(files) != 1 {
			t.Errorf("the graph has %d files", len(files))
		}
		if formatted := hclwrite.Format(files[GraphFile]); !bytes.Equal(formatted, files[GraphFile]) {
			t.Errorf("tofu fmt would change the graph:\n%s", cmp.Diff(string(files[GraphFile]), string(formatted)))
		}
		golden.Check(t, dir+"/main.tf", string(files[GraphFile]))
	}
}

// TestGraphIsTheSameEachTime: a graph that differs would be a change to each
// plan.
func TestGraphIsTheSameEachTime(t *testing.T) {
	first := graphOf(t, good)
	for range 20 {
		if !bytes.Equal(first, graphOf(t, good)) {
			t.Fatal("two graphs of one group differ")
		}
	}
	// Neither does the order of nodes and keys in the file matter.
	a := `{"version":1,"group":"g","storage":{"size":"1"},"nodes":[{"name":"a","image":{"archive":"a"},"tag":"t"},{"name":"b","image":{"archive":"b"},"tag":"t","resources":{"limits":{"memory":"1Gi","cpu":"1"}}}]}`
	b := `{"nodes":[{"tag":"t","resources":{"limits":{"cpu":"1","memory":"1Gi"}},"image":{"archive":"b"},"name":"b"},{"tag":"t","image":{"archive":"a"},"name":"a"}],"storage":{"size":"1"},"group":"g","version":1}`
	if !bytes.Equal(graphOf(t, a), graphOf(t, b)) {
		t.Error("the order in the file changes the graph")
	}
}

func graphOf(t *testing.T, data string) []byte {
	t.Helper()
	g, err := Parse("/srv/group.json", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	files, err := g.Graph(testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return files[GraphFile]
}

// TestPod holds the pod to what the method promises about it.
func TestPod(t *testing.T) {
	data, err := os.ReadFile("testdata/two-nodes/group.json")
	if err != nil {
		t.Fatal(err)
	}
	g := mustParse(t, string(data))
	graph := evaluate(t, g, mustGraph(t, g))
	var deployment struct {
		Spec struct {
			Replicas int
			Strategy map[string]any
			Template struct{ Spec map[string]any }
		}
	}
	graph.manifest(t, "deployment_web", &deployment)
	if deployment.Spec.Replicas != 1 || !cmp.Equal(deployment.Spec.Strategy, map[string]any{"type": "Recreate"}) {
		t.Errorf("two pods can run at a time: %v", deployment.Spec)
	}
	memory := func(name, size string) map[string]any {
		return map[string]any{"name": name, "emptyDir": map[string]any{"medium": "Memory", "sizeLimit": size}}
	}
	mount := func(name, path string) map[string]any { return map[string]any{"name": name, "mountPath": path} }
	env := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	want := map[string]any{
		"runtimeClassName":              "systemd",
		"hostUsers":                     false,
		"hostname":                      "web",
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": 120.0,
		"containers": []any{map[string]any{
			"name":    "node",
			"image":   "registry.example:5000/yuba/fediversity/web@sha256:digest-of-web",
			"command": []any{"/sbin/init"},
			"tty":     true,
			"env": []any{
				env("container", "oci"),
				env("container_uuid", "uuid-of-web"),
				env("PATH", "/run/current-system/sw/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
			},
			"readinessProbe": map[string]any{
				"exec":          map[string]any{"command": []any{"systemctl", "is-system-running"}},
				"periodSeconds": 5.0, "timeoutSeconds": 5.0,
			},
			"lifecycle": map[string]any{"preStop": map[string]any{
				"exec": map[string]any{"command": []any{"systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "halt.target"}},
			}},
			"volumeMounts": []any{mount("state", "/var/lib"), mount("run", "/run"), mount("run-lock", "/run/lock"), mount("tmp", "/tmp")},
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "100m", "memory": "256Mi"},
				"limits":   map[string]any{"memory": "1Gi"},
			},
		}},
		"volumes": []any{
			map[string]any{"name": "state", "persistentVolumeClaim": map[string]any{"claimName": "web-state"}},
			memory("run", "256Mi"), memory("run-lock", "8Mi"), memory("tmp", "1Gi"),
		},
	}
	if d := cmp.Diff(want, deployment.Spec.Template.Spec); d != "" {
		t.Error(d)
	}
}

// TestNetworkPolicy: nothing but pods of the namespace connects to a node.
func TestNetworkPolicy(t *testing.T) {
	g := mustParse(t, good)
	graph := evaluate(t, g, mustGraph(t, g))
	var policy map[string]any
	graph.manifest(t, "network_policy", &policy)
	want := map[string]any{
		"podSelector": map[string]any{},
		"policyTypes": []any{"Ingress"},
		"ingress":     []any{map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}}},
	}
	if d := cmp.Diff(want, policy["spec"]); d != "" {
		t.Error(d)
	}
}

// TestOrder: images before the cluster, the policy before the pods.
func TestOrder(t *testing.T) {
	g := mustParse(t, good)
	graph := evaluate(t, g, mustGraph(t, g))
	for name, want := range map[string][]string{
		"provider.kubernetes":              {"oci_image.node"},
		"kubernetes_object.namespace":      {"data.kubernetes_runtime_class.this"},
		"kubernetes_object.network_policy": {"kubernetes_object.namespace"},
		"kubernetes_object.claim_web":      {"kubernetes_object.namespace"},
		"kubernetes_object.deployment_web": {"kubernetes_object.network_policy", "kubernetes_object.claim_web", "local.digests", "local.missing", "random_uuid.node_web"},
		"kubernetes_rollout.node_web":      {"kubernetes_object.deployment_web"},
		"oci_image.node":                   {"local.tags", "local.images"},
		// Read while planning, thus it waits for nothing.
		"data.kubernetes_runtime_class.this": nil,
	} {
		for _, w := range want {
			if !graph.refs[name][w] {
				t.Errorf("%s does not wait for %s, just for %v", name, w, graph.refs[name])
			}
		}
		if want == nil && len(graph.refs[name]) > 0 {
			t.Errorf("%s waits for %v", name, graph.refs[name])
		}
	}
}

// hostile are strings that would do harm if they were not escaped.
var hostile = []string{
	`"`, `\`, `\"`, "a\nb", "a\r\nb", "\t", `${local.images}`, `$${x}`, `$$${x}`, `$`, `$$`, `%{ if true }x%{ endif }`, `%%{x}`, `%`, `${`, `%{`, `}`,
	`"}` + "\n" + `resource "null_resource" "x" {}`, `# not a comment`, `/* a */`, `<<EOT`, "\u0001", "\u200b", "🦊", "a'b", "${\"", "$\u200b{", "\u2028",
}

// TestNothingBreaksOut puts hostile strings past the parser into all values.
func TestNothingBreaksOut(t *testing.T) {
	for _, s := range hostile {
		t.Run(fmt.Sprintf("%q", s), func(t *testing.T) {
			g := mustParse(t, good)
			g.RuntimeClass = s
			web := &g.Nodes[1]
			web.Image.Archive, web.Tag, web.Storage = "/images/"+s, s, Storage{Class: s, Size: s}
			web.Resources = Resources{Requests: map[string]string{s: s}, Limits: map[string]string{"cpu": s}}
			g.Spire = &Spire{Node: reach.Node{Host: s, Port: 1, User: s, HostKeys: []string{s}, Options: map[string]string{s: s}, Command: s}, TrustDomain: s}
			checkGraph(t, g, mustGraph(t, g))
		})
	}
}

// TestNamesThatMeanSomethingInHCL: a DNS label may be a keyword or a number.
func TestNamesThatMeanSomethingInHCL(t *testing.T) {
	names := []string{"for", "in", "if", "null", "true", "false", "each", "local", "data", "0", "1e5", "a-b", "a--b", "0x1f", "node"}
	for _, name := range names {
		g := mustParse(t, strings.NewReplacer(`"web"`, strconv.Quote(name)).Replace(good))
		checkGraph(t, g, mustGraph(t, g))
	}
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%q,"image":{"archive":"a"},"tag":"t"}`, name)
	}
	g := mustParse(t, `{"version":1,"group":"for","target":"null","storage":{"size":"1"},"nodes":[`+b.String()+`]}`)
	checkGraph(t, g, mustGraph(t, g))
}

// TestAllNodesOff: what stays is a namespace with its policy.
func TestAllNodesOff(t *testing.T) {
	g := mustParse(t, with(`true`, `false`))
	checkGraph(t, g, mustGraph(t, g))
}

func TestTemplateEscapesItsPrefix(t *testing.T) {
	for _, s := range hostile {
		src := "x = " + string(template(s, str("end")).(raw))
		f, diags := hclsyntax.ParseConfig([]byte(src), "x", hcl.InitialPos)
		if diags.HasErrors() {
			t.Errorf("%q: %v", s, diags)
			continue
		}
		v, diags := f.Body.(*hclsyntax.Body).Attributes["x"].Expr.Value(nil)
		if diags.HasErrors() || v.AsString() != s+"end" {
			t.Errorf("%q became %#v, %v", s, v, diags)
		}
	}
}

func TestArchivePathMustSurviveOpenTofu(t *testing.T) {
	g := mustParse(t, good)
	g.Dir = "/srv/cafe\u0301"
	if _, err := g.Graph(testEnv); err == nil || !strings.Contains(err.Error(), "normal form C") {
		t.Errorf("a directory whose name OpenTofu would change is taken: %v", err)
	}
}

// TestSource: what the image of a node becomes for the provider that opens it.
func TestSource(t *testing.T) {
	for _, c := range []struct{ dir, keys, want string }{
		{"/srv/g", `"archive": "web.tar"`, "/srv/g/web.tar"},
		{"/srv/g", `"archive": "../rootfs:web.tar"`, "/srv/rootfs:web.tar"},
		{".", `"archive": "rootfs:web.tar"`, "./rootfs:web.tar"},
		{"/srv/g", `"layout": "/images//web/"`, "/images/web"},
		{"/srv/g", `"rootfs": "web"`, "rootfs:/srv/g/web"},
		{"/srv/g", `"rootfs": "web", "architecture": "arm64"`, "rootfs:arm64:/srv/g/web"},
		{".", `"rootfs": "arm64:web"`, "rootfs:./arm64:web"},
		{"/srv/g", `"stream": "-"`, "stdin:"},
		{"/srv/g", `"derivation": "` + drv + `"`, "nix:" + drv},
		{"/srv/g", `"derivation": "` + drv + `", "output": "tar", "architecture": "arm64"`, "nix:arm64:" + drv + "!tar"},
	} {
		g := mustParse(t, image(c.keys))
		g.Dir = c.dir
		if got := g.Source(g.Nodes[1]); got != c.want {
			t.Errorf("%s in %s is %s, want %s", c.keys, c.dir, got, c.want)
		}
		checkGraph(t, g, mustGraph(t, g))
		g.Bundle = "/media/usb/group.bundle"
		if got, want := g.Source(g.Nodes[1]), "bundle:web:/media/usb/group.bundle"; got != want {
			t.Errorf("%s in a bundle is %s, want %s", c.keys, got, want)
		}
	}
}

func TestTeardownHoldsNoObjects(t *testing.T) {
	for _, data := range []string{good, withSpire} {
		g := mustParse(t, data)
		f, diags := hclsyntax.ParseConfig(g.Teardown()[GraphFile], GraphFile, hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		looks := 0 // a destroy that could not take back the hand-off ends with its plan
		for _, b := range f.Body.(*hclsyntax.Body).Blocks {
			if b.Type == "data" && b.Labels[0] == "spire_server" {
				looks++
			} else if b.Type == "resource" && b.Labels[0] == "oci_image" {
				images, diags := b.Body.Attributes["for_each"].Expr.Value(nil)
				if diags.HasErrors() || images.LengthInt() != 0 || strings.Join(b.Labels, ".") != Images {
					t.Errorf("a destroy has the images %#v (%v)", images, diags)
				}
			} else if b.Type != "terraform" && b.Type != "provider" {
				t.Errorf("there is a block %s %q", b.Type, b.Labels)
			}
		}
		if (looks == 1) != (g.Spire != nil) {
			t.Errorf("it looks at the spire node %d times", looks)
		}
		settings, _, _ := bytes.Cut(g.Teardown()[GraphFile], []byte("# The images stay"))
		if !bytes.Contains(mustGraph(t, g)[GraphFile], bytes.TrimSpace(settings)) {
			t.Error("a destroy has other settings than an apply")
		}
	}
}

func TestManyNodes(t *testing.T) {
	g := mustParse(t, good)
	node := g.Nodes[1]
	g.Nodes = nil
	for i := range 300 {
		node.Name = fmt.Sprintf("n%d", i)
		g.Nodes = append(g.Nodes, node)
	}
	g.sortNodes()
	checkGraph(t, g, mustGraph(t, g))
}

func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g, err := Parse("/srv/group.json", []byte(good))
			if err != nil {
				b.Fatal(err)
			}
			node := g.Nodes[1]
			g.Nodes = nil
			for i := range n {
				node.Name = fmt.Sprintf("n%d", i)
				g.Nodes = append(g.Nodes, node)
			}
			for b.Loop() {
				if _, err := g.Graph(testEnv); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func mustParse(t *testing.T, data string) *Group {
	t.Helper()
	g, err := Parse("/srv/group.json", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustGraph(t *testing.T, g *Group) map[string][]byte {
	t.Helper()
	files, err := g.Graph(testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// evaluated is a graph as OpenTofu would see it, with made-up results.
type evaluated struct {
	// values are the attributes by block, such as kubernetes_object.namespace.
	values map[string]map[string]any
	// refs are the blocks that a block refers to, depends_on included.
	refs map[string]map[string]bool
}

// manifest decodes the manifest of a kubernetes_object.
func (e evaluated) manifest(t *testing.T, name string, into any) {
	t.Helper()
	manifest, ok := e.values["kubernetes_object."+name]["manifest"]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// evaluate parses and evaluates a graph, and fails the test if it refers to
// what is not there.
func evaluate(t *testing.T, g *Group, files map[string][]byte) evaluated {
	t.Helper()
	f, diags := hclsyntax.ParseConfig(files[GraphFile], GraphFile, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, files[GraphFile])
	}
	digests, uuids, objects := map[string]cty.Value{}, map[string]cty.Value{}, map[string]cty.Value{}
	for _, n := range g.EnabledNodes() {
		digests[n.Name] = cty.StringVal("sha256:digest-of-" + n.Name)
		uuids["node_"+n.Name] = cty.ObjectVal(map[string]cty.Value{"result": cty.StringVal("uuid-of-" + n.Name)})
		objects["deployment_"+n.Name] = cty.ObjectVal(map[string]cty.Value{"uid": cty.StringVal("uid-of-" + n.Name), "generation": cty.NumberIntVal(7)})
	}
	images, missing := map[string]cty.Value{}, map[string]cty.Value{}
	for name, digest := range digests {
		images[name] = cty.ObjectVal(map[string]cty.Value{"digest": digest, "id": cty.StringVal("r@" + digest.AsString())})
		missing[name] = cty.StringVal("trouble-of-" + name)
	}
	one := cty.ObjectVal(map[string]cty.Value{"source": cty.StringVal("s"), "repository": cty.StringVal("r"), "tag": cty.StringVal("t")})
	each := map[string]cty.Value{"key": cty.StringVal("one"), "value": cty.StringVal("t")}
	ctx := &hcl.EvalContext{
		Functions: map[string]function.Function{"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "length": lengthFunc, "concat": stdlib.ConcatFunc},
		Variables: map[string]cty.Value{
			"local":             cty.ObjectVal(map[string]cty.Value{"digests": cty.ObjectVal(digests), "missing": cty.ObjectVal(missing), "images": cty.MapVal(map[string]cty.Value{"one": one}), "tags": cty.EmptyObjectVal, "spire": cty.EmptyObjectVal, "spire_bindings": cty.EmptyObjectVal}),
			"random_uuid":       cty.ObjectVal(uuids),
			"kubernetes_object": cty.ObjectVal(objects),
			"oci_image":         cty.ObjectVal(map[string]cty.Value{"node": cty.ObjectVal(images)}),
			"ephemeral":         cty.ObjectVal(map[string]cty.Value{"oci_manifests": cty.ObjectVal(map[string]cty.Value{"node": cty.ObjectVal(map[string]cty.Value{"missing": cty.ObjectVal(missing)})})}),
			"data": cty.ObjectVal(map[string]cty.Value{"spire_server": cty.ObjectVal(map[string]cty.Value{"this": cty.ObjectVal(map[string]cty.Value{
				"machine_id": cty.StringVal("machine-of-spire"), "bundle": cty.StringVal("bundle-of-spire"),
			})})}),
			"spire_namespace": cty.ObjectVal(map[string]cty.Value{"this": cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("namespace-of-spire")})}),
			"each":            cty.ObjectVal(each),
		},
	}

	for _, b := range f.Body.(*hclsyntax.Body).Blocks {
		if pod := b.Body.Attributes[podLocal]; b.Type == "locals" && pod != nil {
			v, diags := pod.Expr.Value(nil)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			locals := ctx.Variables["local"].AsValueMap()
			locals[podLocal] = v
			ctx.Variables["local"] = cty.ObjectVal(locals)
		}
	}

	e := evaluated{values: map[string]map[string]any{}, refs: map[string]map[string]bool{}}
	defined := map[string]bool{"each.key": true, "each.value": true}
	for _, b := range f.Body.(*hclsyntax.Body).Blocks {
		name := strings.Join(b.Labels, ".")
		switch b.Type {
		case "terraform":
			continue
		case "resource":
		default:
			name = strings.Trim(b.Type+"."+name, ".")
		}
		if defined[name] && name != "locals" {
			t.Errorf("there are two blocks %s", name)
		}
		if !defined[name] {
			e.values[name], e.refs[name] = map[string]any{}, map[string]bool{}
		}
		defined[name] = true
		for key, a := range b.Body.Attributes {
			if name == "locals" {
				defined["local."+key] = true
			}
			for _, tr := range a.Expr.Variables() {
				parts := []string{tr.RootName()}
				for _, step := range tr[1:] {
					if a, ok := step.(hcl.TraverseAttr); ok {
						parts = append(parts, a.Name)
					}
				}
				size := 2
				if parts[0] == "data" || parts[0] == "ephemeral" {
					size = 3
				}
				e.refs[name][strings.Join(parts[:size], ".")] = true
			}
			if key == "depends_on" {
				continue
			}
			v, diags := a.Expr.Value(ctx)
			if diags.HasErrors() {
				t.Fatalf("%s.%s: %v", name, key, diags)
			}
			data, err := ctyjson.Marshal(v, v.Type())
			if err != nil {
				t.Fatal(err)
			}
			var plain any
			if err := json.Unmarshal(data, &plain); err != nil {
				t.Fatal(err)
			}
			e.values[name][key] = plain
		}
	}
	for name, refs := range e.refs {
		for r := range refs {
			if !defined[r] {
				t.Errorf("%s refers to %s, which is not there", name, r)
			}
		}
	}
	return e
}

// checkGraph compares what a graph evaluates to with its group.
func checkGraph(t *testing.T, g *Group, files map[string][]byte) {
	t.Helper()
	e := evaluate(t, g, files)
	nodes := g.EnabledNodes()
	// runtime class, locals, images, the look at them, provider, namespace, policy, three outputs
	want := 10 + 4*len(nodes)
	if g.Spire != nil { // provider, look, objects, bindings; accounts, namespace and hand-off
		want += 4 + len(nodes) + 2*min(len(nodes), 1)
	}
	if len(e.values) != want {
		t.Errorf("there are %d blocks, want %d", len(e.values), want)
	}
	equal := func(what string, got, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	equal("RuntimeClass", e.values["data.kubernetes_runtime_class.this"]["name"], any(g.RuntimeClass))
	images, names := map[string]any{}, []any{}
	for _, n := range nodes {
		names = append(names, n.Name)
		namespace := e.values["output.namespace"]["value"].(string)
		repo := "registry.example:5000/yuba/" + namespace + "/" + n.Name
		if !strings.Contains(string(files[GraphFile]), "registry.example:5000") {
			repo = "registry.example/" + namespace + "/" + n.Name
		}
		images[n.Name] = map[string]any{"source": g.Source(n), "repository": repo, "tag": n.Tag}

		var claim struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct {
				AccessModes      []string
				StorageClassName string
				Resources        struct{ Requests map[string]string }
			}
		}
		e.manifest(t, "claim_"+n.Name, &claim)
		equal("name of the claim", claim.Metadata.Name, n.Name+"-state")
		equal("class of the claim", claim.Spec.StorageClassName, n.Storage.Class)
		equal("size of the claim", claim.Spec.Resources.Requests, map[string]string{"storage": n.Storage.Size})

		var deployment struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct {
				Selector struct{ MatchLabels map[string]string }
				Template struct {
					Metadata struct{ Labels map[string]string }
					Spec     struct {
						RuntimeClassName, ServiceAccountName string
						Containers                           []struct {
							Image     string
							Resources Resources
						}
					}
				}
			}
		}
		e.manifest(t, "deployment_"+n.Name, &deployment)
		equal("name of the Deployment", deployment.Metadata.Name, n.Name)
		equal("namespace of the Deployment", deployment.Metadata.Namespace, namespace)
		equal("RuntimeClass of the pod", deployment.Spec.Template.Spec.RuntimeClassName, g.RuntimeClass)
		for key, value := range deployment.Spec.Selector.MatchLabels {
			equal("label that the Deployment selects by", deployment.Spec.Template.Metadata.Labels[key], value)
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		equal("image of the pod", container.Image, repo+"@sha256:digest-of-"+n.Name)
		want := n.Resources
		if len(want.Requests) == 0 {
			want.Requests = nil
		}
		if len(want.Limits) == 0 {
			want.Limits = nil
		}
		equal("resources of the pod", container.Resources, want)
		if g.Spire != nil {
			var account struct {
				Metadata struct{ Name, Namespace string }
			}
			e.manifest(t, "account_"+n.Name, &account)
			equal("name of the service account", account.Metadata.Name, "node-"+n.Name)
			equal("namespace of the service account", account.Metadata.Namespace, namespace)
			equal("service account of the pod", deployment.Spec.Template.Spec.ServiceAccountName, account.Metadata.Name)
		} else {
			equal("service account of the pod", deployment.Spec.Template.Spec.ServiceAccountName, "")
		}
		// No pod is replaced for an image that has gone from the registry.
		equal("what is held against it", e.values["kubernetes_object.deployment_"+n.Name]["unless"], any("trouble-of-"+n.Name))
		equal("rollout", e.values["kubernetes_rollout.node_"+n.Name], map[string]any{
			"namespace": namespace, "name": n.Name, "uid": "uid-of-" + n.Name, "generation": 7.0, "timeout": g.RolloutTimeout.String(),
		})
	}
	equal("removals", e.values["provider.kubernetes"]["timeout"], any(g.RemovalTimeout.String()))
	equal("persistence", e.values["provider.kubernetes"]["persistence"], any(g.Persistence.String()))
	equal("images", e.values["locals"]["images"], any(images))
	if g.Spire != nil && len(nodes) > 0 {
		equal("what is taken back", e.values["spire_namespace.this"], map[string]any{"name": e.values["output.namespace"]["value"]})
		equal("hand-off", e.values["spire_handoff.this"], map[string]any{
			"machine_id": "machine-of-spire", "namespace": "namespace-of-spire", "nodes": names,
		})
	}
	equal("published names", e.values["output.nodes"]["value"], any(names))
}

// lengthFunc is OpenTofu's length, of which cty's takes no objects.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.NumberIntVal(int64(args[0].LengthInt())), nil
	},
})
