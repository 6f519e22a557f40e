// Package text makes text of what containers write.
package text

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// escapes are the sequences with which programs steer a terminal (ECMA-48):
// control sequences, strings such as titles and links, and short ones.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]|\u009b[0-?]*[ -/]*[@-~]")
})

// Plain takes out everything that isn't text: what a pod writes must not steer
// the operator's terminal. Lines stay.
func Plain(s string) string {
	s = escapes().ReplaceAllString(strings.ToValidUTF8(s, "?"), "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, s)
}
