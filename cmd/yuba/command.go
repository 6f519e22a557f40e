package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// action is what a command does once its flags are parsed.
type action func(ctx context.Context, p process, args []string) error

// command is one verb of the command line.
type command struct {
	name    string // its words, without "yuba"
	args    string // its arguments, as the usage line shows them
	summary string // one line
	about   string // what a user should know beyond the flags
	example string
	setup   func(*flag.FlagSet) action
}

// commands is the whole command line, in the order in which help shows it.
func commands() []command {
	var all []command
	all = append(all, k8sCommands()...)
	all = append(all, stateCommands()...)
	all = append(all, providerCommands()...)
	return append(all, versionCommand())
}

// help prints the command's page.
func (c *command) help(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: yuba %s\n\n%s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
	if c.about != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.about))
	}
	if c.example != "" {
		fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(c.example), "\n", "\n  "))
	}
	first := true
	flags.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprint(w, "\nFlags:\n")
			first = false
		}
		value, text := flag.UnquoteUsage(f)
		head := "  -" + f.Name
		if value != "" {
			head += "=" + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0s" && f.DefValue != "[]" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "%s\n        %s\n", head, strings.ReplaceAll(text, "\n", "\n        "))
	})
}

func overview(w io.Writer) {
	fmt.Fprint(w, "Usage: yuba COMMAND [FLAGS] [ARGUMENTS]\n\n"+
		"Deploys groups of NixOS nodes to Kubernetes, with its state where OpenTofu has it.\n\nCommands:\n")
	list(w, "")
	fmt.Fprint(w, "\n'yuba COMMAND -h' explains a command, with an example.\n")
}

// list prints the commands whose name begins with prefix.
func list(w io.Writer, prefix string) {
	for _, c := range commands() {
		if strings.HasPrefix(c.name, prefix) {
			fmt.Fprintf(w, "  %-18s %s\n", c.name, c.summary)
		}
	}
}

// groupHelp is a stand-in command that lists the commands of a group.
func groupHelp(group string) *command {
	return &command{name: group, setup: func(*flag.FlagSet) action {
		return func(_ context.Context, p process, _ []string) error {
			fmt.Fprintf(p.stdout, "Usage: yuba %s COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n", group)
			list(p.stdout, group+" ")
			return nil
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
