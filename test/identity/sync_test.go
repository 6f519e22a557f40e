package identity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// td is the trust domain.
const td = "fediversity"

// spireNode is a SPIRE server with a drop directory.
type spireNode struct {
	*Server
	drops string
}

func newSpireNode(t *testing.T) *spireNode {
	t.Helper()
	return &spireNode{Server: StartServer(t, ServerOptions{}), drops: t.TempDir()}
}

// sync makes one pass.
func (n *spireNode) sync(t *testing.T) { t.Helper(); n.SyncOnce(t, n.drops) }

// document is a hand-off as it goes over ssh.
func document(t *testing.T, k handoff.Kubeconfig, namespace string, nodes ...string) string {
	t.Helper()
	data, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	h, err := handoff.Handoff{Namespace: namespace, Kubeconfig: string(data), Nodes: nodes}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func (n *spireNode) receive(t *testing.T, k handoff.Kubeconfig, namespace string, nodes ...string) {
	t.Helper()
	if r := Spire(t, document(t, k, namespace, nodes...), "receive", "-dir", n.drops); r.Code != 0 || r.Stdout != "" {
		t.Fatal(r)
	}
}

func (n *spireNode) retire(t *testing.T, namespace string) {
	t.Helper()
	if r := Spire(t, `{"version":1,"namespace":"`+namespace+`"}`, "retire", "-dir", n.drops); r.Code != 0 || r.Stdout != "" {
		t.Fatal(r)
	}
}

// wantEntries checks that the server has the entries of these nodes, sorted,
// and no others.
func (n *spireNode) wantEntries(t *testing.T, nodes ...handoff.Identity) {
	t.Helper()
	if diff := cmp.Diff(entriesOf(nodes...), n.Entries(t)); diff != "" {
		t.Errorf("entries: %s", diff)
	}
}

func entriesOf(nodes ...handoff.Identity) (out []Entry) {
	for _, id := range nodes {
		out = append(out, Entry{
			ID: "k8s." + id.Namespace + "." + id.Node + ".alias", ParentID: "spiffe://fediversity/spire/server",
			SPIFFEID:  fmt.Sprintf("spiffe://fediversity/k8s/%[1]s/%[1]s/node-%[2]s", id.Namespace, id.Node),
			Selectors: []string{"k8s_psat:agent_ns:" + id.Namespace, "k8s_psat:agent_sa:node-" + id.Node, "k8s_psat:cluster:" + id.Namespace + "-" + id.Node},
		}, Entry{
			ID: "k8s." + id.Namespace + "." + id.Node + ".host", ParentID: fmt.Sprintf("spiffe://fediversity/k8s/%[1]s/%[1]s/node-%[2]s", id.Namespace, id.Node),
			SPIFFEID: fmt.Sprintf("spiffe://fediversity/host/%s-%s", id.Namespace, id.Node), Selectors: []string{"unix:uid:0"},
		})
	}
	return out
}

// Two nodes of a namespace whose pods are on one Kubernetes node: each agent
// gets the SVID of its own host (SC-005), and one that claims another's cluster
// gets none.
func TestEachNodeHasItsIdentityAndNeverAnothers(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	namespace, other := l.Namespace(t), l.Namespace(t)
	n := newSpireNode(t)
	web, db := handoff.Identity{Namespace: namespace, Node: "web"}, handoff.Identity{Namespace: namespace, Node: "db"}
	n.receive(t, Kubeconfig(t, l, namespace), namespace, "web", "db")
	n.sync(t)
	n.wantEntries(t, db, web)

	same := KubernetesNodes(t, l)[0]
	webToken, dbToken := Pod(t, l, web, same), Pod(t, l, db, same)
	agents := map[handoff.Identity]*Agent{
		web: n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: webToken}),
		db:  n.StartAgent(t, AgentOptions{Cluster: db.Cluster(), Token: dbToken}),
	}
	for id, a := range agents {
		a.UntilSVID(t, id.HostID(td))
	}
	listed := n.Agents(t)
	if len(listed) != 2 || listed[0].Attestor != "k8s_psat" || listed[1].Attestor != "k8s_psat" {
		t.Errorf("the server lists %+v, want two of k8s_psat", listed)
	}
	foreign := handoff.Identity{Namespace: other, Node: "web"}
	anyAudience := filepath.Join(t.TempDir(), "token")
	said := l.Kubectl(t, "create", "token", web.ServiceAccount(), "-n", namespace, "--bound-object-kind", "Pod", "--bound-object-name", web.Node)
	if err := os.WriteFile(anyAudience, []byte(strings.TrimSpace(said)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, liar := range []struct{ token, want string }{
		{dbToken, "is not an allowed service account"},                  // another node's pod
		{Pod(t, l, foreign, same), "is not an allowed service account"}, // the same node's of another namespace
		{anyAudience, "invalid bearer token"},                           // a token that was made for others
	} {
		n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: liar.token}).UntilRefused(t, liar.want)
	}
	for id, a := range agents {
		a.UntilSVID(t, id.HostID(td))
	}
}

