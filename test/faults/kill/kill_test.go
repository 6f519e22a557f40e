// Package kill holds the tests that end yuba at every moment of its work, by
// kill -9 and by signals, and look at what is left.
package kill

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	faults "fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
)

// life is one whose group file may be a bad one.
type life struct {
	*faults.Life
	images int // that fresh has made
}

func born(t *testing.T) *life {
	t.Helper()
	return &life{Life: faults.Born(t)}
}

func (l *life) bad() {
	l.Nodes(lab.Image{Behaviour: "never-ready"})
	l.Edit(func(g map[string]any) { g["rolloutTimeout"] = "6s" })
}

// phase is a part of a group's life.
type phase struct {
	name string
	// set makes the group file.
	set  func(*life)
	args []string
	code int // of a run that nothing disturbs
	// mend is what the operator does when the run was killed: after it, the
	// group is as set has it.
	mend func(l *life, odd bool)
}

var phases = []phase{
	{"create", (*life).First, faults.Apply, 0, func(l *life, _ bool) {
		l.Again(0, faults.Apply...)
		l.Settled()
	}},
	{"change", (*life).Second, faults.Apply, 0, func(l *life, _ bool) {
		l.Again(0, faults.Apply...)
		l.Settled()
	}},
	{"fail", (*life).bad, faults.Apply, 1, func(l *life, odd bool) {
		if odd {
			// The same once more fails once more, and the node gets back the image
			// that was good, not the one that the killed run had tried.
			r := l.Again(1, faults.Apply...)
			if got := l.Running("web"); got != l.Good {
				l.Errorf("web was not set back to its last good image: it runs %s, and was well with %s: %v", got, l.Good, r)
			}
		}
		l.First()
		l.Again(0, faults.Apply...)
		l.Settled()
	}},
	{"destroy", func(*life) {}, faults.Destroy, 0, func(l *life, _ bool) {
		l.Again(0, faults.Destroy...)
		l.Gone()
	}},
}

// effective tells a point at which something can have changed: a kill there
// leaves another world behind than the one before. A question, also one by a
// dry run, changes nothing. The API server takes no part of a body.
func effective(p proxy.Point) bool {
	switch {
	case p.Method == http.MethodGet, p.Method == http.MethodHead, strings.HasSuffix(p.Path, "?dryRun"):
		return false
	case p.Moment == proxy.Within:
		return p.Server != "api"
	}
	return true
}

// chosen are the points to kill at: all that are effective, and of the others,
// which are alike, some that differ from run to run, or all with
// YUBA_TEST_FAULTS=all. What is polled for is come to a different number of
// times.
func chosen(all []proxy.Point, pick *rand.Rand) []proxy.Point {
	var out []proxy.Point
	every := os.Getenv("YUBA_TEST_FAULTS") == "all"
	for _, p := range all {
		if effective(p) || p.N <= 3 && p.Moment == proxy.After && (every || pick.IntN(8) == 0) {
			out = append(out, p)
		}
	}
	return out
}

// points goes through a life that nothing disturbs, and gives the points of
// its phases.
func points(t *testing.T, pick *rand.Rand) [][]proxy.Point {
	t.Helper()
	l := born(t)
	var all [][]proxy.Point
	for _, p := range phases {
		p.set(l)
		l.Must(p.code, p.args...)
		all = append(all, chosen(l.Proxy.Points(), pick))
		switch p.name {
		case "destroy":
			l.Gone()
		case "fail":
			l.First()
			l.Must(0, faults.Apply...)
			l.Settled()
		default:
			l.Settled()
		}
	}
	return all
}

// killed runs a command and kills it at a point. It says whether it came to it.
func (l *life) killed(point proxy.Point, args ...string) (came bool) {
	l.Helper()
	var once sync.Once
	r := l.Try(func(p *faults.Process, at proxy.Point) (harm proxy.Harm) {
		if at == point {
			once.Do(func() {
				came = true
				_ = p.Cmd.Process.Kill()
				<-p.Ended
				harm.Cut = true
			})
		}
		return harm
	}, args...)
	if came && r.Code != -1 {
		l.Fatalf("it was not killed: %v", r)
	}
	return came
}

// A process that is killed at any moment leaves nothing that the next run does
// not mend: it converges at once, nothing is lost and nothing is left over.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	seed := faults.Seed(t)
	all := points(t, rand.New(rand.NewPCG(seed, 0)))
	lives, total := 0, 0
	for i, p := range phases {
		t.Logf("%s: %d points", p.name, len(all[i]))
		lives, total = max(lives, len(all[i])), total+len(all[i])
	}
	var mu sync.Mutex
	missed := map[string]bool{}
	t.Run("at", func(t *testing.T) {
		for i := 0; i < lives; i++ {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				l := born(t)
				for n, p := range phases {
					p.set(l)
					switch {
					case i < len(all[n]):
						point := all[n][i]
						name := fmt.Sprintf("%s: %s", p.name, point)
						came := l.killed(point, p.args...)
						if !came { // it came to it in another order, or not at all
							mu.Lock()
							missed[name] = true
							mu.Unlock()
						}
						machines := l.Machines()
						p.mend(l, i%2 == 1)
						if p.name != "destroy" {
							l.Kept(machines)
						}
						if t.Failed() {
							t.Fatal("killed at " + name)
						}
					case p.name == "create" || p.name == "destroy":
						l.Must(p.code, p.args...)
						if p.name == "create" {
							l.Good = l.Running("web")
						}
					}
				}
			})
		}
	})
	faults.Report(t, fmt.Sprintf("%d points of a life at which yuba was killed, %d of them not met again\n", total, len(missed)))
	for name := range missed {
		t.Log("not met again: " + name)
	}
	if len(missed) > total/20 {
		t.Errorf("%d of %d points were not met again: the test does not test what it says", len(missed), total)
	}
}
