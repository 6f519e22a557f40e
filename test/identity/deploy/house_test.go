// Package deploy holds the tests that deploy groups whose nodes get identities:
// the built program, a real control plane, a real SPIRE server with agents, and
// a real sshd on the way to it.
package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/identity"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/sshd"
	"fediversity.eu/yuba/test/world"
)

// house is a world with a spire node: this machine, behind a sshd of the test.
type house struct {
	*world.World
	t      *testing.T
	door   *sshd.Server
	server *identity.Server
	spire  map[string]any // of the group file

	room     string // what the spire node has on disk
	machines int    // how many there have been
	sync     *identity.Sync
}

func newHouse(t *testing.T, l *lab.Lab) *house {
	t.Helper()
	h := &house{World: world.On(t, l), t: t, door: sshd.Start(t), room: t.TempDir()}
	h.furnish()
	t.Cleanup(func() {
		l.Kubectl(t, "delete", "clusterrole,clusterrolebinding", h.clusterRole(), "--ignore-not-found", "--wait=false")
	})
	// The one thing that a spire node does not have: paths of a test.
	command := h.door.Script(t, "yuba", fmt.Sprintf(`cd %s
case $2 in
show) exec %[2]s "$@" -machine-id=machine-id -server-socket=socket ;;
receive) exec %[2]s "$@" -machine-id=machine-id -dir=drops ;;
*) exec %[2]s "$@" -dir=drops ;;
esac
`, h.room, world.Program(t)))
	h.Env["SSH_PRIVATE_KEY_FILE"] = h.door.KeyFile
	h.spire = map[string]any{"host": h.door.Host, "port": h.door.Port, "user": h.door.User, "command": command,
		"hostKeys": []string{h.door.HostKeys["ssh-ed25519"]}}
	return h
}

func (h *house) clusterRole() string { return "yuba:" + h.Namespace + ":spire-server" }

func (h *house) path(name string) string { return filepath.Join(h.room, name) }

func (h *house) read(name string) string {
	data, _ := os.ReadFile(h.path(name))
	return string(data)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// furnish makes the spire node, or makes it again: another machine with another
// SPIRE server, which knows nothing of what was handed over.
func (h *house) furnish() {
	h.t.Helper()
	if h.server != nil {
		h.sync.Stop()
		h.server.Stop()
	}
	h.machines++
	h.must(os.WriteFile(h.path("machine-id"), fmt.Appendf(nil, "%032x\n", h.machines), 0o600))
	h.must(os.RemoveAll(h.path("drops")))
	h.must(os.Mkdir(h.path("drops"), 0o700))
	h.server = identity.StartServer(h.t, identity.ServerOptions{})
	h.must(os.RemoveAll(h.path("socket")))
	h.must(os.Symlink(h.server.Socket, h.path("socket")))
	h.sync = h.server.StartSync(h.t, h.path("drops"), h.path("sync.log"))
}

// group writes a group file of nodes with these names, and the spire node.
func (h *house) group(names ...string) {
	h.t.Helper()
	var nodes []world.Node
	for _, n := range names {
		nodes = append(nodes, world.Node{Name: n, Image: lab.Image{Content: "one"}})
	}
	h.Group(nodes...)
	h.Edit(func(g map[string]any) { g["spire"] = h.spire })
}

func (h *house) id(node string) handoff.Identity {
	return handoff.Identity{Namespace: h.Namespace, Node: node}
}

// handed fails unless the spire node has been given these nodes and no other,
// and waits until its SPIRE server knows them and no other.
func (h *house) handed(nodes ...string) {
	h.t.Helper()
	want, entries := []string{}, []string{}
	for _, n := range nodes {
		want = append(want, h.id(n).DropFile())
		entries = append(entries, h.id(n).AliasEntry(), h.id(n).HostEntry())
	}
	if len(nodes) > 0 {
		want = append(want, handoff.KubeconfigFile(h.Namespace))
	}
	files, err := filepath.Glob(h.path("drops/" + h.Namespace + ".*"))
	h.must(err)
	got := []string{}
	for _, f := range files {
		got = append(got, filepath.Base(f))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.t.Errorf("the spire node has %q, want %q", got, want)
	}
	slices.Sort(entries)
	lab.Eventually(h.t, "entries of these nodes", func() error {
		got := []string{}
		for _, e := range h.server.Entries(h.t) {
			got = append(got, e.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, entries) {
			return fmt.Errorf("they are %q, want %q", got, entries)
		}
		return nil
	})
}

// agent starts the SPIRE agent of a node with what its pod is given: a token that
// is bound to the pod, and the bundle.
func (h *house) agent(node string) *identity.Agent {
	h.t.Helper()
	var pod string
	lab.Eventually(h.t, "the pod of "+node, func() error {
		pods := strings.Fields(h.Kubectl("get", "pods", "-n", h.Namespace, "-l", "app.kubernetes.io/name="+node, "--field-selector=status.phase=Running",
			"-o", "jsonpath={.items[*].metadata.name}"))
		if len(pods) != 1 {
			return fmt.Errorf("there are %q", pods)
		}
		pod = pods[0]
		return nil
	})
	id := h.id(node)
	token := filepath.Join(h.t.TempDir(), "token")
	h.must(os.WriteFile(token, []byte(identity.Token(h.t, h.Lab, id, pod)), 0o600))
	return h.server.StartAgent(h.t, identity.AgentOptions{Cluster: id.Cluster(), Token: token, Bundle: h.bundle()})
}

// bundle is what the pods are given.
func (h *house) bundle() string {
	h.t.Helper()
	return h.Get("configmap/spire-agent", `.data.bundle\.pem`) + "\n"
}

// planned are the changes of a plan, as "ADDRESS ACTIONS", sorted.
func (h *house) planned(args ...string) []string {
	h.t.Helper()
	h.Must(0, append([]string{"k8s", "plan", "-out=some.plan"}, args...)...)
	var plan struct {
		Changes []struct {
			Address string
			Change  struct{ Actions []string }
		} `json:"resource_changes"`
	}
	h.must(json.Unmarshal([]byte(h.Must(0, "k8s", "show", "-json", "some.plan").Stdout), &plan))
	out := []string{}
	for _, c := range plan.Changes {
		if actions := strings.Join(c.Change.Actions, ","); actions != "no-op" && actions != "read" {
			out = append(out, c.Address+" "+actions)
		}
	}
	slices.Sort(out)
	return out
}

// plans fails unless a plan has these changes and no other.
func (h *house) plans(want ...string) {
	h.t.Helper()
	if got := h.planned(); !slices.Equal(got, append([]string{}, want...)) {
		h.t.Fatalf("the plan changes %q, want %q", got, want)
	}
}

// generations are those of the Deployments, and who their pods are.
func (h *house) generations() string {
	h.t.Helper()
	return h.Kubectl("get", "deployments,pods", "-n", h.Namespace, "--sort-by=.metadata.name",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.uid} {.metadata.generation}{"\n"}{end}`)
}

// says fails unless a command said all of this.
func (h *house) says(r world.Result, words ...string) {
	h.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.Stdout+r.Stderr, w) {
			h.t.Errorf("it does not say %q: %v", w, r)
		}
	}
}
