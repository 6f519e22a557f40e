package sync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"google.golang.org/protobuf/proto"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/server"
)

// attestor is the name of the node attestor whose plugin data this is.
const attestor = "k8s_psat"

// registry is what one pass changes at the server.
type registry struct {
	*syncer
	server      *server.Server
	trustDomain string
	contents    drop.Contents
}

// wanted are the entries of a node: the alias stands for the node's agent, and
// is the parent of what root on the node is.
func wanted(trustDomain string, id handoff.Identity) []*types.Entry {
	spiffe := func(full string) *types.SPIFFEID {
		return &types.SPIFFEID{TrustDomain: trustDomain, Path: strings.TrimPrefix(full, "spiffe://"+trustDomain)}
	}
	return []*types.Entry{
		{
			Id: id.AliasEntry(), SpiffeId: spiffe(id.AliasID(trustDomain)), ParentId: spiffe(handoff.ServerID(trustDomain)),
			Selectors: []*types.Selector{
				{Type: attestor, Value: "cluster:" + id.Cluster()},
				{Type: attestor, Value: "agent_ns:" + id.Namespace},
				{Type: attestor, Value: "agent_sa:" + id.ServiceAccount()},
			},
		},
		{
			Id: id.HostEntry(), SpiffeId: spiffe(id.HostID(trustDomain)), ParentId: spiffe(id.AliasID(trustDomain)),
			Selectors: []*types.Selector{{Type: "unix", Value: "uid:0"}},
		},
	}
}

// alike tells whether two entries say the same.
func alike(a, b *types.Entry) bool {
	return proto.Equal(plain(a), plain(b))
}

// plain is the entry without what the server adds to it.
func plain(e *types.Entry) *types.Entry {
	e = proto.Clone(e).(*types.Entry)
	e.RevisionNumber, e.CreatedAt = 0, 0
	slices.SortFunc(e.Selectors, func(a, b *types.Selector) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Value, b.Value))
	})
	return e
}

// entries brings the entries in step: those whose id says that they are ours.
func (r *registry) entries(ctx context.Context) error {
	all, err := r.server.Entries(ctx)
	if err != nil {
		return err
	}
	there := map[string]*types.Entry{}
	for _, e := range all {
		if _, own := handoff.ParseEntry(e.Id); own {
			there[e.Id] = e
		}
	}
	keep := map[handoff.Identity]bool{}
	for _, b := range r.contents.Broken { // it was not retired: it is as it was until somebody mends it
		keep[b.Identity] = true
	}
	var missing, other []*types.Entry
	for _, id := range r.contents.Nodes {
		keep[id] = true
		for _, want := range wanted(r.trustDomain, id) {
			switch had := there[want.Id]; {
			case had == nil:
				missing = append(missing, want)
			case !alike(had, want):
				other = append(other, want)
			}
		}
	}
	var old []string
	for entry := range there {
		if id, _ := handoff.ParseEntry(entry); !keep[id] {
			old = append(old, entry)
		}
	}
	slices.Sort(old)

	t := tally{of: len(old) + len(missing) + len(other)}
	// What goes makes room for what comes: a node's name may be another
	// namespace's now.
	r.server.Delete(ctx, old, func(id string, err error) {
		if t.count(err) {
			r.Log.Info("entry deleted", "entry", id)
		}
	})
	r.server.Create(ctx, missing, func(e, had *types.Entry, there bool, err error) {
		switch {
		case !there:
			if t.count(err) {
				r.Log.Info("entry created", "entry", e.Id, "id", server.ID(e.SpiffeId))
			}
		case had.GetId() != e.Id:
			r.warn("somebody else's entry says the same: it is left alone, also when the node is retired", "entry", had.GetId(), "wanted", e.Id, "id", server.ID(e.SpiffeId))
		case !alike(had, e): // it came meanwhile
			other = append(other, e)
		}
	})
	r.server.Update(ctx, other, func(e *types.Entry, err error) {
		if t.count(err) {
			r.Log.Info("entry put right", "entry", e.Id, "id", server.ID(e.SpiffeId))
		}
	})
	return t.err()
}

// agents evicts the agents of clusters that are no more. All clusters of the
// attestor are in the file that sync writes, so nobody else's agent is among
// them. An agent that is evicted can come back only by attesting, and for a
// cluster that isn't in the file it cannot. A ban would keep it out also when
// the node is handed over again.
func (r *registry) agents(ctx context.Context) error {
	keep := map[string]bool{}
	for _, id := range r.contents.Nodes {
		keep[id.Cluster()] = true
	}
	for _, b := range r.contents.Broken {
		keep[b.Cluster()] = true
	}
	all, err := r.server.Agents(ctx, attestor)
	if err != nil {
		return err
	}
	t := tally{}
	for _, agent := range all {
		rest, ok := strings.CutPrefix(agent.GetPath(), "/spire/agent/"+attestor+"/")
		cluster, _, both := strings.Cut(rest, "/")
		if !ok || !both || keep[cluster] {
			continue
		}
		t.of++
		if t.count(r.server.Evict(ctx, agent)) {
			r.Log.Info("agent evicted", "agent", server.ID(agent))
		}
	}
	return t.err()
}

// tally counts what went wrong of a number of changes.
type tally struct {
	of, failed int
	first      error
}

// count tells whether it went well.
func (t *tally) count(err error) bool {
	if err == nil {
		return true
	}
	t.failed++
	if t.first == nil {
		t.first = err
	}
	return false
}

func (t *tally) err() error {
	if t.failed > 1 {
		return fmt.Errorf("%d of %d changes failed, the first one was %w", t.failed, t.of, t.first)
	}
	return t.first
}
