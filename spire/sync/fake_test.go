package sync

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	gosync "sync"
	"syscall"
	"testing"

	agentv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/agent/v1"
	bundlev1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/bundle/v1"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"fediversity.eu/yuba/spire/server"
)

// fake is the API of a SPIRE server, for what the real one does only when
// something is wrong with it. It listens in this process, which so gets the
// signal for the server.
type fake struct {
	entryv1.UnimplementedEntryServer
	agentv1.UnimplementedAgentServer
	bundlev1.UnimplementedBundleServer

	socket string

	mu      gosync.Mutex
	entries map[string]*types.Entry
	agents  []string                             // paths of agents of k8s_psat
	fail    func(call, id string) *status.Status // of a call, id ""; of one entry in it
	page    int
}

// td is the trust domain of the fake.
const td = "fediversity"

func newFake(t *testing.T, pluginData string) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "spire-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{socket: filepath.Join(dir, "api.sock"), entries: map[string]*types.Entry{}, page: 3}
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	entryv1.RegisterEntryServer(s, f)
	agentv1.RegisterAgentServer(s, f)
	bundlev1.RegisterBundleServer(s, f)
	go s.Serve(l)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			os.ReadFile(pluginData)
		}
	}()
	t.Cleanup(func() {
		s.Stop()
		signal.Stop(signals)
		close(signals)
	})
	return f
}

// failure is what the test wants to go wrong.
func (f *fake) failure(call, id string) *status.Status {
	if f.fail == nil {
		return nil
	}
	return f.fail(call, id)
}

func (f *fake) begin(call string) error {
	f.mu.Lock()
	return f.failure(call, "").Err()
}

func (f *fake) GetBundle(context.Context, *bundlev1.GetBundleRequest) (*types.Bundle, error) {
	defer f.mu.Unlock()
	if err := f.begin("GetBundle"); err != nil {
		return nil, err
	}
	return &types.Bundle{TrustDomain: td}, nil
}

// cut is a page of a list of n.
func (f *fake) cut(n int, token string) (from, to int, next string) {
	from, _ = strconv.Atoi(token)
	to = min(from+f.page, n)
	if to < n {
		next = strconv.Itoa(to)
	}
	return from, to, next
}

func (f *fake) ListEntries(_ context.Context, r *entryv1.ListEntriesRequest) (*entryv1.ListEntriesResponse, error) {
	defer f.mu.Unlock()
	if err := f.begin("ListEntries"); err != nil {
		return nil, err
	}
	var all []*types.Entry
	for _, e := range f.entries {
		all = append(all, proto.Clone(e).(*types.Entry))
	}
	slices.SortFunc(all, func(a, b *types.Entry) int { return strings.Compare(a.Id, b.Id) })
	from, to, next := f.cut(len(all), r.PageToken)
	return &entryv1.ListEntriesResponse{Entries: all[from:to], NextPageToken: next}, nil
}

func (f *fake) similar(e *types.Entry) *types.Entry {
	for _, had := range f.entries {
		a := &types.Entry{SpiffeId: had.SpiffeId, ParentId: had.ParentId, Selectors: had.Selectors}
		b := &types.Entry{SpiffeId: e.SpiffeId, ParentId: e.ParentId, Selectors: e.Selectors}
		if alike(a, b) {
			return had
		}
	}
	return nil
}

func said(s *status.Status) *types.Status {
	return &types.Status{Code: int32(s.Code()), Message: s.Message()}
}

func (f *fake) BatchCreateEntry(_ context.Context, r *entryv1.BatchCreateEntryRequest) (*entryv1.BatchCreateEntryResponse, error) {
	defer f.mu.Unlock()
	if err := f.begin("BatchCreateEntry"); err != nil {
		return nil, err
	}
	out := &entryv1.BatchCreateEntryResponse{}
	for _, e := range r.Entries {
		result := &entryv1.BatchCreateEntryResponse_Result{Status: said(f.failure("BatchCreateEntry", e.Id))}
		if had := f.similar(e); had != nil {
			result.Status, result.Entry = said(status.New(codes.AlreadyExists, "similar entry already exists")), had
		} else if codes.Code(result.Status.Code) == codes.OK {
			kept := proto.Clone(e).(*types.Entry)
			kept.RevisionNumber, kept.CreatedAt = 1, 1
			f.entries[e.Id] = kept
			result.Entry = kept
		}
		out.Results = append(out.Results, result)
	}
	return out, nil
}

func (f *fake) BatchUpdateEntry(_ context.Context, r *entryv1.BatchUpdateEntryRequest) (*entryv1.BatchUpdateEntryResponse, error) {
	defer f.mu.Unlock()
	if err := f.begin("BatchUpdateEntry"); err != nil {
		return nil, err
	}
	out := &entryv1.BatchUpdateEntryResponse{}
	for _, e := range r.Entries {
		s := f.failure("BatchUpdateEntry", e.Id)
		if s.Code() == codes.OK {
			kept := proto.Clone(e).(*types.Entry)
			kept.RevisionNumber, kept.CreatedAt = f.entries[e.Id].RevisionNumber+1, 1
			f.entries[e.Id] = kept
		}
		out.Results = append(out.Results, &entryv1.BatchUpdateEntryResponse_Result{Status: said(s)})
	}
	return out, nil
}

func (f *fake) BatchDeleteEntry(_ context.Context, r *entryv1.BatchDeleteEntryRequest) (*entryv1.BatchDeleteEntryResponse, error) {
	defer f.mu.Unlock()
	if err := f.begin("BatchDeleteEntry"); err != nil {
		return nil, err
	}
	out := &entryv1.BatchDeleteEntryResponse{}
	for _, id := range r.Ids {
		s := f.failure("BatchDeleteEntry", id)
		if s.Code() == codes.OK {
			delete(f.entries, id)
		}
		out.Results = append(out.Results, &entryv1.BatchDeleteEntryResponse_Result{Status: said(s), Id: id})
	}
	return out, nil
}

func (f *fake) ListAgents(_ context.Context, r *agentv1.ListAgentsRequest) (*agentv1.ListAgentsResponse, error) {
	defer f.mu.Unlock()
	if err := f.begin("ListAgents"); err != nil {
		return nil, err
	}
	from, to, next := f.cut(len(f.agents), r.PageToken)
	out := &agentv1.ListAgentsResponse{NextPageToken: next}
	for _, path := range f.agents[from:to] {
		out.Agents = append(out.Agents, &types.Agent{AttestationType: r.Filter.ByAttestationType, Id: &types.SPIFFEID{TrustDomain: td, Path: path}})
	}
	return out, nil
}

func (f *fake) DeleteAgent(_ context.Context, r *agentv1.DeleteAgentRequest) (*emptypb.Empty, error) {
	defer f.mu.Unlock()
	if err := f.begin("DeleteAgent"); err != nil {
		return nil, err
	}
	i := slices.Index(f.agents, r.Id.Path)
	if i < 0 {
		return nil, status.Error(codes.NotFound, "agent not found")
	}
	f.agents = slices.Delete(f.agents, i, i+1)
	return &emptypb.Empty{}, nil
}

// has are the ids of the entries and the paths of the agents, sorted.
func (f *fake) has() (entries, agents []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, e := range f.entries {
		entries = append(entries, id+" "+server.ID(e.SpiffeId))
	}
	slices.Sort(entries)
	return entries, slices.Sorted(slices.Values(f.agents))
}
