package parity

import (
	"fmt"
	"strings"
)

// shown is how many lines of a difference are printed.
const shown = 40

// difference is what has to be done to the lines of a to have those of b, ""
// for nothing. Equal lines are left out.
func difference(a, b []string) string {
	// common[i][j] is the length of the longest common subsequence of a[i:], b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, fmt.Sprintf("\t- %s", a[i]))
			i++
		default:
			out = append(out, fmt.Sprintf("\t+ %s", b[j]))
			j++
		}
	}
	if len(out) > shown {
		out = append(out[:shown], fmt.Sprintf("\t... and %d lines more", len(out)-shown))
	}
	return strings.Join(out, "\n")
}
