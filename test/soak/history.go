// Package soak lets many clients use one state server for a long time, while the
// server is killed and started again, and checks what they saw: no write may be
// lost, no lock may be held twice, nothing may be read that was not written.
package soak

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// span is when something was asked and when its answer came, since the start.
type span struct{ asked, answered time.Duration }

// write is a state that a client sent. Its serial is one more than what the
// client had read.
type write struct {
	span
	serial uint64
	note   string // who wrote it, and which of its writes
	known  bool   // the server said that it is saved; otherwise it may be
}

// read is a state that a client got; serial 0 is no state.
type read struct {
	span
	serial uint64
	note   string
}

// hold is a lock from the answer that granted it until it was given back, or
// until somebody broke it.
type hold struct {
	id          string
	from, until time.Duration
}

// history is what all clients saw of one state.
type history struct {
	writes []write
	reads  []read
	holds  []hold
}

// check says what of the history no register behind a lock can have done: there
// must be an order of all operations that fits their times, in which each read gives
// the write before it. Serials go up by one with each write, so they are the order;
// that leaves to check that each serial was written once, and that no answer
// contradicts an earlier one. final is the state at the end.
func (h *history) check(final read) []string {
	var wrong []string
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }

	// Who wrote a serial: the write that was acknowledged, or the one that was read.
	by := map[uint64]write{}
	sent := map[string]write{}
	for _, w := range h.writes {
		sent[w.note] = w
		if !w.known {
			continue
		}
		if other, twice := by[w.serial]; twice {
			fail("serial %d was saved by %s and by %s: one of them is lost", w.serial, other.note, w.note)
		}
		by[w.serial] = w
	}
	reads := append(slices.Clone(h.reads), final)
	for _, r := range reads {
		if r.serial == 0 {
			continue
		}
		w, ok := sent[r.note]
		switch {
		case !ok || w.serial != r.serial:
			fail("serial %d of %q was read, but nobody wrote it", r.serial, r.note)
			continue
		case w.asked > r.answered:
			fail("%s was read before it was written", r.note)
		}
		if other, ok := by[r.serial]; ok && other.note != r.note {
			fail("serial %d was saved by %s, but read as that of %s", r.serial, other.note, r.note)
		}
		by[r.serial] = w
	}
	for serial := range final.serial {
		if _, ok := by[serial+1]; !ok && !slices.ContainsFunc(h.writes, func(w write) bool { return w.serial == serial+1 }) {
			fail("nobody wrote serial %d, and the state is at %d", serial+1, final.serial)
		}
	}

	// What was there when something was asked must be there in the answer.
	type seen struct {
		span
		serial uint64
		what   string
	}
	var all []seen
	for _, w := range h.writes {
		if w.known {
			all = append(all, seen{w.span, w.serial, "the write of " + w.note})
		}
	}
	for _, r := range reads {
		all = append(all, seen{r.span, r.serial, "a read of " + r.note})
	}
	answered := slices.Clone(all)
	slices.SortFunc(answered, func(a, b seen) int { return cmp.Compare(a.answered, b.answered) })
	slices.SortFunc(all, func(a, b seen) int { return cmp.Compare(a.asked, b.asked) })
	var newest seen
	for _, s := range all {
		for len(answered) > 0 && answered[0].answered < s.asked {
			if answered[0].serial > newest.serial {
				newest = answered[0]
			}
			answered = answered[1:]
		}
		if s.serial < newest.serial {
			fail("%s (serial %d) was asked for after the answer to %s (serial %d)", s.what, s.serial, newest.what, newest.serial)
		}
	}

	holds := slices.Clone(h.holds)
	slices.SortFunc(holds, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
	var last hold
	for _, l := range holds {
		if l.from < last.until {
			fail("%s had the lock from %v to %v, and %s from %v", last.id, last.from, last.until, l.id, l.from)
		}
		if l.until > last.until {
			last = l
		}
	}
	return wrong
}
