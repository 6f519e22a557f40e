package live_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"fediversity.eu/yuba/cmd/yuba/live"
)

// clock is a time that only the test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// output is what a display wrote; the display writes from a goroutine too.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// screen plays what a display wrote on a terminal of endless height and
// returns what a person would see.
func screen(written string) string {
	var lines []string
	line := ""
	for i := 0; i < len(written); i++ {
		rest := written[i:]
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexAny(rest, "AJm")
			n := 0
			for _, c := range rest[2:end] {
				n = n*10 + int(c-'0')
			}
			switch rest[end] {
			case 'A':
				lines = lines[:len(lines)-n] // always followed by J: clear below
			}
			i += end
		case written[i] == '\r':
			line = "" // always followed by A and J
		case written[i] == '\n':
			lines = append(lines, line)
			line = ""
		default:
			line += written[i : i+1]
		}
	}
	return strings.Join(append(lines, line), "\n")
}

func TestTerminalShowsOneLinePerObjectAndKeepsResults(t *testing.T) {
	var out output
	c := &clock{time.Unix(1000, 0)}
	tick := make(chan time.Time)
	d := live.New(&out, live.Options{Mode: live.Terminal, Now: c.Now, Tick: tick})
	redraw := func() { tick <- c.now; tick <- c.now } // the second is taken when the first is done
	d.Event(live.Event{Subject: `oci_image.node["web"]`, Action: "create"})
	d.Event(live.Event{Subject: "kubernetes_rollout.node_db", Action: "update"})
	d.Bytes(`oci_image.node["web"]`, 5<<20, 20<<20)
	d.Message("kubernetes_rollout.node_db", "0 of 1 ready:\x1b[2J image is being pulled")
	c.now = c.now.Add(3 * time.Second)
	redraw()
	want := `  oci_image.node["web"]: creating (3s) 5 MiB of 20 MiB (25 %)
  kubernetes_rollout.node_db: modifying (3s): 0 of 1 ready: [2J image is being…
`
	if got := screen(out.String()); got != want {
		t.Errorf("while working:\n%s\nwant:\n%s", got, want)
	}
	d.Event(live.Event{Subject: `oci_image.node["web"]`, Action: "create", Phase: live.Done})
	d.Event(live.Event{Subject: "kubernetes_rollout.node_db", Action: "update", Phase: live.Failed})
	d.Close()
	d.Close()
	want = `✓ oci_image.node["web"]: creation complete after 3s
✗ kubernetes_rollout.node_db: modification failed after 3s
`
	if got := screen(out.String()); got != want {
		t.Errorf("at the end:\n%s\nwant:\n%s", got, want)
	}
}

func TestTerminalLeavesRoomForTheRest(t *testing.T) {
	var out output
	tick := make(chan time.Time)
	c := &clock{time.Unix(1000, 0)}
	d := live.New(&out, live.Options{Mode: live.Terminal, Now: c.Now, Tick: tick, Size: func() (int, int) { return 80, 6 }})
	for _, s := range []string{"a", "b", "c", "d", "e", "f"} {
		d.Event(live.Event{Subject: s, Action: "delete"})
	}
	tick <- c.now
	tick <- c.now
	want := "  a: destroying (0s)\n  b: destroying (0s)\n  c: destroying (0s)\n  … and 3 more\n"
	if got := screen(out.String()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	d.Close()
}

func TestOthersWriteBetweenTheLines(t *testing.T) {
	var out output
	c := &clock{time.Unix(1000, 0)}
	d := live.New(&out, live.Options{Mode: live.Terminal, Now: c.Now, Tick: make(chan time.Time)})
	d.Event(live.Event{Subject: "a", Action: "create"})
	d.Event(live.Event{Subject: "b", Action: "create"})
	d.Aside(func() {})
	out.Write([]byte("^C")) // a terminal's echo
	d.Aside(func() { out.Write([]byte("Interrupt received.\n")) })
	if got, want := screen(out.String()), "Interrupt received.\n  a: creating (0s)\n  b: creating (0s)\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	d.Close()
	if got, want := screen(out.String()), "Interrupt received.\n"; got != want {
		t.Errorf("at the end:\n%s\nwant:\n%s", got, want)
	}
}

func TestLinesOfAWiderWindowAreErased(t *testing.T) {
	var out output
	columns := 80
	c := &clock{time.Unix(1000, 0)}
	d := live.New(&out, live.Options{Mode: live.Terminal, Now: c.Now, Tick: make(chan time.Time), Size: func() (int, int) { return columns, 24 }})
	d.Event(live.Event{Subject: strings.Repeat("x", 70), Action: "create"})
	d.Aside(func() {})
	columns = 30 // the terminal now shows the 79 columns in three rows
	d.Close()
	if got := out.String(); !strings.HasSuffix(got, "\r\x1b[3A\x1b[J") {
		t.Errorf("it erased with %q", got[strings.LastIndex(got, "\n")+1:])
	}
}

func TestPlainTellsChangesOnly(t *testing.T) {
	var out output
	c := &clock{time.Unix(1000, 0)}
	d := live.New(&out, live.Options{Mode: live.Plain, Now: c.Now})
	for range 3 {
		d.Message("ns/web", "0 of 1 ready")
	}
	d.Message("ns/web", "1 of 1 ready")
	for i := range int64(21) {
		d.Bytes("reg/web", i<<20, 20<<20)
		c.now = c.now.Add(time.Second)
	}
	d.Close()
	want := "ns/web: 0 of 1 ready\nns/web: 1 of 1 ready\nreg/web: 10 MiB of 20 MiB (50 %)\nreg/web: 20 MiB of 20 MiB (100 %)\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}
