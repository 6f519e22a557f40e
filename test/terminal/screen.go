package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// screen is the state of a terminal as ECMA-48 and xterm have it, as far as
// programs that draw at the bottom of a screen use it. A sequence that it doesn't
// know is shown, so that a test fails.
type screen struct {
	columns, rows int
	lines         []line // what has scrolled out, then the rows
	row, column   int    // of the cursor; row counts from the first line of all
	wrap          bool   // at the right margin
	pending       bool   // the last column was written: the next character wraps
	rest          []byte // a sequence that isn't complete yet
}

// line is a row. A character of two columns is followed by a cell that is "".
type line struct {
	cells  []string
	goesOn bool // its text goes on in the next row
}

func newScreen(columns, rows int) *screen {
	return &screen{columns: columns, rows: rows, lines: make([]line, 1), wrap: true}
}

// top is the first row that can be seen.
func (s *screen) top() int { return max(0, len(s.lines)-s.rows) }

func (s *screen) String() string {
	var out []string
	for _, l := range s.lines {
		out = append(out, strings.TrimRight(strings.Join(l.cells, ""), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n") + "\n"
}

func (s *screen) write(p []byte) {
	b := append(s.rest, p...)
	for len(b) > 0 {
		n := s.next(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	s.rest = append([]byte(nil), b...)
}

// next handles what begins b and gives its length; 0 when it isn't complete.
func (s *screen) next(b []byte) int {
	switch c := b[0]; {
	case c == '\r':
		s.column, s.pending = 0, false
	case c == '\n':
		s.down()
	case c == '\b':
		s.column, s.pending = max(0, s.column-1), false
	case c == '\a':
	case c == 0x1b:
		return s.sequence(b)
	case c < 0x20 || c == 0x7f:
		s.put(fmt.Sprintf("<%02x>", c), 4)
	default:
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		s.put(string(b[:n]), cellsOf(r))
		return n
	}
	return 1
}

// sequence handles a control sequence.
func (s *screen) sequence(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		s.put("<ESC>", 5)
		return 1
	}
	end := 2
	for end < len(b) && b[end] >= 0x20 && b[end] < 0x40 {
		end++
	}
	if end == len(b) {
		return 0
	}
	params := string(b[2:end])
	n := 0
	fmt.Sscanf(params, "%d", &n)
	switch final := b[end]; {
	case final == 'm': // colours are not seen here
	case final == 'A':
		s.row, s.pending = max(s.top(), s.row-max(1, n)), false
	case final == 'K' && params == "":
		s.clear(s.row, s.column)
	case final == 'J' && params == "":
		s.clear(s.row, s.column)
		for r := s.row + 1; r < len(s.lines); r++ {
			s.clear(r, 0)
		}
	case params == "?7" && (final == 'h' || final == 'l'):
		s.wrap = final == 'h'
	default:
		text := "<ESC" + string(b[1:end+1]) + ">"
		s.put(text, len(text))
	}
	return end + 1
}

func (s *screen) clear(row, from int) {
	l := &s.lines[row]
	l.cells, l.goesOn = l.cells[:min(from, len(l.cells))], false
}

func (s *screen) down() {
	if s.row++; s.row == len(s.lines) {
		s.lines = append(s.lines, line{})
	}
	s.pending = false
}

// put writes a character of so many columns at the cursor.
func (s *screen) put(text string, cells int) {
	l := &s.lines[s.row]
	if cells == 0 {
		if i := min(s.column, len(l.cells)) - 1; i >= 0 {
			l.cells[i] += text
		}
		return
	}
	if s.pending || s.column+cells > s.columns {
		if !s.wrap {
			s.column = s.columns - cells
		} else {
			l.goesOn = true
			s.down()
			s.column = 0
			l = &s.lines[s.row]
		}
	}
	for len(l.cells) < s.column+cells {
		l.cells = append(l.cells, " ")
	}
	l.cells[s.column] = text
	for i := 1; i < cells; i++ {
		l.cells[s.column+i] = ""
	}
	s.column += cells
	s.pending = false
	if s.column >= s.columns {
		s.column, s.pending = s.columns-1, s.wrap
	}
}

// resize wraps what is too long now, and joins what was wrapped.
func (s *screen) resize(columns, rows int) {
	var lines []line
	cursor := 0
	joined := line{}
	for i, l := range s.lines {
		if i == s.row {
			cursor = len(lines) + len(joined.cells)/columns
		}
		joined.cells = append(joined.cells, l.cells...)
		if l.goesOn {
			continue
		}
		for len(joined.cells) > columns {
			lines = append(lines, line{cells: joined.cells[:columns:columns], goesOn: true})
			joined.cells = joined.cells[columns:]
		}
		lines = append(lines, joined)
		joined = line{}
	}
	s.lines, s.row, s.columns, s.rows = lines, cursor, columns, rows
	s.column, s.pending = min(s.column, columns-1), false
}

func cellsOf(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide, k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}
