package engine

import (
	"context"
	"fmt"

	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// initialise checks what stock tofu's init would install: that the providers
// are linked, the modules are there and the backend is one of ours. So scripts
// that call it go on, and fail where they would have. Nothing is written.
func (c *cli) initialise(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseInit(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewInit(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if diags = diags.Append(initRefused(args)); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	if !HasConfig(configDir) {
		view.InitialisedFromEmptyDir()
		return c.report(e, view, diags)
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, noState: !args.FlagBackend || !args.FlagCloud}))
	if c.report(e, view, diags) != 0 {
		return 1
	}
	view.InitSuccess(false)
	c.nothingInstalled(e)
	return 0
}

// get checks that the modules are there.
func (c *cli) get(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseGet(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewGet(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, anyProvider: true, noState: true, noEncryption: true}))
	if c.report(e, view, diags) != 0 {
		return 1
	}
	c.nothingInstalled(e)
	return 0
}

func (c *cli) nothingInstalled(e *Engine) {
	if !e.opts.JSON {
		_, _ = fmt.Fprintln(c.Stdout, "\nNothing needed to be installed: providers are linked into this program, and\nmodules are read from where they lie.")
	}
}

// initRefused are the flags of init whose effect would be missed.
func initRefused(args *arguments.Init) (diags tfdiags.Diagnostics) {
	no := func(flag, why string) { diags = diags.Append(sourceless("No "+flag, "%s", why)) }
	if !args.FlagConfigExtra.Empty() {
		no("-backend-config", "It is not kept anywhere: put the setting into the backend block, or into TF_HTTP_*.")
	}
	if args.Backend.MigrateState || args.Backend.ForceInitCopy {
		no("-migrate-state", "No state is moved between backends: 'state pull' with the old configuration and 'state push' with the new one do that.")
	}
	if args.FlagFromModule != "" {
		no("-from-module", "No module is copied or downloaded.")
	}
	return diags
}

// metadataFunctions prints the signatures of the language's functions.
func (c *cli) metadataFunctions(_ context.Context, raw []string) int {
	_, closer, diags := arguments.ParseMetadataFunctions(raw) // it only has -json, without which there are errors
	defer closer()
	e := c.engine(settings{view: arguments.ViewOptions{ViewType: arguments.ViewHuman}})
	view := views.NewMetadataFunctions(e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if !view.PrintFunctions() {
		return 1
	}
	return 0
}
