package sync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/psat"
	"fediversity.eu/yuba/spire/reload"
)

// site is a drop directory with a server.
type site struct {
	*fake
	o   Options
	log *bytes.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	p := &site{log: &bytes.Buffer{}}
	p.o = Options{Dir: dir, PluginData: filepath.Join(dir, "k8s_psat.json"), Interval: time.Minute, Log: slog.New(slog.NewTextHandler(p.log, nil))}
	p.fake = newFake(t, p.o.PluginData)
	p.o.Socket = p.socket
	return p
}

func (p *site) receive(t *testing.T, namespace string, nodes ...string) {
	t.Helper()
	k, err := handoff.Kubeconfig{Server: "https://127.0.0.1:6443", Token: "secret-token"}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := drop.Receive(t.Context(), p.o.Dir, handoff.Handoff{Namespace: namespace, Nodes: nodes, Kubeconfig: string(k)}); err != nil {
		t.Fatal(err)
	}
}

func (p *site) retire(t *testing.T, namespace string) {
	t.Helper()
	if err := drop.Retire(t.Context(), p.o.Dir, namespace); err != nil {
		t.Fatal(err)
	}
}

// pass is one that must go well.
func (p *site) pass(t *testing.T) {
	t.Helper()
	if err := Once(t.Context(), p.o); err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
}

// want checks the clusters of the file, the nodes with entries, and agents.
func (p *site) want(t *testing.T, nodes []handoff.Identity, agents ...string) {
	t.Helper()
	data, err := os.ReadFile(p.o.PluginData)
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := psat.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var wantEntries []string
	for _, id := range nodes {
		if clusters[id.Cluster()] == nil {
			t.Errorf("no cluster for %s", id)
		}
		wantEntries = append(wantEntries, id.AliasEntry()+" "+id.AliasID(td), id.HostEntry()+" "+id.HostID(td))
	}
	if len(clusters) != len(nodes) {
		t.Errorf("%d clusters, want %d", len(clusters), len(nodes))
	}
	gotEntries, gotAgents := p.has()
	if diff := cmp.Diff(wantEntries, gotEntries); diff != "" {
		t.Errorf("entries: %s", diff)
	}
	if diff := cmp.Diff(agents, gotAgents); diff != "" {
		t.Errorf("agents: %s", diff)
	}
}

func node(namespace, name string) handoff.Identity {
	return handoff.Identity{Namespace: namespace, Node: name}
}

// attested is the path of an agent on a Kubernetes node.
func attested(id handoff.Identity) string { return "/spire/agent/k8s_psat/" + id.Cluster() + "/uid-1" }

func TestLife(t *testing.T) {
	p := newSite(t)
	p.pass(t)
	p.want(t, nil)
	p.receive(t, "shop", "web", "db")
	p.receive(t, "bank", "vault")
	p.pass(t)
	vault, db, web := node("bank", "vault"), node("shop", "db"), node("shop", "web")
	p.want(t, []handoff.Identity{vault, db, web})
	p.agents = []string{attested(vault), attested(db), attested(web)}

	p.log.Reset()
	p.pass(t)
	p.want(t, []handoff.Identity{vault, db, web}, attested(vault), attested(db), attested(web))
	if strings.Contains(p.log.String(), "entry") || strings.Contains(p.log.String(), "written") {
		t.Errorf("a second pass changes something:\n%s", p.log)
	}

	p.receive(t, "shop", "web")
	p.pass(t)
	p.want(t, []handoff.Identity{vault, web}, attested(vault), attested(web))
	p.retire(t, "shop")
	p.pass(t)
	p.want(t, []handoff.Identity{vault}, attested(vault))
	if strings.Contains(p.log.String(), "secret-token") {
		t.Error("the log shows the token")
	}
}

