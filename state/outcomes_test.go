package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fediversity.eu/yuba/test/stateservers"
)

// outcome is what becomes of a call; docs/state.md explains each.
type outcome string

const (
	done    outcome = "done"     // it is done, and the caller notices nothing
	none    outcome = "no state" // of GET: there is no state
	failed  outcome = "not done" // an error: what was to be done is not done
	locked  outcome = "locked"   // an error: somebody else holds the lock; nothing is done
	unknown outcome = "unknown"  // an error: it is not known whether it is done
	normal  outcome = ""         // what a server answers when nothing is wrong
)

// cell is what becomes of a call whose first request goes wrong, and of one all
// of whose requests do.
type cell struct{ once, lasting outcome }

func (c cell) String() string {
	switch {
	case c.once == normal:
		return "–"
	case c.once == c.lasting:
		return string(c.once)
	}
	return string(c.once) + " · " + string(c.lasting)
}

func both(o outcome) cell { return cell{o, o} }

// outcomes is the table: for each kind of fault and each operation one cell, the
// same whatever the server.
var outcomes = []struct {
	fault                           string
	get, post, lock, unlock, delete cell
}{
	{"connection cut before the effect", cell{done, failed}, cell{done, failed}, cell{done, unknown}, cell{done, unknown}, cell{done, failed}},
	{"connection cut after the effect", cell{done, failed}, both(done), cell{done, unknown}, cell{done, unknown}, both(done)},
	{"cut before the effect, then silence", both(failed), both(unknown), both(unknown), both(unknown), both(unknown)},
	{"cut after the effect, then silence", both(failed), both(unknown), both(unknown), both(unknown), both(unknown)},
	{"no answer in time, without the effect", cell{done, failed}, cell{done, failed}, cell{done, unknown}, cell{done, unknown}, cell{done, failed}},
	{"no answer in time, with the effect", cell{done, failed}, both(done), cell{done, unknown}, cell{done, unknown}, both(done)},
	{"body that never ends", cell{done, failed}, both(done), both(done), both(done), both(done)},
	{"body cut short", cell{done, failed}, both(done), both(done), both(done), both(done)},
	{"body cut short, of the right length", cell{done, failed}, both(done), both(done), both(done), both(done)},
	{"wrong `Content-MD5`", cell{done, failed}, both(done), both(done), both(done), both(done)},
	{"5xx without the effect", cell{done, failed}, cell{done, failed}, cell{done, unknown}, cell{done, unknown}, cell{done, failed}},
	{"5xx with the effect", cell{done, failed}, both(done), cell{done, unknown}, cell{done, unknown}, both(done)},
	{"503 with `Retry-After`", cell{done, failed}, cell{done, failed}, cell{done, unknown}, cell{done, unknown}, cell{done, failed}},
	{"429 with `Retry-After`", cell{done, failed}, cell{done, failed}, cell{done, failed}, cell{done, failed}, cell{done, failed}},
	{"413", both(failed), both(failed), both(failed), cell{done, failed}, both(failed)},
	{"409 or 423 with a LockInfo", both(locked), both(locked), both(locked), cell{done, locked}, both(locked)},
	{"409 or 423 with nothing, a page, other JSON or text", both(locked), both(locked), both(locked), cell{done, locked}, both(locked)},
	{"400 with a LockInfo", both(locked), both(locked), both(locked), cell{done, locked}, both(locked)},
	{"400 with nothing or a page", both(failed), both(failed), both(failed), cell{done, failed}, both(failed)},
	{"401, 403", both(failed), both(failed), both(failed), both(failed), both(failed)},
	{"404", both(none), both(failed), both(failed), cell{done, failed}, both(failed)},
	{"405, 410, 412, 415, 422, 428, 501", both(failed), both(failed), both(failed), cell{done, failed}, both(failed)},
	{"301, 302, 307, 308 on the same host", both(done), both(failed), both(failed), both(failed), both(failed)},
	{"301, 302, 307, 308 to another host", both(failed), both(failed), both(failed), both(failed), both(failed)},
	{"200 with a page", cell{done, failed}, cell{done, failed}, cell{done, unknown}, cell{done, unknown}, cell{done, failed}},
	{"200 with other JSON", cell{done, failed}, both(normal), both(normal), both(normal), both(normal)},
	{"empty 200", both(none), both(normal), both(normal), both(normal), both(normal)},
	{"204", both(none), both(normal), both(normal), both(normal), both(normal)},
}

