package live_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/test/golden"
	"fediversity.eu/yuba/test/terminal"
)

// stage is a display with a clock that only the test moves, on a terminal or
// without one.
type stage struct {
	*live.Display
	t    *testing.T
	term *terminal.Terminal // nil without one
	size [2]int

	mu      sync.Mutex
	now     time.Time
	out     strings.Builder
	written int // what the terminal makes of out, in bytes
	writes  int
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.out.Write(p)
	if s.term != nil {
		s.written += len(p) + strings.Count(string(p), "\n") // each gets a \r
		return s.term.Slave.Write(p)
	}
	return len(p), nil
}

// newStage has a real pseudo terminal of this size; 0 columns are none.
func newStage(t *testing.T, columns, rows int) *stage {
	t.Helper()
	s := &stage{t: t, now: time.Unix(1000, 0), size: [2]int{columns, rows}}
	o := live.Options{Mode: live.Plain, Manual: true, Now: func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}}
	if columns > 0 {
		s.term = terminal.Open(t, columns, rows)
		o.Mode = live.Terminal
		o.Size = func() (int, int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.size[0], s.size[1]
		}
	}
	s.Display = live.New(s, o)
	t.Cleanup(s.Close)
	return s
}

// pass lets time pass; the display looks ten times a second.
func (s *stage) pass(d time.Duration) {
	for step := 100 * time.Millisecond; d > 0; d -= step {
		s.mu.Lock()
		s.now = s.now.Add(step)
		s.mu.Unlock()
		s.Look()
	}
}

func (s *stage) resize(columns, rows int) {
	s.seen()
	s.term.Resize(columns, rows)
	s.mu.Lock()
	s.size = [2]int{columns, rows}
	s.mu.Unlock()
}

// seen is what a person sees now.
func (s *stage) seen() string {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return s.out.String()
	}
	if !s.term.Wait(func(string) bool { return len(s.term.Written()) >= s.written }) {
		s.t.Fatal("the terminal has lost something")
	}
	return s.term.Screen()
}

func (s *stage) wants(want string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.seen()); diff != "" {
		s.t.Errorf("(-want +seen)\n%s", diff)
	}
}

func (s *stage) start(line, doing string) {
	s.Event(live.Event{Line: line, Object: line + "/" + doing, Doing: doing})
}

func (s *stage) done(line, doing, end, rest string) {
	s.Event(live.Event{Line: line, Object: line + "/" + doing, Phase: live.Done, End: end, Rest: rest})
}

// The whole of a deploy, on terminals of two widths and without one.
func TestDeploy(t *testing.T) {
	for _, columns := range []int{80, 200, 0} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			s := newStage(t, columns, 12)
			var story strings.Builder
			shot := func(what string) {
				if columns > 0 {
					fmt.Fprintf(&story, "== %s\n%s", what, s.seen())
				}
			}
			for i := range 12 {
				s.Event(live.Event{Line: "cluster and registry", Object: fmt.Sprint(i), Doing: "reading"})
			}
			s.pass(2 * time.Second)
			shot("reading")
			for i := range 12 {
				s.Event(live.Event{Line: "cluster and registry", Object: fmt.Sprint(i), Phase: live.Done})
			}
			nodes := []string{"db", "mail", "web"}
			for _, n := range nodes {
				s.start(n, "pushing")
			}
			for i := range int64(40) {
				s.Bytes("db", i<<20, 40<<20)
				s.Bytes("web", i<<22, 700<<20)
				s.pass(time.Second)
				switch i {
				case 3:
					s.done("mail", "pushing", "its image is in the registry", "pushed")
					s.pass(100 * time.Millisecond)
					shot("pushing")
				}
			}
			shot("pushing, half a minute later")
			s.done("db", "pushing", "its image is in the registry", "pushed")
			s.done("web", "pushing", "its image is in the registry", "pushed")
			s.start("kubernetes_object.namespace", "creating")
			s.pass(100 * time.Millisecond)
			s.done("kubernetes_object.namespace", "creating", "creation complete", "")
			for _, n := range nodes {
				s.start(n, "claiming its volume")
			}
			s.pass(200 * time.Millisecond)
			for _, n := range nodes {
				s.done(n, "claiming its volume", "", "")
				s.start(n, "applying its Deployment")
			}
			s.pass(200 * time.Millisecond)
			for _, n := range nodes {
				s.done(n, "applying its Deployment", "", "")
				s.start(n, "rolling out")
				s.Message(n, "0/1 ready: there is no pod yet")
			}
			s.pass(300 * time.Millisecond)
			for _, n := range nodes {
				s.Message(n, "0/1 ready: ContainerCreating")
			}
			s.pass(3 * time.Second)
			shot("rolling out")
			s.Message("db", "0/1 ready: running, not ready")
			s.Message("mail", "0/1 ready: ErrImagePull: registry.example: サーバーが応答しません\x1b[2J (the server does not answer, and its certificate is not one that this node trusts)")
			s.done("web", "rolling out", "ready", "")
			s.pass(2 * time.Second)
			shot("reasons")
			// The kubelet tries, and waits, and tries.
			for i := range 10 {
				s.Message("mail", "0/1 ready: ImagePullBackOff")
				s.pass(3 * time.Second)
				s.Message("mail", fmt.Sprintf("0/1 ready: ErrImagePull, attempt %d", i))
				s.pass(3 * time.Second)
			}
			shot("a minute later")
			s.Event(live.Event{Line: "mail", Object: "mail/rolling out", Phase: live.Failed, End: "not ready",
				Reason: "The rollout of fediversity/mail failed: 0/1 ready: ImagePullBackOff\nand more"})
			s.done("db", "rolling out", "ready", "")
			s.pass(time.Second)
			s.Close()
			shot("the end")
			name := filepath.Join("testdata", fmt.Sprintf("deploy-%d.txt", columns))
			if columns == 0 {
				name = filepath.Join("testdata", "deploy-plain.txt")
				story.WriteString(s.seen())
			}
			golden.Check(t, name, story.String())
		})
	}
}

