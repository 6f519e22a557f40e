package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
)

// The scripts complete commands, flags, the nodes of the group in group.json
// and, for all else, files.
var (
	//go:embed completion/yuba.bash
	bashCompletion string
	//go:embed completion/_yuba
	zshCompletion string
	//go:embed completion/yuba.fish
	fishCompletion string
)

// shells are those that completions are made for.
var shells = map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}

func completionCommand() command {
	return command{
		name:    "completion",
		args:    "SHELL",
		summary: "Print the completions of bash, zsh or fish.",
		about: `They go where the shell looks for them:
bash   /usr/share/bash-completion/completions/yuba, or source it in ~/.bashrc
zsh    a file _yuba in a directory of $fpath
fish   ~/.config/fish/completions/yuba.fish`,
		example: "source <(yuba completion bash)",
		setup: func(*flag.FlagSet) action {
			return func(_ context.Context, p process, args []string) error {
				if len(args) != 1 || shells[args[0]] == "" {
					return usagef("one of bash, fish and zsh is needed")
				}
				return writeCompletion(p.stdout, args[0])
			}
		},
	}
}

// completed is a place in the command line: what can follow some words.
type completed struct {
	Path     string // the words, "" for none
	Words    []offered
	Flags    []offered
	TakeNode bool // nodes of a group can follow
}

// offered is one thing that can follow.
type offered struct {
	Name, Text string
	Value      bool // of a flag: it takes one
}

// completions are all places of the command line.
func completions() []completed {
	var all []completed
	index := map[string]int{}
	at := func(path string) *completed {
		i, ok := index[path]
		if !ok {
			i = len(all)
			index[path] = i
			all = append(all, completed{Path: path})
		}
		return &all[i]
	}
	at("").Flags = []offered{{Name: "chdir", Text: "work in another directory", Value: true}, {Name: "help", Text: "list the commands"}}
	for _, c := range commands() {
		words := strings.Fields(c.name)
		for i, w := range words {
			parent := at(strings.Join(words[:i], " "))
			text := c.summary
			if i < len(words)-1 {
				text = "commands that begin with " + w
			}
			k := slices.IndexFunc(parent.Words, func(o offered) bool { return o.Name == w })
			switch {
			case k < 0:
				parent.Words = append(parent.Words, offered{Name: w, Text: text})
			case i == len(words)-1: // "providers" is a command and a group
				parent.Words[k].Text = text
			}
		}
		here := at(c.name)
		here.TakeNode = strings.Contains(c.args, "NODE")
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		c.setup(flags)
		flags.VisitAll(func(f *flag.Flag) {
			value, usage := flag.UnquoteUsage(f)
			text, _, _ := strings.Cut(usage, "\n")
			here.Flags = append(here.Flags, offered{Name: f.Name, Text: text, Value: value != ""})
		})
		here.Flags = append(here.Flags, offered{Name: "help", Text: "explain the command"})
	}
	return all
}

// writeCompletion fills the script of a shell.
func writeCompletion(w io.Writer, shell string) error {
	t, err := template.New(shell).Funcs(template.FuncMap{
		// quote makes one word of a text for any of the shells.
		"quote": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
		// colon keeps a text from being split where zsh expects name:text.
		"colon": func(s string) string { return strings.ReplaceAll(s, ":", `\:`) },
	}).Parse(shells[shell])
	if err != nil {
		return fmt.Errorf("completions of %s: %w", shell, err)
	}
	return t.Execute(w, completions())
}
