package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/identity"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

const (
	bundleUpdate = `kubernetes_object.spire["agent"] update`
	handoffAgain = "spire_handoff.this delete,create"
)

// The whole life of a group with a spire node, on a cluster with one node: each
// pod gets its own identity (SC-005), and keeps it for as long as it should.
func TestLife(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.New(t, lab.Options{FakeNodes: 1}))
	td := h.server.TrustDomain
	h.group("web", "db")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("db", "web")
	agents := map[string]*identity.Agent{"web": h.agent("web"), "db": h.agent("db")}
	attested := func() {
		t.Helper()
		for name, a := range agents {
			a.UntilSVID(t, h.id(name).HostID(td))
		}
		listed := h.server.Agents(t)
		for _, a := range listed {
			if a.Attestor != "k8s_psat" {
				t.Errorf("the server lists %+v", a)
			}
		}
		if len(listed) != len(agents) {
			t.Errorf("the server lists %d agents, want %d: %+v", len(listed), len(agents), listed)
		}
	}
	attested()
	h.plans()

	// Nobody is locked in: stock tofu with the same providers finds nothing to do.
	stock := h.Stock()
	stock.Must(0, "plan", "-detailed-exitcode", "-no-color")

	// So does a plan of a part, and one that refreshes nothing.
	h.Must(0, "k8s", "plan", "-detailed-exitcode", "-target=kubernetes_object.deployment_web")
	h.Must(0, "k8s", "plan", "-detailed-exitcode", "-refresh=false")
	h.Must(0, "k8s", "status")

	// Another key file, user and port by the environment are no change.
	key := t.TempDir() + "/another name"
	data, err := os.ReadFile(h.door.KeyFile)
	h.must(err)
	h.must(os.WriteFile(key, data, 0o600))
	right := h.Env["SSH_PRIVATE_KEY_FILE"]
	h.Env["SSH_PRIVATE_KEY_FILE"], h.Env["SSH_USER"] = key, h.door.User
	h.Env["SSH_NODES"] = fmt.Sprintf(`{%q: {"port": %d, "hostKeys": [%q], "options": {"ConnectTimeout": "30"}}}`, h.door.Host, h.door.Port, h.door.HostKeys["ssh-ed25519"])
	h.plans()
	h.Env["SSH_PRIVATE_KEY_FILE"] = right
	delete(h.Env, "SSH_USER")
	delete(h.Env, "SSH_NODES")

	// The SPIRE server rotates its CA.
	before, drops := h.generations(), h.dropTimes()
	h.server.RotateCA(t)
	h.plans(bundleUpdate)
	h.Must(0, "k8s", "apply", "-auto-approve")
	if got, want := strings.TrimSpace(h.bundle()), strings.TrimSpace(h.server.Bundle(t)); got != want {
		t.Errorf("the pods get the bundle\n%s\nwant\n%s", got, want)
	}
	if got := h.generations(); got != before {
		t.Errorf("a rotated CA changed\n%s\nto\n%s", before, got)
	}
	if got := h.dropTimes(); got != drops {
		t.Errorf("a rotated CA changed the hand-off:\n%s\nto\n%s", drops, got)
	}
	h.plans()
	attested()

	// A node more: it is handed over before its pod starts. Nobody else's identity goes.
	joined := h.joinTimes()
	h.group("web", "db", "mail")
	events := h.events(h.Must(0, "k8s", "apply", "-auto-approve", "-json"))
	comesBefore(t, events, "spire_handoff.this create complete", "kubernetes_object.deployment_mail create start")
	h.handed("db", "mail", "web")
	agents["mail"] = h.agent("mail")
	attested()
	for id, serial := range joined {
		if h.joinTimes()[id] != serial {
			t.Errorf("the agent %s had to attest anew for another's sake", id)
		}
	}

	// A node less: it ends before it is taken back, and then its agent is out.
	h.group("web", "db")
	events = h.events(h.Must(0, "k8s", "apply", "-auto-approve", "-json"))
	comesBefore(t, events, "kubernetes_object.deployment_mail delete complete", "spire_handoff.this delete start")
	comesBefore(t, events, "kubernetes_object.deployment_mail delete complete", "spire_handoff.this create start")
	h.handed("db", "web")
	mail := agents["mail"]
	delete(agents, "mail")
	lab.Eventually(t, "end of the agent of a node that is gone", func() error {
		if !mail.Ended() {
			return fmt.Errorf("it runs: %d agents", len(h.server.Agents(t)))
		}
		return nil
	})
	attested()
	h.plans()

	// The spire node is made again, and has forgotten everything.
	for _, a := range agents {
		a.Stop()
	}
	before = h.generations()
	h.furnish()
	h.plans(bundleUpdate, handoffAgain)
	h.says(h.Must(0, "k8s", "plan", "-no-color"), "spire_handoff.this must be replaced", "# forces replacement")
	h.Must(0, "k8s", "apply", "-auto-approve")
	if got := h.generations(); got != before {
		t.Errorf("a new spire node changed\n%s\nto\n%s", before, got)
	}
	h.handed("db", "web")
	agents = map[string]*identity.Agent{"web": h.agent("web"), "db": h.agent("db")}
	attested()
	h.plans()

	// Somebody deletes the namespace, with which the token of the SPIRE server ends.
	for _, a := range agents {
		a.Stop()
	}
	h.Kubectl("delete", "namespace", h.Namespace)
	if got := h.planned(); !slices.Contains(got, handoffAgain) {
		t.Errorf("without its namespace the plan changes %q, and not the hand-off", got)
	}
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("db", "web")
	h.agent("web").UntilSVID(t, h.id("web").HostID(td))
	h.plans()

	// All nodes off: nothing is handed over any more.
	h.Edit(func(g map[string]any) {
		for _, n := range g["nodes"].([]any) {
			n.(map[string]any)["enabled"] = false
		}
	})
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed()
	h.group("web", "db")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("db", "web")

	// The end: identities, agents, roles.
	h.Must(0, "k8s", "destroy", "-auto-approve")
	h.handed()
	lab.Eventually(t, "no agent", func() error {
		if left := h.server.Agents(t); len(left) > 0 {
			return fmt.Errorf("there are %+v", left)
		}
		return nil
	})
	if left := h.Kubectl("get", "clusterroles,clusterrolebindings", "-o", "name"); strings.Contains(left, h.clusterRole()) {
		t.Errorf("the cluster has\n%s", left)
	}
	h.Unchanged()

	// And again, by stock tofu this time.
	stock.Export()
	stock.Must(0, "apply", "-auto-approve", "-no-color")
	h.handed("db", "web")
	h.agent("web").UntilSVID(t, h.id("web").HostID(td))
	h.plans()
	stock.Must(0, "destroy", "-auto-approve", "-no-color")
	h.handed()
}

