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

	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
)

var (
	apply   = []string{"k8s", "apply", "-auto-approve"}
	destroy = []string{"k8s", "destroy", "-auto-approve"}
	plan    = []string{"k8s", "plan", "-detailed-exitcode"}
)

// The images of the group's life. A life may come to each of them many times.
func (l *life) first()  { l.group(lab.Image{Content: "one"}) }
func (l *life) second() { l.group(lab.Image{Content: "two"}) }
func (l *life) bad() {
	l.group(lab.Image{Behaviour: "never-ready"})
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
	{"create", (*life).first, apply, 0, func(l *life, _ bool) {
		l.again(0, apply...)
		l.settled()
	}},
	{"change", (*life).second, apply, 0, func(l *life, _ bool) {
		l.again(0, apply...)
		l.settled()
	}},
	{"fail", (*life).bad, apply, 1, func(l *life, odd bool) {
		if odd {
			// The same once more fails once more, and the node gets back the image
			// that was good, not the one that the killed run had tried.
			r := l.again(1, apply...)
			if got := l.running("web"); got != l.good {
				l.Errorf("web was not set back to its last good image: it runs %s, and was well with %s: %v", got, l.good, r)
			}
		}
		l.first()
		l.again(0, apply...)
		l.settled()
	}},
	{"destroy", func(*life) {}, destroy, 0, func(l *life, _ bool) {
		l.again(0, destroy...)
		l.gone()
	}},
}

// settled fails unless the last apply left nothing to do, and the state tells
// what there is.
func (l *life) settled() {
	l.Helper()
	l.must(0, plan...)
	l.truthful()
	l.good = l.running("web")
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
		l.must(p.code, p.args...)
		all = append(all, chosen(l.proxy.Points(), pick))
		switch p.name {
		case "destroy":
			l.gone()
		case "fail":
			l.first()
			l.must(0, apply...)
			l.settled()
		default:
			l.settled()
		}
	}
	return all
}

// killed runs a command and kills it at a point. It says whether it came to it.
func (l *life) killed(point proxy.Point, args ...string) (came bool) {
	l.Helper()
	var once sync.Once
	r := l.run(func(p *process, at proxy.Point) (harm proxy.Harm) {
		if at == point {
			once.Do(func() {
				came = true
				_ = p.cmd.Process.Kill()
				<-p.ended
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
	seed := uint64(os.Getpid())
	if s := os.Getenv("YUBA_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("YUBA_TEST_SEED: %v", err)
		}
	}
	t.Logf("YUBA_TEST_SEED=%d", seed)
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
						machines := l.machines()
						p.mend(l, i%2 == 1)
						if p.name != "destroy" {
							now := l.machines()
							for node, id := range machines {
								if now[node] != id {
									l.Errorf("the machine ID of %s was %s and is now %s", node, id, now[node])
								}
							}
						}
						if t.Failed() {
							t.Fatal("killed at " + name)
						}
					case p.name == "create" || p.name == "destroy":
						l.must(p.code, p.args...)
						if p.name == "create" {
							l.good = l.running("web")
						}
					}
				}
			})
		}
	})
	t.Logf("%d points, %d of them not met again", total, len(missed))
	for name := range missed {
		t.Log("not met again: " + name)
	}
	if len(missed) > total/20 {
		t.Errorf("%d of %d points were not met again: the test does not test what it says", len(missed), total)
	}
}
