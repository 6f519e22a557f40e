package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// node is a node whose pod becomes ready.
func node(name, content string) world.Node {
	return world.Node{Name: name, Image: lab.Image{Content: content}}
}

// says fails unless the command's errors have all of these words.
func says(t *testing.T, r world.Result, words ...string) {
	t.Helper()
	text := world.Unwrapped(r.Stderr)
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the error does not say %q:\n%s", word, r.Stderr)
		}
	}
}

// registryFront is the address of a server before a registry. It passes on all
// requests but those that refused tells, which get refusal for an answer.
func registryFront(t *testing.T, registry string, refusal http.HandlerFunc, refused func(*http.Request) bool) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if refused(r) {
			refusal(rw, r)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// pods are the uids of a world's pods.
func pods(w *world.World) string { return w.Get("pods", ".items[*].metadata.uid") }

// unchanged fails when a plan has changes.
func unchanged(w *world.World) { w.Must(0, "k8s", "plan", "-detailed-exitcode") }

func TestPolicyIsThereBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"), node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	var order []string
	for _, r := range w.Lab.Requests(t, "") {
		u, err := url.Parse(r.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		write := !slices.Contains([]string{"get", "list", "watch", "delete"}, r.Verb)
		if write && u.Query().Get("dryRun") == "" && strings.Contains(u.Path, "/namespaces/"+w.Namespace+"/") {
			order = append(order, path.Base(path.Dir(u.Path)))
		}
	}
	policy, deployment := slices.Index(order, "networkpolicies"), slices.Index(order, "deployments")
	if policy < 0 || deployment < policy {
		t.Errorf("the objects were made in this order: %q", order)
	}
	if got := w.Get("networkpolicy/same-namespace", ".spec"); got != `{"ingress":[{"from":[{"podSelector":{}}]}],"podSelector":{},"policyTypes":["Ingress"]}` {
		t.Errorf("the policy is %s", got)
	}
}

// The whole group in the namespace that is the default, and beside it one app
// of it deployed alone: neither touches the other.
func TestTargetsSideBySide(t *testing.T) {
	t.Parallel()
	all, shop := world.New(t), world.New(t)
	for _, w := range []*world.World{all, shop} {
		delete(w.Env, "K8S_NAMESPACE")
		w.Group(node("web", "one"))
	}
	shop.Edit(func(g map[string]any) { g["target"] = "shop" })
	all.Namespace, shop.Namespace = "fediversity", "fediversity-shop"
	for _, w := range []*world.World{all, shop} {
		w.Must(0, "k8s", "apply", "-auto-approve")
		if got, want := w.Get("deployment/web", world.ImagePath), w.Lab.Registry+"/"+w.Namespace+"/web@sha256:"; !strings.HasPrefix(got, want) {
			t.Errorf("in %s runs %s", w.Namespace, got)
		}
		if got := w.Must(0, "k8s", "output", "-raw", "namespace").Stdout; got != w.Namespace {
			t.Errorf("the output namespace is %q, want %q", got, w.Namespace)
		}
	}
	unchanged(all)
	before := pods(all)
	shop.Must(0, "k8s", "destroy", "-auto-approve")
	shop.Unchanged()
	unchanged(all)
	if after := pods(all); after != before {
		t.Errorf("the destroy of one target replaced the other's pods: %s, then %s", before, after)
	}
}

func TestRegistryWithPath(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Env["K8S_REGISTRY"] += "/some/path"
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	if got, want := w.Get("deployment/web", world.ImagePath), w.Lab.Registry+"/some/path/"+w.Namespace+"/web@sha256:"; !strings.HasPrefix(got, want) {
		t.Errorf("web runs %s, want %s...", got, want)
	}
	unchanged(w)
}

func TestFirstDeployFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: lab.CrashLoop}}, node("db", "one"))
	w.Shorten()
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "web", "CrashLoopBackOff", "first deploy", "no previous image")
	w.Free()
	// The other node has gone on.
	if ready := w.Get("deployment/db", ".status.readyReplicas"); ready != "1" {
		t.Errorf("db has %q ready pods", ready)
	}
	db := w.Get("pods", `.items[?(@.metadata.labels.app\.kubernetes\.io/name=="db")].metadata.uid`)
	claim, machine := w.Get("pvc/web-state", ".metadata.uid"), w.Get("deployment/web", uuidPath)

	w.Group(node("web", "one"), node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Get("pvc/web-state", ".metadata.uid"); got != claim {
		t.Errorf("the claim was %s and is %s", claim, got)
	}
	if got := w.Get("deployment/web", uuidPath); got != machine {
		t.Errorf("the machine id was %s and is %s", machine, got)
	}
	if got := w.Get("pods", `.items[?(@.metadata.labels.app\.kubernetes\.io/name=="db")].metadata.uid`); got != db {
		t.Errorf("db's pod was %s and is %s", db, got)
	}
}

func TestOneNodeFailsAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"), node("db", "one"), node("mail", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	before := map[string]string{}
	for _, n := range []string{"web", "db", "mail"} {
		before[n] = w.Get("deployment/"+n, world.ImagePath)
	}
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: lab.ConfigError}}, node("db", "two"), node("mail", "two"))
	w.Shorten()
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "web", "set back", "CreateContainerConfigError")
	for _, n := range []string{"web", "db", "mail"} {
		if got, same := w.Get("deployment/"+n, world.ImagePath), n == "web"; (got == before[n]) != same {
			t.Errorf("%s ran %s and runs %s", n, before[n], got)
		}
		if ready := w.Get("deployment/"+n, ".status.readyReplicas"); ready != "1" {
			t.Errorf("%s has %q ready pods", n, ready)
		}
	}
	// What is still to do is web, and nothing else.
	r = w.Must(0, "k8s", "plan", "-json")
	if got, want := changed(t, r.Stdout), []string{"kubernetes_object.deployment_web", "kubernetes_rollout.node_web"}; !slices.Equal(got, want) {
		t.Errorf("the plan changes %q, want %q", got, want)
	}
}

// The cluster's nodes don't get the new image, although it is in the registry.
func TestImageThatTheClusterCannotPull(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var only atomic.Pointer[string] // the digest that the nodes may pull; nil: all
	w.Env["K8S_REGISTRY"] = registryFront(t, w.Lab.Registry, http.NotFound, func(r *http.Request) bool {
		digest := only.Load()
		return strings.Contains(r.URL.Path, "/manifests/") && !strings.HasPrefix(r.UserAgent(), "yuba") && digest != nil && path.Base(r.URL.Path) != *digest
	})
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	good := w.Get("deployment/web", world.ImagePath)
	_, digest, _ := strings.Cut(good, "@")
	only.Store(&digest)

	w.Group(node("web", "two"))
	w.Shorten()
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "web", "ImagePullBackOff", "the registry has no image", "set back")
	if got := w.Get("deployment/web", world.ImagePath); got != good {
		t.Errorf("web ran %s and runs %s", good, got)
	}
	if ready := w.Get("deployment/web", ".status.readyReplicas"); ready != "1" {
		t.Errorf("web has %q ready pods", ready)
	}
	// Once it can be pulled, the same apply succeeds.
	only.Store(nil)
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
}

func TestNoPlaceForThePod(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	storage := func(class string) map[string]any {
		return map[string]any{"storage": map[string]any{"class": class, "size": "1Gi"}}
	}
	web := node("web", "one")
	web.More = storage("nowhere")
	w.Group(web)
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "5s" })
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "not scheduled", "PersistentVolumeClaim", "first deploy")

	// The class is put right: the claim that never got a volume is replaced.
	web.More = storage("standard")
	w.Group(web)
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	good := w.Get("deployment/web", ".spec.template.spec.containers[0]")

	// No node has room for it: it is set back.
	web.More = map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "1000"}}}
	w.Group(web)
	w.Shorten()
	r = w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "Insufficient cpu", "set back")
	if got := w.Get("deployment/web", ".spec.template.spec.containers[0]"); got != good {
		t.Errorf("web's container was\n%s\nand is\n%s", good, got)
	}
}