// A retired node's agent is cut off though it runs and its token is good, and
// comes back when the node is handed over again. Others notice nothing.
func TestARetiredNodeIsCutOffUntilItIsHandedOverAgain(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	namespace := l.Namespace(t)
	n := newSpireNode(t)
	web, db := handoff.Identity{Namespace: namespace, Node: "web"}, handoff.Identity{Namespace: namespace, Node: "db"}
	k := Kubeconfig(t, l, namespace)
	n.receive(t, k, namespace, "web", "db")
	n.CLI(t, "entry", "create", "-entryID", "mine", "-spiffeID", "spiffe://fediversity/mine", "-parentID", "spiffe://fediversity/other", "-selector", "unix:uid:7")
	mine := Entry{ID: "mine", SPIFFEID: "spiffe://fediversity/mine", ParentID: "spiffe://fediversity/other", Selectors: []string{"unix:uid:7"}}
	n.sync(t)
	same := KubernetesNodes(t, l)[0]
	webToken, dbToken := Pod(t, l, web, same), Pod(t, l, db, same)
	webAgent := n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: webToken})
	dbAgent := n.StartAgent(t, AgentOptions{Cluster: db.Cluster(), Token: dbToken})
	webAgent.UntilSVID(t, web.HostID(td))
	dbAgent.UntilSVID(t, db.HostID(td))

	n.receive(t, k, namespace, "web")
	n.sync(t)
	if diff := cmp.Diff(append(entriesOf(web), mine), n.Entries(t)); diff != "" {
		t.Errorf("entries: %s", diff)
	}
	dbAgent.UntilRefused(t, "not configured for cluster")
	if listed := n.Agents(t); len(listed) != 1 || !strings.Contains(listed[0].ID, "/"+web.Cluster()+"/") {
		t.Errorf("the server lists %+v, want web's only", listed)
	}
	webAgent.UntilSVID(t, web.HostID(td))

	n.receive(t, k, namespace, "web", "db")
	n.sync(t)
	dbAgent.Kill()
	dbAgent.Start(t)
	dbAgent.UntilSVID(t, db.HostID(td))

	n.retire(t, namespace)
	n.sync(t)
	if diff := cmp.Diff([]Entry{mine}, n.Entries(t)); diff != "" {
		t.Errorf("entries: %s", diff)
	}
	if listed := n.Agents(t); len(listed) != 0 {
		t.Errorf("the server lists %+v", listed)
	}
	if files, err := os.ReadDir(n.drops); err != nil || len(files) != 0 {
		t.Errorf("the drop directory has %v, %v", files, err)
	}
}

// Whatever lies in the drop directory, the server can be started anew, and who
// isn't at fault has its identity.
func TestTheServerStartsAgainWhateverIsInTheDropDirectory(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	namespace := l.Namespace(t)
	n := newSpireNode(t)
	good := handoff.Identity{Namespace: namespace, Node: "good"}
	k := Kubeconfig(t, l, namespace)
	write := func(name, text string) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(n.drops, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("n%d", i))
	}
	n.receive(t, k, namespace, "good")
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"one node", func() {}},
		{"half a drop-file", write("bad.web.json", `{"version":1,"names`)},
		{"a drop-file without a kubeconfig", write("bad.db.json", `{"version":1,"namespace":"bad","node":"db","audience":"spire-server","kubeconfig":"bad.kubeconfig"}`)},
		{"a kubeconfig that is none", write("bad.kubeconfig", "clusters {")},
		{"HCL instead of JSON", write("worse.web.json", `clusters = { "x" = {} }`)},
		{"two nodes of one identity", func() {
			n.receive(t, k, "a", "b-c")
			write("a-b.c.json", `{"version":1,"namespace":"a-b","node":"c","audience":"spire-server","kubeconfig":"a-b.kubeconfig"}`)()
		}},
		{"many", func() { n.receive(t, k, "crowd", many...) }},
		{"few again", func() { n.retire(t, "crowd") }},
	} {
		step.do()
		n.sync(t)
		n.Restart(t)
		if t.Failed() {
			t.Fatalf("after %s", step.name)
		}
	}
	n.wantEntries(t, good)
	agent := n.StartAgent(t, AgentOptions{Cluster: good.Cluster(), Token: Pod(t, l, good, KubernetesNodes(t, l)[0])})
	agent.UntilSVID(t, good.HostID(td))
}

