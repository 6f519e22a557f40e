// Package live shows long work while it goes on: on a terminal one line for
// each object that is worked on, redrawn in place; elsewhere plain lines.
package live

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Mode says how a Display shows what it is told.
type Mode int

const (
	// Off shows nothing.
	Off Mode = iota
	// Plain writes a line when something changes. Started and finished work
	// is not shown: OpenTofu's own lines tell of it.
	Plain
	// Terminal keeps one line for each object at the bottom of the screen.
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
	Subject string // address of the object
	Action  string // "create", "update", "delete", "read" or "refresh"
	Phase   Phase
}

// Options of a Display; the zero value of each field but Mode is usable.
type Options struct {
	Mode   Mode
	Colour bool
	// Size gives the terminal's columns and rows, at each redraw since a
	// window can change; 80 and 24 when it is nil.
	Size func() (columns, rows int)
	// Now is the clock, for tests.
	Now func() time.Time
	// Tick redraws whenever it has a value, and once a quarter second when
	// it is nil; for tests.
	Tick <-chan time.Time
}

// plainEvery is the least time between two plain lines of bytes for one
// subject: a log wants milestones, not a stream.
const plainEvery = 10 * time.Second

// Display shows events and messages. Its methods may be called from several
// goroutines at once.
type Display struct {
	w io.Writer
	o Options

	mu    sync.Mutex
	work  map[string]*item
	order []string
	drawn []int // the columns of each line on the screen below the last permanent one

	stop, stopped chan struct{}
}

// item is what is known of one object.
type item struct {
	action      string
	begin       time.Time
	running     bool
	message     string
	sent, total int64
	told        time.Time // of the last plain line of bytes
}

