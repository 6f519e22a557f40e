package live

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// frame is what the live part of a screen shows.
type frame struct {
	lines   []string
	columns int // of the terminal for which it was made
}

// Sequences that every terminal with a cursor has. Without wrapping, a line
// whose width the terminal sees otherwise than we do still is one row.
const (
	wrapOff   = "\x1b[?7l"
	wrapOn    = "\x1b[?7h"
	clearLine = "\x1b[K"
	clearDown = "\x1b[J"
)

// home moves the cursor to where the live part begins. It need not be in the
// first column: a terminal echoes ^C where it is. A window that became narrower
// has wrapped the lines.
func (f frame) home(columnsNow int) string {
	rows := 0
	for _, l := range f.lines {
		rows += max(1, (columns(l)+columnsNow-1)/columnsNow)
	}
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

// erase takes the live lines off the screen, and writes what is kept; the
// cursor is then where the next permanent line goes.
func (d *Display) erase() {
	columns, _ := d.size()
	text := d.frame.home(columns)
	if text != "" {
		text += clearDown
	}
	text += d.kept.String()
	d.kept.Reset()
	d.frame = frame{}
	if text != "" {
		io.WriteString(d.w, text)
	}
}

func (d *Display) size() (columns, rows int) {
	columns, rows = d.o.Size()
	return max(columns, 20), max(rows, 4)
}

// redraw writes what is kept and the live lines below it in one write, so that
// a slow terminal shows no half of it, and only when something changed.
func (d *Display) redraw() {
	columns, rows := d.size()
	next := frame{d.table(columns, rows-2), columns}
	if d.kept.Len() == 0 && next.columns == d.frame.columns && slices.Equal(next.lines, d.frame.lines) {
		return
	}
	var b strings.Builder
	home := d.frame.home(columns)
	b.WriteString(home)
	if home != "" && (columns != d.frame.columns || len(next.lines) < len(d.frame.lines)) {
		b.WriteString(clearDown)
	}
	for line := range strings.Lines(d.kept.String()) {
		b.WriteString(strings.TrimSuffix(line, "\n") + clearLine + "\n")
	}
	if len(next.lines) > 0 {
		b.WriteString(wrapOff)
		for _, l := range next.lines {
			b.WriteString(l + clearLine + "\n")
		}
		b.WriteString(wrapOn)
	}
	if home != "" {
		b.WriteString(clearDown)
	}
	d.kept.Reset()
	d.frame = next
	io.WriteString(d.w, b.String())
}

// row is one line of the table.
type row struct{ name, doing, time, detail string }

// table is the live lines: name, phase, elapsed time and reason, in columns. Where
// there is no room for all, those that rest go first, and the last line counts
// what is not shown.
func (d *Display) table(width, room int) []string {
	var busy, resting []*line
	for _, l := range d.order {
		switch {
		case l.now() != nil:
			busy = append(busy, l)
		case l.rest != "":
			resting = append(resting, l)
		}
	}
	shown := append(busy, resting...)
	var hidden []*line
	if len(shown) > room {
		shown, hidden = shown[:room-1], shown[room-1:]
	}
	now := d.o.Now()
	var rows []row
	for _, l := range d.order { // keeps the place of each
		if !slices.Contains(shown, l) {
			continue
		}
		if w := l.now(); w != nil {
			rows = append(rows, row{l.name, w.doing, elapsed(now.Sub(w.begin)), l.detail()})
		} else {
			rows = append(rows, row{l.name, l.rest, "", l.detail()})
		}
	}
	var nameWidth, doingWidth, timeWidth int
	for _, r := range rows {
		nameWidth, doingWidth, timeWidth = max(nameWidth, columns(r.name)), max(doingWidth, columns(r.doing)), max(timeWidth, len(r.time))
	}
	nameWidth = min(nameWidth, width*2/5)
	var lines []string
	for _, r := range rows {
		text := fmt.Sprintf("  %s  %s  %*s  %s", pad(cut(r.name, nameWidth), nameWidth), pad(r.doing, doingWidth), timeWidth, r.time, r.detail)
		lines = append(lines, cut(strings.TrimRight(text, " "), width-1))
	}
	if len(hidden) > 0 {
		lines = append(lines, cut("  … and "+tally(hidden), width-1))
	}
	return lines
}

// tally counts lines by what is done to them.
func tally(lines []*line) string {
	number := map[string]int{}
	var order []string
	for _, l := range lines {
		doing := l.rest
		if w := l.now(); w != nil {
			doing = w.doing
		}
		if number[doing]++; number[doing] == 1 {
			order = append(order, doing)
		}
	}
	for i, doing := range order {
		order[i] = fmt.Sprintf("%d %s", number[doing], doing)
	}
	return fmt.Sprintf("%d more: %s", len(lines), strings.Join(order, ", "))
}