// A pass that ends at any of its calls leaves what the next one mends.
func TestAPassThatIsCutAnywhereIsMendedByTheNext(t *testing.T) {
	unavailable := status.New(codes.Unavailable, "cut")
	for n := 0; ; n++ {
		p := newSite(t)
		p.receive(t, "shop", "web", "db")
		p.receive(t, "old", "one", "two")
		p.pass(t)
		web, gone := node("shop", "web"), node("old", "one")
		p.agents = []string{attested(gone), attested(web)}
		p.retire(t, "old")
		p.receive(t, "shop", "web", "new")
		other := p.entries[web.HostEntry()]
		other.Admin = true
		calls := 0
		p.fail = func(string, string) *status.Status {
			if calls++; calls > n {
				return unavailable
			}
			return nil
		}
		err := Once(t.Context(), p.o)
		p.fail = nil
		p.pass(t)
		p.want(t, []handoff.Identity{node("shop", "new"), web}, attested(web))
		if p.entries[web.HostEntry()].Admin {
			t.Error("an entry with more rights was not put right")
		}
		if err == nil {
			if n < 5 {
				t.Errorf("there were only %d calls", n)
			}
			return
		}
		if t.Failed() {
			t.Fatalf("cut before call %d", n+1)
		}
	}
}

// One entry that cannot be made keeps no other from its own.
func TestWhatFailsForOneIsDoneForTheOthers(t *testing.T) {
	p := newSite(t)
	p.receive(t, "bad", "one")
	p.receive(t, "shop", "web")
	p.fail = func(call, id string) *status.Status {
		if call == "BatchCreateEntry" && strings.HasPrefix(id, "k8s.bad.") {
			return status.New(codes.Internal, "no room")
		}
		return nil
	}
	err := Once(t.Context(), p.o)
	if err == nil || !strings.Contains(err.Error(), "2 of 4 changes failed") || !strings.Contains(err.Error(), "k8s.bad.one.alias: Internal: no room") {
		t.Errorf("%v", err)
	}
	entries, _ := p.has()
	web := node("shop", "web")
	if diff := cmp.Diff([]string{web.AliasEntry() + " " + web.AliasID(td), web.HostEntry() + " " + web.HostID(td)}, entries); diff != "" {
		t.Error(diff)
	}
}

// Entries of other ids are others', whatever they say; those of ours say what
// we want.
func TestOthersEntriesAreLeftAlone(t *testing.T) {
	p := newSite(t)
	p.receive(t, "shop", "web")
	web := node("shop", "web")
	others := map[string]*types.Entry{}
	for i, id := range []string{"somebody", "k8s", "k8s.shop.web", "k8s.shop.web.host.more", "x.k8s.shop.web.host", "K8S.shop.web.host"} {
		e := &types.Entry{Id: id, SpiffeId: &types.SPIFFEID{TrustDomain: td, Path: fmt.Sprintf("/w%d", i)}, ParentId: &types.SPIFFEID{TrustDomain: td, Path: "/p"},
			Selectors: []*types.Selector{{Type: "unix", Value: "uid:1"}}}
		p.entries[id], others[id] = e, proto.Clone(e).(*types.Entry)
	}
	// Made by hand, and the same as ours.
	same := wanted(td, web)[1]
	same.Id = "by-hand"
	p.entries[same.Id], others[same.Id] = same, proto.Clone(same).(*types.Entry)
	check := func(when string) {
		t.Helper()
		for id, want := range others {
			if !proto.Equal(want, p.entries[id]) {
				t.Errorf("%s: %s was changed: %v", when, id, p.entries[id])
			}
		}
	}
	p.pass(t)
	check("handed over")
	if !strings.Contains(p.log.String(), "by-hand") {
		t.Errorf("the log does not tell of the entry that says the same:\n%s", p.log)
	}
	p.retire(t, "shop")
	p.pass(t)
	check("retired")
	if len(p.entries) != len(others) {
		t.Errorf("%d entries are left, want %d", len(p.entries), len(others))
	}
}