// expected is what should become of a case.
func expected(t *testing.T, f stateservers.Flavour, group string, op stateservers.Op, knows bool) cell {
	t.Helper()
	for _, o := range outcomes {
		if o.fault != group {
			continue
		}
		c := map[stateservers.Op]cell{stateservers.Get: o.get, stateservers.Post: o.post, stateservers.Lock: o.lock, stateservers.Unlock: o.unlock, stateservers.Delete: o.delete}[op]
		switch {
		case op == stateservers.Get && knows && c == both(none):
			return both(failed) // it was there
		case op == stateservers.Delete && f.HidesDeleted && slices.Contains([]string{"connection cut after the effect", "no answer in time, with the effect", "5xx with the effect"}, group):
			return both(unknown)
		}
		return c
	}
	t.Fatalf("docs/state.md does not say what becomes of: %s", group)
	return cell{}
}

// setting is one server with a client, and what the client is to do.
type setting struct {
	t       *testing.T
	op      stateservers.Op
	knows   bool // of GET: the client has seen the state before, and holds the lock
	flavour stateservers.Flavour
	server  *stateservers.Broken
	client  *Client
}

// newSetting makes a server with the first state, and a client that holds the
// lock unless it is to take it.
func newSetting(t *testing.T, f stateservers.Flavour, op stateservers.Op, knows bool) *setting {
	s := &setting{t: t, op: op, knows: knows, flavour: f, server: &stateservers.Broken{Server: f.New(t, f.Login("the-password"))}}
	ts := httptest.NewServer(s.server)
	t.Cleanup(ts.Close)
	ts.Config.ErrorLog = quiet
	vars := f.Env(ts.URL, f.Login("the-password"))
	cfg, err := ConfigFromEnv(func(name string) string { return vars[name] })
	must(t, err)
	s.client, err = New(cfg)
	must(t, err)
	t.Cleanup(s.client.Close)
	s.client.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }

	// A client waits for an answer until the server says that none will come.
	var mu sync.Mutex
	var expire context.CancelCauseFunc
	began := make(chan struct{}, 1) // an answer's header has arrived
	s.client.within = func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		mu.Lock()
		defer mu.Unlock()
		ctx, expire = context.WithCancelCause(ctx)
		return ctx, func() {}
	}
	transport := s.client.http.Transport
	s.client.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		select {
		case <-began:
		default:
		}
		resp, err := transport.RoundTrip(r)
		began <- struct{}{}
		return resp, err
	})
	s.server.Hung = func(partly bool) {
		if partly {
			<-began
		}
		mu.Lock()
		defer mu.Unlock()
		expire(errors.New("no complete answer in time"))
	}

	ctx := t.Context()
	must(t, s.client.Lock(ctx, lockOf(idA)))
	must(t, s.client.Put(ctx, stateOf(1, "first")))
	if op == stateservers.Lock || op == stateservers.Delete && f.DeleteUnlocked {
		must(t, s.client.Unlock(ctx, idA))
	}
	if !knows {
		s.client.known = nil
	}
	return s
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var quiet = log.New(io.Discard, "", 0)

// run lets the client do its operation and says what becomes of it, as the
// client tells it. What the client claims is compared with what the server has.
func (s *setting) run() outcome {
	s.t.Helper()
	ctx := s.t.Context()
	var err error
	var data []byte
	switch s.op {
	case stateservers.Get:
		data, err = s.client.Get(ctx)
	case stateservers.Post:
		err = s.client.Put(ctx, stateOf(2, "second"))
	case stateservers.Lock:
		err = s.client.Lock(ctx, lockOf(idA))
	case stateservers.Unlock:
		err = s.client.Unlock(ctx, idA)
	case stateservers.Delete:
		err = s.client.Delete(ctx)
	}
	got := failed
	var le *LockedError
	switch {
	case err == nil && s.op == stateservers.Get && data == nil:
		got = none
	case err == nil:
		got = done
	case strings.Contains(err.Error(), "not known"):
		got = unknown
	case errors.As(err, &le):
		got = locked
	}
	s.check(got, data, err)
	return got
}

