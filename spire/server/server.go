// Package server asks and changes a SPIRE server over the socket of its API,
// which is for whoever may open it.
package server

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	agentv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/agent/v1"
	bundlev1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/bundle/v1"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	page     = 500 // how many entries or agents are asked for at a time
	batch    = 100 // how many entries are changed at a time
	maxPages = 2000
)

// Server is a connection to a SPIRE server, made at the first question. It
// outlives restarts of the server. Close ends it.
type Server struct {
	conn *grpc.ClientConn
	pid  atomic.Int32 // who listens, 0 before the first question
}

// New is the server that listens on that socket.
func New(socket string) (*Server, error) {
	s := &Server{}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		pid, err := listener(conn.(*net.UnixConn))
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		s.pid.Store(pid)
		return conn, nil
	}
	var err error
	s.conn, err = grpc.NewClient("passthrough:///spire-server", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	return s, err
}

// Close ends the connection.
func (s *Server) Close() error { return s.conn.Close() }

// listener is the process that listens at the other end of the connection, as
// unix(7) says of SO_PEERCRED.
func listener(conn *net.UnixConn) (pid int32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return cred.Pid, nil
}

// PID is the process of the server that answered last. It fails when that is
// none that can be told here, such as one outside of this container.
func (s *Server) PID() (int, error) {
	if pid := s.pid.Load(); pid > 0 {
		return int(pid), nil
	}
	return 0, errors.New("the SPIRE server's process cannot be told from its socket: it must run in the same PID namespace")
}

// Bundle is the server's trust domain with its X.509 authorities in PEM, in an
// order that doesn't change, without those that must not be trusted any more.
func (s *Server) Bundle(ctx context.Context) (trustDomain, authorities string, err error) {
	b, err := bundlev1.NewBundleClient(s.conn).GetBundle(ctx, &bundlev1.GetBundleRequest{OutputMask: &types.BundleMask{X509Authorities: true}})
	if err != nil {
		return "", "", explain("reading the bundle", err)
	}
	var ders [][]byte
	for _, c := range b.X509Authorities {
		if !c.Tainted {
			ders = append(ders, c.Asn1)
		}
	}
	slices.SortFunc(ders, bytes.Compare)
	var out bytes.Buffer
	for _, der := range ders {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			return "", "", err
		}
	}
	return b.TrustDomain, out.String(), nil
}

// Entries are all registration entries.
func (s *Server) Entries(ctx context.Context) ([]*types.Entry, error) {
	client := entryv1.NewEntryClient(s.conn)
	return pages("listing the entries", func(token string) ([]*types.Entry, string, error) {
		r, err := client.ListEntries(ctx, &entryv1.ListEntriesRequest{PageSize: page, PageToken: token})
		return r.GetEntries(), r.GetNextPageToken(), err
	})
}

// Agents are the ids of the agents that the node attestor has attested, without
// those that somebody has banned.
func (s *Server) Agents(ctx context.Context, attestor string) ([]*types.SPIFFEID, error) {
	client := agentv1.NewAgentClient(s.conn)
	agents, err := pages("listing the agents", func(token string) ([]*types.Agent, string, error) {
		r, err := client.ListAgents(ctx, &agentv1.ListAgentsRequest{
			Filter:     &agentv1.ListAgentsRequest_Filter{ByAttestationType: attestor},
			OutputMask: &types.AgentMask{AttestationType: true, Banned: true},
			PageSize:   page, PageToken: token,
		})
		return r.GetAgents(), r.GetNextPageToken(), err
	})
	var out []*types.SPIFFEID
	for _, a := range agents {
		if a.AttestationType == attestor && !a.Banned {
			out = append(out, a.Id)
		}
	}
	return out, err
}

// pages are all pages of a list.
func pages[T any](what string, next func(token string) ([]T, string, error)) ([]T, error) {
	var all []T
	token := ""
	for range maxPages {
		some, following, err := next(token)
		if err != nil {
			return nil, explain(what, err)
		}
		all = append(all, some...)
		if following == "" {
			return all, nil
		}
		if following == token {
			return nil, fmt.Errorf("%s: the SPIRE server gives the same page again and again", what)
		}
		token = following
	}
	return nil, fmt.Errorf("%s: there are more than %d", what, maxPages*page)
}