// The plugin data is written and read with the server as it runs, and a server
// that starts has it: it was written before.
func TestTheFileIsThereBeforeTheServer(t *testing.T) {
	t.Parallel()
	drops := t.TempDir()
	file := filepath.Join(drops, "k8s_psat.json")
	if r := Spire(t, "", "sync", "-once", "-dir", drops, "-server-socket", ""); r.Code != 0 {
		t.Fatal(r)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	n := &spireNode{StartServer(t, ServerOptions{PluginData: file}), drops}
	n.receive(t, handoff.Kubeconfig{Server: "https://127.0.0.1:1", Token: "x"}, "shop", "web")
	n.sync(t)
	n.Restart(t)
	n.wantEntries(t, handoff.Identity{Namespace: "shop", Node: "web"})
	if log := n.Log(); !strings.Contains(log, "Plugin reconfigured") {
		t.Errorf("the server did not take the file while it ran:\n%s", log)
	}
}

// After a rotation the bundle is another one, with the old authority as well;
// until then it is the same at each question.
func TestShowTellsOfARotatedAuthority(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	namespace := l.Namespace(t)
	n := newSpireNode(t)
	web := handoff.Identity{Namespace: namespace, Node: "web"}
	machineID := filepath.Join(t.TempDir(), "machine-id")
	if err := os.WriteFile(machineID, []byte("0123456789abcdef0123456789abcdef\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	show := func() handoff.Server {
		t.Helper()
		r := Spire(t, "", "show", "-server-socket", n.Socket, "-machine-id", machineID)
		if r.Code != 0 || r.Stderr != "" {
			t.Fatal(r)
		}
		s, err := handoff.ParseServer([]byte(r.Stdout))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := show()
	if first.MachineID != "0123456789abcdef0123456789abcdef" || first.TrustDomain != td || strings.Count(first.Bundle, "BEGIN") != 1 {
		t.Errorf("%+v", first)
	}
	n.Restart(t)
	if again := show(); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	n.receive(t, Kubeconfig(t, l, namespace), namespace, "web")
	n.sync(t)
	token := Pod(t, l, web, KubernetesNodes(t, l)[0])
	agent := n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: token, Bundle: first.Bundle})
	agent.UntilSVID(t, web.HostID(td))

	n.RotateCA(t)
	second := show()
	if second == first || strings.Count(second.Bundle, "BEGIN") != 2 || !strings.Contains(second.Bundle, first.Bundle) {
		t.Errorf("%+v after %+v", second, first)
	}
	if again := show(); again != second {
		t.Errorf("%+v, then %+v", second, again)
	}
	agent.UntilSVID(t, web.HostID(td))
	agent.Kill()
	fresh := n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: token, Bundle: second.Bundle})
	fresh.UntilSVID(t, web.HostID(td))
}

