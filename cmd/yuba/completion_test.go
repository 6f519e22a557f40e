package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What bash offers for a command line that ends where the cursor is.
func TestBashCompletes(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "yuba.bash")
	f, err := os.Create(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCompletion(f, "bash"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	// Bash takes = for a word of its own.
	const ask = `source "$1"; shift
yuba() { [ "$*" = "k8s nodes" ] && printf '%s\n' db web; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _yuba; printf '%s\n' "${COMPREPLY[@]}"`
	for line, want := range map[string][]string{
		"yuba k":                       {"k8s"},
		"yuba k8s st":                  {"status"},
		"yuba k8s apply -auto":         {"-auto-approve"},
		"yuba k8s apply --parallel":    {"--parallelism="},
		"yuba k8s apply -group = g":    nil,
		"yuba k8s apply -group = x -o": nil,
		"yuba k8s logs -f ":            {"db", "web"},
		"yuba k8s logs w":              {"web"},
		"yuba -chdir = infra pl":       {"plan"},
		"yuba -ch":                     {"-chdir="},
		"yuba state s":                 {"serve", "show"},
		"yuba completion ":             nil,
		"yuba nothing s":               nil,
	} {
		out, err := exec.Command("bash", append([]string{"-uc", ask, "bash", script}, strings.Split(line, " ")...)...).CombinedOutput()
		got := strings.Fields(string(out))
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// Every command and flag is offered in each shell, and has a page.
func TestCompletionsAndPagesHaveAll(t *testing.T) {
	pages := manPages("")
	for shell := range shells {
		var b strings.Builder
		if err := writeCompletion(&b, shell); err != nil {
			t.Fatal(err)
		}
		for _, c := range completions() {
			if !strings.Contains(b.String(), "'"+c.Path+"'") {
				t.Errorf("%s: no %q", shell, c.Path)
			}
			page := pages[pageName(c.Path)+".1"]
			for _, f := range c.Flags {
				if !strings.Contains(b.String(), f.Name) {
					t.Errorf("%s: no -%s", shell, f.Name)
				}
				if c.Path != "" && f.Name != "help" && !strings.Contains(page, `\fB`+roff("-"+f.Name)) {
					t.Errorf("the page of %s doesn't tell of -%s", c.Path, f.Name)
				}
			}
		}
	}
	if len(pages) != len(commands())+1 {
		t.Errorf("%d pages for %d commands", len(pages), len(commands()))
	}
}
