package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/terminal"
	"fediversity.eu/yuba/test/world"
)

// has checks that a text has some words, in this order.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := text
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q, in this order, in:\n%s", w, text)
			return
		}
		rest = after
	}
}

// status is what `yuba k8s status -json` prints.
type status struct {
	Namespace string
	Well      bool
	Nodes     []struct{ Name, State, Wanted, Running, LastGood, Pod, Claim, Volume, Reason string }
}

func statusOf(t *testing.T, w *world.World, code int) status {
	t.Helper()
	r := w.Must(code, "k8s", "status", "-json")
	var s status
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("%v: %v", err, r)
	}
	return s
}

// The operator's day: nodes are looked at, one fails, its log is read, and it is
// rolled back, with nothing but the kubeconfig and the group file.
func TestStatusLogsAndRollback(t *testing.T) {
	w := world.New(t)
	good := lab.Image{Content: "one", Log: "booting\n\x1b[32mdone\x1b[0m"}
	w.Group(world.Node{Name: "web", Image: good}, world.Node{Name: "db", Image: good})
	r := w.Must(2, "k8s", "status")
	has(t, r.Stdout, "db", "missing", "web", "missing", "never applied")

	w.Must(0, "k8s", "apply", "-auto-approve")
	delete(w.Env, "TF_HTTP_ADDRESS")
	registry := w.Env["K8S_REGISTRY"]
	delete(w.Env, "K8S_REGISTRY")
	r = w.Must(0, "k8s", "status")
	has(t, r.Stdout, "NODE", "WANTED", "RUNS", "LAST GOOD", "db", "ready", "Bound 1Gi", "web", "ready")
	has(t, r.Stdout, "CLAIM", "POD", "HOST")
	term := terminal.Start(t, w.Command("k8s", "status"), 80, 24)
	<-term.End
	for line := range strings.Lines(term.Written()) {
		if len(line) > 82 {
			t.Errorf("a line of %d characters for a terminal of 80: %s", len(line), line)
		}
	}
	if r := w.Must(0, "k8s", "status", "web"); strings.Contains(r.Stdout, "db") {
		t.Errorf("more than was asked for: %v", r)
	}
	has(t, w.Must(1, "k8s", "status", "wbe").Stderr, `did you mean "web"?`, "db, web")
	s := statusOf(t, w, 0)
	if n := s.Nodes[1]; !s.Well || s.Namespace != w.Namespace || n.Name != "web" || n.Wanted != w.Get("deployment/web", world.ImagePath) ||
		n.Running != n.Wanted || n.LastGood != n.Wanted || n.Claim != "web-state" || n.Pod == "" {
		t.Errorf("%+v", s)
	}
	if r := w.Must(0, "k8s", "logs", "-n=1", "web"); r.Stdout != "\x1b[32mdone\x1b[0m\n" {
		t.Errorf("log of web: %v", r)
	}
	if r := w.Must(0, "k8s", "logs", "-tail=1", "-since=1h", "web"); r.Stdout != "\x1b[32mdone\x1b[0m\n" {
		t.Errorf("log of web: %v", r)
	}
	if r := w.Must(0, "k8s", "logs", "-n=2", "-u=nginx.service", "web"); !strings.HasPrefix(r.Stdout, "nginx.service: line 30\n") || strings.Count(r.Stdout, "\n") != 2 {
		t.Errorf("journal of web: %v", r)
	}
	has(t, w.Must(1, "k8s", "logs", "-u=--flag", "web").Stderr, `"--flag" is not the name of a systemd unit`)
	has(t, w.Must(1, "k8s", "logs", "-previous", "web").Stderr, "previous terminated container")
	has(t, w.Must(1, "k8s", "logs", "nowhere").Stderr, "nowhere", "db, web")
	has(t, w.Must(0, "k8s", "rollback", "web").Stdout, "nothing to do")

	// Somebody sets an image by hand; the operator goes back.
	first := w.Get("deployment/web", world.ImagePath)
	other := w.Lab.Push(t, w.Namespace+"/manual", "1", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "nginx.service"})
	w.Kubectl("set", "image", "-n", w.Namespace, "deployment/web", "node="+other)
	world.Eventually(t, "image that was set by hand", func() bool { return statusOf(t, w, 2).Nodes[1].Running == other })
	world.Eventually(t, "failed unit", func() bool {
		r = w.Must(2, "k8s", "status")
		return strings.Contains(r.Stdout, "failed unit nginx.service")
	})
	has(t, r.Stdout, "web: 0/1 ready: running, not ready", "kubectl-set changed the image", "nginx.service: line 30")
	has(t, w.Must(1, "k8s", "rollback", "web").Stderr, "not approved")
	r = w.Must(0, "k8s", "rollback", "-auto-approve", "web")
	has(t, r.Stdout, "from "+other, "to   "+first, "is ready")
	if got := w.Get("deployment/web", world.ImagePath); got != first {
		t.Errorf("it runs %s", got)
	}
	if n := statusOf(t, w, 2).Nodes[1]; n.State != "set back" || n.Running != first || !strings.Contains(n.Reason, "rolled back by hand") {
		t.Errorf("%+v", n)
	}
	// The next apply puts it in order.
	w.Env["TF_HTTP_ADDRESS"], w.Env["K8S_REGISTRY"] = w.State, registry
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "status")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// A rollback that doesn't become ready says so, and why, and goes on saying it.
func TestRollbackThatDoesNotBecomeReady(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	good := w.Get("deployment/web", world.ImagePath)
	w.Kubectl("set", "image", "-n", w.Namespace, "deployment/web", "node="+w.Lab.Push(t, w.Namespace+"/manual", "1", lab.Image{Content: "manual"}))
	w.Kubectl("create", "quota", "-n", w.Namespace, "none", "--hard=pods=0")
	r := w.Must(1, "k8s", "rollback", "-auto-approve", "-timeout=15s", "web")
	has(t, r.Stderr, "web: not ready after ", "web: it was set back, but was not ready within 15s", "quota")
	if got := w.Get("deployment/web", world.ImagePath); got != good {
		t.Errorf("it runs %s", got)
	}
	has(t, w.Must(1, "k8s", "rollback", "-auto-approve", "-timeout=5s", "web").Stderr, "last complete rollout already, but was not ready within 5s", "quota")
	w.Kubectl("delete", "quota", "-n", w.Namespace, "none")
	world.Eventually(t, "ready pod", func() bool {
		return statusOf(t, w, 2).Nodes[0].Running == good && w.Yuba("k8s", "rollback", "web").Code == 0
	})
}