// A server that is down, started anew or changed by hand is in step after a
// while, without anybody's help.
func TestSyncFollowsTheServerAndTheDirectory(t *testing.T) {
	t.Parallel()
	n := newSpireNode(t)
	k := handoff.Kubeconfig{Server: "https://127.0.0.1:1", Token: "secret-token"}
	web, db := handoff.Identity{Namespace: "shop", Node: "web"}, handoff.Identity{Namespace: "shop", Node: "db"}
	until := func(what string, nodes ...handoff.Identity) {
		t.Helper()
		lab.Eventually(t, what, func() error {
			if diff := cmp.Diff(entriesOf(nodes...), n.Entries(t)); diff != "" {
				return fmt.Errorf("entries: %s", diff)
			}
			return nil
		})
	}
	y := n.StartSync(t, n.drops, filepath.Join(t.TempDir(), "sync.log"))
	n.receive(t, k, "shop", "web")
	until("a node that is handed over", web)

	n.Stop()
	n.receive(t, k, "shop", "web", "db")
	lab.Eventually(t, "sync to tell that the server is down", func() error {
		if !strings.Contains(y.Log(), "does not answer") {
			return fmt.Errorf("it says: %s", y.Log())
		}
		return nil
	})
	n.Start(t)
	until("a node that was handed over while the server was down", db, web)

	// By hand; a change in the directory is reason enough to look.
	n.CLI(t, "entry", "update", "-entryID", web.HostEntry(), "-spiffeID", "spiffe://fediversity/host/bank-vault", "-parentID", web.AliasID(td), "-selector", "unix:uid:0")
	n.CLI(t, "entry", "delete", "-entryID", db.HostEntry())
	n.receive(t, k, "bank", "desk")
	until("entries that somebody changed", handoff.Identity{Namespace: "bank", Node: "desk"}, db, web)

	n.retire(t, "bank")
	n.retire(t, "shop")
	until("the retirement")
	y.Stop()
	if code := y.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("after SIGTERM its exit code is %d", code)
	}
	if strings.Contains(y.Log(), "secret-token") {
		t.Error("the log shows the token")
	}
}

// Killed after any line of its log, that is after each thing it does, sync
// leaves what the next pass brings in order.
func TestASyncThatIsKilledIsMendedByTheNext(t *testing.T) {
	t.Parallel()
	n := newSpireNode(t)
	k := handoff.Kubeconfig{Server: "https://127.0.0.1:1", Token: "secret-token"}
	for lines := 1; ; lines++ {
		n.receive(t, k, "old", "one", "two")
		n.receive(t, k, "shop", "web")
		n.sync(t)
		n.retire(t, "old")
		n.receive(t, k, "shop", "db")
		cmd := exec.Command(world.Program(t), append(n.SyncArgs(n.drops), "-once")...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen, one := 0, make([]byte, 1)
		for seen < lines {
			if _, err := stderr.Read(one); err != nil {
				break
			}
			if one[0] == '\n' {
				seen++
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		n.sync(t)
		n.wantEntries(t, handoff.Identity{Namespace: "shop", Node: "db"})
		if seen < lines {
			if lines < 5 {
				t.Errorf("it wrote only %d lines", seen)
			}
			return
		}
	}
}

// Killed at any of its files, receive leaves only what is whole, and the next
// one brings the rest.
func TestAReceiveThatIsKilledIsMendedByTheNext(t *testing.T) {
	t.Parallel()
	drops := t.TempDir()
	k := handoff.Kubeconfig{Server: "https://127.0.0.1:1", Token: "secret-token"}
	var nodes []string
	for i := range 100 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	files := func() int {
		names, err := filepath.Glob(filepath.Join(drops, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for _, after := range []int{0, 1, 2, 10, 50, 99} {
		cmd := exec.Command(world.Program(t), "spire", "receive", "-dir", drops)
		cmd.Stdin = strings.NewReader(document(t, k, "shop", nodes...))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		for running := true; running && files() < after; {
			select {
			case <-ended:
				running = false
			default:
			}
		}
		_ = cmd.Process.Kill()
		<-ended
		r := Spire(t, "", "sync", "-once", "-dir", drops, "-plugin-data", filepath.Join(drops, "k8s_psat.json"), "-server-socket", "")
		if r.Code != 0 || strings.Contains(r.Stderr, "left out") {
			t.Errorf("killed after %d files: %v", after, r)
		}
		if r := Spire(t, document(t, k, "shop", nodes...), "receive", "-dir", drops); r.Code != 0 {
			t.Fatal(r)
		}
		if r := Spire(t, `{"version":1,"namespace":"shop"}`, "retire", "-dir", drops); r.Code != 0 {
			t.Fatal(r)
		}
		left, err := os.ReadDir(drops)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 || left[0].Name() != "k8s_psat.json" {
			t.Errorf("killed after %d files, received again and retired, there is %v", after, left)
		}
		if err := os.Remove(filepath.Join(drops, "k8s_psat.json")); err != nil {
			t.Fatal(err)
		}
	}
}
