package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/command/workdir"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

func pathsOf(s *arguments.State) statePaths {
	return statePaths{s.StatePath, s.StateOutPath, s.BackupPath}
}

// choose puts the flags of an operation into it.
func choose(op *backend.Operation, o *arguments.Operation) {
	op.PlanMode, op.PlanRefresh = o.PlanMode, o.Refresh
	op.Targets, op.Excludes, op.ForceReplace = o.Targets, o.Excludes, o.ForceReplace
}

func (c *cli) plan(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParsePlan(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, showSensitive: args.ShowSensitive, parallelism: args.Operation.Parallelism}.locked(args.State.Lock, args.State.LockTimeout))
	view := views.NewPlan(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, warnTwice: true, paths: pathsOf(args.State)}))
	if c.report(e, view, diags) != 0 {
		return 1
	}
	op := e.operation(e.operationView(view.Operation()), view.Hooks(), view.Backend().StateLocker())
	op.Type = backend.OperationTypePlan
	choose(op, args.Operation)
	op.PlanOutPath, op.GenerateConfigOut = args.OutPath, args.GenerateConfigPath
	var err error
	if op.PlanOutBackend, err = e.state.forPlan(); err != nil {
		return c.report(e, view, diags.Append(err))
	}
	running, err := e.run(ctx, op)
	switch {
	case err != nil:
		return 1
	case args.DetailedExitCode && !running.PlanEmpty:
		return 2
	}
	return 0
}

func (c *cli) apply(ctx context.Context, raw []string, destroy bool) int {
	parse := arguments.ParseApply
	if destroy {
		parse = arguments.ParseApplyDestroy
	}
	args, closer, diags := parse(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, showSensitive: args.ShowSensitive, parallelism: args.Operation.Parallelism}.locked(args.State.Lock, args.State.LockTimeout))
	view := views.NewApply(args.ViewOptions, destroy, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if destroy && args.PlanPath != "" {
		return c.report(e, view, diags.Append(sourceless("Destroy can't be called with a plan file",
			"If this plan was created using plan -destroy, apply it using:\n  %s %s", e.opts.Commands.Apply, quoted(args.PlanPath))))
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: args.PlanPath == "", paths: pathsOf(args.State), plan: args.PlanPath}))
	if c.report(e, view, diags) != 0 {
		return 1
	}
	op := e.operation(e.operationView(view.Operation()), view.Hooks(), view.Backend().StateLocker())
	op.Type = backend.OperationTypeApply
	op.AutoApprove, op.SuppressForgetErrorsDuringDestroy = args.AutoApprove, args.SuppressForgetErrorsDuringDestroy
	choose(op, args.Operation)
	if args.PlanPath != "" {
		if more := e.openPlan(op, args.PlanPath, false); more.HasErrors() {
			return c.report(e, view, more)
		}
	}
	defer e.rescuing()()
	running, err := e.run(ctx, op)
	if err != nil {
		return 1
	}
	view.ResourceCount(args.State.StateOutPath)
	if !destroy && running.State != nil {
		view.Outputs(running.State.RootModule().OutputValues)
	}
	return 0
}

func (c *cli) refresh(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseRefresh(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, parallelism: args.Operation.Parallelism}.locked(args.State.Lock, args.State.LockTimeout))
	view := views.NewRefresh(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, paths: pathsOf(args.State)}))
	if c.report(e, view, diags) != 0 {
		return 1
	}
	op := e.operation(e.operationView(view.Operation()), view.Hooks(), view.Backend().StateLocker())
	op.Type = backend.OperationTypeRefresh
	op.Targets, op.Excludes = args.Operation.Targets, args.Operation.Excludes
	running, err := e.run(ctx, op)
	if err != nil {
		return 1
	}
	if running.State != nil {
		view.Outputs(running.State.RootModule().OutputValues)
	}
	return 0
}

func (c *cli) validate(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseValidate(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions})
	if diags.HasErrors() {
		return c.misused(e, e.tty.results, diags)
	}
	view := views.NewValidate(args.ViewOptions, e.tty.results)
	if !sameDir(args.Path, ".") {
		if err := os.Chdir(args.Path); err != nil {
			return view.Results(diags.Append(fmt.Errorf("unable to locate module: %w", err)))
		}
	}
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, noState: true, noEncryption: true}))
	ctx, done := e.interruptible(ctx)
	defer done()
	if !diags.HasErrors() {
		diags = diags.Append(e.validate(ctx))
	}
	return view.Results(e.tty.ours(diags))
}

func sameDir(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

func (c *cli) output(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseOutput(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, showSensitive: args.ShowSensitive})
	if diags.HasErrors() {
		return c.misused(e, e.tty.results, diags)
	}
	view := views.NewOutput(args.ViewOptions, e.tty.results)
	diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, paths: statePaths{state: args.StatePath}}))
	if diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	mgr, err := e.state.StateMgr(ctx, e.state.workspace)
	if err != nil {
		//lint:ignore ST1005 stock tofu's words
		return c.report(e, view, diags.Append(fmt.Errorf("Failed to load state: %w", err)))
	}
	outputs, err := mgr.GetRootOutputValues(ctx)
	if err != nil {
		return c.report(e, view, diags.Append(err))
	}
	return c.report(e, view, diags.Append(view.Output(args.Name, outputs)))
}