// A drop-file that is no good is nobody's wish to retire the node.
func TestABrokenNodeKeepsWhatItHas(t *testing.T) {
	p := newSite(t)
	p.receive(t, "shop", "web", "db")
	p.pass(t)
	web, db := node("shop", "web"), node("shop", "db")
	p.agents = []string{attested(db), attested(web)}
	if err := os.WriteFile(filepath.Join(p.o.Dir, web.DropFile()), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.pass(t)
	entries, agents := p.has()
	if len(entries) != 4 || len(agents) != 2 {
		t.Errorf("entries %q, agents %q", entries, agents)
	}
	data, err := os.ReadFile(p.o.PluginData)
	if err != nil || strings.Contains(string(data), web.Cluster()) || !strings.Contains(string(data), db.Cluster()) {
		t.Errorf("the file is %s, %v", data, err)
	}
	if log := p.log.String(); !strings.Contains(log, "drop-file left out") || !strings.Contains(log, "shop/web") {
		t.Errorf("the log does not tell:\n%s", log)
	}
}

// Agents are evicted when they cannot come back, and not before.
func TestNoAgentIsEvictedWhileTheServerMayHaveTheOldFile(t *testing.T) {
	p := newSite(t)
	p.receive(t, "shop", "web")
	p.pass(t)
	web := node("shop", "web")
	p.agents = []string{attested(web), "/spire/agent/k8s_psat/odd"}
	p.retire(t, "shop")
	s, err := newSyncer(p.o)
	if err != nil {
		t.Fatal(err)
	}
	// The server reads another file.
	other := filepath.Join(t.TempDir(), "other.json")
	p.o.PluginData = other
	s.PluginData, s.patience = other, 20*time.Millisecond
	err = s.pass(t.Context())
	if got := (reload.NotReadError{}); !errors.As(err, &got) {
		t.Fatalf("%v", err)
	}
	if entries, agents := p.has(); len(entries) != 0 || len(agents) != 2 {
		t.Errorf("entries %q, agents %q", entries, agents)
	}
}

func TestADirectoryThatIsGoneIsNoRetirement(t *testing.T) {
	p := newSite(t)
	p.o.PluginData = filepath.Join(t.TempDir(), "k8s_psat.json")
	p.fake = newFake(t, p.o.PluginData)
	p.o.Socket = p.socket
	p.receive(t, "shop", "web")
	p.pass(t)
	if err := os.Rename(p.o.Dir, p.o.Dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := Once(t.Context(), p.o); err == nil {
		t.Error("no error")
	}
	p.want(t, []handoff.Identity{node("shop", "web")})
	if err := os.Rename(p.o.Dir+".away", p.o.Dir); err != nil {
		t.Fatal(err)
	}
}

// Without a socket only the file is written: there is no server yet.
func TestTheFileIsWrittenBeforeTheServerIsThere(t *testing.T) {
	p := newSite(t)
	p.receive(t, "shop", "web")
	p.o.Socket = ""
	p.pass(t)
	data, err := os.ReadFile(p.o.PluginData)
	if err != nil {
		t.Fatal(err)
	}
	if clusters, err := psat.Parse(data); err != nil || clusters["shop-web"] == nil {
		t.Errorf("%s, %v", data, err)
	}
}

// Run sees changes at once, and goes on after failures.
func TestRunFollowsTheDirectory(t *testing.T) {
	p := newSite(t)
	p.o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	p.o.Interval = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, p.o) }()
	until := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if entries, _ := p.has(); len(entries) == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("there never were %d entries", n)
			}
		}
	}
	p.receive(t, "shop", "web")
	until(2)
	p.mu.Lock()
	p.fail = func(call, id string) *status.Status {
		if call == "BatchCreateEntry" {
			p.fail = nil // the next time it goes well
			return status.New(codes.Unavailable, "down")
		}
		return nil
	}
	p.mu.Unlock()
	p.receive(t, "shop", "web", "db")
	until(4)
	p.retire(t, "shop")
	until(0)
	// Another directory in the place of this one.
	if err := os.Rename(p.o.Dir, p.o.Dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.receive(t, "shop", "web")
	until(2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