// check holds a claim against the truth.
func (s *setting) check(got outcome, data []byte, err error) {
	s.t.Helper()
	state, holder := s.server.State(), s.server.Holder()
	lie := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("%s: %q, but %s", got, fmt.Sprint(err), fmt.Sprintf(format, args...))
	}
	is := func(serial int, note string) bool { return bytes.Equal(state, stateOf(serial, note)) }
	says := map[stateservers.Op]string{stateservers.Post: "the state is not saved", stateservers.Lock: "this run holds no lock",
		stateservers.Unlock: "the state is still locked: yuba force-unlock " + idA, stateservers.Delete: "the state is not deleted"}[s.op]
	switch {
	case err != nil && strings.ContainsAny(err.Error(), "\n\r\x1b"):
		lie("it is not one line")
	case got == failed && !strings.Contains(err.Error(), says), got == unknown && s.op != stateservers.Get && !strings.Contains(err.Error(), "it is not known whether"):
		lie("it does not say how things stand")
	case got == unknown && s.op == stateservers.Unlock && !strings.Contains(err.Error(), "yuba force-unlock "+idA):
		lie("it does not say what to do")
	case got == unknown:
	case s.op == stateservers.Get && got == done && !bytes.Equal(data, state):
		lie("the state is %q", state)
	case s.op == stateservers.Post && got == done != is(2, "second"), s.op == stateservers.Post && got != done && !is(1, "first"):
		lie("the state is %q", state)
	case s.op == stateservers.Delete && got == done != (state == nil):
		lie("the state is %q", state)
	case s.op == stateservers.Lock && got == done != (holder == idA), s.op == stateservers.Lock && s.client.HeldLock() != map[bool]string{true: idA}[got == done]:
		lie("%q holds the lock, and the client has %q", holder, s.client.HeldLock())
	case s.op == stateservers.Unlock && got == done != (holder == ""), s.op == stateservers.Unlock && got == done && s.client.HeldLock() != "":
		lie("%q holds the lock, and the client has %q", holder, s.client.HeldLock())
	}
}

// Whatever goes wrong, and wherever: what becomes of it is what docs/state.md
// says, it is the same with each server, and what the client says is true.
// YUBA_TEST_FAULTS=all tries all spellings of a fault with each server, and not
// only one with each.
func TestEachFaultHasOneOutcome(t *testing.T) {
	for n, f := range stateservers.Flavours() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			for _, g := range stateservers.Groups() {
				faults := g.Faults
				if os.Getenv("YUBA_TEST_FAULTS") != "all" {
					faults = faults[n%len(faults):][:1]
				}
				for _, fault := range faults {
					for _, op := range stateservers.Ops {
						tryFault(t, f, g.Name, fault, op, true)
						if op == stateservers.Get {
							tryFault(t, f, g.Name, fault, op, false)
						}
					}
				}
			}
		})
	}
}

func tryFault(t *testing.T, f stateservers.Flavour, group string, fault stateservers.Fault, op stateservers.Op, knows bool) {
	want := expected(t, f, group, op, knows)
	if want.once == normal {
		return
	}
	once := newSetting(t, f, op, knows)
	once.server.Once(op, fault)
	if got := once.run(); got != want.once {
		t.Errorf("%s of the first %s (%s), state known: %v: %s, want %s", group, op, fault.Name, knows, got, want.once)
	}
	lasting := newSetting(t, f, op, knows)
	lasting.server.Always(op, fault)
	if got := lasting.run(); got != want.lasting {
		t.Errorf("%s of every %s (%s), state known: %v: %s, want %s", group, op, fault.Name, knows, got, want.lasting)
	}
}

// table is the table as docs/state.md has it.
func table() string {
	var b strings.Builder
	b.WriteString("| What goes wrong | GET | POST | LOCK | UNLOCK | DELETE |\n|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s | %v | %v | %v | %v | %v |\n", o.fault, o.get, o.post, o.lock, o.unlock, o.delete)
	}
	return b.String()
}

func TestDocumentationHasTheTable(t *testing.T) {
	doc, err := os.ReadFile("../docs/state.md")
	must(t, err)
	if !strings.Contains(string(doc), "\n"+table()+"\n") {
		t.Errorf("docs/state.md needs this table:\n%s", table())
	}
	var named []string
	for _, g := range stateservers.Groups() {
		named = append(named, g.Name)
	}
	for _, o := range outcomes {
		if !slices.Contains(named, o.fault) {
			t.Errorf("no server has the fault %q", o.fault)
		}
	}
}
