package e2e

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// In one apply of several nodes each gets its own verdict; those that are good
// stay, and at the end each node has a line.
func TestEachNodeHasItsVerdict(t *testing.T) {
	w := world.New(t)
	one := lab.Image{Content: "one"}
	w.Group(world.Node{Name: "web", Image: one}, world.Node{Name: "db", Image: one}, world.Node{Name: "mail", Image: one})
	w.Must(0, "k8s", "apply", "-auto-approve")
	first := w.Get("deployment/db", world.ImagePath)

	two := world.Node{Name: "web", Image: lab.Image{Content: "two"}}
	units := world.Node{Name: "db", Image: lab.Image{Content: "units", Behaviour: lab.NeverReady, FailedUnits: "postgresql.service"}}
	crash := world.Node{Name: "mail", Image: lab.Image{Content: "crash", Behaviour: lab.CrashLoop, Log: "no space left"}}
	w.Group(two, units, crash)
	w.Shorten()
	w.Must(0, "k8s", "plan", "-out=saved.plan")
	r := w.Must(1, "k8s", "apply", "-no-color", "saved.plan")
	for _, want := range []string{
		"/db was not complete within 15s", "failed unit postgresql.service", "postgresql.service: line 30",
		"/mail", "no space left",
	} {
		has(t, r.Stderr, want)
	}
	// Without a terminal, each node's own story is a few lines of a log.
	has(t, r.Stderr, "web: ready after ")
	has(t, r.Stderr, "db: rolling out (", "0/1 ready", "db: not ready after ", "was not complete within 15s")
	// When its time is over it waits to be started again, or has just been.
	has(t, r.Stderr, "mail: not ready after ", "last with exit code 1")
	for _, node := range []string{"web", "db", "mail"} {
		if n := strings.Count(r.Stderr, "\n"+node+": "); n > 9 {
			t.Errorf("%d lines about %s:\n%s", n, node, r.Stderr)
		}
	}
	has(t, r.Stderr, "The nodes of group test in namespace "+w.Namespace+" are now:", "db", "set back", "mail", "set back", "web", "ready", "db: generation", "did not become ready")
	if got := w.Get("deployment/web", world.ImagePath); !strings.HasPrefix(statusOf(t, w, 2).Nodes[2].Running, got) {
		t.Errorf("web runs %s", got)
	}
	if got := w.Get("deployment/db", world.ImagePath); got != first {
		t.Errorf("db runs %s, want %s", got, first)
	}
	w.Free()

	// The same in the machine-readable stream.
	r = w.Must(1, "k8s", "apply", "-auto-approve", "-json")
	found, nodes := 0, map[string]string{}
	for line := range strings.Lines(r.Stdout) {
		var m struct {
			Type       string
			Diagnostic struct{ Summary, Detail string }
			Node       struct{ Name, State, Reason string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m.Type == "node_status" {
			nodes[m.Node.Name] = m.Node.State
		}
		if m.Type == "diagnostic" && (strings.Contains(m.Diagnostic.Detail, "failed unit postgresql.service") || strings.Contains(m.Diagnostic.Detail, "no space left")) {
			found++
		}
	}
	want := map[string]string{"db": "set back", "mail": "set back", "web": "ready"}
	if !maps.Equal(nodes, want) {
		t.Errorf("the stream ends with nodes %v, want %v", nodes, want)
	}
	if found != 2 {
		t.Errorf("%d of 2 failed nodes tell why: %v", found, r)
	}
	// Put right, one apply does for all of them.
	w.Group(two, world.Node{Name: "db", Image: lab.Image{Content: "three"}}, world.Node{Name: "mail", Image: lab.Image{Content: "three"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "status")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}
