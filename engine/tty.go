package engine

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/terminal"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// tty is where the engine prints. OpenTofu's views print results, progress
// and warnings on one stream; here results go through a view on the standard
// output, and everything else through another on the standard error.
type tty struct {
	opts     Options
	streams  *terminal.Streams
	results  *views.View // in JSON everything
	progress *views.View
	linked   *linked
}

func newTTY(opts Options) (*tty, error) {
	t := &tty{opts: opts}
	var err error
	if t.streams, err = streams(opts, opts.Stdout); err != nil {
		return nil, err
	}
	errStreams, err := streams(opts, opts.Stderr)
	if err != nil {
		return nil, err
	}
	t.results = newView(opts, t.streams)
	t.progress = newView(opts, errStreams)
	if opts.stock != nil {
		t.progress = t.results
	}
	return t, nil
}

// streams are OpenTofu's for files of our own choice.
func streams(opts Options, out *os.File) (*terminal.Streams, error) {
	s, err := terminal.Init()
	if err != nil {
		return nil, fmt.Errorf("setting up the terminal: %w", err)
	}
	s.Stdin.File, s.Stdout.File, s.Stderr.File = opts.Stdin, out, opts.Stderr
	return s, nil
}

func newView(opts Options, s *terminal.Streams) *views.View {
	v := views.NewView(s).SetRunningInAutomation(os.Getenv("TF_IN_AUTOMATION") != "")
	flags := arguments.View{
		CompactWarnings:     opts.CompactWarnings,
		ConsolidateWarnings: true,
		Concise:             true, // progress hooks are chosen in progressHooks
	}
	if opts.stock != nil {
		flags = *opts.stock
	}
	flags.NoColor = opts.NoColor || !s.Stdout.IsTerminal()
	v.Configure(&flags)
	v.SetShowSensitive(opts.ShowSensitive)
	return v
}

func (t *tty) setSources(f func() map[string]*hcl.File) {
	t.results.SetConfigSources(f)
	t.progress.SetConfigSources(f)
}

// viewOptions chooses between the human and the JSON form of a view.
func (t *tty) viewOptions() arguments.ViewOptions {
	o := arguments.ViewOptions{ViewType: arguments.ViewHuman, InputEnabled: t.opts.Input, JSONInto: t.opts.JSONInto}
	if t.opts.JSON {
		o.ViewType = arguments.ViewJSON
	}
	return o
}

// ask prints a question, or a part of it, with colours in OpenTofu's notation.
func (t *tty) ask(s string) {
	out := t.opts.Stderr
	if t.opts.stock != nil {
		out = t.opts.Stdout
	}
	_, _ = fmt.Fprint(out, t.progress.Colorize().Color(s))
}

// diagnostics prints for humans. Verbs that have a JSON view of their own print
// through that.
func (t *tty) diagnostics(diags tfdiags.Diagnostics) {
	t.progress.Diagnostics(t.ours(diags))
}

// noOutputs is OpenTofu's warning of a state without outputs. Its advice names
// commands that there are not for a graph that a program makes.
const noOutputs = "No outputs found"

// notAsked begins OpenTofu's error when there was no answer to the question
// whether to apply. The rest is this package's (input.go).
const notAsked = "error asking for approval: "

// OpenTofu's hints that hold with this program, too: verbs with its flags.
var (
	hint      = regexp.MustCompile("([`\"])tofu ((?:plan|apply|destroy|refresh|console|import|output|show|graph|validate|state (?:list|show|rm|mv|pull|push))\\b)")
	stateHint = regexp.MustCompile("([`\"])tofu (state (?:list|show|rm|mv|pull|push)\\b)")
)

// ours puts this program's commands into OpenTofu's hints.
func (t *tty) ours(diags tfdiags.Diagnostics) tfdiags.Diagnostics {
	c := t.opts.Commands
	r := strings.NewReplacer(
		"tofu state push errored.tfstate", c.StatePush+" errored.tfstate",
		`"tofu apply"`, `"`+c.Apply+`"`,
		"`tofu apply`", "`"+c.Apply+"`",
		`please call the "force-unlock" command`, `please call "`+c.ForceUnlock+`"`,
	)
	hints := hint
	if t.opts.stock == nil {
		hints = stateHint // the graph is a program's, which has verbs of its own
	}
	out := make(tfdiags.Diagnostics, 0, len(diags))
	for _, d := range diags {
		desc := d.Description()
		detail := hints.ReplaceAllString(r.Replace(desc.Detail), "${1}yuba $2")
		if desc.Summary == noOutputs && t.opts.stock == nil {
			detail = "The state has no outputs. " + quoted(c.Apply) + " puts them there."
		}
		if why, ok := strings.CutPrefix(desc.Summary, notAsked); ok {
			desc.Summary, detail = "Not approved", why
		}
		if strings.Contains(detail, "unavailable provider") { // one that only the state names
			detail += "\n\n" + t.linked.says()
		}
		if detail != desc.Detail || desc.Summary != d.Description().Summary {
			desc.Detail = detail
			d = reworded{d, desc}
		}
		out = append(out, d)
	}
	return out
}

// reworded is a diagnostic with another text.
type reworded struct {
	tfdiags.Diagnostic
	desc tfdiags.Description
}

func (r reworded) Description() tfdiags.Description { return r.desc }