// Evict removes an agent: it must attest again before the server knows it.
// One that is gone is no error.
func (s *Server) Evict(ctx context.Context, id *types.SPIFFEID) error {
	_, err := agentv1.NewAgentClient(s.conn).DeleteAgent(ctx, &agentv1.DeleteAgentRequest{Id: id})
	if err != nil && status.Code(err) != codes.NotFound {
		return explain("evicting agent "+ID(id), err)
	}
	return nil
}

// Create creates entries and calls done with each: whether the server has it
// now, and what it said. An entry that is there under that id, or one like it
// under another id, is there == true with the server's one in had.
func (s *Server) Create(ctx context.Context, entries []*types.Entry, done func(e, had *types.Entry, there bool, err error)) {
	client := entryv1.NewEntryClient(s.conn)
	for some := range slices.Chunk(entries, batch) {
		r, err := client.BatchCreateEntry(ctx, &entryv1.BatchCreateEntryRequest{Entries: some})
		for i, e := range some {
			had, said := (*types.Entry)(nil), err
			var st *types.Status
			if err == nil && i < len(r.Results) {
				st, had = r.Results[i].Status, r.Results[i].Entry
			}
			if err == nil {
				said = failure(st)
			}
			if codes.Code(st.GetCode()) == codes.AlreadyExists && err == nil {
				done(e, had, true, nil)
				continue
			}
			done(e, nil, false, explain("creating entry "+e.Id, said))
		}
	}
}

// Update gives entries that are there their content, and calls done with each.
func (s *Server) Update(ctx context.Context, entries []*types.Entry, done func(e *types.Entry, err error)) {
	client := entryv1.NewEntryClient(s.conn)
	for some := range slices.Chunk(entries, batch) {
		r, err := client.BatchUpdateEntry(ctx, &entryv1.BatchUpdateEntryRequest{Entries: some})
		for i, e := range some {
			said := err
			if err == nil {
				var st *types.Status
				if i < len(r.Results) {
					st = r.Results[i].Status
				}
				said = failure(st)
			}
			done(e, explain("changing entry "+e.Id, said))
		}
	}
}

// Delete deletes entries and calls done with each. One that is gone is no error.
func (s *Server) Delete(ctx context.Context, ids []string, done func(id string, err error)) {
	client := entryv1.NewEntryClient(s.conn)
	for some := range slices.Chunk(ids, batch) {
		r, err := client.BatchDeleteEntry(ctx, &entryv1.BatchDeleteEntryRequest{Ids: some})
		for i, id := range some {
			said := err
			if err == nil {
				var st *types.Status
				if i < len(r.Results) && r.Results[i].Id == id {
					st = r.Results[i].Status
				}
				if said = failure(st); codes.Code(st.GetCode()) == codes.NotFound {
					said = nil
				}
			}
			done(id, explain("deleting entry "+id, said))
		}
	}
}

// failure is what the server said of one entry of a batch.
func failure(st *types.Status) error {
	switch {
	case st == nil:
		return errors.New("the SPIRE server says nothing of it")
	case codes.Code(st.Code) != codes.OK:
		return fmt.Errorf("%s: %s", codes.Code(st.Code), st.Message)
	}
	return nil
}

// explain says what was being done, without gRPC's words around the server's.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return &Error{what, st.Code(), st.Message()}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Error is what the SPIRE server, or the way to it, answered to a call.
type Error struct {
	Doing string
	Code  codes.Code
	Said  string
}

func (e *Error) Error() string {
	if e.Code == codes.Unavailable {
		return fmt.Sprintf("%s: the SPIRE server does not answer: %s", e.Doing, e.Said)
	}
	return fmt.Sprintf("%s: %s: %s", e.Doing, e.Code, e.Said)
}

// ID is a SPIFFE ID as people write it.
func ID(id *types.SPIFFEID) string { return "spiffe://" + id.GetTrustDomain() + id.GetPath() }
