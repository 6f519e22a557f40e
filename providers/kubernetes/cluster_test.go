package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/lab"
)

// cluster is a namespace of a real control plane, an engine that applies to it,
// and another client (client-go's own) for what others do there.
type cluster struct {
	*engine
	lab      *lab.Lab
	ns       string
	requests *requests
	other    dynamic.Interface
}

func newCluster(t *testing.T, opts ...kubernetes.Option) *cluster {
	t.Helper()
	t.Parallel() // most of a test's time is the cluster's
	l := lab.Start(t)
	rc, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig)
	must(t, err)
	rc.QPS = -1
	other, err := dynamic.NewForConfig(rc)
	must(t, err)
	c := &cluster{lab: l, ns: l.Namespace(t), requests: &requests{}, other: other}
	c.engine = &engine{t: t, env: map[string]string{"KUBE_CONFIG_PATH": l.Kubeconfig},
		opts: append([]kubernetes.Option{kubernetes.WithTransport(c.requests.wrap), kubernetes.WithPersistence(time.Second)}, opts...)}
	return c
}

// requests counts what goes to the API server.
type requests struct {
	mu   sync.Mutex
	list []string
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (q *requests) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s := r.Method + " " + r.URL.Path
		for _, p := range []string{"watch", "dryRun", "force"} {
			if r.URL.Query().Has(p) {
				s += " " + p
			}
		}
		q.mu.Lock()
		q.list = append(q.list, s)
		q.mu.Unlock()
		return rt.RoundTrip(r)
	})
}

// take gives the requests since the last take, sorted.
func (q *requests) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.list
	q.list = nil
	sort.Strings(out)
	return out
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	revisions   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}
)

func (c *cluster) get(gvr schema.GroupVersionResource, name string) *unstructured.Unstructured {
	c.t.Helper()
	o, err := c.other.Resource(gvr).Namespace(c.ns).Get(context.Background(), name, metav1.GetOptions{})
	must(c.t, err)
	return o
}

// field reads a field of a live object.
func (c *cluster) field(gvr schema.GroupVersionResource, name string, path ...string) any {
	c.t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(c.get(gvr, name).Object, path...)
	must(c.t, err)
	return v
}

// patch changes an object as kubectl and controllers do: no apply.
func (c *cluster) patch(gvr schema.GroupVersionResource, name, manager, kind, patch string) {
	c.t.Helper()
	typ := map[string]types.PatchType{"merge": types.MergePatchType, "json": types.JSONPatchType, "strategic": types.StrategicMergePatchType}[kind]
	_, err := c.other.Resource(gvr).Namespace(c.ns).Patch(context.Background(), name, typ, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	must(c.t, err)
}

// create makes an object as kubectl create does.
func (c *cluster) create(gvr schema.GroupVersionResource, manager string, manifest map[string]any) {
	c.t.Helper()
	_, err := c.other.Resource(gvr).Namespace(c.ns).Create(context.Background(), &unstructured.Unstructured{Object: jsonCopy(manifest)}, metav1.CreateOptions{FieldManager: manager})
	must(c.t, err)
}

// applyAs is another tool's server-side apply.
func (c *cluster) applyAs(gvr schema.GroupVersionResource, manager string, manifest map[string]any) {
	c.t.Helper()
	o := &unstructured.Unstructured{Object: jsonCopy(manifest)}
	_, err := c.other.Resource(gvr).Namespace(c.ns).Apply(context.Background(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	must(c.t, err)
}

func jsonCopy(m map[string]any) map[string]any {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		panic(err)
	}
	return u.Object
}

// eventually waits until ok; the real thing takes its time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func object() *instance { return &instance{kind: "kubernetes_object"} }

// with gives the attributes of a kubernetes_object.
func with(manifest map[string]any, more ...map[string]any) map[string]any {
	a := map[string]any{"manifest": manifest}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	return a
}

// deployment is a manifest with one container.
func (c *cluster) deployment(name, image string) map[string]any {
	labels := map[string]any{"app": name}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "namespace": c.ns, "labels": labels},
		"spec": map[string]any{
			"replicas": 1, "strategy": map[string]any{"type": "Recreate"},
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"terminationGracePeriodSeconds": 1,
					"containers":                    []any{map[string]any{"name": "node", "image": image}},
				},
			},
		},
	}
}

// image pushes an image whose pods behave as said, and gives its reference.
func (c *cluster) image(name_, behaviour string) string {
	c.t.Helper()
	layer, err := random.Image(64, 1)
	must(c.t, err)
	cfg, err := layer.ConfigFile()
	must(c.t, err)
	cfg.Config = v1.Config{Labels: map[string]string{"yuba.test/behaviour": behaviour}, Entrypoint: []string{"/sbin/init"}}
	img, err := mutate.ConfigFile(layer, cfg)
	must(c.t, err)
	ref, err := name.ParseReference(c.lab.Registry+"/"+c.ns+"/"+name_+":"+behaviour, name.Insecure)
	must(c.t, err)
	must(c.t, remote.Write(ref, img))
	digest, err := img.Digest()
	must(c.t, err)
	return ref.Context().Name() + "@" + digest.String()
}

