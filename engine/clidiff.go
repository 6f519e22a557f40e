package engine

import (
	"bytes"
	"fmt"
)

// diffContext is how many unchanged lines surround a change.
const diffContext = 3

// maxDiffCells bounds the comparison. Beyond it all lines between the first and
// the last difference count as changed.
const maxDiffCells = 16 << 20

// edit is one line of a difference: kept (' '), removed ('-') or added ('+').
type edit struct {
	kind byte
	line []byte
}

// unifiedDiff is the difference between two texts in unified format.
func unifiedDiff(oldName, newName string, before, after []byte) []byte {
	edits := compare(bytes.SplitAfter(before, []byte("\n")), bytes.SplitAfter(after, []byte("\n")))
	var out bytes.Buffer
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	oldLine, newLine := 1, 1
	for i := 0; i < len(edits); {
		if edits[i].kind == ' ' {
			oldLine, newLine, i = oldLine+1, newLine+1, i+1
			continue
		}
		// A hunk goes on while the changes are near each other.
		from := max(0, i-diffContext)
		to := i
		for last := i; to < len(edits) && to-last <= 2*diffContext; to++ {
			if edits[to].kind != ' ' {
				last = to
			}
		}
		for to > i && to > 0 && trailing(edits[from:to]) > diffContext {
			to--
		}
		hunk := edits[from:to]
		lead := i - from
		oldCount, newCount := 0, 0
		for _, e := range hunk {
			if e.kind != '+' {
				oldCount++
			}
			if e.kind != '-' {
				newCount++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(oldLine-lead, oldCount), span(newLine-lead, newCount))
		for _, e := range hunk {
			out.WriteByte(e.kind)
			out.Write(e.line)
			if !bytes.HasSuffix(e.line, []byte("\n")) {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		oldLine, newLine, i = oldLine-lead+oldCount, newLine-lead+newCount, to
	}
	return out.Bytes()
}

func trailing(edits []edit) (n int) {
	for n < len(edits) && edits[len(edits)-1-n].kind == ' ' {
		n++
	}
	return n
}

func span(line, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", line-1)
	case 1:
		return fmt.Sprint(line)
	}
	return fmt.Sprintf("%d,%d", line, count)
}

// compare finds a shortest way from a to b, line by line.
func compare(a, b [][]byte) (out []edit) {
	a, b = withoutEmptyEnd(a), withoutEmptyEnd(b)
	head := 0
	for head < len(a) && head < len(b) && bytes.Equal(a[head], b[head]) {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && bytes.Equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	keep := func(lines [][]byte) {
		for _, l := range lines {
			out = append(out, edit{' ', l})
		}
	}
	keep(a[:head])
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	// common[i][j] is how many lines x[i:] and y[j:] have in common.
	var common [][]int32
	if len(x)*len(y) <= maxDiffCells {
		common = make([][]int32, len(x)+1)
		for i := range common {
			common[i] = make([]int32, len(y)+1)
		}
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if bytes.Equal(x[i], y[j]) {
					common[i][j] = common[i+1][j+1] + 1
				} else {
					common[i][j] = max(common[i+1][j], common[i][j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case common != nil && i < len(x) && j < len(y) && bytes.Equal(x[i], y[j]):
			out = append(out, edit{' ', x[i]})
			i, j = i+1, j+1
		case i < len(x) && (j == len(y) || common == nil || common[i+1][j] >= common[i][j+1]):
			out = append(out, edit{'-', x[i]})
			i++
		default:
			out = append(out, edit{'+', y[j]})
			j++
		}
	}
	keep(a[len(a)-tail:])
	return out
}

func withoutEmptyEnd(lines [][]byte) [][]byte {
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		return lines[:n-1]
	}
	return lines
}
