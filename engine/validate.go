package engine

import (
	"context"

	"github.com/opentofu/opentofu/internal/command/format"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// Validate checks the configuration, without state and without asking anything
// of what the providers manage.
func (e *Engine) Validate(ctx context.Context) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	diags := e.validate(ctx)
	view := views.NewValidate(e.tty.viewOptions(), e.tty.results)
	switch {
	case e.opts.JSON || len(diags) == 0:
		if view.Results(diags) != 0 {
			return ErrReported
		}
		return nil
	case diags.HasErrors():
		return e.fail(diags)
	}
	e.tty.diagnostics(diags)
	e.tty.streams.Println(format.WordWrap(e.tty.results.Colorize().Color(
		"[green][bold]Success![reset] The configuration is valid, but there were some validation warnings as shown above."),
		e.tty.streams.Stdout.Columns()))
	return nil
}

func (e *Engine) validate(ctx context.Context) tfdiags.Diagnostics {
	cfg, diags := e.loadConfig(ctx)
	if diags.HasErrors() {
		return diags
	}
	core, more := tofu.NewContext(e.contextOpts())
	if diags = diags.Append(more); more.HasErrors() {
		return diags
	}
	return diags.Append(core.Validate(ctx, cfg))
}