// A plan of many objects asks once per kind and namespace, and after an apply
// it shows no change.
func TestPlanOfManyObjectsIsFewRequests(t *testing.T) {
	c := newCluster(t)
	type item struct {
		i *instance
		a map[string]any
	}
	var items []item
	for n := range 12 {
		items = append(items,
			item{object(), with(configMap(c.ns, fmt.Sprint("a", n), map[string]any{"k": "v"}))},
			item{object(), with(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": fmt.Sprint("s", n), "namespace": c.ns}})})
	}
	w := c.walk()
	for _, it := range items {
		w.plan(it.i, it.a)
	}
	w = c.walk()
	c.requests.take()
	for _, it := range items {
		w.apply(w.plan(it.i, it.a))
	}
	for _, r := range c.requests.take() {
		if !strings.HasPrefix(r, "PATCH") && !strings.HasPrefix(r, "GET /api/v1/namespaces/"+c.ns) {
			t.Errorf("apply asks %s", r)
		}
	}
	w = c.walk()
	var wg sync.WaitGroup
	for _, it := range items {
		wg.Go(func() { w.refresh(it.i) })
	}
	wg.Wait()
	for _, it := range items {
		if !w.plan(it.i, it.a).noop() {
			t.Errorf("%s would change", it.i.str(t, "id"))
		}
	}
	got := c.requests.take()
	want := []string{"GET /api/v1/namespaces/" + c.ns, "GET /api/v1/namespaces/" + c.ns + "/configmaps", "GET /api/v1/namespaces/" + c.ns + "/serviceaccounts"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("a plan without changes asks\n%s", strings.Join(got, "\n"))
	}
}

// A namespace with more objects than a page of a list is read whole.
func TestManyPages(t *testing.T) {
	c := newCluster(t)
	i, a := object(), with(configMap(c.ns, "zz", map[string]any{"k": "v"}))
	c.put(i, a)
	var wg sync.WaitGroup
	for n := range 300 {
		wg.Go(func() {
			o := &unstructured.Unstructured{Object: configMap(c.ns, fmt.Sprint("a", n), nil)}
			if _, err := c.other.Resource(configMaps).Namespace(c.ns).Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w := c.walk()
	c.requests.take()
	w.refresh(i)
	if !i.exists() || !w.plan(i, a).noop() {
		t.Error("the object was not found")
	}
	if got := c.requests.take(); len(got) != 3 { // with the namespace
		t.Errorf("it asks %v", got)
	}
}

// What the API server defaults, normalises and drops never shows as a change.
func TestServerSideValuesAreNoChange(t *testing.T) {
	c := newCluster(t)
	d := c.deployment("web", "r.invalid/web:1")
	spec := d["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["containers"] = []any{map[string]any{
		"name": "web", "image": "r.invalid/web:1", "env": []any{map[string]any{"name": "A", "value": "b"}, map[string]any{"name": "EMPTY", "value": ""}},
		"ports":          []any{map[string]any{"containerPort": 80}, map[string]any{"containerPort": 80, "protocol": "UDP"}},
		"resources":      map[string]any{"requests": map[string]any{"memory": "1024Mi", "cpu": "1000m"}, "limits": map[string]any{}},
		"readinessProbe": map[string]any{"exec": map[string]any{"command": []any{"true"}}},
	}}
	spec["nodeSelector"] = nil
	spec["volumes"] = []any{map[string]any{"name": "run", "emptyDir": map[string]any{}}, map[string]any{"name": "cfg", "configMap": map[string]any{"name": "x"}}}
	manifests := []map[string]any{
		d,
		{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": map[string]any{"name": "p", "namespace": c.ns},
			"spec": map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"ports": []any{map[string]any{"port": 80}}, "from": []any{map[string]any{"podSelector": map[string]any{}}}}}}},
		{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "v", "namespace": c.ns},
			"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "2048Mi"}}}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": c.ns}, "stringData": map[string]any{"k": "v"}, "data": map[string]any{"b": "dg=="}},
		{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "svc", "namespace": c.ns},
			"spec": map[string]any{"selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": 80}}}},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "r", "namespace": c.ns},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}},
		configMap(c.ns, "empty", map[string]any{}),
	}
	for _, m := range manifests {
		i := object()
		c.put(i, with(m))
		w := c.walk()
		w.refresh(i)
		if p := w.plan(i, with(m)); !p.noop() {
			t.Errorf("%s would change:\n%s\n%s", i.str(t, "id"), p.planned, i.state)
		}
	}
}

