package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

const maxGrants = 10_000

// Access says which states a user may read and write.
type Access struct {
	grants map[string][]grant // by user
}

// grant is one line: states by name, or all below a name, or all.
type grant struct {
	states string // without the * of a pattern
	below  bool
	write  bool
}

// everyone is the user whose grants all have.
const everyone = "*"

// ParseAccess reads lines of "USER STATES RIGHT", separated by spaces. USER is a
// user's name or * for each; STATES is a state's name, NAME/* for all below it, or
// * for all; RIGHT is read (GET and HEAD) or write (everything, locks included).
// What no line grants is refused. Empty lines and lines that begin with # are
// skipped.
func ParseAccess(r io.Reader) (*Access, error) {
	a := &Access{grants: map[string][]grant{}}
	count := 0
	err := eachLine(r, func(n int, line string) error {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("line %d is not of the form USER STATES RIGHT", n)
		}
		g, err := parseGrant(fields[1], fields[2])
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if count++; count > maxGrants {
			return fmt.Errorf("more than %d lines", maxGrants)
		}
		a.grants[fields[0]] = append(a.grants[fields[0]], g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, errors.New("nothing is granted to anyone")
	}
	return a, nil
}

func parseGrant(states, right string) (g grant, err error) {
	switch right {
	case "read":
	case "write":
		g.write = true
	default:
		return g, fmt.Errorf("the right %q is neither read nor write", right)
	}
	if states == "*" {
		g.below = true
		return g, nil
	}
	name, below := strings.CutSuffix(states, "/*")
	if !isStateName(name) {
		return g, fmt.Errorf("%q is no state's name, nor NAME/*, nor *", states)
	}
	if g.states, g.below = name, below; below {
		g.states += "/"
	}
	return g, nil
}

// Allows says whether user may read the state, or write it too.
func (a *Access) Allows(user, state string, write bool) bool {
	for _, name := range [...]string{user, everyone} {
		for _, g := range a.grants[name] {
			if (g.write || !write) && (g.states == state || g.below && strings.HasPrefix(state, g.states)) {
				return true
			}
		}
	}
	return false
}
