package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"fediversity.eu/yuba/state"
	"fediversity.eu/yuba/test/stateserver"
)

const (
	clients = 200
	states  = 20
	kills   = 8
	// guessers try passwords all the time, from another address.
	guessers = 4
)

// TestSoak is for the time in YUBA_TEST_SOAK, such as 10m. Each client takes the
// lock of a state, reads it, writes its next serial and gives the lock back; some
// write without the lock, some die with it and others break it; and the server is
// killed and started again.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("YUBA_TEST_SOAK"))
	if err != nil {
		t.Fatalf("YUBA_TEST_SOAK says how long: %v", err)
	}
	seed := rand.Uint64()
	t.Logf("%d clients, %d states, %d kills, %v; seed %d", clients, states, kills, length, seed)
	s := newSoak(t)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() { s.client(ctx, fmt.Sprintf("c%d", n), rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	guesses, waits := 0, 0
	for range guessers {
		wg.Go(func() {
			g, w := s.guess(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			guesses, waits = guesses+g, waits+w
		})
	}
	pauses := rand.New(rand.NewPCG(seed, clients))
	for range kills {
		pause := length/(kills+1)/2 + time.Duration(pauses.Int64N(int64(length/(kills+1))))
		select {
		case <-time.After(pause):
			s.restart()
		case <-ctx.Done():
		}
	}
	wg.Wait()
	s.check()
	if waits == 0 {
		t.Errorf("%d wrong passwords, and none had to wait", guesses)
	}
	t.Logf("%d wrong passwords, %d of them had to wait", guesses, waits)
}

type soak struct {
	t       *testing.T
	began   time.Time
	server  *stateserver.Server
	address string // the server's, which stays the same over restarts

	mu        sync.Mutex
	histories [states]history
	dead      map[string]*hold // locks whose holders died
	refused   int              // writes without the lock
	broken    int              // locks
	unknown   int              // calls without an answer
	notes     atomic.Uint64
}

const password = "canary-soak"

func newSoak(t *testing.T) *soak {
	dir, s := t.TempDir(), &soak{t: t, began: time.Now(), dead: map[string]*hold{}}
	// A cheap hash: guesses are to be stopped by their number, not by their cost.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users, access := filepath.Join(dir, "users"), filepath.Join(dir, "access")
	for path, text := range map[string]string{users: "ci:" + string(hash) + "\n", access: "ci soak/* write\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.server = stateserver.Start(t, os.Getenv("YUBA_TEST_YUBA"), filepath.Join(dir, "states"), "-users="+users, "-access="+access)
	s.address = s.server.Address
	return s
}

func (s *soak) restart() {
	s.server.Kill(s.t)
	s.server.Restart(s.t)
}

func (s *soak) now() time.Duration { return time.Since(s.began) }

// document is a state as these clients write it.
type document struct {
	Serial  uint64 `json:"serial"`
	Lineage string `json:"lineage"`
	Note    string `json:"note"`
	Padding string `json:"padding"`
}

func (s *soak) open(n int) *state.Client {
	c, err := state.New(state.Config{
		Address: fmt.Sprintf("%s/soak/%d", s.address, n), Username: "ci", Password: password,
		RetryMax: 10, RetryWaitMin: 20 * time.Millisecond, RetryWaitMax: time.Second,
	})
	if err != nil {
		panic(err) // the configuration is this test's
	}
	return c
}

// client works until ctx ends. What it has begun it ends: a call that is cut off
// leaves nothing to check.
func (s *soak) client(ctx context.Context, name string, random *rand.Rand) {
	background := context.WithoutCancel(ctx)
	var opened [states]*state.Client
	for ctx.Err() == nil {
		// A few states are fought over.
		n := random.IntN(states)
		if random.IntN(2) == 0 {
			n %= 3
		}
		if opened[n] == nil {
			opened[n] = s.open(n)
			defer opened[n].Close()
		}
		c, h := opened[n], &s.histories[n]
		if random.IntN(20) == 0 {
			s.update(background, c, h, n, name, random) // without the lock
			continue
		}
		id := s.lock(ctx, c, h, n, name, random)
		if id == nil {
			continue
		}
		s.update(background, c, h, n, name, random)
		if random.IntN(40) == 0 {
			s.mu.Lock()
			s.dead[id.id] = id
			s.mu.Unlock()
			opened[n] = nil // it knows the lock as its own
			continue
		}
		until := s.now()
		if err := c.Unlock(background, id.id); err != nil {
			s.fault("unlock", err)
			s.mu.Lock()
			s.dead[id.id] = id
			s.mu.Unlock()
			opened[n] = nil
			continue
		}
		s.mu.Lock()
		id.until = until
		h.holds = append(h.holds, *id)
		s.mu.Unlock()
	}
}

// lock takes the lock, or gives up when ctx ends. It breaks one whose holder died.
func (s *soak) lock(ctx context.Context, c *state.Client, h *history, n int, name string, random *rand.Rand) *hold {
	id := fmt.Sprintf("%s-%d", name, s.notes.Add(1))
	info := fmt.Appendf(nil, `{"ID":%q,"Operation":"soak","Who":%q}`, id, name)
	for ctx.Err() == nil {
		err := c.Lock(context.WithoutCancel(ctx), info)
		if err == nil {
			return &hold{id: id, from: s.now()}
		}
		var locked *state.LockedError
		if !errors.As(err, &locked) {
			s.fault("lock", err)
			// Nobody knows who holds it, perhaps this one.
			s.mu.Lock()
			s.dead[id] = &hold{id: id, from: s.now()}
			s.mu.Unlock()
			return nil
		}
		s.mu.Lock()
		dead := s.dead[locked.Info.ID]
		delete(s.dead, locked.Info.ID)
		s.mu.Unlock()
		if dead != nil {
			breaker := s.open(n)
			until := s.now()
			err := breaker.Unlock(context.WithoutCancel(ctx), dead.id)
			breaker.Close()
			s.mu.Lock()
			if err == nil {
				s.broken++
				dead.until = until
				h.holds = append(h.holds, *dead)
			} else {
				s.dead[dead.id] = dead
			}
			s.mu.Unlock()
			continue
		}
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
	}
	return nil
}

// update reads the state and writes the next one.
func (s *soak) update(ctx context.Context, c *state.Client, h *history, n int, name string, random *rand.Rand) {
	asked := s.now()
	data, err := c.Get(ctx)
	if err != nil {
		s.fault("read", err)
		return
	}
	var d document
	if data != nil {
		if err := json.Unmarshal(data, &d); err != nil {
			s.t.Errorf("state %d is %q: %v", n, data, err)
			return
		}
	}
	got := read{span{asked, s.now()}, d.Serial, d.Note}

	d = document{d.Serial + 1, fmt.Sprint("lineage-", n), fmt.Sprintf("%s-%d", name, s.notes.Add(1)), strings.Repeat("x", random.IntN(8<<10))}
	next, err := json.Marshal(d)
	if err != nil {
		panic(err) // a struct of texts and a number
	}
	w := write{span{s.now(), 0}, d.Serial, d.Note, false}
	err = c.Put(ctx, next)
	w.answered = s.now()

	var refused *state.StatusError
	var locked *state.LockedError
	s.mu.Lock()
	defer s.mu.Unlock()
	h.reads = append(h.reads, got)
	switch {
	case err == nil:
		w.known = true
	case c.HeldLock() == "" && (errors.As(err, &locked) || errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed):
		s.refused++
	default:
		s.unknown++
		s.t.Logf("write: %v", err)
	}
	h.writes = append(h.writes, w)
}

// fault notes a call that got no answer.
func (s *soak) fault(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown++
	s.t.Logf("%s: %v", what, err)
}

// guess tries passwords until ctx ends.
func (s *soak) guess(ctx context.Context) (guesses, waits int) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/soak/0", nil)
		if err != nil {
			panic(err) // the address is the server's
		}
		r.SetBasicAuth("ci", fmt.Sprint("guess", guesses))
		if resp, err := client.Do(r); err == nil {
			guesses++
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusTooManyRequests:
				waits++
			case http.StatusUnauthorized:
			default:
				s.t.Errorf("a wrong password got %s", resp.Status)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return guesses, waits
}

// check compares what all clients saw with what the states are at the end.
func (s *soak) check() {
	writes, reads, holds := 0, 0, 0
	for n := range s.histories {
		h := &s.histories[n]
		c := s.open(n)
		asked := s.now()
		data, err := c.Get(s.t.Context())
		c.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		var d document
		if data != nil {
			if err := json.Unmarshal(data, &d); err != nil {
				s.t.Fatal(err)
			}
		}
		for _, wrong := range h.check(read{span{asked, s.now()}, d.Serial, d.Note}) {
			s.t.Errorf("state %d: %s", n, wrong)
		}
		writes, reads, holds = writes+len(h.writes), reads+len(h.reads), holds+len(h.holds)
	}
	s.t.Logf("%d writes, %d reads, %d locks, %d of them broken, %d writes without the lock refused, %d calls without an answer; peak memory of the server %s",
		writes, reads, holds, s.broken, s.refused, s.unknown, s.peak())
	if writes == 0 || holds == 0 || s.broken == 0 || s.refused == 0 {
		s.t.Error("something was never done")
	}
	if log, err := os.ReadFile(s.server.Log); err != nil || strings.Contains(string(log), password) {
		s.t.Errorf("the log has the password (%v)", err)
	}
}

// peak is the most memory that the server has had since it was last started.
func (s *soak) peak() string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.server.Cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}