// Another StorageClass is another volume. The pod holds the old one as long
// as it runs.
func TestOtherStorageClass(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	class := w.Namespace // as good a name as any
	w.Lab.Apply(t, "default", `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"`+class+`"},
		"provisioner":"yuba.test/directory","volumeBindingMode":"WaitForFirstConsumer","allowVolumeExpansion":true}`)
	t.Cleanup(func() { w.Kubectl("delete", "storageclass", class) })
	web := node("web", "one")
	w.Group(web, node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	db := w.Get("pvc/db-state", ".metadata.uid")
	machine := w.Get("deployment/web", uuidPath)
	web.More = map[string]any{"storage": map[string]any{"class": class, "size": "1Gi"}}
	w.Group(web, node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Get("pvc/web-state", ".spec.storageClassName"); got != class {
		t.Errorf("the claim's class is %q", got)
	}
	if got := w.Get("pvc/db-state", ".metadata.uid"); got != db {
		t.Errorf("the other node's claim was %s and is %s", db, got)
	}
	if got := w.Get("deployment/web", uuidPath); got != machine {
		t.Errorf("the machine id was %s and is %s", machine, got)
	}

	// A claim that grows stays, and so does the pod.
	before, claim := pods(w), w.Get("pvc/web-state", ".metadata.uid")
	web.More = map[string]any{"storage": map[string]any{"class": class, "size": "2Gi"}}
	w.Group(web, node("db", "one"))
	r := w.Must(0, "k8s", "plan", "-json")
	if got := changed(t, r.Stdout); !slices.Equal(got, []string{"kubernetes_object.claim_web"}) {
		t.Errorf("a claim grows; the plan changes %q", got)
	}
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Get("pvc/web-state", ".metadata.uid"); got != claim {
		t.Errorf("the claim was %s and is %s", claim, got)
	}
	if after := pods(w); after != before {
		t.Errorf("the pods were %s and are %s", before, after)
	}

	// A class that is left out is no other one: the claims and their data stay.
	web.More = map[string]any{"storage": map[string]any{"size": "2Gi"}}
	w.Group(web, node("db", "one"))
	w.Edit(func(g map[string]any) { g["storage"] = map[string]any{"size": "1Gi"} })
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Get("pvc/web-state", ".metadata.uid") + w.Get("pvc/db-state", ".metadata.uid"); got != claim+db {
		t.Errorf("the claims were %s and are %s", claim+db, got)
	}
	if after := pods(w); after != before {
		t.Errorf("the pods were %s and are %s", before, after)
	}
}

// What somebody changes behind yuba's back is shown by the next plan and taken
// back by the next apply.
func TestDriftIsTakenBack(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	good, machine, claim := w.Get("deployment/web", world.ImagePath), w.Get("deployment/web", uuidPath), w.Get("pvc/web-state", ".spec.volumeName")
	check := func(what string) {
		t.Helper()
		w.Must(0, "k8s", "apply", "-auto-approve")
		unchanged(w)
		if got := w.Get("deployment/web", world.ImagePath); got != good {
			t.Errorf("%s: web ran %s and runs %s", what, good, got)
		}
		if got := w.Get("deployment/web", uuidPath); got != machine {
			t.Errorf("%s: the machine id was %s and is %s", what, machine, got)
		}
		if ready := w.Get("deployment/web", ".status.readyReplicas"); ready != "1" {
			t.Errorf("%s: web has %q ready pods", what, ready)
		}
	}

	// A pod that is deleted comes again without yuba, with the same volume.
	w.Kubectl("delete", "pod", "--all", "-n", w.Namespace)
	check("the pod was deleted")

	w.Kubectl("set", "image", "deployment/web", "node=elsewhere.example/web:1", "-n", w.Namespace)
	r := w.Must(2, "k8s", "plan", "-detailed-exitcode")
	if !strings.Contains(r.Stdout, "elsewhere.example/web:1") {
		t.Errorf("the plan does not show what runs: %v", r)
	}
	check("another image was set")

	w.Kubectl("scale", "deployment/web", "--replicas=0", "-n", w.Namespace)
	check("it was scaled to nothing")
	if got := w.Get("deployment/web", ".spec.replicas"); got != "1" {
		t.Errorf("web has %s replicas", got)
	}

	w.Kubectl("delete", "networkpolicy", "--all", "-n", w.Namespace)
	w.Kubectl("delete", "deployment", "web", "-n", w.Namespace)
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
	check("Deployment and policy were deleted")
	w.Get("networkpolicy/same-namespace", ".metadata.name")
	if got := w.Get("pvc/web-state", ".spec.volumeName"); got != claim {
		t.Errorf("the claim's volume was %s and is %s", claim, got)
	}

	w.Kubectl("delete", "namespace", w.Namespace)
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
	check("the namespace was deleted")
}

func TestNodeThatIsTurnedOff(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	db := node("db", "one")
	w.Group(node("web", "one"), db)
	w.Must(0, "k8s", "apply", "-auto-approve")
	web := w.Get("deployment/web", ".metadata.generation")
	db.More = map[string]any{"enabled": false}
	w.Group(node("web", "one"), db)
	r := w.Must(0, "k8s", "plan", "-no-color")
	if !strings.Contains(r.Stdout, "kubernetes_object.claim_db will be destroyed") {
		t.Errorf("the plan does not tell that db's volume goes: %v", r)
	}
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Kubectl("get", "deployment,pvc", "-n", w.Namespace, "-o", "name"); got != "deployment.apps/web\npersistentvolumeclaim/web-state" {
		t.Errorf("after db was turned off, there are:\n%s", got)
	}
	if got := w.Get("deployment/web", ".metadata.generation"); got != web {
		t.Error("web was changed")
	}
	if got := w.Must(0, "k8s", "nodes").Stdout; got != "web\n" {
		t.Errorf("k8s nodes prints %q", got)
	}
}

// An image that somebody removed from the registry is pushed again; the pod
// that runs it has nothing to do with that.
func TestImageGoneFromTheRegistry(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	before := pods(w)
	repository, digest, _ := strings.Cut(w.Get("deployment/web", world.ImagePath), "@")
	lab.Remove(t, repository, digest)
	r := w.Must(0, "k8s", "plan", "-json")
	if got := changed(t, r.Stdout); !slices.Equal(got, []string{`oci_image.node["web"]`}) {
		t.Errorf("the image is gone; the plan changes %q", got)
	}
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if !lab.Exists(t, repository, digest) {
		t.Error("the image was not pushed again, with its digest")
	}
	if after := pods(w); after != before {
		t.Errorf("the pod was %s and is %s", before, after)
	}
}

// An image that goes from the registry after its push, or after the plan, takes
// no running pod with it.
func TestImageThatGoesBeforeItsPod(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var forgets atomic.Bool // of what was pushed
	w.Env["K8S_REGISTRY"] = registryFront(t, w.Lab.Registry, http.NotFound, func(r *http.Request) bool {
		return forgets.Load() && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/sha256:")
	})
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	before, generation := pods(w), w.Get("deployment/web", ".metadata.generation")
	untouched := func() {
		t.Helper()
		if after := pods(w); after != before || w.Get("deployment/web", ".metadata.generation") != generation {
			t.Errorf("the pod was %s and is %s", before, after)
		}
	}

	// Nothing is to be pushed by this plan, and the image is gone when it is
	// carried out.
	web := node("web", "one")
	web.More = map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "10m"}}}
	w.Group(web)
	w.Must(0, "k8s", "plan", "-out=saved.plan")
	repository, digest, _ := strings.Cut(w.Get("deployment/web", world.ImagePath), "@")
	lab.Remove(t, repository, digest)
	says(t, w.Must(1, "k8s", "apply", "saved.plan"), "The registry does not hold the image "+repository+"@"+digest+" any more", "Plan and apply again")
	untouched()
	// The next apply pushes it again and goes on.
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	before, generation = pods(w), w.Get("deployment/web", ".metadata.generation")

	// It goes between the push and the Deployment.
	w.Group(node("web", "two"))
	w.Must(0, "k8s", "plan")
	forgets.Store(true)
	says(t, w.Must(1, "k8s", "apply", "-auto-approve", "-refresh=false"), "The registry does not hold the image "+repository+"@")
	untouched()
	forgets.Store(false)
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if after := pods(w); after == before {
		t.Error("the new image does not run")
	}
}