// A window that is made smaller or larger loses nothing and shows nothing twice.
func TestResize(t *testing.T) {
	s := newStage(t, 80, 10)
	s.start("db", "rolling out")
	s.Message("db", "0/1 ready: "+strings.Repeat("x", 60))
	s.start("web", "pushing")
	s.done("mail", "", "ready", "")
	s.pass(time.Second)
	s.wants("✓ mail: ready after 0s\n" +
		"  db   rolling out  1s  0/1 ready: " + strings.Repeat("x", 43) + "…\n" +
		"  web  pushing      1s\n")
	s.resize(40, 10)
	s.wants("✓ mail: ready after 0s\n" +
		"  db   rolling out  1s  0/1 ready: xxxxx\n" + strings.Repeat("x", 38) + "…\n" +
		"  web  pushing      1s\n")
	s.pass(100 * time.Millisecond)
	s.wants("✓ mail: ready after 0s\n" +
		"  db   rolling out  1s  0/1 ready: xxx…\n" +
		"  web  pushing      1s\n")
	s.resize(60, 10)
	s.pass(100 * time.Millisecond)
	s.wants("✓ mail: ready after 0s\n" +
		"  db   rolling out  1s  0/1 ready: xxxxxxxxxxxxxxxxxxxxxxx…\n" +
		"  web  pushing      1s\n")
	s.Close()
	s.wants("✓ mail: ready after 0s\n")
}

// With more nodes than rows those that rest go first, and the rest is counted.
func TestMoreNodesThanRows(t *testing.T) {
	s := newStage(t, 80, 8)
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		s.start(n, "pushing")
	}
	s.done("a", "pushing", "", "pushed")
	s.start("i", "rolling out")
	s.pass(time.Second)
	s.wants("  b  pushing  1s\n  c  pushing  1s\n  d  pushing  1s\n  e  pushing  1s\n  f  pushing  1s\n" +
		"  … and 4 more: 2 pushing, 1 rolling out, 1 pushed\n")
	for _, n := range []string{"b", "c", "d", "e"} {
		s.done(n, "pushing", "its image is in the registry", "pushed")
	}
	s.pass(time.Second)
	s.wants("✓ b: its image is in the registry after 1s\n✓ c: its image is in the registry after 1s\n" +
		"✓ d: its image is in the registry after 1s\n✓ e: its image is in the registry after 1s\n" +
		"  a  pushed\n  f  pushing      2s\n  g  pushing      2s\n  h  pushing      2s\n  i  rolling out  2s\n" +
		"  … and 4 more: 4 pushed\n")
}

// A short piece of work beside a long one takes nothing from its line.
func TestTwoPiecesOfWorkOfANode(t *testing.T) {
	s := newStage(t, 80, 10)
	s.start("web", "pushing")
	s.Bytes("web", 1<<20, 4<<20)
	s.start("web", "drawing its machine ID")
	s.done("web", "drawing its machine ID", "", "")
	s.pass(time.Second)
	s.wants("  web  pushing  1s  1 MiB of 4 MiB (25 %)\n")
}

