package parity

import (
	"regexp"
	"slices"
	"strings"
)

// differences are what is not the same on purpose. Each is undone before the
// comparison; docs/tofu.md lists them for users.
var differences = []struct {
	what, why string
	undo      func(name string, stock, yuba *step)
}{
	{
		"commands", "hints name the program that runs",
		func(_ string, w, g *step) {
			each(w, g, func(text string) string { return strings.ReplaceAll(text, "yuba ", "tofu ") })
		},
	},
	{
		"unencrypted", "every verb warns that states may be stored unencrypted; stock tofu's apply of a saved plan, destroy, output and state list don't",
		func(name string, w, g *step) {
			if name == "encryption" || strings.HasPrefix(name, "encryption-migrate") {
				each(w, g, func(text string) string {
					text = unencryptedInJSON.ReplaceAllString(text, "")
					return strings.TrimSpace(blankLines.ReplaceAllString(strings.ReplaceAll(text, unencrypted, ""), "\n"))
				})
			}
		},
	},
	{
		"words", "errors say what to do with yuba, which installs nothing; only the exit codes are the same",
		func(name string, w, g *step) {
			if steps, ok := otherWords[name]; ok && (steps == nil || slices.Contains(steps, w.name)) {
				each(w, g, func(string) string { return "" })
			}
		},
	},
}

// otherWords are the steps, by case, where yuba has an error of its own. nil is
// all steps.
var otherWords = map[string][]string{
	"unlinked-provider-error": nil, // providers are linked, none is installed
	"unlinked-backend-error":  nil, // so are backends
	"module-remote-error":     nil, // modules are read from where they are
	"module-missing-error":    nil,
	// One sentence, where stock tofu says it once for each kind of file.
	"replace": {"show missing", "show -json missing"},
	// What nobody can approve is told with what to do.
	"ask": {"apply -replace=terraform_data.x", "apply -input=false -replace=terraform_data.x"},
}

const unencrypted = `Warning: Unencrypted method configured

  on main.tf line 2, in terraform:
   2:   encryption {

Method unencrypted is present in configuration. This is a security risk and
should only be enabled during migrations.
`

var unencryptedInJSON = regexp.MustCompile(`(?m)^\{.*"summary":"Unencrypted method configured".*\n`)

var blankLines = regexp.MustCompile(`\n\n+`)

func each(w, g *step, change func(string) string) {
	for _, s := range []*step{w, g} {
		s.stdout, s.stderr = change(s.stdout), change(s.stderr)
	}
}

// without undoes the intended differences.
func without(name string, w, g step) (step, step) {
	for _, d := range differences {
		d.undo(name, &w, &g)
	}
	return w, g
}

// bugs are differences that are not intended, by case and step, with what is
// wrong. A case alone stands for all its steps.
var bugs = map[string]string{}

func known(name, step string) bool {
	return bugs[name] != "" || bugs[name+"/"+step] != ""
}
