// Package sweep takes groups through their whole life (deploy, change, fail,
// roll back, destroy) while their servers fail at every request, and looks after
// each run at what it said, and at what there is.
package sweep

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// phase is a part of a group's life.
type phase struct {
	name string
	// set makes the group file, or whatever is to be mended.
	set  func(*swept)
	args []string
	// fails says that the command has to fail, also where nothing is wrong
	// with the servers.
	fails bool
	// done says whether a run has brought about what it was for.
	done func(*swept, world.Result) bool
	// then is what holds when the phase is done, and nothing is wrong any more.
	then func(*swept)
}

func succeeded(_ *swept, r world.Result) bool { return r.Code == 0 }

var phases = []phase{
	{"create", func(s *swept) { s.First() }, life.Apply, false, succeeded, (*swept).settled},
	{"change", func(s *swept) { s.Second() }, life.Apply, false, succeeded, (*swept).settled},
	{"fail", func(s *swept) {
		s.Nodes(lab.Image{Behaviour: lab.ConfigError})
		s.Edit(func(g map[string]any) { g["persistence"] = "1s" })
	}, life.Apply, true, func(s *swept, r world.Result) bool {
		return strings.Contains(world.Unwrapped(r.Stderr), "was set back to the last image whose rollout was complete, "+s.Good+", and that is ready again")
	}, func(s *swept) {
		s.runs(s.Good)
		s.Must(2, life.Plan...) // what the group file says is still to be done
	}},
	{"roll back", func(s *swept) { s.spoil() }, []string{"k8s", "rollback", "-auto-approve", "web"}, false, succeeded, func(s *swept) {
		s.runs(s.Good)
		s.Second()
		s.Must(0, life.Apply...)
		s.settled()
	}},
	{"destroy", func(s *swept) {
		s.Edit(func(g map[string]any) { g["removalTimeout"] = "3m" })
	}, life.Destroy, false, succeeded, func(s *swept) {
		s.Gone()
		s.handedOver()
	}},
}

// swept is a life with faults.
type swept struct {
	*life.Life
	manner manner
	met    map[string]bool // the requests of this phase that went wrong
	ids    map[string]string
	counts *counts
	spire  string // where the spire node keeps what it has, "" without one
}

// counts are of all lives.
type counts struct {
	mu                        sync.Mutex
	faults                    table
	repeated                  int // answers that a lasting fault spoilt again
	lives                     int
	runs, unnoticed, reported int
	plans                     int
	points                    map[string]bool // "kind at request", of single faults
}

func (c *counts) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// spoil gives web an image that nobody has, as somebody might by hand.
func (s *swept) spoil() {
	s.Helper()
	s.Kubectl("set", "image", "-n", s.Namespace, "deployment/web", "node="+s.Lab.Registry+"/nobody/has:this")
}

func (s *swept) settled() {
	s.Helper()
	s.Settled()
	s.handedOver("db", "web")
}

func (s *swept) runs(image string) {
	s.Helper()
	if got := s.Running("web"); got != image {
		s.Errorf("web runs %s and not %s", got, image)
	}
}

// try runs a command while requests go wrong, and gives the faults that were.
func (s *swept) try(p phase, n int) (world.Result, []fault) {
	s.Helper()
	var mu sync.Mutex
	var faults []fault
	last := map[string]kind{} // what lasts, by request without its number
	left := map[string]int{}  // how often
	fresh := map[string]bool{}
	r := s.Try(func(_ *life.Process, at proxy.Point) proxy.Harm {
		mu.Lock()
		defer mu.Unlock()
		any := at
		any.N = 0
		if k, ok := last[request(any)]; ok && k.moment == at.Moment && left[request(any)] > 0 {
			left[request(any)]--
			s.counts.add(func() { s.counts.repeated++ })
			return k.harm(at.Server)
		}
		k, ok := s.manner.at(p.name, n, at)
		if !ok || s.met[request(at)] && !fresh[request(at)] {
			return proxy.Harm{}
		}
		s.met[request(at)], fresh[request(at)] = true, true
		last[request(any)], left[request(any)] = k, s.manner.lasts()
		f := fault{k, at}
		faults = append(faults, f)
		s.counts.add(func() {
			s.counts.faults.add(f)
			if _, ok := s.manner.(single); ok {
				s.counts.points[f.String()] = true
			}
		})
		return k.harm(at.Server)
	}, p.args...)
	return r, faults
}

// most is how many runs a phase may take: each fault is met once.
const most = 60

// live goes through a phase until it is done.
func (s *swept) live(p phase) {
	s.Helper()
	p.set(s)
	s.met = map[string]bool{}
	for n := range most {
		r, faults := s.try(p, n)
		s.looked(p, r, faults)
		if s.Failed() {
			var list strings.Builder
			for _, f := range faults {
				fmt.Fprintf(&list, "  %s\n", f)
			}
			s.Fatalf("%s, run %d of yuba %s, with\n%s%v", p.name, n, strings.Join(p.args, " "), &list, r)
		}
		if p.done(s, r) {
			p.then(s)
			if s.Failed() {
				s.Fatalf("%s, after run %d: %v", p.name, n, r)
			}
			return
		}
	}
	s.Fatalf("%s is not done after %d runs", p.name, most)
}

