package text

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"[\x1b[0;32m  OK  \x1b[0m] Reached target\r\n":                    "[  OK  ] Reached target\n",
		"\x1b]0;title\x07a\x1b]8;;https://x.test\x1b\\link\x1b]8;;\x1b\\": "alink",
		"\x1b[2J\x1b[1;1Hwiped\x1bcreset\x1b(B":                           "wipedreset",
		"a\tb\x00\x08\x7f\u009b31mc\u202ed":                               "a bcd",
		"\xff\x1b[":                                                       "?",
		"\x1bP1;2q never ended":                                           "",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// Whatever a pod writes, no control character is left of it.
func FuzzPlain(f *testing.F) {
	f.Add("\x1b[0m\x1b]0;x")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(Plain(s), "\x1b\r\x00\u009b\u202e") {
			t.Errorf("%q", Plain(s))
		}
	})
}
