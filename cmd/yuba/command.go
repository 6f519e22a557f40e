package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	engine "github.com/opentofu/opentofu/yuba"
)

// action is what a command does once its flags are parsed.
type action func(ctx context.Context, p process, args []string) error

// command is one verb of the command line.
type command struct {
	name    string // its words, without "yuba"
	args    string // its arguments, as the usage line shows them
	summary string // one line
	about   string // what a user should know beyond the flags
	env     []variable
	example string
	json    *engine.JSONForm // how -json tells errors; nil: on the standard error as always
	setup   func(*flag.FlagSet) action

	stock bool // a verb of stock tofu's, whose flags the engine parses
	loose bool // the action gets the arguments as they are
}

// variable is one of the environment that a command reads.
type variable struct{ name, text string }

// commands is the whole command line, in the order in which help shows it.
func commands() []command {
	var all []command
	all = append(all, k8sCommands()...)
	all = append(all, tofuCommands()...)
	all = append(all, stateCommands()...)
	all = append(all, spireCommands()...)
	all = append(all, providerCommands()...)
	return append(all, versionCommand(), completionCommand(), manCommand())
}

// sections are the headings under which help shows flags; others have no
// heading of their own.
var sections = []struct {
	title string
	flags []string
}{
	{"What to do", []string{"group", "submission", "destroy", "refresh-only", "refresh", "replace", "target", "target-file", "exclude", "exclude-file", "var", "var-file", "out"}},
	{"How to do it", []string{"auto-approve", "input", "lock", "lock-timeout", "parallelism", "detailed-exitcode", "state", "state-out", "backup"}},
	{"What to print", []string{"json", "json-into", "raw", "no-color", "compact-warnings", "consolidate-warnings", "consolidate-errors", "deprecation", "concise", "show-sensitive"}},
}

// few is the number of flags that need no headings.
const few = 4

// help prints the command's page.
func (c *command) help(w io.Writer, flags *flag.FlagSet) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: yuba %s\n\n%s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
	if c.about != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.about))
	}
	if flags.Lookup("lock") != nil {
		fmt.Fprintf(&b, "\nSIGINT, SIGTERM or SIGHUP ends it within %v: what is under way is stopped, the state is saved and the lock\n"+
			"released; the exit code is 1. A second signal doesn't wait for what is under way: then it ends within %v.\n", engine.StopLimit, engine.CancelLimit)
	}
	if len(c.env) > 0 {
		b.WriteString("\nEnvironment:\n")
		for _, e := range c.env {
			fmt.Fprintf(&b, "  %-18s  %s\n", e.name, e.text)
		}
	}
	if c.example != "" {
		fmt.Fprintf(&b, "\nExample:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(c.example), "\n", "\n  "))
	}
	for _, s := range flagSections(flags) {
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		for _, f := range s.flags {
			head, text := describe(f)
			fmt.Fprintf(&b, "  %s\n        %s\n", head, strings.ReplaceAll(text, "\n", "\n        "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagSection is flags under a heading.
type flagSection struct {
	title string
	flags []*flag.Flag
}

// flagSections puts the flags of a command in the order of its help page.
func flagSections(flags *flag.FlagSet) []flagSection {
	var out []flagSection
	left := map[string]*flag.Flag{}
	flags.VisitAll(func(f *flag.Flag) { left[f.Name] = f })
	if len(left) > few {
		for _, s := range sections {
			section := flagSection{title: s.title}
			for _, name := range s.flags {
				if f := left[name]; f != nil {
					section.flags = append(section.flags, f)
					delete(left, name)
				}
			}
			out = append(out, section)
		}
	}
	rest := flagSection{title: "Flags"}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		rest.flags = append(rest.flags, left[name])
	}
	return slices.DeleteFunc(append(out, rest), func(s flagSection) bool { return len(s.flags) == 0 })
}

// describe is a flag's entry on a help page: how it is written, and what it does.
// A flag that is on unless it is turned off is shown turned off.
func describe(f *flag.Flag) (head, text string) {
	value, text := flag.UnquoteUsage(f)
	head = "-" + f.Name
	switch {
	case value != "":
		head += "=" + strings.ToUpper(value)
	case f.DefValue == "true":
		head += "=false"
	}
	if f.DefValue != "" && f.DefValue != "true" && f.DefValue != "false" && f.DefValue != "0s" {
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return head, text
}

// aboutYuba says what the program is.
const aboutYuba = "Deploys groups of NixOS nodes to Kubernetes, with its state where OpenTofu has it, and runs any\n" +
	"OpenTofu configuration of the providers that are linked into it."

func overview(w io.Writer) error {
	_, err := io.WriteString(w, "Usage: yuba [-chdir=DIR] COMMAND [FLAGS] [ARGUMENTS]\n\n"+aboutYuba+"\n\nCommands:\n"+
		list("")+"\n-chdir=DIR works in another directory. 'yuba COMMAND -h' explains a command, with an example.\n")
	return err
}

// list is the commands whose name begins with prefix, one a line.
func list(prefix string) string {
	var b strings.Builder
	for _, c := range commands() {
		if strings.HasPrefix(c.name, prefix) {
			fmt.Fprintf(&b, "  %-24s %s\n", c.name, c.summary)
		}
	}
	return b.String()
}

// groupHelp is a stand-in command that lists the commands of a group.
func groupHelp(group string) *command {
	return &command{name: group, setup: func(*flag.FlagSet) action {
		return func(_ context.Context, p process, _ []string) error {
			_, err := fmt.Fprintf(p.stdout, "Usage: yuba %[1]s COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n%[2]s\n'yuba %[1]s COMMAND -h' explains a command, with an example.\n",
				group, list(group+" "))
			return err
		}
	}}
}

// noArgs refuses arguments to a command that takes none.
func noArgs(args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
