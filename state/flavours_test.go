package state

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/stateservers"
)

// each runs a test with each kind of server, and a client of it.
func each(t *testing.T, test func(t *testing.T, s *setting)) {
	for _, f := range stateservers.Flavours() {
		t.Run(f.Name, func(t *testing.T) { test(t, newSetting(t, f, stateservers.Get, true)) })
	}
}

// second is another client of the same server.
func (s *setting) second() *Client {
	s.t.Helper()
	cfg := s.client.cfg
	cfg.RetryMax = 0 // what it takes beyond that is no repetition
	c, err := New(cfg)
	must(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func TestTheHolderIsNamed(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		info := LockInfo{ID: idB, Operation: "state lock", Info: "asks who holds the lock, " + idB, Who: "bob@hall", Version: "9"}
		err := s.second().Lock(t.Context(), info.json())
		var le *LockedError
		if !errors.As(err, &le) || le.Info.ID != idA || le.Info.Created.IsZero() || le.Info.Who != "ann@desk" && le.Info.Who != "ann" {
			t.Fatalf("%v: %+v", err, le)
		}
		if le.Info.Operation == "state lock" || le.Info.Version == "9" {
			t.Errorf("the asker's own texts are told as the holder's: %+v", le.Info)
		}
		wantError(t, err, idA, "yuba force-unlock "+idA)
	})
}

// force-unlock knows a lock's ID only; some servers want more, and another
// lock than the one that is named must stay.
func TestForceUnlock(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		other := s.second()
		err := other.Unlock(t.Context(), idB)
		wantError(t, err, "lock "+idB+" is not held any more")
		if got := s.server.Holder(); got != idA {
			t.Fatalf("after the release of another lock %q holds it", got)
		}
		must(t, other.Unlock(t.Context(), idA))
		if got := s.server.Holder(); got != "" {
			t.Fatalf("after its release %q holds the lock", got)
		}
		err = other.Unlock(t.Context(), idA)
		if s.flavour.Name != "Gitea" || err != nil { // whose answer is the same
			wantError(t, err, "lock "+idA+" is not held any more")
		}
		if got := s.server.Holder(); got != "" {
			t.Fatalf("the question who holds the lock left %q", got)
		}
		// The holder learns of it, at the latest when it unlocks.
		if s.flavour.WriteLocked {
			wantError(t, s.client.Put(t.Context(), stateOf(2, "")), "not saved", "may be lost")
		}
		if err := s.client.Unlock(t.Context(), idA); err != nil {
			wantError(t, err, "not held any more")
		}
		if got := s.server.Holder(); got != "" {
			t.Fatalf("%q holds the lock", got)
		}
	})
}

// The question who holds the lock takes it where it is free. It must not stay so,
// whatever becomes of the answers.
func TestQuestionNeverKeepsTheLock(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		must(t, s.client.Unlock(t.Context(), idA))
		for _, g := range stateservers.Groups() {
			if !strings.Contains(g.Name, "cut") && !strings.HasPrefix(g.Name, "5xx") || strings.Contains(g.Name, "silence") {
				continue
			}
			for _, op := range []stateservers.Op{stateservers.Lock, stateservers.Unlock} {
				for _, lasting := range []bool{false, true} {
					c := s.second()
					c.cfg.RetryMax, c.sleep = 2, s.client.sleep
					if lasting {
						s.server.Always(op, g.Faults[0])
					} else {
						s.server.Once(op, g.Faults[0])
					}
					err := c.Unlock(t.Context(), idA)
					s.server.Mend()
					holder := s.server.Holder()
					if holder != "" && (err == nil || !strings.Contains(err.Error(), "yuba force-unlock "+holder)) {
						t.Errorf("%s of %s (lasting: %v) leaves %s: %v", g.Name, op, lasting, holder, err)
					}
					if holder != "" {
						must(t, s.second().Unlock(t.Context(), holder))
					}
				}
			}
		}
	})
}

// A gateway has given up on a write that the server still carries out: it is
// there before the next attempt, which servers refuse that have its serial.
func TestLateWriteIsNotLost(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		var late *http.Request
		var body []byte
		posts := 0
		s.server.Server = &intercepted{s.server.Server, func(w http.ResponseWriter, r *http.Request) bool {
			if s.server.Op(r) != stateservers.Post {
				return false
			}
			if posts++; posts == 1 {
				body, _ = io.ReadAll(r.Body)
				late = r.Clone(t.Context())
				w.WriteHeader(http.StatusGatewayTimeout)
				return true
			}
			late.Body = io.NopCloser(bytes.NewReader(body))
			s.server.Server.(*intercepted).Server.ServeHTTP(httptest.NewRecorder(), late)
			return false
		}}
		must(t, s.client.Put(t.Context(), stateOf(2, "second")))
		if got := s.server.State(); !bytes.Equal(got, stateOf(2, "second")) || posts != 2 {
			t.Errorf("after %d writes: %s", posts, got)
		}
	})
}

// intercepted is a server some of whose requests are answered by own.
type intercepted struct {
	stateservers.Server
	own func(http.ResponseWriter, *http.Request) bool
}

func (i *intercepted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !i.own(w, r) {
		i.Server.ServeHTTP(w, r)
	}
}

func TestWrongLogin(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		cfg := s.client.cfg
		cfg.Username, cfg.Password = "eve", "the-wrong-one"
		c, err := New(cfg)
		must(t, err)
		defer c.Close()
		_, err = c.Get(t.Context())
		for _, err := range []error{err, c.Lock(t.Context(), lockOf(idB)), c.Put(t.Context(), stateOf(2, "")), c.Delete(t.Context()), c.Unlock(t.Context(), idA)} {
			wantError(t, err, "TF_HTTP_USERNAME and TF_HTTP_PASSWORD")
			if strings.Contains(err.Error(), "the-wrong-one") {
				t.Errorf("the password is in %q", err)
			}
		}
		if s.server.Holder() != idA || !bytes.Equal(s.server.State(), stateOf(1, "first")) {
			t.Errorf("%q holds the lock of %s", s.server.Holder(), s.server.State())
		}
	})
}

// A server that never says who holds the lock: the client does not claim it.
func TestMuteServer(t *testing.T) {
	holder := ""
	lose := true
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "LOCK" && holder == "" {
			holder = idA
			if lose {
				panic(http.ErrAbortHandler)
			}
			return
		}
		w.WriteHeader(http.StatusLocked)
	}))
	wantError(t, c.Lock(t.Context(), lockOf(idA)), "not known whether this run holds the lock", "yuba force-unlock "+idA)
	if c.HeldLock() != "" {
		t.Fatal("claims the lock")
	}
}