func (c *cli) show(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseShow(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, showSensitive: args.ShowSensitive})
	if diags.HasErrors() {
		return c.misused(e, e.tty.results, diags)
	}
	view := views.NewShow(args.ViewOptions, e.tty.results)
	what := args.TargetType
	needsConfig := what == arguments.ShowConfig
	diags = c.load(ctx, e, scope{vars: args.Vars, config: needsConfig, noState: what != arguments.ShowState})
	if diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	switch what {
	case arguments.ShowConfig:
		if !e.loader.IsConfigDir(configDir) {
			return c.report(e, view, diags.Append(sourceless("No configuration files", "This directory contains no OpenTofu configuration files.")))
		}
		cfg, more := e.loadConfig(ctx)
		if more.HasErrors() {
			return c.report(e, view, more)
		}
		schemas, more := e.schemas(ctx, cfg, nil)
		if more.HasErrors() {
			return c.report(e, view, more)
		}
		return view.DisplayConfig(cfg, schemas)
	case arguments.ShowModule:
		parser := configs.NewParser(configFS())
		e.tty.setSources(parser.Sources)
		mod, hclDiags := parser.LoadConfigDir(args.TargetArg, e.call)
		if hclDiags.HasErrors() {
			return c.report(e, view, diags.Append(hclDiags))
		}
		return view.DisplaySingleModule(mod)
	case arguments.ShowPlan:
		p, err := e.readPlan(ctx, args.TargetArg)
		if err != nil {
			return c.report(e, view, diags.Append(err))
		}
		return exit(e.showPlan(ctx, view, p))
	case arguments.ShowState:
		mgr, err := e.state.StateMgr(ctx, e.state.workspace)
		if err != nil {
			return c.report(e, view, diags.Append(fmt.Errorf("failed to load state manager: %w", err)))
		}
		if err := mgr.RefreshState(ctx); err != nil {
			return c.report(e, view, diags.Append(fmt.Errorf("failed to load state: %w", err)))
		}
		return exit(e.showState(ctx, view, statemgr.Export(mgr)))
	}
	return exit(e.showFile(ctx, view, args.TargetArg))
}

func (c *cli) importObject(ctx context.Context, raw []string) int {
	wd := workdir.NewDir(".")
	args, closer, diags := arguments.ParseImport(raw, wd)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, parallelism: args.Parallelism, newline: true}.locked(args.State.Lock, args.State.LockTimeout))
	view := views.NewImport(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if !sameDir(args.ConfigPath, ".") {
		return c.report(e, view, diags.Append(sourceless("Configuration in another directory",
			"The -config option is not supported. The global option -chdir=%s works in that directory.", args.ConfigPath)))
	}
	source := []byte(args.ResourceAddress)
	traversal, hclDiags := hclsyntax.ParseTraversalAbs(source, "<import-address>", hcl.InitialPos)
	diags = diags.Append(hclDiags)
	var addr addrs.AbsResourceInstance
	if !diags.HasErrors() {
		var more tfdiags.Diagnostics
		addr, more = addrs.ParseAbsResourceInstance(traversal)
		diags = diags.Append(more)
	}
	if diags.HasErrors() {
		e.tty.setSources(func() map[string]*hcl.File { return map[string]*hcl.File{"<import-address>": {Bytes: source}} })
		view.Diagnostics(diags)
		view.InvalidAddressReference()
		return 1
	}
	if mode := addr.Resource.Resource.Mode; mode != addrs.ManagedResourceMode {
		what := map[addrs.ResourceMode]string{addrs.DataResourceMode: "a data resource", addrs.EphemeralResourceMode: "an ephemeral resource"}[mode]
		return c.report(e, view, diags.Append(sourceless("Invalid target resource address",
			"A managed resource address is required. Importing into %s is not allowed.", what)))
	}
	if diags = diags.Append(c.load(ctx, e, scope{vars: args.Vars, config: true, paths: pathsOf(args.State)})); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	if !e.loader.IsConfigDir(configDir) {
		return c.report(e, view, diags.Append(sourceless("No OpenTofu configuration files",
			"The directory %s does not contain any OpenTofu configuration files (.tf or .tf.json). To specify a different configuration directory, use the global -chdir option.", args.ConfigPath)))
	}
	cfg, more := e.loadConfig(ctx)
	if more.HasErrors() {
		return c.report(e, view, diags.Append(more))
	}
	module := "the root module"
	if len(addr.Module) > 0 {
		module = addr.Module.String()
	}
	switch m := cfg.DescendentForInstance(addr.Module); {
	case m == nil:
		return c.report(e, view, diags.Append(sourceless("Import to non-existent module",
			"%s is not defined in the configuration. Please add configuration for this module before importing into it.", addr.Module)))
	case m.Module.ManagedResources[addr.Resource.Resource.String()] == nil:
		view.Diagnostics(diags)
		view.MissingResourceConfiguration(addr, module, addr.Resource.Resource.Type, addr.Resource.Resource.Name)
		return 1
	}
	view.Diagnostics(diags)
	return exit(e.importInto(ctx, view, view.Hooks(), view.Backend().StateLocker(), addr, args.ResourceID, func(diags tfdiags.Diagnostics) error {
		view.Diagnostics(e.tty.ours(diags))
		if diags.HasErrors() {
			return ErrReported
		}
		return nil
	}))
}

// localRun is what verbs need that look at the configuration together with the
// state: core, with both loaded and the state locked. The caller unlocks, but
// after an error.
func (e *Engine) localRun(ctx context.Context, op *backend.Operation) (_ *backend.LocalRun, _ statemgr.Full, unlock func() tfdiags.Diagnostics, _ tfdiags.Diagnostics) {
	kept := keepLocker(op.StateLocker.WithContext(ctx))
	op.StateLocker = kept
	run, mgr, diags := e.local().LocalRun(ctx, op)
	if diags = e.linked.explain(diags); diags.HasErrors() {
		diags = diags.Append(*kept.failed)
	}
	return run, mgr, func() tfdiags.Diagnostics {
		_ = op.StateLocker.Unlock() // it is kept
		return *kept.failed
	}, diags
}