// What somebody else changes in our fields shows in the plan with its live
// value, and the next apply takes it back; what is not ours stays.
func TestDriftIsShownAndTakenBack(t *testing.T) {
	c := newCluster(t)
	i, a := object(), with(c.deployment("web", "r.invalid/web:1"))
	c.put(i, a)
	gen := i.attr(t, "generation")
	c.patch(deployments, "web", "kubectl-annotate", "merge", `{"metadata":{"annotations":{"theirs":"x"},"labels":{"more":"y"}},"spec":{"minReadySeconds":1}}`)
	w := c.walk()
	w.refresh(i)
	if p := w.plan(i, a); !p.noop() {
		t.Errorf("others' fields show: %s", p.planned)
	}
	if !i.attr(t, "generation").Equal(gen) {
		t.Error("a change of others' fields makes news of the generation")
	}

	c.patch(deployments, "web", "kubectl-set", "strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"node","image":"other"}]}}}}`)
	w = c.walk()
	w.refresh(i)
	if !strings.Contains(i.attr(t, "manifest").String(), `"other"`) {
		t.Errorf("the state does not show the live image: %s", i.attr(t, "manifest"))
	}
	p := w.plan(i, a)
	if p.noop() || p.attr(t, "generation").IsKnown() {
		t.Error("the plan does not show the correction")
	}
	c.walk().apply(p)
	d := c.get(deployments, "web")
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if got := containers[0].(map[string]any)["image"]; got != "r.invalid/web:1" {
		t.Errorf("image is %v", got)
	}
	if d.GetAnnotations()["theirs"] != "x" {
		t.Error("others' annotation is gone")
	}
	w = c.walk()
	w.refresh(i)
	if !w.plan(i, a).noop() {
		t.Error("a plan after it shows changes")
	}

	// A field that leaves the manifest leaves the object.
	m := c.deployment("web", "r.invalid/web:1")
	delete(m["metadata"].(map[string]any), "labels")
	c.put(i, with(m))
	if _, ok := c.get(deployments, "web").GetLabels()["app"]; ok {
		t.Error("the label is still there")
	}
}

// Drift that the configuration has caught up with is taken into our hands all
// the same: only what is ours can be set back later.
func TestDriftThatIsWanted(t *testing.T) {
	c := newCluster(t)
	i := object()
	c.put(i, with(configMap(c.ns, "a", map[string]any{"k": "1"})))
	c.patch(configMaps, "a", "kubectl-edit", "merge", `{"data":{"k":"2"}}`)
	c.put(i, with(configMap(c.ns, "a", map[string]any{"k": "2"})))
	ours := false
	for _, e := range c.get(configMaps, "a").GetManagedFields() {
		ours = ours || e.Manager == "yuba" && strings.Contains(e.FieldsV1.String(), `"f:k"`)
	}
	if !ours {
		t.Error("the field is not ours")
	}
	w := c.walk()
	w.refresh(i)
	if !w.plan(i, with(configMap(c.ns, "a", map[string]any{"k": "2"}))).noop() {
		t.Error("no rest")
	}
}

// Metadata alone is no new generation: nothing that waits for one is disturbed.
func TestLabelsKeepTheGeneration(t *testing.T) {
	c := newCluster(t)
	i, m := object(), c.deployment("web", "r.invalid/web:1")
	c.put(i, with(m))
	m["metadata"].(map[string]any)["labels"] = map[string]any{"app": "web", "tier": "x"}
	w := c.walk()
	w.refresh(i)
	p := w.plan(i, with(m))
	if !p.attr(t, "generation").Equal(i.attr(t, "generation")) || p.noop() {
		t.Errorf("planned %s", p.planned)
	}
	c.walk().apply(p)
}

// Another applier's field is an error that names manager and field, in the
// plan already, and force_conflicts takes it.
func TestConflictNamesManagerAndField(t *testing.T) {
	c := newCluster(t)
	c.applyAs(configMaps, "flux", configMap(c.ns, "a", map[string]any{"k": "theirs"}))
	i, a := object(), with(configMap(c.ns, "a", map[string]any{"k": "ours"}))
	w := c.walk()
	_, s := w.tryPlan(i, a)
	for _, want := range []string{`.data.k: owned by "flux"`, "force_conflicts = true", "remove them"} {
		if !strings.Contains(s, want) {
			t.Errorf("plan lacks %q: %s", want, s)
		}
	}
	if got := c.field(configMaps, "a", "data", "k"); got != "theirs" {
		t.Errorf("it was changed to %v", got)
	}
	// The same at apply, when the plan could not know.
	unknownData := with(configMap(c.ns, "a", map[string]any{"k": unknownValue{}}))
	p := w.plan(i, unknownData)
	if s := c.walk().tryApply(context.Background(), p, a); !strings.Contains(s, `.data.k: owned by "flux"`) {
		t.Errorf("apply says: %s", s)
	}
	if i.exists() {
		t.Error("a failed create is in state")
	}
	// Who doesn't write the configuration can let one run take them.
	for value, want := range map[string]string{"perhaps": "KUBE_FORCE_CONFLICTS", "false": "owned by"} {
		c.env["KUBE_FORCE_CONFLICTS"] = value
		if w, diags := c.tryWalk(); w == nil || errorsOf(diags) != "" {
			says(t, errorsOf(diags), want)
			continue
		}
		_, s := c.walk().tryPlan(i, a)
		says(t, s, want, "KUBE_FORCE_CONFLICTS=true")
	}
	c.env["KUBE_FORCE_CONFLICTS"] = "true"
	if p := c.walk().plan(object(), a); p.noop() {
		t.Error("nothing is planned")
	}
	if _, s := c.walk().tryPlan(i, with(a["manifest"].(map[string]any), map[string]any{"force_conflicts": false})); !strings.Contains(s, "owned by") {
		t.Error("the resource's own word does not count")
	}
	delete(c.env, "KUBE_FORCE_CONFLICTS")
	c.put(i, with(a["manifest"].(map[string]any), map[string]any{"force_conflicts": true}))
	if got := c.field(configMaps, "a", "data", "k"); got != "ours" {
		t.Errorf("it is %v", got)
	}
}

// An object that kubectl made is adopted as it is; then it is ours to change.
func TestAdoption(t *testing.T) {
	c := newCluster(t)
	m := c.deployment("web", "r.invalid/web:1")
	c.create(deployments, "kubectl-create", m)
	before := c.get(deployments, "web")
	i := object()
	p := c.walk().plan(i, with(m))
	if !strings.Contains(p.warnings, "exists and will be adopted") || !strings.Contains(p.warnings, "kubectl-create") {
		t.Errorf("the plan says: %q", p.warnings)
	}
	if p := c.walk().plan(object(), with(configMap(c.ns, "new", nil))); p.warnings != "" {
		t.Errorf("the plan of a new object says: %q", p.warnings)
	}
	c.walk().apply(p)
	after := c.get(deployments, "web")
	if before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() {
		t.Error("adopting it changed it")
	}
	c.put(i, with(c.deployment("web", "r.invalid/web:2")))
	w := c.walk()
	w.refresh(i)
	if !w.plan(i, with(c.deployment("web", "r.invalid/web:2"))).noop() {
		t.Error("a plan shows changes")
	}
}

func TestImport(t *testing.T) {
	c := newCluster(t)
	id := "apiVersion=v1,kind=ConfigMap,namespace=" + c.ns + ",name=a"
	if i, s := c.walk().importID("kubernetes_object", id); s != "" || i.exists() {
		t.Errorf("import of nothing: %s %v", s, i.exists())
	}
	// Made by kubectl: the plan shows what changes, the apply adopts it.
	c.create(configMaps, "kubectl-create", configMap(c.ns, "a", map[string]any{"k": "1", "other": "x"}))
	w := c.walk()
	i, s := w.importID("kubernetes_object", id)
	if s != "" {
		t.Fatal(s)
	}
	if i.str(t, "id") != id || i.str(t, "uid") != string(c.get(configMaps, "a").GetUID()) {
		t.Errorf("imported %s", i.state)
	}
	wanted := with(configMap(c.ns, "a", map[string]any{"k": "2"}), map[string]any{"force_conflicts": true})
	if w.plan(i, wanted).noop() {
		t.Error("the plan shows nothing")
	}
	c.put(i, wanted)
	if got := c.field(configMaps, "a", "data", "k"); got != "2" {
		t.Errorf("k is %v", got)
	}
	w = c.walk()
	w.refresh(i)
	if !w.plan(i, wanted).noop() {
		t.Error("a plan after the apply shows changes")
	}
	// Made by kubectl apply: only what it was given counts, not the defaults.
	d := c.deployment("web", "r.invalid/web:1")
	text, err := json.Marshal(d)
	must(t, err)
	annotated := c.deployment("web", "r.invalid/web:1")
	annotated["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(text)}
	c.create(deployments, "kubectl-client-side-apply", annotated)
	dep, s := c.walk().importID("kubernetes_object", "apiVersion=apps/v1,kind=Deployment,namespace="+c.ns+",name=web")
	if s != "" {
		t.Fatal(s)
	}
	if p := c.walk().plan(dep, with(d)); !p.attr(t, "manifest").Equal(dep.attr(t, "manifest")) {
		t.Errorf("the plan shows more than what changes: %s", dep.attr(t, "manifest"))
	}
	// Made by us: nothing changes.
	again, s := c.walk().importID("kubernetes_object", id)
	if s != "" {
		t.Fatal(s)
	}
	if !again.attr(t, "manifest").Equal(i.attr(t, "manifest")) {
		t.Errorf("imported as %s", again.attr(t, "manifest"))
	}
	if !c.walk().plan(again, with(configMap(c.ns, "a", map[string]any{"k": "2"}))).noop() {
		t.Error("a plan of our own object shows changes after import")
	}
}

// A definition and its objects come in one apply, and work like all others.
func TestCustomResources(t *testing.T) {
	var away atomic.Bool // a proxy without an API server behind it
	c := newCluster(t, kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !away.Load() || !strings.HasPrefix(r.URL.Path, "/apis") {
				return rt.RoundTrip(r)
			}
			return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
		})
	}))
	group := strings.ReplaceAll(c.ns, "-", "") + ".example.com"
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{
					"type": "object", "properties": map[string]any{
						"size": map[string]any{"type": "integer"}, "color": map[string]any{"type": "string", "default": "red"},
					},
				}},
			}}}},
		},
	}
	thing := func(size int) map[string]any {
		return with(map[string]any{"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "t", "namespace": c.ns}, "spec": map[string]any{"size": size}})
	}
	def, obj := object(), object()
	w := c.walk()
	pd, po := w.plan(def, with(crd)), w.plan(obj, thing(1))
	w = c.walk()
	w.apply(pd)
	w.apply(po)
	w = c.walk()
	w.refresh(def)
	w.refresh(obj)
	if !w.plan(def, with(crd)).noop() || !w.plan(obj, thing(1)).noop() {
		t.Error("a plan shows changes")
	}
	things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	c.patch(things, "t", "kubectl-edit", "merge", `{"spec":{"size":5,"color":"blue"}}`)
	w = c.walk()
	w.refresh(obj)
	if w.plan(obj, thing(1)).noop() {
		t.Error("drift does not show")
	}
	c.put(obj, thing(1))
	if got := c.field(things, "t", "spec", "size"); got != int64(1) {
		t.Errorf("size is %v", got)
	}
	_, s := c.walk().tryPlan(object(), with(map[string]any{"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "u", "namespace": c.ns}, "spec": map[string]any{"sise": 1}}))
	if !strings.Contains(s, `unknown field "spec.sise"`) && !strings.Contains(s, ".spec.sise") {
		t.Errorf("a misspelt field: %q", s)
	}
	away.Store(true)
	if s := c.walk().tryRefresh(obj); !strings.Contains(s, "404 Not Found") || !obj.exists() {
		t.Errorf("a proxy's answer, and it is in state: %v, error %q", obj.exists(), s)
	}
	if s := c.walk().tryDestroy(context.Background(), obj); !strings.Contains(s, "404 Not Found") {
		t.Errorf("a proxy's answer, and it is destroyed: %q", s)
	}
	away.Store(false)
	if s := c.walk().tryDestroy(context.Background(), def); s != "" {
		t.Fatal(s)
	}
	c.walk().refresh(obj)
	if obj.exists() {
		t.Error("the object outlives its kind in state")
	}
}

// A field that the server never changes makes the plan a replacement, shown at
// that field.
func TestImmutableFieldsReplace(t *testing.T) {
	c := newCluster(t)
	i := object()
	c.put(i, with(c.deployment("web", "r.invalid/web:1")))
	uid := i.str(t, "uid")
	m := c.deployment("web", "r.invalid/web:1")
	m["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"app": "web", "x": "y"}}
	m["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{"labels": map[string]any{"app": "web", "x": "y"}}
	w := c.walk()
	w.refresh(i)
	p := w.plan(i, with(m))
	if len(p.replace) != 1 || !strings.Contains(p.replace[0], "selector") {
		t.Fatalf("replaced for %v", p.replace)
	}
	c.walk().apply(p)
	if i.str(t, "uid") == uid {
		t.Error("it is the same object")
	}
	// Another name is another object.
	p = c.walk().plan(i, with(c.deployment("web2", "r.invalid/web:1")))
	if len(p.replace) != 1 || !strings.Contains(p.replace[0], "name") {
		t.Errorf("replaced for %v", p.replace)
	}
	c.walk().apply(p)
	if i.str(t, "id") != "apiVersion=apps/v1,kind=Deployment,namespace="+c.ns+",name=web2" {
		t.Errorf("id is %s", i.str(t, "id"))
	}
	// When the plan could not ask, the apply says what to do.
	cm := object()
	frozen := func(v any) map[string]any {
		m := configMap(c.ns, "frozen", map[string]any{"k": v})
		m["immutable"] = true
		return with(m)
	}
	c.put(cm, frozen("1"))
	w = c.walk()
	p = w.plan(cm, frozen(unknownValue{}))
	if s := c.walk().tryApplyKnown(p, frozen("2")); !strings.Contains(s, "-replace") {
		t.Errorf("it says: %s", s)
	}
}

// A claim of which the manifest no longer says what it has, such as its class, is
// left as it is: to replace it would lose its data. Another class is another claim.
func TestClaimStays(t *testing.T) {
	c := newCluster(t)
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	claim := func(name, class string) map[string]any {
		spec := map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
		if class != "" {
			spec["storageClassName"] = class
		}
		return with(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": name, "namespace": c.ns}, "spec": spec})
	}
	unbound := object()
	c.put(unbound, claim("w", "none"))
	if p := c.walk().plan(unbound, claim("w", "")); len(p.replace) == 0 {
		t.Error("a claim that has no volume keeps its class")
	}
	c.lab.Apply(t, c.ns, `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"`+c.ns+`"},"spec":{"storageClassName":"first",
		"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/none"},"claimRef":{"namespace":"`+c.ns+`","name":"v"}}}`)
	t.Cleanup(func() { c.lab.Kubectl(t, "delete", "persistentvolume", c.ns, "--wait=false") })
	i := object()
	c.put(i, claim("v", "first"))
	eventually(t, "it has a volume", func() bool { return c.field(claims, "v", "status", "phase") == "Bound" })
	uid := i.str(t, "uid")
	for range 2 { // it stays so
		w := c.walk()
		w.refresh(i)
		p := w.plan(i, claim("v", ""))
		if len(p.replace) > 0 {
			t.Fatalf("replaced for %v", p.replace)
		}
		c.walk().apply(p)
		w = c.walk()
		w.refresh(i)
		if !w.plan(i, claim("v", "")).noop() {
			t.Error("a plan shows changes")
		}
		m := claim("v", "")
		m["manifest"].(map[string]any)["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
		c.put(i, m)
	}
	if class := c.field(claims, "v", "spec", "storageClassName"); class != "first" || i.str(t, "uid") != uid {
		t.Errorf("the claim has the class %v, and is another one: %v", class, i.str(t, "uid") != uid)
	}
	if p := c.walk().plan(i, claim("v", "second")); len(p.replace) == 0 {
		t.Error("a claim of another class is the same")
	}
}

// tryApplyKnown applies a plan whose unknown values have become known, without
// planning again.
func (w *walk) tryApplyKnown(c *change, attrs map[string]any) string {
	s, _ := w.typeOf(c.inst.kind)
	c.config = w.value(s, attrs)
	m, err := asMap(c.planned)
	must(w.t, err)
	cm, err := asMap(c.config)
	must(w.t, err)
	m["manifest"] = cm["manifest"]
	c.planned = valueOf(c.planned.Type(), m)
	return w.tryApply(context.Background(), c)
}

// What admission refuses, it refuses at plan time, in the server's words.
func TestAdmissionRefusesAtPlan(t *testing.T) {
	c := newCluster(t)
	policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
	ctx := context.Background()
	for gvr, m := range map[schema.GroupVersionResource]map[string]any{
		policies: {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": c.ns},
			"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}}},
				"validations": []any{
					map[string]any{"expression": "object.metadata.name != 'bad'", "message": "no bad names here"},
					// A denial is one whatever its words.
					map[string]any{"expression": "object.metadata.name != 'ownerless'", "message": "namespaces \"owner\" not found"},
				},
			}},
		bindings: {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": c.ns},
			"spec": map[string]any{"policyName": c.ns, "validationActions": []any{"Deny"},
				"matchResources": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": c.ns}}}}},
	} {
		_, err := c.other.Resource(gvr).Create(ctx, &unstructured.Unstructured{Object: m}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { c.other.Resource(gvr).Delete(ctx, c.ns, metav1.DeleteOptions{}) })
	}
	var s string
	eventually(t, "the policy holds", func() bool {
		_, s = c.walk().tryPlan(object(), with(configMap(c.ns, "bad", nil)))
		return s != ""
	})
	if !strings.Contains(s, "no bad names here") || !strings.Contains(s, "ConfigMap "+c.ns+"/bad") {
		t.Errorf("it says: %s", s)
	}
	_, s = c.walk().tryPlan(object(), with(configMap(c.ns, "ownerless", nil)))
	says(t, s, "The API server refuses ConfigMap "+c.ns+"/ownerless", `namespaces "owner" not found`)
	c.put(object(), with(configMap(c.ns, "good", nil)))
	// What the same apply can make is no refusal: a pod with its service account.
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "own", "namespace": c.ns}}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": c.ns},
		"spec": map[string]any{"serviceAccountName": "own", "containers": []any{map[string]any{"name": "c", "image": "r.invalid/x:1"}}}}
	one, two := object(), object()
	w := c.walk()
	first, second := w.plan(one, with(account)), w.plan(two, with(pod))
	w = c.walk()
	w.apply(first)
	w.apply(second)
}

// A reason not to touch an object stops the apply and not the plan, asks the
// API server nothing, and is kept nowhere.
func TestUnless(t *testing.T) {
	c := newCluster(t)
	i := object()
	conf := func(value, unless string) map[string]any {
		return with(configMap(c.ns, "a", map[string]any{"k": value}), map[string]any{"unless": unless})
	}
	apply := func(value, unless string) string {
		t.Helper()
		p := c.walk().plan(i, conf(value, unless))
		c.requests.take()
		return c.walk().tryApply(context.Background(), p)
	}
	says(t, apply("1", "its image is gone"), "ConfigMap "+c.ns+"/a was not touched", "its image is gone")
	if asked := c.requests.take(); len(asked) > 0 || i.exists() {
		t.Errorf("it is in state: %v; it was asked: %v", i.exists(), asked)
	}
	if s := apply("1", ""); s != "" {
		t.Fatal(s)
	}
	says(t, apply("2", "its image is gone"), "was not touched", "its image is gone")
	if got := c.field(configMaps, "a", "data", "k"); got != "1" {
		t.Errorf("it is %v", got)
	}
	w := c.walk()
	w.refresh(i)
	if !w.plan(i, conf("1", "its image is gone")).noop() {
		t.Error("a reason alone is a change")
	}
	if s := i.attr(t, "unless").String(); strings.Contains(s, "image") {
		t.Errorf("state has %s", s)
	}
	if s := c.walk().tryDestroy(context.Background(), i); s != "" {
		t.Error(s)
	}
}

// A delete that hangs says what holds the object, keeps it in state, and the
// next one ends it.
func TestStuckDeleteSaysWhy(t *testing.T) {
	var mu sync.Mutex
	var said []string
	c := newCluster(t, kubernetes.WithProgress(func(_, _, m string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, m)
	}))
	i := object()
	a := with(configMap(c.ns, "a", nil), map[string]any{"timeout": "4s"})
	c.put(i, a)
	c.patch(configMaps, "a", "somebody", "merge", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	s := c.walk().tryDestroy(context.Background(), i)
	for _, want := range []string{"not gone within 4s", "deletionTimestamp", "example.com/hold"} {
		if !strings.Contains(s, want) {
			t.Errorf("error lacks %q: %s", want, s)
		}
	}
	if !i.exists() {
		t.Fatal("it is not in state any more")
	}
	mu.Lock()
	if len(said) == 0 || !strings.Contains(said[0], "example.com/hold") {
		t.Errorf("progress: %v", said)
	}
	mu.Unlock()
	// A plan that wants it back waits for its end and makes it anew.
	w := c.walk()
	w.refresh(i)
	p := w.plan(i, a)
	if len(p.replace) == 0 {
		t.Error("the plan keeps an object that is on its way out")
	}
	c.patch(configMaps, "a", "somebody", "merge", `{"metadata":{"finalizers":null}}`)
	uid := i.str(t, "uid")
	c.walk().apply(p)
	if i.str(t, "uid") == uid {
		t.Error("it is the same object")
	}
	if s := c.walk().tryDestroy(context.Background(), i); s != "" {
		t.Error(s)
	}
	// What is gone is no error to delete.
	c.put(i, a)
	must(t, c.other.Resource(configMaps).Namespace(c.ns).Delete(context.Background(), "a", metav1.DeleteOptions{}))
	if s := c.walk().tryDestroy(context.Background(), i); s != "" {
		t.Error(s)
	}
}

// What waits for pods names them.
func TestDeleteThatWaitsForPods(t *testing.T) {
	c := newCluster(t)
	m := c.deployment("web", "r.test/web:1")
	template := m["spec"].(map[string]any)["template"].(map[string]any)
	template["metadata"].(map[string]any)["annotations"] = map[string]any{"yuba.test/behaviour": "ready", "yuba.test/stop-after": "6s"}
	template["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "state", "persistentVolumeClaim": map[string]any{"claimName": "c"}}}
	claim, web := object(), object()
	short := map[string]any{"timeout": "3s"}
	c.put(claim, with(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "c", "namespace": c.ns},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}, short))
	c.put(web, with(m, short))
	c.ready("web")
	pod := c.pods("web")[0]
	says(t, c.walk().tryDestroy(context.Background(), claim), "not gone within 3s", "a pod still uses the claim", "It waits for:", "Pod "+pod+" on node fake-", "not asked to end")
	says(t, c.walk().tryDestroy(context.Background(), web), "not gone within 3s", "foregroundDeletion", "It waits for:", "Pod "+pod+" on node fake-", "asked to end by")
}

// A namespace goes with all in it; one that hangs says what is left in it. One
// of the same name is made only after.
func TestNamespace(t *testing.T) {
	c := newCluster(t)
	name := c.ns + "-own"
	ns, inside := object(), object()
	nsConfig := with(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, map[string]any{"timeout": "30s"})
	w := c.walk()
	pn, pi := w.plan(ns, nsConfig), w.plan(inside, with(configMap(name, "a", nil)))
	w = c.walk()
	w.apply(pn)
	w.apply(pi)
	ctx := context.Background()
	hold := func(finalizers string) {
		_, err := c.other.Resource(configMaps).Namespace(name).Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		must(t, err)
	}
	hold(`["example.com/hold"]`)
	s := c.walk().tryDestroy(ctx, ns)
	for _, want := range []string{"Namespace " + name, "not gone within 30s", "example.com/hold", "remaining", "\n  - ConfigMap a, held by the finalizers example.com/hold"} {
		if !strings.Contains(s, want) {
			t.Errorf("error lacks %q: %s", want, s)
		}
	}
	// Nothing can be made in it now, and the error says so.
	if s := c.walk().tryApply(ctx, c.walk().plan(object(), with(configMap(name, "b", nil)))); !strings.Contains(s, "is being deleted: apply again when it is gone") {
		t.Errorf("it says: %s", s)
	}
	// A plan then makes both anew, and its apply waits for the end of the old
	// ones.
	w = c.walk()
	w.refresh(ns)
	w.refresh(inside)
	pn, pi = w.plan(ns, nsConfig), w.plan(inside, with(configMap(name, "a", nil)))
	if pn.replace == nil || pi.replace == nil {
		t.Errorf("the plan keeps what is on its way out: %v, %v", pn.replace, pi.replace)
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		hold("null")
	}()
	old := ns.str(t, "uid")
	w = c.walk()
	if s := w.tryDestroy(ctx, inside); s != "" {
		t.Error(s)
	}
	w.apply(pn)
	w.apply(pi)
	<-released
	live, err := c.other.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	if live.GetDeletionTimestamp() != nil || string(live.GetUID()) != ns.str(t, "uid") || ns.str(t, "uid") == old {
		t.Error("it took the old one for its own")
	}
	// One that state doesn't know is waited for, too.
	_, err = c.other.Resource(configMaps).Namespace(name).Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{})
	must(t, err)
	must(t, c.other.Resource(namespaces).Delete(ctx, name, metav1.DeleteOptions{}))
	fresh := object()
	pf := c.walk().plan(fresh, nsConfig)
	released = make(chan struct{})
	go func() {
		defer close(released)
		hold("null")
	}()
	c.walk().apply(pf)
	<-released
	if fresh.str(t, "uid") == ns.str(t, "uid") {
		t.Error("it took the old one for its own")
	}
	if s := c.walk().tryDestroy(ctx, fresh); s != "" {
		t.Error(s)
	}
	// Objects of a namespace that is gone are gone.
	c.walk().refresh(ns)
	if ns.exists() {
		t.Error("the namespace is still in state")
	}
	if s := c.walk().tryDestroy(ctx, inside); s != "" {
		t.Error(s)
	}
}

// An object that somebody deleted is made again; one that somebody made anew
// is another one.
func TestGoneAndMadeAnew(t *testing.T) {
	c := newCluster(t)
	ctx := context.Background()
	i, a := object(), with(configMap(c.ns, "a", map[string]any{"k": "v"}))
	c.put(i, a)
	remove := func() {
		must(t, c.other.Resource(configMaps).Namespace(c.ns).Delete(ctx, "a", metav1.DeleteOptions{}))
	}
	remove()
	c.walk().refresh(i)
	if i.exists() {
		t.Error("it is still in state")
	}
	c.put(i, a)
	// Between plan and apply: nothing is made or changed that wasn't planned.
	w := c.walk()
	p := w.plan(i, with(configMap(c.ns, "a", map[string]any{"k": "w"})))
	remove()
	if s := c.walk().tryApply(ctx, p); !strings.Contains(s, "plan again") {
		t.Errorf("it says: %s", s)
	}
	c.create(configMaps, "somebody", configMap(c.ns, "a", map[string]any{"k": "v"}))
	// Replacing it would delete what somebody made: nobody is told to.
	if s := c.walk().tryApply(ctx, p); !strings.Contains(s, "plan again") || strings.Contains(s, "-replace") {
		t.Errorf("it says: %s", s)
	}
	if _, s := c.walk().tryPlan(i, with(configMap(c.ns, "a", map[string]any{"k": "w"}))); !strings.Contains(s, "plan again, with a refresh") {
		t.Errorf("a plan without a refresh says: %q", s)
	}
	if s := c.walk().tryDestroy(ctx, i); !strings.Contains(s, "plan again") {
		t.Errorf("it says: %s", s)
	}
	old := i.str(t, "uid")
	c.walk().refresh(i)
	if i.str(t, "uid") == old {
		t.Error("the new uid is not noticed")
	}
	if s := c.walk().tryDestroy(ctx, i); s != "" {
		t.Error(s)
	}
}

// The values of a Secret are in no message, whatever the server makes of it.
func TestSecretsStayOutOfErrors(t *testing.T) {
	c := newCluster(t)
	const canary = "c4naryTh4tM4yNotLeak!"
	for name, m := range map[string]map[string]any{
		"not base64":  {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": c.ns}, "data": map[string]any{"k": canary}},
		"bad type":    {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": c.ns}, "type": "kubernetes.io/tls", "stringData": map[string]any{"k": canary}},
		"not a field": {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": c.ns}, "stringdata": map[string]any{"k": canary}},
		"list":        {"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": c.ns}, "stringData": map[string]any{"k": []any{canary}}},
	} {
		_, s := c.walk().tryPlan(object(), with(m))
		if s == "" {
			t.Errorf("%s: it was accepted", name)
		}
		if strings.Contains(s, canary) {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// The namespace must fit the kind, and both must exist.
func TestKindsAndNamespaces(t *testing.T) {
	c := newCluster(t)
	for want, m := range map[string]map[string]any{
		"metadata.namespace is missing": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}},
		"lives outside of namespaces":   {"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a", "namespace": c.ns}},
	} {
		if _, s := c.walk().tryPlan(object(), with(m)); !strings.Contains(s, want) {
			t.Errorf("lacks %q: %q", want, s)
		}
	}
	w := c.walk()
	if s := w.tryApply(context.Background(), w.plan(object(), with(configMap(c.ns+"-no", "a", nil)))); !strings.Contains(s, "Apply the namespace first") {
		t.Errorf("it says: %s", s)
	}
	_, s := w.tryPlan(object(), with(configMap(c.ns, "a", map[string]any{"k": 1})))
	if s == "" {
		t.Error("a number as data was accepted by the plan")
	}
}

// Who may get but not list still has plans.
func TestWithoutPermissionToList(t *testing.T) {
	c := newCluster(t)
	for _, m := range []map[string]any{
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "r", "namespace": c.ns},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "patch", "create", "delete"}}}},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "r", "namespace": c.ns},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}}},
	} {
		c.put(object(), with(m))
	}
	cfg, err := clientcmd.LoadFromFile(c.lab.Kubeconfig)
	must(t, err)
	for _, u := range cfg.AuthInfos {
		u.Impersonate = "limited"
	}
	p := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*cfg, p))
	c.env["KUBE_CONFIG_PATH"] = p
	i, a := object(), with(configMap(c.ns, "a", map[string]any{"k": "v"}))
	eventually(t, "the role holds", func() bool { return c.tryPut(i, a) == "" })
	w := c.walk()
	w.refresh(i)
	if !w.plan(i, a).noop() {
		t.Error("a plan shows changes")
	}
	if _, s := w.tryPlan(object(), with(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a", "namespace": c.ns}})); !strings.Contains(s, "limited") || !strings.Contains(s, "forbidden") {
		t.Errorf("what is forbidden: %q", s)
	}
}