// looked is what holds after each run.
func (s *swept) looked(p phase, r world.Result, faults []fault) {
	s.Helper()
	text := world.Unwrapped(r.Stderr + r.Stdout)
	done := p.done(s, r)
	s.counts.add(func() {
		s.counts.runs++
		switch {
		case len(faults) == 0:
		case done:
			s.counts.unnoticed++
		default:
			s.counts.reported++
		}
	})
	switch {
	case r.Code != 0 && r.Code != 1:
		s.Errorf("exit code %d", r.Code)
	case r.Code == 0 && p.fails:
		s.Errorf("exit code 0, and it cannot have gone well")
	case r.Code == 1 && !done && len(faults) == 0:
		s.Errorf("it failed, and no server had: it does not converge")
	case r.Code == 1 && !done:
		s.told(text, faults)
	}

	// The lock is free, or the message says how to release it.
	id := s.Holder()
	if id != "" {
		if !strings.Contains(text, "yuba force-unlock "+id) {
			s.Errorf("%s holds the lock, and nothing says how to release it", id)
		}
		s.Must(0, "force-unlock", "-force", id)
	} else if strings.Contains(text, "the state is still locked: yuba force-unlock") {
		s.Errorf("the state is called locked, and is not")
	}

	// What was done is in the state or in errored.tfstate.
	errored := filepath.Join(s.Dir, "errored.tfstate")
	if _, err := os.Stat(errored); err == nil {
		if r.Code == 0 || !strings.Contains(text, "yuba state push errored.tfstate") {
			s.Errorf("there is an errored.tfstate, and nothing says so")
		}
		s.Must(0, "state", "push", "errored.tfstate")
		if err := os.Remove(errored); err != nil {
			s.Fatal(err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.Fatal(err)
	}
	if p.name != "destroy" {
		s.faithful()
		s.ids = s.Kept(s.ids)
	}

	// A plan says what is so.
	if len(faults) > 0 && !done && hash(s.manner, p.name, len(s.met))%4 == 0 {
		s.counts.add(func() { s.counts.plans++ })
		args := life.Plan
		if p.name == "destroy" {
			args = append(slices.Clone(args), "-destroy")
		}
		plan := s.Try(nil, args...)
		if plan.Code == 0 && !p.fails {
			p.then(s) // it went wrong at the very end, such as at the unlock
		}
		if plan.Code != 2 && (plan.Code != 0 || p.fails || s.Failed()) {
			s.Errorf("what is left to do is not planned: %v", plan)
		}
		if id := s.Holder(); id != "" {
			s.Errorf("a plan leaves the lock %s", id)
		}
	}
}

// told fails unless a message says what went wrong, where, and what to do.
func (s *swept) told(text string, faults []fault) {
	s.Helper()
	if !slices.ContainsFunc(faults, func(f fault) bool {
		return strings.Contains(text, s.Fronts[f.point.Server]) && slices.ContainsFunc(f.kind.says, func(w string) bool { return strings.Contains(text, w) })
	}) {
		s.Errorf("no message says what went wrong, and where")
	}
	for _, bad := range []string{"panic", "goroutine ", "runtime error", "bug in"} {
		if strings.Contains(text, bad) {
			s.Errorf("a message has %q", bad)
		}
	}
}

// faithful fails if the state has what the cluster hasn't, or the cluster what
// neither the state nor the group file has.
func (s *swept) faithful() {
	s.Helper()
	live := s.Live()
	for _, id := range s.Said() {
		if !slices.Contains(live, id) {
			s.Errorf("the state has %s, and the cluster has not", id)
		}
	}
	for _, id := range live {
		if !strings.HasSuffix(id, "/web") && !strings.HasSuffix(id, "/db") && !strings.HasSuffix(id, "-state") && !strings.HasPrefix(id, "NetworkPolicy/") &&
			(s.spire == "" || !strings.Contains(id, "/spire") && !strings.Contains(id, "/node-")) {
			s.Errorf("the cluster has %s, which nobody wants", id)
		}
	}
}

// Whatever request of a life goes wrong, in whatever way: the exit code tells, the
// message says what, where and what to do, the lock is free or the message says
// how to release it, the state tells what there is, the next run goes on from
// there, and nothing is lost or left over.
func TestEachRequestFails(t *testing.T) {
	t.Parallel()
	seed := life.Seed(t)
	c := &counts{faults: table{}, points: map[string]bool{}}
	var manners []manner
	all := single{stride: 3}
	for i := range all.shares() {
		manners = append(manners, single{seed, i, all.stride})
	}
	manners = append(manners, known)
	lastings, storms := 4, 8
	if os.Getenv("YUBA_TEST_FAULTS") == "all" {
		lastings, storms = 24, 24
	}
	for i := range lastings {
		manners = append(manners, lasting{seed, i, 60})
	}
	for i := range storms {
		manners = append(manners, storm{seed, i, []int{2, 3, 5, 8}[i%4]})
	}
	for i := range storms {
		manners = append(manners, ways{seed, i})
	}
	t.Run("life", func(t *testing.T) {
		for i, m := range manners {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				s := &swept{Life: life.Born(t), manner: m, counts: c}
				if _, ok := m.(ways); ok {
					s.spireNode()
				}
				for _, p := range phases {
					s.live(p)
				}
				c.add(func() { c.lives++ })
			})
		}
	})
	c.report(t)
	if n := c.faults.total(); n < 2000 && c.lives == len(manners) {
		t.Errorf("there were only %d fault points", n)
	}
}

// report says how many faults there were, and with -update writes it into the page.
func (c *counts) report(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d fault points (and %d more answers spoilt by faults that last) in %d lives. Of %d runs of yuba %d met faults and did what they were for,\n"+
		"%d met faults and said what was wrong. At %d places of these lives a request went wrong in one way or another by itself.\n\n",
		c.faults.total(), c.repeated, c.lives, c.runs, c.unnoticed, c.reported, len(c.points))
	c.faults.write(&b)
	life.Report(t, b.String())
	if !*update {
		return
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Where the table is in the documentation.
const (
	page  = "../../../docs/reliability.md"
	begin = "<!-- made by 'make faults-table' -->\n\n"
	end   = "\n<!-- so far -->\n"
)

var update = flag.Bool("update", false, "write the table of the faults into the documentation")
