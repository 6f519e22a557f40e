package kubernetes

import (
	"strings"
	"testing"
)

func TestFailedUnits(t *testing.T) {
	// As systemd 252 and older print it (with the dot), and newer ones.
	units, about := failedUnits("● nginx.service loaded failed failed A web server\n" +
		"var-lib\\x2dx.mount loaded failed failed\n--output=export loaded failed failed x\nnonsense\n\n")
	if len(units) != 2 || units[0] != "nginx.service" || about[0] != "A web server" || units[1] != `var-lib\x2dx.mount` || about[1] != "" {
		t.Errorf("%q %q", units, about)
	}
}

// What is quoted is bounded.
func TestTail(t *testing.T) {
	lines := tail(strings.Repeat("x", 10*maxColumns) + "\n\n" + strings.Repeat("line \n", 100))
	if len(lines) != lastLines || lines[0] != "  line" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if lines := tail(strings.Repeat("é", 10*maxColumns)); len([]rune(lines[0])) != maxColumns+5 {
		t.Errorf("a line of %d characters", len([]rune(lines[0])))
	}
}