// A spire node that can't be reached fails a plan, also that of a destroy, and
// so do a wrong key and a wrong host key: nothing changes.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	for what, c := range map[string]struct {
		key   string
		value any
		words []string
	}{
		"port":         {"port", 1, []string{h.door.Host}},
		"host key":     {"hostKeys", []string{h.door.HostKeys["ecdsa-sha2-nistp256"][:40] + "x"}, []string{"hostKeys"}},
		"no yuba":      {"command", "/nonexistent/yuba", []string{"/nonexistent/yuba"}},
		"trust domain": {"trustDomain", "example.org", []string{"example.org", "fediversity"}},
	} {
		right, had := h.spire[c.key]
		h.spire[c.key] = c.value
		h.group("web")
		h.says(h.Must(1, "k8s", "plan"), c.words...)
		t.Log("refused: " + what)
		if h.spire[c.key] = right; !had {
			delete(h.spire, c.key)
		}
	}
	h.Unchanged()
	h.group("web")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("web")

	right := h.spire["port"]
	h.spire["port"] = 1
	h.group("web")
	h.says(h.Must(1, "k8s", "plan"), h.door.Host)
	h.says(h.Must(1, "k8s", "plan", "-destroy"), h.door.Host)
	h.says(h.Must(1, "k8s", "destroy", "-auto-approve"), h.door.Host)
	if h.Get("deployment/web", ".metadata.deletionTimestamp") != "" {
		t.Error("a destroy went on without the spire node")
	}
	h.handed("web")

	// It is gone for good: the way out that docs/spire.md tells.
	h.Must(1, "k8s", "destroy", "-auto-approve", "-refresh=false")
	h.Must(0, "state", "rm", "spire_namespace.this")
	h.Must(0, "k8s", "destroy", "-auto-approve", "-refresh=false")
	h.Unchanged()
	h.spire["port"] = right
}

// dropTimes say when what was handed over was written.
func (h *house) dropTimes() string {
	h.t.Helper()
	entries, err := os.ReadDir(h.path("drops"))
	h.must(err)
	var b strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), h.Namespace+".") {
			fmt.Fprintln(&b, e.Name(), info.ModTime())
		}
	}
	return b.String()
}

// joinTimes are the agents that the server lists, with the serial number of each
// one's SVID.
func (h *house) joinTimes() map[string]string {
	h.t.Helper()
	var list struct {
		Agents []struct {
			ID struct {
				Path string
			}
			Serial string `json:"x509svid_serial_number"`
		}
	}
	h.must(json.Unmarshal([]byte(h.server.CLI(h.t, "agent", "list", "-output", "json")), &list))
	out := map[string]string{}
	for _, a := range list.Agents {
		out[a.ID.Path] = a.Serial
	}
	if len(out) == 0 {
		h.t.Error("the server lists no agent")
	}
	return out
}

// events are what an apply with -json tells of its steps, as "ADDRESS ACTION
// start" and "ADDRESS ACTION complete".
func (h *house) events(r world.Result) (out []string) {
	h.t.Helper()
	for line := range strings.Lines(r.Stdout) {
		var e struct {
			Type string
			Hook struct {
				Resource struct{ Addr string }
				Action   string
			}
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if phase, ok := strings.CutPrefix(e.Type, "apply_"); ok {
			out = append(out, e.Hook.Resource.Addr+" "+e.Hook.Action+" "+phase)
		}
	}
	return out
}

func comesBefore(t *testing.T, events []string, first, then string) {
	t.Helper()
	a, b := slices.Index(events, first), slices.Index(events, then)
	if a < 0 || b < 0 || a > b {
		t.Errorf("%q is event %d and %q event %d of %q", first, a, then, b, events)
	}
}
