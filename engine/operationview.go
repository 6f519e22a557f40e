package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opentofu/opentofu/internal/command/format"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// operationView is OpenTofu's view of a plan or an apply, with all that isn't a
// result on the standard error, and with this program's commands in the hints.
type operationView struct {
	views.Operation // of the results
	other           views.Operation
	tty             *tty
	linked          *linked
	state           *stateBackend
}

// Plan prints the plan.
func (v *operationView) Plan(plan *plans.Plan, schemas *tofu.Schemas) {
	v.tty.opts.Aside(func() { v.Operation.Plan(withoutNoOps(plan), schemas) })
}

func (e *Engine) operationView(results views.Operation) views.Operation {
	v := &operationView{Operation: results, other: results, tty: e.tty, linked: e.linked, state: e.state}
	if !e.opts.JSON && e.opts.stock == nil {
		v.other = views.NewOperation(e.tty.viewOptions().ViewType, e.tty.progress.RunningInAutomation(), e.tty.progress)
		if both, ok := results.(views.OperationMulti); ok { // the second one writes to JSONInto
			v.other = views.OperationMulti{v.other, both[1]}
		}
	}
	return v
}

// Interrupted says that an interrupt has come, and what to expect: in one
// sentence, except where stock tofu's words are wanted.
func (v *operationView) Interrupted() {
	v.says(views.Operation.Interrupted, "Interrupted: what is under way is stopped, the state saved and the lock released, within %v; a second interrupt doesn't wait for what is under way.", StopLimit)
}

func (v *operationView) FatalInterrupt() {
	v.says(views.Operation.FatalInterrupt, "Interrupted again: what is under way is left alone, and this ends within %v; it may be half done.", CancelLimit)
}

func (v *operationView) Stopping() {
	if v.tty.opts.JSON || v.tty.opts.stock != nil {
		v.tty.opts.Aside(v.other.Stopping)
	}
}

func (v *operationView) Cancelled(planMode plans.Mode) {
	v.tty.opts.Aside(func() { v.other.Cancelled(planMode) })
}

// says prints OpenTofu's words in JSON and for its own verbs, else ours.
func (v *operationView) says(theirs func(views.Operation), ours string, within time.Duration) {
	v.tty.opts.Aside(func() {
		if v.tty.opts.JSON || v.tty.opts.stock != nil {
			theirs(v.other)
			return
		}
		_, _ = fmt.Fprintf(v.tty.opts.Stderr, "\n"+ours+"\n", within)
		if both, ok := v.other.(views.OperationMulti); ok {
			theirs(both[1]) // JSONInto
		}
	})
}

// inconsistentLocks is OpenTofu's error when a configuration names a provider
// that it has no checksum of; here that is one that isn't linked.
const inconsistentLocks = "Inconsistent dependency lock file"

func (v *operationView) Diagnostics(diags tfdiags.Diagnostics) {
	diags = v.state.rescue.truth(diags, v.other, v.state.enc, v.tty.opts.Commands.StatePush)
	diags = v.linked.explain(withoutHalts(v.tty.ours(diags)))
	v.tty.opts.Aside(func() { v.other.Diagnostics(diags) })
}

// explain puts the error for providers that aren't linked in the place of
// OpenTofu's. It changes diags.
func (l *linked) explain(diags tfdiags.Diagnostics) tfdiags.Diagnostics {
	for i, d := range diags {
		if d.Description().Summary != inconsistentLocks {
			continue
		}
		if missing := namesIn(d.Description().Detail); len(missing) > 0 {
			diags[i] = l.unlinked(missing)
		}
	}
	return diags
}

// withoutHalts says once that an interrupt stopped this and that, and not at all
// when there is an error that tells more.
func withoutHalts(diags tfdiags.Diagnostics) tfdiags.Diagnostics {
	halt := func(d tfdiags.Diagnostic) bool { return d.Description().Summary == errHalted.Error() }
	said := slices.ContainsFunc(diags, func(d tfdiags.Diagnostic) bool { return d.Severity() == tfdiags.Error && !halt(d) })
	return slices.DeleteFunc(diags, func(d tfdiags.Diagnostic) bool {
		if !halt(d) {
			return false
		}
		again := said
		said = true
		return again
	})
}

// namesIn finds the providers in the detail of inconsistentLocks, one a line:
// "  - provider registry.opentofu.org/a/b: required by ...".
func namesIn(detail string) (names []string) {
	for line := range strings.Lines(detail) {
		if rest, ok := strings.CutPrefix(line, "  - provider "); ok {
			if name, _, ok := strings.Cut(rest, ": "); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// PlanNextStep says how to go on. It belongs to the plan's text.
func (v *operationView) PlanNextStep(planPath, configPath string) {
	if v.tty.opts.JSON || v.tty.results.RunningInAutomation() {
		return
	}
	cmd := v.tty.opts.Commands.Apply
	hint := "Note: You didn't use the -out option to save this plan, so OpenTofu can't guarantee to take exactly these actions if you run \"" + cmd + "\" now."
	if planPath != "" {
		hint = "Saved the plan to: " + planPath + "\n\nTo perform exactly these actions, run the following command to apply:\n    " + cmd + " " + quoted(planPath)
	}
	s := v.tty.streams
	s.Println(format.HorizontalRule(v.tty.results.Colorize(), s.Stdout.Columns()))
	if configPath != "" {
		s.Print(format.WordWrap("\nOpenTofu has generated configuration and written it to "+configPath+". Please review the configuration and edit it as necessary before adding it to version control.\n", s.Stdout.Columns()))
	}
	s.Print(format.WordWrap("\n"+hint, s.Stdout.Columns()) + "\n")
}

func quoted(path string) string { return `"` + strings.ReplaceAll(path, `"`, `\"`) + `"` }

// progressHooks are the hooks that print progress for humans, if any.
func (t *tty) progressHooks() []hook {
	switch {
	case t.opts.JSON, t.opts.Concise, t.opts.Events != nil, t.opts.stock != nil: // the view of stock tofu has its own
		return nil
	}
	return []hook{views.NewUiHook(t.progress)}
}
