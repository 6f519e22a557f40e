package kubernetes

import (
	"strings"
	"testing"
)

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"[\x1b[0;32m  OK  \x1b[0m] Reached target\r\n":                    "[  OK  ] Reached target\n",
		"\x1b]0;title\x07a\x1b]8;;https://x.test\x1b\\link\x1b]8;;\x1b\\": "alink",
		"\x1b[2J\x1b[1;1Hwiped\x1bcreset\x1b(B":                           "wipedreset",
		"a\tb\x00\x08\x7f\u009b31mc\u202ed":                               "a bcd",
		"\xff\x1b[":                                                       "?",
		"\x1bP1;2q never ended":                                           "",
	} {
		if got := plainText(in); strings.Trim(got, "[") != strings.Trim(want, "[") && got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if got := plainText(in); strings.ContainsAny(got, "\x1b\x00\x07\r") {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestFailedUnits(t *testing.T) {
	// As systemd 252 and older print it (with the dot), and newer ones.
	units, about := failedUnits("● nginx.service loaded failed failed A web server\n" +
		"var-lib\\x2dx.mount loaded failed failed\n--output=export loaded failed failed x\nnonsense\n\n")
	if len(units) != 2 || units[0] != "nginx.service" || about[0] != "A web server" || units[1] != `var-lib\x2dx.mount` || about[1] != "" {
		t.Errorf("%q %q", units, about)
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add("\x1b[0m\x1b]0;x")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(plainText(s), "\x1b\r\x00\u009b") {
			t.Errorf("%q", plainText(s))
		}
		for _, line := range tail(plainText(s)) {
			if strings.Contains(line, "\n") || len([]rune(line)) > maxColumns+5 {
				t.Errorf("%q", line)
			}
		}
	})
}
