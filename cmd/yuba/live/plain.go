package live

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

const (
	// settle is how long something must last to be worth a line of its own: a
	// pod passes through several states in its first second.
	settle = time.Second
	// again is the time after which work that goes on is told of once more.
	again = 30 * time.Second
	// together is how much earlier than that other lines join in, so that they
	// come at the same time from then on.
	together = 10 * time.Second
	// crowd is the number of nodes from which on those with the same reason are
	// told of in one line, and named the number of those that it names.
	crowd, named = 8, 6

	forever = time.Duration(math.MaxInt64)
)

// plainLine is what was written of a line.
type plainLine struct {
	changed time.Time // since when it is as it is
	told    time.Time // of the last line that was written
	said    map[string]time.Time
}

// begin starts a new phase.
func (p *plainLine) begin(now time.Time) { *p = plainLine{changed: now, told: now} }

// maxSaid bounds what is remembered of one line.
const maxSaid = 64

// known says whether about the same was said in the last while, and remembers
// it: what alternates between two reasons, or counts, is told of by the reminders.
func (p *plainLine) known(text string, now time.Time, while time.Duration) bool {
	kind := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, text)
	if at, ok := p.said[kind]; ok && now.Sub(at) < while {
		return true
	}
	if p.said == nil || len(p.said) >= maxSaid {
		p.said = map[string]time.Time{}
	}
	p.said[kind] = now
	return false
}

// tell writes what changed and has lasted, and what is waited for.
func (d *Display) tell() {
	now := d.o.Now()
	var changed, still []*line
	due := false
	for _, l := range d.order {
		w := l.now()
		if w == nil {
			continue
		}
		p := &l.plain
		if !p.changed.IsZero() && now.Sub(p.changed) >= settle {
			p.changed = time.Time{}
			if !p.known(w.doing+": "+l.message, now, forever) {
				p.told = now
				changed = append(changed, l)
				continue
			}
		}
		if now.Sub(p.told) >= again-together {
			still = append(still, l)
			due = due || now.Sub(p.told) >= again
		}
	}
	d.write("", changed)
	if due {
		for _, l := range still {
			l.plain.told = now
		}
		d.write("still ", still)
	}
}

// write writes a line for each, or one for those that say the same when there
// are many.
func (d *Display) write(still string, lines []*line) {
	if len(lines) == 0 {
		return
	}
	now := d.o.Now()
	type group struct {
		text  string
		names []string
	}
	var groups []*group
	byText := map[string]*group{}
	for _, l := range lines {
		w := l.now()
		text := w.doing
		if len(lines) <= crowd {
			text = fmt.Sprintf("%s%s (%s)", still, text, elapsed(now.Sub(w.begin)))
			if detail := l.detail(); detail != "" {
				text += ": " + detail
			}
			groups = append(groups, &group{text, []string{l.name}})
			continue
		}
		text = still + text
		if l.message != "" {
			text += ": " + l.message
		}
		g := byText[text]
		if g == nil {
			g = &group{text: text}
			groups, byText[text] = append(groups, g), g
		}
		g.names = append(g.names, l.name)
	}
	var b strings.Builder
	for _, g := range groups {
		names := strings.Join(g.names[:min(named, len(g.names))], ", ")
		if more := len(g.names) - named; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		b.WriteString(names + ": " + g.text + "\n")
	}
	io.WriteString(d.w, b.String())
}
