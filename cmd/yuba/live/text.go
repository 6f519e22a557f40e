package live

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// clean makes one harmless line of text that came from a server: control
// characters become blanks, and what turns the direction of writing or can't
// be seen goes.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x20 && r < 0x7f:
			return r
		case r < 0x20, r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
}

// columnsOf is how many columns of a terminal a character takes (UAX 11).
func columnsOf(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// columns is how many columns a text takes.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// cut shortens text to so many columns, one at least.
func cut(text string, limit int) string {
	if columns(text) <= limit {
		return text
	}
	n, end := 1, 0 // the sign that something is missing takes one
	for i, r := range text {
		n += columnsOf(r)
		if n > limit {
			break
		}
		end = i + len(string(r))
	}
	return text[:end] + "…"
}

// pad fills text up to so many columns.
func pad(text string, limit int) string {
	return text + strings.Repeat(" ", max(0, limit-columns(text)))
}

// amount is how much of something is sent.
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

// elapsed writes a time in whole seconds, in six characters at the most below a
// hundred hours.
func elapsed(d time.Duration) string {
	switch s := int(max(d, 0).Seconds()); {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
