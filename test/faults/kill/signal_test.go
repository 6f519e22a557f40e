package kill

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	faults "fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// moment is one of a command at which it gets a signal.
type moment struct {
	name string
	// set makes the group file.
	set  func(*life)
	args []string
	// at tells the point, the first of which counts.
	at func(proxy.Point) bool
	// twice also tries a second signal.
	twice bool
	// over says that the signal may come too late to be noticed.
	over bool
}

// is tells points whose name has all of these parts.
func is(parts ...string) func(proxy.Point) bool {
	return func(p proxy.Point) bool {
		for _, part := range parts {
			if !strings.Contains(p.String(), part) {
				return false
			}
		}
		return true
	}
}

var moments = []moment{
	{"lock", (*life).Second, faults.Plan, is("state LOCK", "#1 before"), false, false},
	{"lock taken", (*life).Second, faults.Plan, is("state LOCK", "#1 after"), true, false},
	{"state is read", (*life).Second, faults.Plan, is("state GET", "#1 before"), true, false},
	{"plan asks the registry", (*life).Second, faults.Plan, is("registry HEAD", "#1 before"), false, false},
	{"plan asks the API server", (*life).Second, faults.Plan, is("api GET", "/deployments #1 before"), true, false},
	{"push begins", (*life).fresh, faults.Apply, is("registry POST", "#1 before"), false, false},
	{"push", (*life).fresh, faults.Apply, is("registry PATCH", "#1 in the middle"), true, false},
	{"push ends", (*life).fresh, faults.Apply, is("registry PUT", "manifests", "#1 after"), false, false},
	{"Deployment is tried", (*life).fresh, faults.Apply, is("api PATCH", "/deployments/web?dryRun #1 before"), false, false},
	{"Deployment is applied", (*life).fresh, faults.Apply, is("api PATCH", "/deployments/web #1 before"), true, false},
	{"Deployment was applied", (*life).fresh, faults.Apply, is("api PATCH", "/deployments/web #1 after"), false, false},
	{"rollout", (*life).bad, faults.Apply, is("api GET", "/pods #2 after"), true, false},
	{"journal", (*life).bad, faults.Apply, is("api GET", "/exec #1 before"), true, false},
	{"set back", (*life).bad, faults.Apply, is("api PATCH", "/deployments/web #2 before"), false, false},
	{"set back wait", (*life).bad, faults.Apply, is("api PATCH", "/deployments/web #2 after"), true, false},
	{"state is written", (*life).fresh, faults.Apply, is("state POST", "#1 before"), true, false},
	{"state is half written", (*life).fresh, faults.Apply, is("state POST", "#1 in the middle"), false, false},
	{"state was written", (*life).fresh, faults.Apply, is("state POST", "#1 after"), false, true}, // and all is done
	{"lock is released", (*life).fresh, faults.Apply, is("state UNLOCK", "#1 before"), true, true},
	{"lock was released", (*life).fresh, faults.Apply, is("state UNLOCK", "#1 after"), false, true},
	{"object is deleted", func(*life) {}, faults.Destroy, is("api DELETE", "/deployments/web", "before"), false, false},
	{"object was deleted", func(*life) {}, faults.Destroy, is("api DELETE", "/persistentvolumeclaims/", "after"), false, false},
	{"namespace goes", func(*life) {}, faults.Destroy, is("api GET", "/namespaces/* #3 before"), true, false},
}

// fresh makes a group file whose image nobody has.
func (l *life) fresh() {
	l.images++
	l.Nodes(lab.Image{Content: strings.Repeat("x", l.images)})
}

// signalled runs a command that gets signals at a point. If silent, the server
// that it asks then never answers again.
func (l *life) signalled(m moment, silent bool, signals ...syscall.Signal) (world.Result, bool) {
	l.Helper()
	var came atomic.Bool
	var server atomic.Value
	r := l.Try(func(p *faults.Process, at proxy.Point) proxy.Harm {
		if server.Load() == at.Server {
			return proxy.Harm{Hold: true}
		}
		if !m.at(at) || !came.CompareAndSwap(false, true) {
			return proxy.Harm{}
		}
		if silent {
			server.Store(at.Server)
		}
		for _, s := range signals {
			_ = p.Cmd.Process.Signal(s)
		}
		return proxy.Harm{Hold: silent}
	}, m.args...)
	return r, came.Load()
}

// stopped fails unless a command ended in the way that help tells.
func stopped(t *testing.T, r world.Result, sentence string) {
	t.Helper()
	if r.Code != 1 {
		t.Errorf("it ended with exit code %d", r.Code)
	}
	if n := strings.Count(r.Stdout+r.Stderr, sentence); n != 1 {
		t.Errorf("%q is said %d times", sentence, n)
	}
	if strings.Contains(r.Stderr, "did not end within") {
		t.Error("it had to be ended")
	}
	if t.Failed() {
		t.Fatal(r)
	}
}

// mended is what the operator does after a command that was stopped: what the
// message tells, and an apply.
func (l *life) mended(r world.Result) {
	l.Helper()
	defer func() {
		if l.Failed() {
			l.Log(r)
		}
	}()
	if _, err := os.Stat(filepath.Join(l.Dir, "errored.tfstate")); err == nil {
		if !strings.Contains(r.Stderr, "state push errored.tfstate") {
			l.Errorf("nothing tells of errored.tfstate")
		}
		if strings.Contains(r.Stderr, "state is still locked") || strings.Contains(r.Stderr, "releasing the state lock") {
			l.unlocked(r)
		}
		l.Must(0, "state", "push", "errored.tfstate")
		if err := os.Remove(filepath.Join(l.Dir, "errored.tfstate")); err != nil {
			l.Fatal(err)
		}
	} else if faults.UnlockHint.MatchString(r.Stderr) {
		l.unlocked(r)
	}
	l.Free()
	l.First()
	l.Must(0, faults.Apply...)
}

// unlocked releases the lock, if it is held, as an error tells.
func (l *life) unlocked(r world.Result) {
	l.Helper()
	if u := l.Try(nil, l.UnlockAsTold(r)...); u.Code != 0 && !strings.Contains(u.Stderr, "not locked") {
		l.Fatalf("the lock is not released as the error tells: %v\n%v", r, u)
	}
}

// A signal at any moment ends the command soon, whether the servers answer or
// not: state saved, lock released, and the next apply goes on from there. A
// second one doesn't wait for what is under way.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := born(t)
			l.Alone = true
			l.First()
			l.Must(0, faults.Apply...)
			for _, v := range []struct {
				name    string
				silent  bool
				signals []syscall.Signal
			}{
				{"INT", false, []syscall.Signal{syscall.SIGINT}},
				{"TERM, no answers", true, []syscall.Signal{syscall.SIGTERM}},
				{"INT twice, no answers", true, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}},
			} {
				if len(v.signals) > 1 && !m.twice {
					continue
				}
				m.set(l)
				r, came := l.signalled(m, v.silent, v.signals...)
				if !came {
					t.Fatalf("%s: it did not come to it: %v", v.name, r)
				}
				if !m.over || v.silent || r.Code != 0 {
					stopped(t, r, "Interrupted:")
				}
				l.mended(r)
				if t.Failed() {
					t.Fatal(v.name)
				}
			}
			l.Settled()
		})
	}
}
