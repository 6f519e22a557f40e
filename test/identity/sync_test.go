package identity

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/sync"
	"fediversity.eu/yuba/test/lab"
)

// spireNode is a SPIRE server with a drop directory, and what sync says.
type spireNode struct {
	*Server
	drops string
	log   bytes.Buffer
}

func newSpireNode(t *testing.T) *spireNode {
	t.Helper()
	return &spireNode{Server: StartServer(t, ServerOptions{}), drops: t.TempDir()}
}

func (n *spireNode) options() sync.Options {
	return sync.Options{Dir: n.drops, PluginData: n.PluginData, Socket: n.Socket, Interval: time.Minute,
		Log: slog.New(slog.NewTextHandler(&n.log, nil))}
}

// sync makes one pass.
func (n *spireNode) sync(t *testing.T) {
	t.Helper()
	if err := sync.Once(t.Context(), n.options()); err != nil {
		t.Fatalf("%v\n%s", err, &n.log)
	}
}

func (n *spireNode) receive(t *testing.T, k handoff.Kubeconfig, namespace string, nodes ...string) {
	t.Helper()
	data, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	h := handoff.Handoff{Namespace: namespace, Kubeconfig: string(data), Nodes: nodes}
	if err := drop.Receive(t.Context(), n.drops, h); err != nil {
		t.Fatal(err)
	}
}

// Two nodes of a namespace whose pods are on one Kubernetes node: each agent
// gets the SVID of its own host (SC-005), and one that claims the other's
// cluster gets none.
func TestEachNodeHasItsIdentityAndNeverAnothers(t *testing.T) {
	l := lab.Start(t)
	namespace := l.Namespace(t)
	n := newSpireNode(t)
	n.receive(t, Kubeconfig(t, l, namespace), namespace, "web", "db")
	n.sync(t)

	web, db := handoff.Identity{Namespace: namespace, Node: "web"}, handoff.Identity{Namespace: namespace, Node: "db"}
	same := KubernetesNodes(t, l)[0]
	webToken, dbToken := Pod(t, l, web, same), Pod(t, l, db, same)
	agents := map[handoff.Identity]*Agent{
		web: n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: webToken}),
		db:  n.StartAgent(t, AgentOptions{Cluster: db.Cluster(), Token: dbToken}),
	}
	for id, a := range agents {
		a.UntilSVID(t, id.HostID("fediversity"))
	}
	listed := n.Agents(t)
	if len(listed) != 2 || listed[0].Attestor != "k8s_psat" || listed[1].Attestor != "k8s_psat" {
		t.Errorf("the server lists %+v, want two of k8s_psat", listed)
	}
	liar := n.StartAgent(t, AgentOptions{Cluster: web.Cluster(), Token: dbToken})
	liar.UntilRefused(t, "is not an allowed service account")
	for id, a := range agents {
		a.UntilSVID(t, id.HostID("fediversity"))
	}
}
