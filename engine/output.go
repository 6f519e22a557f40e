package engine

import (
	"context"
	"fmt"

	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// Output prints the outputs in the state, or the one with this name. Raw
// prints just the value of one, with no newline. Sensitive values are printed
// when asked for by name, by raw, or with JSON, as stock tofu does.
func (e *Engine) Output(ctx context.Context, name string, raw bool) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	opts := e.tty.viewOptions()
	if raw {
		if e.opts.JSON {
			return e.fail(tfdiags.Diagnostics{}.Append(sourceless("Invalid output format", "The -raw and -json options are mutually-exclusive.")))
		}
		opts.ViewType = arguments.ViewRaw
	}
	mgr, diags := e.readState(ctx)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	state := mgr.State()
	if state == nil {
		return e.fail(views.NewOutput(opts, e.tty.results).Output(name, nil))
	}
	return e.fail(views.NewOutput(opts, e.tty.results).Output(name, state.RootModule().OutputValues))
}

// errLoad is how stock tofu words that a state can't be read.
func errLoad(err error) error { return fmt.Errorf("error loading state: %w", err) }
