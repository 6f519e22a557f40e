package state

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/stateservers"
	"fediversity.eu/yuba/test/world"
)

// Each server that people have holds states and locks for yuba and for stock
// tofu, side by side.
func TestLifeOnEachServer(t *testing.T) {
	for _, f := range stateservers.Flavours() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, f)
			says(t, h.yuba(0, "state", "lock"), "is not locked.")
			h.yuba(2, "plan", "-detailed-exitcode")
			h.yuba(0, "apply", "-auto-approve")
			h.holds(1)
			h.free()
			h.yuba(0, "plan", "-detailed-exitcode")

			h.tofu(0, "init", "-input=false")
			h.tofu(0, "plan", "-detailed-exitcode")
			h.tofu(0, "apply", "-auto-approve", "-var=n=2")
			h.holds(2)
			h.yuba(0, "plan", "-detailed-exitcode", "-var=n=2")

			// Somebody else's lock stops both, and is shown.
			id := h.lockBy(stateservers.Other)
			h.tofu(1, "plan")
			says(t, h.yuba(1, "plan"), "Error acquiring the state lock", id)
			says(t, h.yuba(1, "apply", "-auto-approve"), id, "yuba force-unlock "+id)
			says(t, h.yuba(2, "state", "lock"), "is locked.", "ID: "+id, "yuba force-unlock "+id)
			var report struct {
				Locked bool
				State  string
				Lock   struct{ ID, Who, Operation, Created string }
			}
			if err := json.Unmarshal([]byte(h.yuba(2, "state", "lock", "-json").Stdout), &report); err != nil {
				t.Fatal(err)
			}
			if !report.Locked || report.Lock.ID != id || report.Lock.Who == "" || report.Lock.Created == "" || report.Lock.Operation == "state lock" || !strings.HasPrefix(report.State, h.url) {
				t.Errorf("state lock -json: %+v", report)
			}
			if got := h.server.Holder(); got != id {
				t.Fatalf("after all that %q holds the lock of %s", got, id)
			}
			says(t, h.yuba(1, "force-unlock", "-force", "11111111-aaaa-bbbb-cccc-222222222222"), "not held any more")
			if got := h.server.Holder(); got != id {
				t.Fatalf("after the release of another lock %q holds the lock of %s", got, id)
			}
			h.yuba(0, "force-unlock", "-force", id)
			h.free()

			h.yuba(0, "destroy", "-auto-approve")
			h.holds(0)
			h.free()
			h.tofu(0, "destroy", "-auto-approve")
		})
	}
}

// lies are what a server answers when all is well, without having done it. A
// first GET that is told that there is no state, by 404 too, is told no more.
var lies = []string{"200 with other JSON", "empty 200", "204"}

// endless are faults that take as long as the program's patience.
var endless = []string{"no answer in time, without the effect", "no answer in time, with the effect", "body that never ends"}

// Whatever goes wrong in an apply, once or for good: the exit code tells, no
// state is lost, and the lock is free or the error says how to release it.
func TestApplyOnBrokenServers(t *testing.T) {
	flavours := stateservers.Flavours()
	for n, g := range stateservers.Groups() {
		if slices.Contains(endless, g.Name) {
			continue
		}
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for i, op := range []stateservers.Op{stateservers.Get, stateservers.Post, stateservers.Lock, stateservers.Unlock} {
				if slices.Contains(lies, g.Name) && (op != stateservers.Get || g.Name != "200 with other JSON") || g.Name == "404" && op == stateservers.Get {
					continue
				}
				for lasting := range 2 {
					flavour := flavours[(n+i+lasting)%len(flavours)]
					f := g.Faults[(n+i+lasting)%len(g.Faults)]
					t.Run(strings.Join([]string{string(op), []string{"once", "lasting"}[lasting], flavour.Name, f.Name}, ", "), func(t *testing.T) {
						newHouse(t, flavour).broken(op, f, lasting == 1)
					})
				}
			}
		})
	}
}

