package soak

import (
	"strings"
	"testing"
	"time"
)

// at is a span in seconds.
func at(asked, answered int) span {
	return span{time.Duration(asked) * time.Second, time.Duration(answered) * time.Second}
}

func TestHistory(t *testing.T) {
	one := write{at(0, 1), 1, "a1", true}
	for name, c := range map[string]struct {
		h     history
		final read
		want  string // empty for a history that is possible
	}{
		"nothing": {history{}, read{at(9, 9), 0, ""}, ""},
		"one after the other": {
			history{writes: []write{one, {at(2, 3), 2, "b1", true}}, reads: []read{{at(1, 2), 1, "a1"}}},
			read{at(9, 9), 2, "b1"}, ""},
		"a write whose answer was lost, and that is there": {
			history{writes: []write{one, {at(2, 3), 2, "b1", false}}}, read{at(9, 9), 2, "b1"}, ""},
		"a write whose answer was lost, and that is not there": {
			history{writes: []write{one, {at(2, 3), 2, "b1", false}, {at(4, 5), 2, "c1", true}}}, read{at(9, 9), 2, "c1"}, ""},
		"a lost write": {
			history{writes: []write{one, {at(2, 3), 2, "b1", true}, {at(2, 3), 2, "c1", true}}},
			read{at(9, 9), 2, "c1"}, "one of them is lost"},
		"a write that is gone at the end": {
			history{writes: []write{one, {at(2, 3), 2, "b1", true}}}, read{at(9, 9), 1, "a1"}, "after the answer to the write of b1"},
		"another's content": {
			history{writes: []write{one, {at(0, 1), 1, "b1", false}}}, read{at(9, 9), 1, "b1"}, "saved by a1, but read as that of b1"},
		"content of nobody": {
			history{writes: []write{one}}, read{at(9, 9), 1, "x"}, "nobody wrote it"},
		"a serial of nobody": {
			history{writes: []write{one, {at(4, 5), 3, "b1", true}}}, read{at(9, 9), 3, "b1"}, "nobody wrote serial 2"},
		"an old state": {
			history{writes: []write{one, {at(2, 3), 2, "b1", true}}, reads: []read{{at(4, 5), 1, "a1"}}},
			read{at(9, 9), 2, "b1"}, "after the answer to the write of b1"},
		"backwards": {
			history{writes: []write{one, {at(2, 8), 2, "b1", true}}, reads: []read{{at(3, 4), 2, "b1"}, {at(5, 6), 1, "a1"}}},
			read{at(9, 9), 2, "b1"}, "after the answer to a read of b1"},
		"before it was written": {
			history{writes: []write{{at(5, 6), 1, "a1", true}}, reads: []read{{at(1, 2), 1, "a1"}}},
			read{at(9, 9), 1, "a1"}, "read before it was written"},
		"one lock, two holders": {
			history{holds: []hold{{"l1", 0, 5}, {"l2", 4, 6}}}, read{at(9, 9), 0, ""}, "l1 had the lock"},
		"one lock, two holders, long ago": {
			history{holds: []hold{{"l1", 0, 9}, {"l2", 2, 3}, {"l3", 4, 5}}}, read{at(9, 9), 0, ""}, "and l3 from"},
		"one lock, two holders after each other": {
			history{holds: []hold{{"l2", 5, 6}, {"l1", 0, 5}}}, read{at(9, 9), 0, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := c.h.check(c.final)
			if c.want == "" && len(wrong) > 0 || c.want != "" && !strings.Contains(strings.Join(wrong, "\n"), c.want) {
				t.Errorf("found %q, want %q", wrong, c.want)
			}
		})
	}
}
