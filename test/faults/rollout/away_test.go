package rollout

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// through lets the world's commands reach the API server by a wire.
func through(t *testing.T, w *world.World) *wire {
	t.Helper()
	server, err := url.Parse(w.Lab.Server)
	if err != nil {
		t.Fatal(err)
	}
	cable, err := newWire(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	config, err := clientcmd.LoadFromFile(w.Lab.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server = "https://" + cable.Addr()
	}
	path := filepath.Join(w.Dir, "wire.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	w.Env["KUBE_CONFIG_PATH"] = path
	return cable
}

func web(i lab.Image) world.Node { return world.Node{Name: "web", Image: i} }

// generation waits until the Deployment has been changed so often.
func generation(t *testing.T, w *world.World, n string) {
	t.Helper()
	world.Eventually(t, "generation "+n+" of the Deployment", func() bool { return w.Get("deployment/web", ".metadata.generation") == n })
}

// trouble is what happens to the cluster, or the way to it, while a rollout is
// waited for; it returns when that is over.
type trouble func(t *testing.T, w *world.World, cable *wire)

// pulled is a network cut of 30 s.
func pulled(_ *testing.T, _ *world.World, cable *wire) {
	cable.Pull()
	time.Sleep(30 * time.Second)
	cable.Plug()
}

// forgotten is a connection that is dead, and nobody says so.
func forgotten(_ *testing.T, _ *world.World, cable *wire) { cable.Forget() }

// goodRollout is one whose pod becomes ready, though nobody sees it do so.
func goodRollout(t *testing.T, w *world.World, happens trouble) {
	cable := through(t, w)
	w.Group(web(lab.Image{Content: "one"}))
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Group(web(lab.Image{Content: "two", ReadyAfter: 10 * time.Second}))
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "3m" })
	done := make(chan world.Result)
	go func() { done <- w.Yuba("k8s", "apply", "-auto-approve") }()
	generation(t, w, "2")
	time.Sleep(time.Second) // for the wait to have begun
	happens(t, w, cable)
	if r := <-done; r.Code != 0 {
		t.Errorf("the rollout is no success: %v", r)
	}
	w.Must(0, "k8s", "status")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// badRollout is one that has to be set back, at a given generation of the
// Deployment: 2 is the bad one, 3 the way back.
func badRollout(t *testing.T, w *world.World, at string, happens trouble) {
	cable := through(t, w)
	w.Group(web(lab.Image{Content: "one"}))
	w.Must(0, "k8s", "apply", "-auto-approve")
	good := w.Get("deployment/web", world.ImagePath)
	w.Group(web(lab.Image{Content: "bad", Behaviour: lab.ConfigError}))
	w.Edit(func(g map[string]any) { g["rolloutTimeout"], g["persistence"] = "3m", "5s" })
	done := make(chan world.Result)
	go func() { done <- w.Yuba("k8s", "apply", "-auto-approve") }()
	generation(t, w, at)
	time.Sleep(time.Second)
	happens(t, w, cable)
	r := <-done
	text := world.Unwrapped(r.Stderr)
	for _, word := range []string{"CreateContainerConfigError", "was set back to the last image whose rollout was complete, " + good + ", and that is ready again"} {
		if !strings.Contains(text, word) {
			t.Errorf("it lacks %q: %v", word, r)
		}
	}
	if got := w.Get("deployment/web", world.ImagePath); r.Code != 1 || got != good {
		t.Errorf("exit code %d, web runs %s and not %s", r.Code, got, good)
	}
	if ready := w.Get("deployment/web", ".status.readyReplicas"); ready != "1" {
		t.Errorf("web has %q ready pods", ready)
	}
	w.Free()
}

func TestNetworkCuts(t *testing.T) {
	for name, happens := range map[string]trouble{"30 s": pulled, "dead connection": forgotten} {
		t.Run("good, "+name, func(t *testing.T) { t.Parallel(); goodRollout(t, world.New(t), happens) })
		t.Run("bad, "+name, func(t *testing.T) { t.Parallel(); badRollout(t, world.New(t), "2", happens) })
		t.Run("set back, "+name, func(t *testing.T) { t.Parallel(); badRollout(t, world.New(t), "3", happens) })
	}
}

// A rollout that nobody can see for longer than its time is judged by what is
// there when it can be seen again.
func TestTimeIsOverDuringACut(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cable := through(t, w)
	w.Group(web(lab.Image{Content: "one", ReadyAfter: 8 * time.Second}))
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "20s" })
	done := make(chan world.Result)
	go func() { done <- w.Yuba("k8s", "apply", "-auto-approve") }()
	world.Eventually(t, "the pod", func() bool {
		return w.Kubectl("get", "pods", "-n", w.Namespace, "-o", "name", "--ignore-not-found") != ""
	})
	time.Sleep(time.Second)
	pulled(t, w, cable)
	if r := <-done; r.Code != 0 {
		t.Errorf("the rollout is no success: %v", r)
	}
}

// The API server is killed, is away for a while, and starts again: it has
// forgotten all watches, and refuses at first what it has not read the roles for.
func TestAPIServerRestarts(t *testing.T) {
	t.Parallel()
	restart := func(t *testing.T, w *world.World, _ *wire) {
		w.Lab.Kill(t, "kube-apiserver")
		time.Sleep(10 * time.Second)
		w.Lab.Restart(t, "kube-apiserver")
	}
	l := lab.New(t, lab.Options{})
	goodRollout(t, world.On(t, l), restart)
	badRollout(t, world.On(t, l), "2", restart)
	badRollout(t, world.On(t, l), "3", restart)
}

// A namespace that does not end says what holds it, when the operator's time is
// over, and the next destroy ends it.
func TestNamespaceThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(web(lab.Image{Content: "one"}))
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Lab.Apply(t, w.Namespace, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	w.Edit(func(g map[string]any) { g["removalTimeout"] = "2m" })
	r := w.Must(1, "k8s", "destroy", "-auto-approve")
	text := world.Unwrapped(r.Stderr)
	for _, word := range []string{"Namespace " + w.Namespace + " was not gone within 2m0s", "ConfigMap held, held by the finalizers example.com/hold"} {
		if !strings.Contains(text, word) {
			t.Errorf("it lacks %q: %v", word, r)
		}
	}
	w.Free()
	if got := w.Must(0, "state", "list").Stdout; !strings.Contains(got, "kubernetes_object.namespace") {
		t.Errorf("the state has forgotten the namespace:\n%s", got)
	}
	w.Kubectl("patch", "configmap", "held", "-n", w.Namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.Must(0, "k8s", "destroy", "-auto-approve")
	w.Unchanged()
	if got := w.Must(0, "state", "list").Stdout; got != "" {
		t.Errorf("the state still has:\n%s", got)
	}
}