// The state is lost and the cluster is not.
func TestLostState(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"), node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	before, claim := pods(w), w.Get("pvc/web-state", ".metadata.uid")
	machine := map[string]string{"web": w.Get("deployment/web", uuidPath), "db": w.Get("deployment/db", uuidPath)}

	// The machine ids are in the state alone. The pods know them, and with
	// them nothing in the cluster has to change.
	w.Env["TF_HTTP_ADDRESS"] += "-2"
	for n, id := range machine {
		w.Must(0, "k8s", "import", "random_uuid.node_"+n, id)
	}
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if after := pods(w); after != before {
		t.Errorf("the pods were %s and are %s", before, after)
	}
	// Also the last good image is still known.
	good := w.Get("deployment/web", world.ImagePath)
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: lab.ConfigError}}, node("db", "one"))
	w.Shorten()
	says(t, w.Must(1, "k8s", "apply", "-auto-approve"), "set back")
	if got := w.Get("deployment/web", world.ImagePath); got != good {
		t.Errorf("web ran %s and runs %s", good, got)
	}

	// Without them the nodes get new ones, and keep their volumes.
	w.Env["TF_HTTP_ADDRESS"] += "-3"
	w.Group(node("web", "one"), node("db", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	for n, id := range machine {
		if got := w.Get("deployment/"+n, uuidPath); got == id || got == "" {
			t.Errorf("the machine id of %s was %s and is %s", n, id, got)
		}
	}
	if got := w.Get("pvc/web-state", ".metadata.uid"); got != claim {
		t.Errorf("the claim was %s and is %s", claim, got)
	}
	w.Must(0, "k8s", "destroy", "-auto-approve")
	w.Unchanged()
}

// What somebody made with kubectl just as yuba would have is taken over.
func TestObjectsMadeByKubectlAreAdopted(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"))
	// Let yuba say what it would make, and make it again with kubectl.
	w.Must(0, "k8s", "apply", "-auto-approve")
	machine := w.Get("deployment/web", uuidPath)
	var manifests []string
	for _, o := range []string{"namespace/" + w.Namespace, "pvc/web-state", "deployment/web"} {
		manifests = append(manifests, plain(t, w.Kubectl("get", o, "-n", w.Namespace, "-o", "json")))
	}
	w.Kubectl("delete", "namespace", w.Namespace)
	w.Lab.Apply(t, w.Namespace, manifests[0])
	w.Lab.Apply(t, w.Namespace, strings.Join(manifests[1:], "\n---\n"))
	w.Kubectl("rollout", "status", "deployment/web", "-n", w.Namespace)
	before, uid := pods(w), w.Get("deployment/web", ".metadata.uid")

	w.Env["TF_HTTP_ADDRESS"] += "-2"
	w.Must(0, "k8s", "import", "random_uuid.node_web", machine)
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if after := pods(w); after != before {
		t.Errorf("the pods were %s and are %s", before, after)
	}
	if got := w.Get("deployment/web", ".metadata.uid"); got != uid {
		t.Errorf("the Deployment was %s and is %s", uid, got)
	}
	// From here on it is yuba's: a change is no conflict.
	w.Group(node("web", "two"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
}

// However a quantity is written: it is no change, and one that leaves the
// group file leaves the pod.
func TestQuantities(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	web := node("web", "one")
	web.More = map[string]any{
		"storage": map[string]any{"class": "standard", "size": "1024Mi"},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": "0.5", "memory": "1048576Ki"},
			"limits":   map[string]any{"cpu": "1000m", "memory": "1.5Gi"},
		},
	}
	w.Group(web)
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got, want := w.Get("deployment/web", ".spec.template.spec.containers[0].resources"), `{"limits":{"cpu":"1","memory":"1536Mi"},"requests":{"cpu":"500m","memory":"1Gi"}}`; got != want {
		t.Errorf("the pod's resources are %s, want %s", got, want)
	}
	claim := w.Get("pvc/web-state", ".metadata.uid")
	w.Group(node("web", "one"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	unchanged(w)
	if got := w.Get("deployment/web", ".spec.template.spec.containers[0].resources"); got != "{}" {
		t.Errorf("the pod's resources are %s", got)
	}

	// A size that the volume can't have is refused by the plan.
	for _, size := range []string{"2Gi", "500Mi"} {
		w.Edit(func(g map[string]any) { g["storage"].(map[string]any)["size"] = size })
		says(t, w.Must(1, "k8s", "plan"), "web-state", "orbidden")
	}
	if got := w.Get("pvc/web-state", ".metadata.uid"); got != claim {
		t.Errorf("the claim was %s and is %s", claim, got)
	}
	w.Free()
}

// Who wants to be rid of a group may have lost what it was made from.
func TestDestroyNeedsOnlyTheCluster(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	registry := httptest.NewServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.Lab.Registry}))
	defer registry.Close()
	w.Env["K8S_REGISTRY"] = strings.TrimPrefix(registry.URL, "http://")
	w.Group(node("web", "one"), world.Node{Name: "db", Image: lab.Image{Behaviour: lab.ConfigError}})
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "5s" })
	w.Must(1, "k8s", "apply", "-auto-approve")
	registry.Close()
	w.Edit(func(g map[string]any) {
		g["runtimeClass"] = "gone"
		for _, n := range g["nodes"].([]any) {
			n.(map[string]any)["image"] = map[string]any{"archive": "gone.tar"}
		}
	})
	delete(w.Env, "K8S_REGISTRY")
	w.Must(0, "k8s", "destroy", "-auto-approve")
	w.Unchanged()
	if got := w.Must(0, "state", "list").Stdout; got != "" {
		t.Errorf("the state still has:\n%s", got)
	}
}

// A job that runs for strangers has no kubeconfig and no address of a state.
func TestLookingAtTheGraphNeedsNoSecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(node("web", "one"))
	delete(w.Env, "KUBE_CONFIG_PATH")
	delete(w.Env, "TF_HTTP_ADDRESS")
	w.Must(0, "k8s", "validate")
	w.Must(0, "k8s", "export", "graph")
	says(t, w.Must(1, "k8s", "plan"), "KUBE_CONFIG_PATH is not set")
}

// plain is an object as somebody would have written it.
func plain(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "status")
	metadata := o["metadata"].(map[string]any)
	o["metadata"] = map[string]any{"name": metadata["name"], "labels": metadata["labels"]}
	delete(o["spec"].(map[string]any), "volumeName")
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