// What is written aside, and a terminal's echo, leave no traces of lines.
func TestOthersWriteBetweenTheLines(t *testing.T) {
	s := newStage(t, 80, 24)
	s.start("a", "creating")
	s.start("b", "creating")
	s.Aside(func() {})
	s.Write([]byte("^C"))
	s.Aside(func() { s.Write([]byte("Interrupt received.\n")) })
	s.wants("Interrupt received.\n  a  creating  0s\n  b  creating  0s\n")
	s.Close()
	s.Close()
	s.wants("Interrupt received.\n")
}

// Characters of two columns and of none don't shift lines, nor does a text that
// would steer the terminal.
func TestStrangeCharacters(t *testing.T) {
	s := newStage(t, 30, 10)
	s.start("web", "rolling out")
	s.start("db", "rolling out")
	for _, message := range []string{"日本語日本語日本語", "e\u0301\u0302\u0301\u0302\u0301e\u0301e\u0301", "\x1b]0;title\x07\x9b31m\u202egnp.exe\u202c", "\xff\xfe", "👩‍👩‍👧👩‍👩‍👧"} {
		s.Message("web", message)
		s.Message("db", message)
		s.pass(100 * time.Millisecond)
		seen := s.seen()
		if lines := strings.Split(seen, "\n"); len(lines) != 3 || strings.Contains(seen, "<") || !strings.HasPrefix(lines[1], "  web  rolling out  0s  ") {
			t.Errorf("%q: a screen of\n%s", message, seen)
		}
	}
	s.Close()
	s.wants("\n")
}

// A line's work without an event, as of stock tofu's verbs, is told at once, and
// not again and again.
func TestMessagesAlone(t *testing.T) {
	s := newStage(t, 0, 0)
	for i := range 12 {
		s.Message("ns/web", []string{"0/1 ready", "0/1 ready", "CrashLoopBackOff"}[i%3])
		s.pass(5 * time.Second)
	}
	s.wants("ns/web: 0/1 ready\nns/web: CrashLoopBackOff\nns/web: 0/1 ready\nns/web: CrashLoopBackOff\n")
}

// Many nodes that wait for the same are one line of a log.
func TestCrowdWithoutATerminal(t *testing.T) {
	s := newStage(t, 0, 0)
	for i := range 100 {
		n := fmt.Sprintf("n%02d", i)
		s.start(n, "rolling out")
		if i != 42 {
			s.Message(n, "0/1 ready: ContainerCreating")
		}
	}
	s.pass(65 * time.Second)
	rest := "n00, n01, n02, n03, n04, n05 and 93 more: %srolling out: 0/1 ready: ContainerCreating\nn42: %[1]srolling out\n"
	s.wants(fmt.Sprintf(rest, "") + strings.Repeat(fmt.Sprintf(rest, "still "), 2))
}

// A hundred nodes whose words change a thousand times a second cost what ten
// looks a second cost.
func TestManyUpdatesAreFewWrites(t *testing.T) {
	s := newStage(t, 200, 50)
	for i := range 100 {
		s.start(fmt.Sprintf("n%02d", i), "pushing")
	}
	s.writes = 0
	for k := range int64(10) {
		for i := range 100 {
			for j := range int64(100) {
				s.Bytes(fmt.Sprintf("n%02d", i), k<<20+j<<10, 100<<20)
			}
		}
		s.pass(100 * time.Millisecond)
	}
	if s.writes > 10 {
		t.Errorf("%d writes in a second", s.writes)
	}
	before := s.writes
	s.pass(100 * time.Millisecond)
	if s.writes != before {
		t.Error("it writes though nothing has changed")
	}
}

func BenchmarkLookAtHundredNodes(b *testing.B) {
	d := live.New(nothing{}, live.Options{Mode: live.Terminal, Manual: true, Size: func() (int, int) { return 200, 120 }})
	defer d.Close()
	for i := range 100 {
		d.Event(live.Event{Line: fmt.Sprintf("node-%02d", i), Object: "x", Doing: "rolling out"})
		d.Message(fmt.Sprintf("node-%02d", i), "0/1 ready: ContainerCreating, and some more words on why that is")
	}
	var n int64
	for b.Loop() {
		n++
		d.Bytes("node-00", n, 1<<30)
		d.Look()
	}
}

type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