// broken applies with a fault, and mends what it left.
func (h *house) broken(op stateservers.Op, f stateservers.Fault, lasting bool) {
	t := h.t
	h.yuba(0, "apply", "-auto-approve")
	before := string(h.server.State())
	if lasting {
		h.server.Always(op, f)
	} else {
		h.server.Once(op, f)
	}
	r := h.yuba(-1, "apply", "-auto-approve", "-var=n=2")
	h.server.Mend()
	errored := filepath.Join(h.dir, "errored.tfstate")
	_, err := os.Stat(errored)
	holder := h.server.Holder()
	switch {
	case r.Code == 0 && err == nil:
		t.Fatalf("all is well, but there is an errored.tfstate: %v", r)
	case r.Code == 0:
		h.holds(2)
		h.free()
		return
	case r.Code != 1:
		t.Fatalf("%v", r)
	case holder != "" && !strings.Contains(world.Unwrapped(r.Stderr), "yuba force-unlock "+holder):
		t.Fatalf("%s holds the lock, and the error does not say so: %v", holder, r)
	}
	// What was made is in the state or in errored.tfstate.
	made := strings.Contains(r.Stdout, "Modifications complete") || strings.Contains(r.Stdout, "Apply complete")
	saved := string(h.server.State()) != before
	if made && !saved && err != nil {
		t.Fatalf("what was made is nowhere: %v", r)
	}
	if !made && saved {
		t.Fatalf("nothing was made, and the state is another: %v", r)
	}
	if holder != "" {
		says(t, h.yuba(2, "state", "lock"), holder)
		h.yuba(0, "force-unlock", "-force", holder)
	}
	if err == nil {
		says(t, r, "yuba state push errored.tfstate")
		h.yuba(0, "state", "push", "errored.tfstate")
		h.holds(2)
	}
	h.yuba(0, "apply", "-auto-approve", "-var=n=2")
	h.holds(2)
	h.free()
	h.yuba(0, "plan", "-detailed-exitcode", "-var=n=2")
}

// An interrupt while the lock is on its way: what the server took is given back.
func TestInterruptOnTheWayToTheLock(t *testing.T) {
	for _, f := range stateservers.Flavours() {
		for _, args := range [][]string{{"state", "lock"}, {"plan"}, {"apply", "-auto-approve"}} {
			t.Run(f.Name+", "+args[0], func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, f)
				cmd := h.command(world.Program(t), args...)
				h.server.Hung = func(bool) {
					if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
						t.Error(err)
					}
				}
				h.server.Once(stateservers.Lock, group(t, "no answer in time, with the effect"))
				if r := world.Run(t, cmd); r.Code != 1 {
					t.Errorf("%v", r)
				}
				h.free()
				if state := h.server.State(); state != nil {
					t.Errorf("there is a state: %s", state)
				}
				h.yuba(0, "apply", "-auto-approve")
			})
		}
	}
}

// A run that waits for the lock gets it when it is released, on each server.
func TestWaitForTheLock(t *testing.T) {
	for _, f := range stateservers.Flavours() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, f)
			id := h.lockBy(stateservers.Other)
			tried := make(chan struct{})
			h.server.Server = &watched{Server: h.server.Server, op: stateservers.Lock, answered: tried}
			cmd := h.command(world.Program(t), "apply", "-auto-approve", "-lock-timeout=2m")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-tried
			h.yuba(0, "force-unlock", "-force", id)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			h.holds(1)
			h.free()
		})
	}
}

// watched is a server that tells when it has answered an operation.
type watched struct {
	stateservers.Server
	op       stateservers.Op
	once     sync.Once
	answered chan struct{}
}

func (s *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Server.ServeHTTP(w, r)
	if s.Op(r) == s.op {
		s.once.Do(func() { close(s.answered) })
	}
}
