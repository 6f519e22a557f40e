// Command vuln reads what `govulncheck -format json` writes and tells the
// vulnerabilities that the program really calls. It fails if one of them is in a
// module. Those of the standard library are told, but end with the Go that builds
// the program and not with a change in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// message is the part of golang.org/x/vuln's stream that matters here.
type message struct {
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV   string `json:"osv"`
		Fixed string `json:"fixed_version"`
		Trace []struct {
			Module   string `json:"module"`
			Version  string `json:"version"`
			Function string `json:"function"`
		} `json:"trace"`
	} `json:"finding"`
	Config *struct {
		DB           string `json:"db"`
		LastModified string `json:"db_last_modified"`
		GoVersion    string `json:"go_version"`
	} `json:"config"`
}

func main() {
	found, err := run(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(2)
	}
	if found {
		os.Exit(1)
	}
}

// run says whether a module has a vulnerability that is called.
func run(in io.Reader, out io.Writer) (found bool, err error) {
	summaries := map[string]string{}
	called := map[string]string{} // by what is told
	scanned := false
	for dec := json.NewDecoder(in); ; {
		var m message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return false, fmt.Errorf("read what govulncheck found: %w", err)
		}
		switch {
		case m.Config != nil:
			scanned = true
			fmt.Fprintf(out, "built with %s; vulnerabilities known until %s\n", m.Config.GoVersion, m.Config.LastModified)
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil && len(m.Finding.Trace) > 0 && m.Finding.Trace[0].Function != "":
			f := m.Finding
			called[fmt.Sprintf("%s in %s %s, fixed in %s", f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.Fixed)] = f.OSV
			found = found || f.Trace[0].Module != "stdlib"
		}
	}
	if !scanned {
		return false, errors.New("govulncheck said nothing")
	}
	lines := make([]string, 0, len(called))
	for line := range called {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(out, "%s: %s\n", line, summaries[called[line]])
	}
	if len(lines) == 0 {
		fmt.Fprintln(out, "none is called")
	}
	return found, nil
}