func TestDataSources(t *testing.T) {
	c := newCluster(t)
	c.put(object(), with(configMap(c.ns, "a", map[string]any{"k": "v"})))
	v, s := c.walk().data("kubernetes_object", map[string]any{"api_version": "v1", "kind": "ConfigMap", "namespace": c.ns, "name": "a"})
	if s != "" || !strings.Contains(v.String(), `"v"`) || strings.Contains(v.String(), "managedFields") {
		t.Errorf("%s %s", s, v)
	}
	if _, s := c.walk().data("kubernetes_object", map[string]any{"api_version": "v1", "kind": "ConfigMap", "namespace": c.ns, "name": "b"}); !strings.Contains(s, "does not exist") {
		t.Errorf("it says: %s", s)
	}
	c.put(object(), with(map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": c.ns}, "handler": "systemd"}))
	v, s = c.walk().data("kubernetes_runtime_class", map[string]any{"name": c.ns})
	if s != "" || !strings.Contains(v.String(), `"systemd"`) {
		t.Errorf("%s %s", s, v)
	}
	if _, s := c.walk().data("kubernetes_runtime_class", map[string]any{"name": "none"}); !strings.Contains(s, `no RuntimeClass "none"`) || !strings.Contains(s, "handler") {
		t.Errorf("it says: %s", s)
	}
}

// Requests that fail on their way are sent again; what the server asks to wait
// for is waited for.
func TestDisturbedRequests(t *testing.T) {
	var mu sync.Mutex
	n := 0
	c := newCluster(t, kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			n++
			turn := n
			mu.Unlock()
			resp := func(code int, h http.Header) (*http.Response, error) {
				return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: h, Body: http.NoBody, Request: r}, nil
			}
			switch turn % 4 {
			case 0:
				return rt.RoundTrip(r)
			case 1:
				return nil, fmt.Errorf("read: %w", os.NewSyscallError("read", errReset))
			case 2:
				return resp(http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}})
			}
			// The effect is there, the answer is lost.
			if res, err := rt.RoundTrip(r); err == nil {
				res.Body.Close()
			}
			return resp(http.StatusServiceUnavailable, nil)
		})
	}))
	i, a := object(), with(configMap(c.ns, "a", map[string]any{"k": "v"}))
	c.put(i, a)
	if s := c.walk().tryDestroy(context.Background(), i); s != "" {
		t.Error(s)
	}
}
