package main

import "fmt"

// didYouMean is a hint at the one of some names that is most like a mistyped
// one, or "" when none is.
func didYouMean(typed string, names []string) string {
	best, distance := "", max(1, len(typed)/3)
	for _, n := range names {
		if d := edits(typed, n); d <= distance && (best == "" || d < edits(typed, best)) {
			best = n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// edits is how many characters must be put in, taken out, replaced or swapped
// with their neighbour to make b of a (optimal string alignment distance).
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; i > 0 && j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
		for j := range rows[0] {
			rows[0][j] = j
		}
	}
	return rows[len(a)][len(b)]
}
