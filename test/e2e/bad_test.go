// Package e2e holds the tests that run the built program as its users do.
package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// badArchive writes an archive into the world's folder.
func badArchive(t *testing.T, w *world.World, spec image.Spec, shape func([]byte) []byte) string {
	t.Helper()
	data, err := image.Bytes(spec)
	if err != nil {
		t.Fatal(err)
	}
	if shape != nil {
		data = shape(data)
	}
	name := filepath.Join(w.Dir, "bad.tar")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// answering is the address of a server that gives everyone the same answer.
func answering(t *testing.T, code int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Bad input: a clear error, exit code 1, nothing changed, the lock free.
func TestBadInput(t *testing.T) {
	t.Parallel()
	good := func(w *world.World) { w.Group(world.Node{Name: "web", Image: lab.Image{Content: "good"}}) }
	write := func(t *testing.T, w *world.World, text string) string {
		name := filepath.Join(w.Dir, "kubeconfig")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	type bad struct {
		name string
		make func(*testing.T, *world.World)
		want []string // all in the error
	}
	group := func(change func(map[string]any)) func(*testing.T, *world.World) {
		return func(t *testing.T, w *world.World) {
			n := map[string]any{"name": "web", "tag": "one", "image": map[string]any{"archive": badArchive(t, w, image.Spec{}, nil)}}
			g := map[string]any{"version": 1, "group": "test", "target": "all", "runtimeClass": "systemd",
				"storage": map[string]any{"class": "standard", "size": "1Gi"}, "nodes": []any{n}}
			change(g)
			w.Write(g)
		}
	}
	first := func(g map[string]any) map[string]any { return g["nodes"].([]any)[0].(map[string]any) }
	archive := func(spec image.Spec, shape func([]byte) []byte) func(*testing.T, *world.World) {
		return func(t *testing.T, w *world.World) {
			w.Group(world.Node{Name: "web", Tag: "one", Archive: badArchive(t, w, spec, shape)})
		}
	}
	env := func(key string, value func(*testing.T, *world.World) string) func(*testing.T, *world.World) {
		return func(t *testing.T, w *world.World) {
			good(w)
			if v := value(t, w); v == "" {
				delete(w.Env, key)
			} else {
				w.Env[key] = v
			}
		}
	}
	for _, b := range []bad{
		{"unknown key", group(func(g map[string]any) { g["colour"] = "red" }), []string{"group.json", "colour"}},
		{"bad DNS name", group(func(g map[string]any) { first(g)["name"] = "Web_1" }), []string{"group.json", "nodes[0].name", "Web_1"}},
		{"duplicate node", group(func(g map[string]any) { g["nodes"] = []any{first(g), first(g)} }), []string{"group.json", "nodes[1]", "web"}},
		{"duplicate key", func(t *testing.T, w *world.World) {
			w.WriteRaw([]byte(`{"version":1,"group":"test","group":"test","storage":{"size":"1Gi"},"nodes":[]}`))
		}, []string{"group.json", "group"}},
		{"illegal tag", group(func(g map[string]any) { first(g)["tag"] = "a b/c" }), []string{"group.json", "tag"}},
		{"missing archive", group(func(g map[string]any) { first(g)["image"] = map[string]any{"archive": "nowhere.tar"} }), []string{"web", "nowhere.tar"}},
		{"no docker archive", archive(image.Spec{}, func([]byte) []byte { return []byte(strings.Repeat("no tar", 1000)) }), []string{"bad.tar"}},
		{"truncated archive", archive(image.Spec{Zeros: 1 << 20}, func(b []byte) []byte { return b[:len(b)/2] }), []string{"bad.tar"}},
		{"truncated gzipped archive", archive(image.Spec{Zeros: 1 << 20, Gzip: true, Files: map[string][]byte{"/r": []byte(strings.Repeat("0123456789", 1000))}}, func(b []byte) []byte { return b[:len(b)/2] }), []string{"bad.tar"}},
		{"too many layers", archive(image.Spec{Layers: 128}, nil), []string{"bad.tar", "128 layers"}},

		{"KUBE_CONFIG_PATH unset", env("KUBE_CONFIG_PATH", func(*testing.T, *world.World) string { return "" }), []string{"KUBE_CONFIG_PATH"}},
		{"K8S_REGISTRY unset", env("K8S_REGISTRY", func(*testing.T, *world.World) string { return "" }), []string{"K8S_REGISTRY"}},
		{"TF_HTTP_ADDRESS unset", env("TF_HTTP_ADDRESS", func(*testing.T, *world.World) string { return "" }), []string{"TF_HTTP_ADDRESS"}},
		{"kubeconfig missing", env("KUBE_CONFIG_PATH", func(_ *testing.T, w *world.World) string { return filepath.Join(w.Dir, "nowhere") }), []string{"KUBE_CONFIG_PATH", "nowhere"}},
		{"kubeconfig a directory", env("KUBE_CONFIG_PATH", func(_ *testing.T, w *world.World) string { return w.Dir }), []string{"KUBE_CONFIG_PATH", "directory"}},
		{"kubeconfig bad YAML", env("KUBE_CONFIG_PATH", func(t *testing.T, w *world.World) string { return write(t, w, "{{{") }), []string{"KUBE_CONFIG_PATH"}},
		{"API server unreachable", env("KUBE_CONFIG_PATH", func(t *testing.T, w *world.World) string {
			return write(t, w, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
				"clusters":[{"name":"c","cluster":{"server":"https://`+freeport.Address(t)+`"}}],"users":[{"name":"u","user":{"token":"canary"}}]}`)
		}), []string{"refused"}},
		{"registry unreachable", env("K8S_REGISTRY", func(t *testing.T, _ *world.World) string { return freeport.Address(t) }), []string{"refused"}},
		{"state server down", env("TF_HTTP_ADDRESS", func(t *testing.T, _ *world.World) string { return "http://" + freeport.Address(t) + "/x" }), []string{"refused"}},
		{"state server 401", env("TF_HTTP_ADDRESS", func(t *testing.T, _ *world.World) string { return answering(t, 401, "who are you") + "/x" }), []string{"401", "TF_HTTP_USERNAME"}},
		{"state server 403", env("TF_HTTP_ADDRESS", func(t *testing.T, _ *world.World) string { return answering(t, 403, "not you") + "/x" }), []string{"403", "not you"}},
		{"state server 500", env("TF_HTTP_ADDRESS", func(t *testing.T, w *world.World) string {
			w.Env["TF_HTTP_RETRY_MAX"] = "0"
			return answering(t, 500, "disk is full") + "/x"
		}), []string{"500", "disk is full"}},
	} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			b.make(t, w)
			r := w.Must(1, "k8s", "apply", "-auto-approve")
			for _, want := range b.want {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("the error does not say %q: %v", want, r)
				}
			}
			if strings.Contains(r.Stderr+r.Stdout, "canary") {
				t.Errorf("the error tells a secret: %v", r)
			}
			w.Unchanged()
			w.Free()
		})
	}
}

func TestLockedBySomeoneElse(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	lock := `{"ID":"their-lock","Operation":"OperationTypeApply","Who":"somebody@elsewhere","Version":"1.12.6","Created":"2026-01-02T03:04:05Z"}`
	if err := w.Request("LOCK", lock); err != nil {
		t.Fatal(err)
	}
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	for _, want := range []string{"their-lock", "somebody@elsewhere", "force-unlock"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the error does not say %q: %v", want, r)
		}
	}
	w.Unchanged()
	w.Must(0, "force-unlock", "-force", "their-lock")
	w.Free()
	w.Must(0, "k8s", "apply", "-auto-approve")
}

func TestMissingRuntimeClassFailsBeforeAnyPush(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Tag: "one", Image: lab.Image{Content: "one"}})
	w.Edit(func(g map[string]any) { g["runtimeClass"] = "nothere" })
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	if !strings.Contains(r.Stderr, "nothere") || !strings.Contains(r.Stderr, "RuntimeClass") {
		t.Errorf("the error does not name the RuntimeClass: %v", r)
	}
	if lab.Exists(t, w.Lab.Registry+"/"+w.Namespace+"/web", "one") {
		t.Error("the image was pushed")
	}
	w.Unchanged()
	w.Free()
}

func TestRegistryDownChangesNothingInTheCluster(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	web, db := world.Node{Name: "web", Image: lab.Image{Content: "one"}}, world.Node{Name: "db", Image: lab.Image{Content: "one"}}
	w.Group(web, db)
	w.Must(0, "k8s", "apply", "-auto-approve")
	held := func() string {
		return w.Kubectl("get", "deployment,pvc,pod", "-n", w.Namespace, "-o", `jsonpath={range .items[*]}{.metadata.uid}{" "}{.metadata.generation}{"\n"}{end}`)
	}
	before := held()

	// One node changes and one leaves, but the change cannot be pushed: the
	// registry is away, or it is there and takes no upload.
	registry := w.Env["K8S_REGISTRY"]
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "two"}})
	for name, address := range map[string]string{"away": freeport.Address(t), "read-only": readOnly(t, registry)} {
		w.Env["K8S_REGISTRY"] = address
		r := w.Must(1, "k8s", "apply", "-auto-approve")
		if !strings.Contains(r.Stderr, "web") || !strings.Contains(r.Stderr, address) {
			t.Errorf("%s: the error does not say which image and which registry: %v", name, r)
		}
		if after := held(); after != before {
			t.Errorf("%s: the cluster had\n%s\nand has\n%s", name, before, after)
		}
		w.Free()
	}
	w.Env["K8S_REGISTRY"] = registry
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	if got := w.Kubectl("get", "deployment", "-n", w.Namespace, "-o", "name"); got != "deployment.apps/web" {
		t.Errorf("after db left, there are:\n%s", got)
	}
}

// readOnly is the address of a registry that takes no upload.
func readOnly(t *testing.T, registry string) string {
	t.Helper()
	denied := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"errors":[{"code":"DENIED","message":"read-only"}]}`, http.StatusForbidden)
	}
	return registryFront(t, registry, denied, func(r *http.Request) bool {
		return r.Method != http.MethodGet && r.Method != http.MethodHead
	})
}

func TestAdmissionRefusal(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	w.Kubectl("create", "namespace", w.Namespace)
	w.Kubectl("create", "quota", "none", "-n", w.Namespace, "--hard=count/deployments.apps=0")
	world.Eventually(t, "quota", func() bool { return w.Get("quota/none", `.status.hard.count/deployments\.apps`) == "0" })
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	if !strings.Contains(r.Stderr, "exceeded quota") || !strings.Contains(r.Stderr, "web") {
		t.Errorf("the error does not say what the API server said: %v", r)
	}
	w.Free()
	w.Kubectl("delete", "quota", "none", "-n", w.Namespace)
	w.Must(0, "k8s", "apply", "-auto-approve")
}

func TestFieldOfAnotherManager(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	w.Kubectl("create", "namespace", w.Namespace)
	// Somebody's claim with another size, of which they own the field.
	theirs := filepath.Join(w.Dir, "theirs.json")
	if err := os.WriteFile(theirs, []byte(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"web-state"},
		"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"standard","resources":{"requests":{"storage":"2Gi"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Kubectl("apply", "--server-side", "--field-manager=somebody", "-n", w.Namespace, "-f", theirs)
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	for _, want := range []string{"somebody", "storage", "web-state"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the error does not say %q: %v", want, r)
		}
	}
	if got := w.Get("pvc/web-state", ".spec.resources.requests.storage"); got != "2Gi" {
		t.Errorf("the field was 2Gi and is %s", got)
	}
	w.Free()
}

func TestOtherSubmissionIsRefused(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	if err := os.WriteFile(filepath.Join(w.Dir, "submission.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Edit(func(g map[string]any) {
		g["submission"] = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	})
	r := w.Must(1, "k8s", "apply", "-auto-approve", "-submission=submission.json")
	if !strings.Contains(r.Stderr, "submission") {
		t.Errorf("the error does not name the submission: %v", r)
	}
	w.Unchanged()
	w.Free()
}
