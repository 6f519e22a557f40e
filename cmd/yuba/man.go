package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func manCommand() command {
	return command{
		name:    "man",
		args:    "DIR",
		summary: "Write the manual pages.",
		about: `One page for yuba, and one for each command: yuba-k8s-apply.1. SOURCE_DATE_EPOCH, if set, is their date
(reproducible-builds.org).`,
		example: "yuba man ./man1 && man ./man1/yuba-k8s-apply.1",
		setup: func(*flag.FlagSet) action {
			return func(_ context.Context, p process, args []string) error {
				if len(args) != 1 {
					return usagef("one directory is needed")
				}
				date := ""
				if v := p.getenv("SOURCE_DATE_EPOCH"); v != "" {
					seconds, err := strconv.ParseInt(v, 10, 64)
					if err != nil {
						return fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %q", v)
					}
					date = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
				}
				if err := os.MkdirAll(args[0], 0o755); err != nil {
					return err
				}
				for name, text := range manPages(date) {
					if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

// manPages are the manual pages by file name, for man(7).
func manPages(date string) map[string]string {
	pages := map[string]string{}
	all := commands()
	var names []string
	var list manPage
	for _, c := range all {
		names = append(names, pageName(c.name)+"(1)")
		list.item("yuba "+c.name, c.summary)

		m := newManPage(pageName(c.name), c.summary, date)
		m.section("Synopsis")
		m.bold("yuba "+c.name, strings.TrimRight(" "+c.args, " "))
		m.section("Description")
		m.text(c.summary)
		if c.about != "" {
			m.text("")
			m.text(strings.TrimSpace(c.about))
		}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		c.setup(flags)
		for _, s := range flagSections(flags) {
			title := "Options"
			if s.title != "Flags" {
				title = "Options: " + s.title
			}
			m.section(title)
			for _, f := range s.flags {
				head, text := describe(f)
				m.item(head, text)
			}
		}
		if len(c.env) > 0 {
			m.section("Environment")
			for _, e := range c.env {
				m.item(e.name, e.text)
			}
		}
		if c.example != "" {
			m.section("Examples")
			m.literal(strings.TrimSpace(c.example))
		}
		m.section("See also")
		m.bold("yuba(1)", "")
		pages[pageName(c.name)+".1"] = m.b.String()
	}
	m := newManPage("yuba", "deploy groups of NixOS nodes to Kubernetes", date)
	m.section("Synopsis")
	m.bold("yuba", " COMMAND [FLAGS] [ARGUMENTS]")
	m.section("Description")
	m.text(aboutYuba)
	m.section("Commands")
	m.b.WriteString(list.b.String())
	m.section("See also")
	m.text(strings.Join(names, ", "))
	pages["yuba.1"] = m.b.String()
	return pages
}

func pageName(command string) string {
	return "yuba-" + strings.ReplaceAll(command, " ", "-")
}

// manPage is a page that is being written, in man(7).
type manPage struct{ b strings.Builder }

func newManPage(name, summary, date string) *manPage {
	m := &manPage{}
	fmt.Fprintf(&m.b, ".TH %s 1 %q %q\n", strings.ToUpper(roff(name)), date, "yuba "+version)
	m.section("Name")
	m.text(name + " \x00 " + strings.TrimSuffix(summary, "."))
	return m
}

func (m *manPage) section(title string) { fmt.Fprintf(&m.b, ".SH %q\n", strings.ToUpper(title)) }

// text is filled, but for lines that are indented in the source.
func (m *manPage) text(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		if line == "" {
			m.b.WriteString(".PP\n")
			continue
		}
		m.b.WriteString(roff(line) + "\n")
	}
}

// literal is shown as it is.
func (m *manPage) literal(s string) { m.b.WriteString(".nf\n" + roffLines(s) + "\n.fi\n") }

func (m *manPage) bold(s, rest string) {
	m.b.WriteString("\\fB" + roff(s) + "\\fR" + roffPart(rest) + "\n")
}

// item is a term and what it means.
func (m *manPage) item(term, text string) {
	m.b.WriteString(".TP\n")
	m.bold(term, "")
	m.b.WriteString(roffLines(text) + "\n")
}

// roffPart makes text of what troff would take for something else; a NUL is the
// dash between a page's name and its summary.
func roffPart(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`, "\x00", `\-`).Replace(s)
}

// roff is roffPart for a whole line: one that begins with a dot is no request.
func roff(s string) string {
	if strings.HasPrefix(s, ".") {
		return `\&` + roffPart(s)
	}
	return roffPart(s)
}

func roffLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = roff(lines[i])
	}
	return strings.Join(lines, "\n")
}
