package k8s

import (
	"fmt"
	"regexp"
	"strings"
)

// maxProblems is how many problems an error lists; the rest is counted.
const maxProblems = 20

// Problem is one thing that is wrong in a group file.
type Problem struct {
	// Path is the place in the JSON, such as nodes[1].image; empty for the
	// file itself.
	Path string
	// Message is the rule that is broken.
	Message string
}

// FileError is all that is wrong in a group file.
type FileError struct {
	// File is the name of the group file.
	File string
	// Problems are the first problems found.
	Problems []Problem
	// More is how many further problems there are.
	More int
}

// Error lists the problems, one a line.
func (e *FileError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.File + ": ")
		if p.Path != "" {
			b.WriteString(p.Path + ": ")
		}
		b.WriteString(p.Message)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n%s: and %d more", e.File, e.More)
	}
	return b.String()
}

// path is a place in a JSON document, as errors show it: nodes[1].image.
type path string

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child returns the place of key in the object at p. A key that would be
// ambiguous is quoted.
func (p path) child(key string) path {
	switch {
	case !plainKey.MatchString(key) || len(key) > maxQuoted:
		return p + path("["+quote(key)+"]")
	case p == "":
		return path(key)
	}
	return p + path("."+key)
}

// element returns the place of an element of the array at p.
func (p path) element(i int) path { return p + path(fmt.Sprintf("[%d]", i)) }

// maxQuoted is how many bytes of a foreign string an error repeats.
const maxQuoted = 80

// quote shows s in an error: quoted, in ASCII, of bounded length.
func quote(s string) string {
	if len(s) > maxQuoted {
		return fmt.Sprintf("%+q...", s[:maxQuoted])
	}
	return fmt.Sprintf("%+q", s)
}

// report collects problems.
type report struct {
	file     string
	problems []Problem
	more     int
}

func (r *report) add(at path, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{Path: string(at), Message: fmt.Sprintf(format, args...)})
}

// err returns nil when nothing was added.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &FileError{File: r.file, Problems: r.problems, More: r.more}
}
