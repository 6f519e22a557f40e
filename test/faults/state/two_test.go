package state

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/stateservers"
	"fediversity.eu/yuba/test/world"
)

// gate is a server that makes two operators meet: who has the lock gets no
// further until somebody else has been refused it.
type gate struct {
	stateservers.Server
	mu     sync.Mutex
	locks  int
	holder string // who held it when the second asked
	met    chan struct{}
}

func newGate(s stateservers.Server) *gate { return &gate{Server: s, met: make(chan struct{})} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.Op(r) != stateservers.Lock {
		select {
		case <-g.met:
		case <-r.Context().Done():
			return
		}
		g.Server.ServeHTTP(w, r)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Server.ServeHTTP(w, r)
	if g.locks++; g.locks == 2 {
		g.holder = g.Server.Holder()
		close(g.met)
	}
}

// together runs two commands at once.
func together(t *testing.T, a, b *exec.Cmd) (results [2]world.Result) {
	t.Helper()
	var out [2][2]bytes.Buffer
	for i, cmd := range []*exec.Cmd{a, b} {
		cmd.Stdout, cmd.Stderr = &out[i][0], &out[i][1]
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range []*exec.Cmd{a, b} {
		_ = cmd.Wait()
		results[i] = world.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out[i][0].String(), Stderr: out[i][1].String()}
	}
	return results
}

// Of two operators at once, one holds the lock, and the other is told who does,
// on each server. With -lock-timeout the other waits, and goes on from what the
// first has made.
func TestTwoOperators(t *testing.T) {
	plan, apply := []string{"plan"}, []string{"apply", "-auto-approve"}
	for _, f := range stateservers.Flavours() {
		for name, verbs := range map[string][2][]string{"two applies": {apply, apply}, "plan and apply": {plan, apply}} {
			t.Run(f.Name+", "+name, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t, f)
				h.yuba(0, "apply", "-auto-approve")
				inner := h.server.Server
				run := func(more ...string) (results [2]world.Result, holder string) {
					g := newGate(inner)
					h.server.Server = g
					var cmds [2]*exec.Cmd
					for i, v := range verbs {
						cmds[i] = h.command(world.Program(t), slices.Concat(v, []string{fmt.Sprintf("-var=n=%d", i+2)}, more)...)
					}
					results = together(t, cmds[0], cmds[1])
					h.server.Server = inner
					return results, g.holder
				}

				r, holder := run()
				first := slices.IndexFunc(r[:], func(r world.Result) bool { return r.Code == 0 })
				if first < 0 || r[1-first].Code != 1 {
					t.Fatalf("not one of two got the lock: %v\n%v", r[0], r[1])
				}
				says(t, r[1-first], "Error acquiring the state lock", "ID: "+holder, "Who:", "yuba force-unlock "+holder)
				if holder == "" || strings.Contains(r[first].Stderr, holder) {
					t.Errorf("the holder's lock is %q: %v", holder, r[first])
				}
				h.free()
				n := 1
				if verbs[first][0] == "apply" {
					n = first + 2
				}
				h.holds(n)
				h.yuba(0, "plan", "-detailed-exitcode", fmt.Sprintf("-var=n=%d", n))

				r, holder = run("-lock-timeout=2m")
				if r[0].Code != 0 || r[1].Code != 0 {
					t.Fatalf("both have time enough: %v\n%v", r[0], r[1])
				}
				if waited := slices.ContainsFunc(r[:], func(r world.Result) bool {
					return strings.Contains(r.Stderr, "holds it since") && strings.Contains(r.Stderr, holder)
				}); !waited {
					t.Errorf("nobody was told who holds the lock: %v\n%v", r[0], r[1])
				}
				h.free()
				ends := 0
				for n := range 4 {
					if r := h.yuba(-1, "plan", "-detailed-exitcode", fmt.Sprintf("-var=n=%d", n)); r.Code == 0 {
						ends++
					} else if r.Code != 2 {
						t.Errorf("%v", r)
					}
				}
				if ends != 1 {
					t.Errorf("the state is what %d of the configurations say", ends)
				}
			})
		}
	}
}