// New returns a display that writes to w. The caller closes it.
func New(w io.Writer, o Options) *Display {
	if o.Size == nil {
		o.Size = func() (int, int) { return 80, 24 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Display{w: w, o: o, work: map[string]*item{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	if o.Mode != Terminal {
		close(d.stopped)
		return d
	}
	tick := o.Tick
	var ticker *time.Ticker
	if tick == nil {
		ticker = time.NewTicker(250 * time.Millisecond)
		tick = ticker.C
	}
	go func() {
		defer close(d.stopped)
		if ticker != nil {
			defer ticker.Stop()
		}
		for {
			select {
			case <-d.stop:
				return
			case <-tick:
				d.mu.Lock()
				d.redraw("")
				d.mu.Unlock()
			}
		}
	}()
	return d
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
	d.erase()
}

// Event records that work on an object started or ended.
func (d *Display) Event(e Event) {
	if d.o.Mode != Terminal {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	it := d.item(e.Subject)
	if e.Phase == Started {
		it.action, it.begin, it.running = e.Action, d.o.Now(), true
		return
	}
	took := d.o.Now().Sub(it.begin).Truncate(time.Second)
	running := it.running
	delete(d.work, e.Subject)
	d.order = slices.DeleteFunc(d.order, func(s string) bool { return s == e.Subject })
	switch {
	case !running || e.Action == "refresh" || e.Action == "read":
		if e.Phase == Failed {
			d.redraw(d.paint(red, "✗ ") + e.Subject + ": " + verbs(e.Action).failed + "\n")
		} // else the next tick does: what takes no time would only flicker
	case e.Phase == Failed:
		d.redraw(fmt.Sprintf("%s%s: %s after %s\n", d.paint(red, "✗ "), e.Subject, verbs(e.Action).failed, took))
	default:
		d.redraw(fmt.Sprintf("%s%s: %s after %s\n", d.paint(green, "✓ "), e.Subject, verbs(e.Action).done, took))
	}
}

// Message sets the current word on an object: why it is not done yet, say.
func (d *Display) Message(subject, message string) {
	message = clean(message)
	d.mu.Lock()
	defer d.mu.Unlock()
	it := d.item(subject)
	if it.message == message {
		return
	}
	it.message = message
	if d.o.Mode == Plain && message != "" {
		fmt.Fprintf(d.w, "%s: %s\n", subject, message)
	}
}

// Bytes sets how much of an object's bytes is sent.
func (d *Display) Bytes(subject string, sent, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	it := d.item(subject)
	it.sent, it.total = sent, total
	if d.o.Mode != Plain {
		return
	}
	now := d.o.Now()
	if it.told.IsZero() {
		it.told = now
	}
	if now.Sub(it.told) >= plainEvery {
		it.told = now
		fmt.Fprintf(d.w, "%s: %s\n", subject, amount(sent, total))
	}
}

func (d *Display) item(subject string) *item {
	it := d.work[subject]
	if it == nil {
		it = &item{begin: d.o.Now()}
		d.work[subject] = it
		d.order = append(d.order, subject)
	}
	return it
}

// Aside lets others write to the same terminal: the live lines are off the
// screen while print runs, and drawn again below what it printed.
func (d *Display) Aside(print func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erase()
	print()
	if d.o.Mode == Terminal {
		d.redraw("")
	}
}

// erase takes the live lines off the screen; the cursor is then where the
// next permanent line goes.
func (d *Display) erase() {
	columns, _ := d.size()
	if text := d.eraser(columns); text != "" {
		io.WriteString(d.w, text)
	}
	d.drawn = nil
}

// eraser is what erase writes. The cursor need not be in the first column: a
// terminal echoes ^C where it is. A window that became narrower has wrapped
// the lines.
func (d *Display) eraser(columns int) string {
	rows := 0
	for _, width := range d.drawn {
		rows += max(1, (width+columns-1)/columns)
	}
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", rows)
}

func (d *Display) size() (columns, rows int) {
	columns, rows = d.o.Size()
	return max(columns, 20), max(rows, 4)
}

// redraw writes permanent text and the live lines below it in one write, so
// that a slow terminal shows no half of it.
func (d *Display) redraw(permanent string) {
	columns, rows := d.size()
	var lines []string
	for _, subject := range d.order {
		if it := d.work[subject]; it.running {
			lines = append(lines, d.line(subject, it, columns))
		}
	}
	if room := rows - 2; len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("  … and %d more", more))
	}
	var b strings.Builder
	b.WriteString(d.eraser(columns))
	b.WriteString(permanent)
	d.drawn = nil
	for _, l := range lines {
		b.WriteString(l + "\n")
		d.drawn = append(d.drawn, utf8.RuneCountInString(l))
	}
	if b.Len() > 0 {
		io.WriteString(d.w, b.String())
	}
}

func (d *Display) line(subject string, it *item, columns int) string {
	text := fmt.Sprintf("  %s: %s (%s)", subject, verbs(it.action).doing, d.o.Now().Sub(it.begin).Truncate(time.Second))
	if it.total > 0 || it.sent > 0 {
		text += " " + amount(it.sent, it.total)
	}
	if it.message != "" {
		text += ": " + it.message
	}
	return cut(text, columns-1)
}

// cut shortens text to so many columns, taking each rune for one.
func cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

// clean makes one harmless line of text that came from a server.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, text)
}

func amount(sent, total int64) string {
	if total <= 0 {
		return size(sent)
	}
	return fmt.Sprintf("%s of %s (%d %%)", size(sent), size(total), sent*100/total)
}

// size writes a number of bytes with three digits at the most.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, 0
	for value >= unit && suffix < 3 {
		value /= unit
		suffix++
	}
	return fmt.Sprintf("%.3g %ciB", value, "KMGT"[suffix])
}

// words are the forms of an action, as OpenTofu's own lines have them.
type words struct{ doing, done, failed string }

func verbs(action string) words {
	switch action {
	case "create":
		return words{"creating", "creation complete", "creation failed"}
	case "update":
		return words{"modifying", "modifications complete", "modification failed"}
	case "delete":
		return words{"destroying", "destruction complete", "destruction failed"}
	case "read":
		return words{"reading", "read complete", "read failed"}
	case "refresh":
		return words{"refreshing", "refreshed", "refresh failed"}
	}
	return words{"working", "complete", "failed"}
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
