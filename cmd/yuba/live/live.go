// Package live shows long work while it goes on: on a terminal one line for
// each node or object that is worked on, redrawn in place; elsewhere a line
// when something changes, and every half minute what is waited for.
package live

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mode says how a Display shows what it is told.
type Mode int

const (
	// Off shows nothing.
	Off Mode = iota
	// Plain writes lines that stay.
	Plain
	// Terminal keeps one line for each node at the bottom of the screen.
	Terminal
)

// Phase is how far the work on an object is.
type Phase int

const (
	Started Phase = iota
	Done
	Failed
)

// Event tells that work on an object started or ended.
type Event struct {
	// Line is whose line shows it: a node, or the object itself. Several objects
	// can share one.
	Line string
	// Object names the object among those of the line.
	Object string
	Phase  Phase
	// Doing is what is being done, such as "rolling out"; of Started.
	Doing string
	// End is what is said for good when the work has ended, such as "ready". What
	// ended well without it leaves nothing behind.
	End string
	// Rest is what the line shows after the end until more work starts; without
	// it the line goes. Of Done.
	Rest string
	// Reason is why it failed; its first line is shown.
	Reason string
}

// Options of a Display; the zero value of each field but Mode is usable.
type Options struct {
	Mode   Mode
	Colour bool
	// Size gives the terminal's columns and rows. It is asked at each look,
	// since a window can change; 80 and 24 when it is nil.
	Size func() (columns, rows int)
	// Now is the clock, for tests.
	Now func() time.Time
	// Manual leaves it to the caller to Look. For tests.
	Manual bool
}

// look is the time between two looks at what is to be shown. What happens in
// between costs no more than a note of it.
const look = 100 * time.Millisecond

// Display shows events and messages. Its methods may be called from several
// goroutines at once.
type Display struct {
	w io.Writer
	o Options

	mu    sync.Mutex
	lines map[string]*line
	order []*line // by name
	kept  strings.Builder
	frame frame // what is on the screen

	stop, stopped chan struct{}
}

// line is what is known of one node or object.
type line struct {
	name    string
	running []*work // the newest last
	rest    string
	message string // the current word on it: why it is not done yet, say
	sent    int64
	total   int64
	plain   plainLine
}

// work is what is being done to one object.
type work struct {
	object, doing string
	begin         time.Time
}

// now is the work that the line shows; nil when there is none.
func (l *line) now() *work {
	if len(l.running) == 0 {
		return nil
	}
	return l.running[len(l.running)-1]
}

// detail is what the line says beyond its phase.
func (l *line) detail() string {
	var parts []string
	if n := len(l.running); n > 1 && l.running[0].doing == l.now().doing {
		parts = append(parts, count(n, "object"))
	}
	if l.total > 0 || l.sent > 0 {
		parts = append(parts, amount(l.sent, l.total))
	}
	if l.message != "" {
		parts = append(parts, l.message)
	}
	return strings.Join(parts, ": ")
}

// New returns a display that writes to w. The caller closes it.
func New(w io.Writer, o Options) *Display {
	if o.Size == nil {
		o.Size = func() (int, int) { return 80, 24 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Display{w: w, o: o, lines: map[string]*line{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	if o.Mode == Off || o.Manual {
		close(d.stopped)
		return d
	}
	go func() {
		defer close(d.stopped)
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-ticker.C:
				d.Look()
			}
		}
	}()
	return d
}

// Look brings what can be seen up to date. The display does so itself, ten times
// a second.
func (d *Display) Look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.o.Mode {
	case Plain:
		d.tell()
	case Terminal:
		d.redraw()
	}
}

// Close takes the live lines off the screen. It may be called twice.
func (d *Display) Close() {
	d.mu.Lock()
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
	d.mu.Unlock()
	<-d.stopped
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines, d.order = map[string]*line{}, nil
	if d.o.Mode == Terminal {
		d.erase()
	}
}

// Event records that work on an object started or ended.
func (d *Display) Event(e Event) {
	if d.o.Mode == Off {
		return
	}
	e.Doing, e.End, e.Rest = clean(e.Doing), clean(e.End), clean(e.Rest)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.line(e.Line)
	now := d.o.Now()
	if e.Phase == Started {
		w := l.now()
		if w == nil {
			l.message, l.sent, l.total, l.rest = "", 0, 0, ""
		}
		if w == nil || w.doing != e.Doing {
			l.plain.begin(now)
		}
		l.running = append(l.running, &work{e.Object, e.Doing, now})
		return
	}
	var took time.Duration
	for i, w := range l.running {
		if w.object == e.Object {
			took = now.Sub(w.begin)
			l.running = append(l.running[:i], l.running[i+1:]...)
			break
		}
	}
	if l.now() == nil { // else what is known is of the rest
		l.message, l.sent, l.total, l.rest = "", 0, 0, e.Rest
	}
	if e.End == "" {
		return
	}
	text := l.name + ": " + e.End + " after " + elapsed(took)
	if reason, _, _ := strings.Cut(strings.TrimSpace(e.Reason), "\n"); reason != "" {
		text += ": " + clean(reason)
	}
	l.plain.told = now
	switch {
	case d.o.Mode == Plain:
		io.WriteString(d.w, text+"\n")
	case e.Phase == Failed:
		d.kept.WriteString(d.paint(red, "✗ ") + text + "\n")
	default:
		d.kept.WriteString(d.paint(green, "✓ ") + text + "\n")
	}
}

// Message sets the current word on a line: why it is not done yet, say.
func (d *Display) Message(name, message string) {
	if d.o.Mode == Off {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.line(name)
	if message = clean(message); l.message == message {
		return
	}
	l.message = message
	now := d.o.Now()
	l.plain.changed = now
	if d.o.Mode == Plain && l.now() == nil && message != "" && !l.plain.known(message, now, again) {
		// Nobody says when this work starts and ends, so it can't wait.
		io.WriteString(d.w, l.name+": "+message+"\n")
	}
}

// Bytes sets how much of a line's bytes is sent.
func (d *Display) Bytes(name string, sent, total int64) {
	if d.o.Mode == Off {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.line(name)
	l.sent, l.total = sent, total
}

// Aside lets others write to the same terminal: the live lines are off the
// screen while print runs, and drawn again below what it printed.
func (d *Display) Aside(print func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.o.Mode != Terminal {
		print()
		return
	}
	d.erase()
	print()
	d.redraw()
}

func (d *Display) line(name string) *line {
	l := d.lines[name]
	if l == nil {
		l = &line{name: clean(name)}
		d.lines[name] = l
		at, _ := slices.BinarySearchFunc(d.order, l, func(a, b *line) int { return strings.Compare(a.name, b.name) })
		d.order = slices.Insert(d.order, at, l)
	}
	return l
}

const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
)

func (d *Display) paint(colour, text string) string {
	if !d.o.Colour {
		return text
	}
	return colour + text + "\x1b[0m"
}
