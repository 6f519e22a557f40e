package engine

import (
	"context"
	"fmt"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// Import puts an object that exists into the state, under an address that the
// configuration has.
func (e *Engine) Import(ctx context.Context, addr, id string) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	view := views.NewImport(e.tty.viewOptions(), e.tty.results)
	fail := func(diags tfdiags.Diagnostics) error {
		if e.opts.JSON {
			view.Diagnostics(e.tty.ours(diags))
			return ErrReported
		}
		return e.fail(diags)
	}
	a, diags := addrs.ParseAbsResourceInstanceStr(addr)
	if diags.HasErrors() {
		fail(diags)
		view.InvalidAddressReference()
		return ErrReported
	}
	if a.Resource.Resource.Mode != addrs.ManagedResourceMode {
		return fail(diags.Append(sourceless("Invalid target resource address", "A managed resource address is required: %s can't be imported into.", a)))
	}
	cfg, more := e.loadConfig(ctx)
	if diags = diags.Append(more); more.HasErrors() {
		return fail(diags)
	}
	if !configured(cfg, a) {
		return fail(diags.Append(sourceless("Resource not in the configuration",
			"The configuration has no resource %s to import into. Write it first.", a.ContainingResource())))
	}

	var hooks []hook
	if e.opts.JSON {
		hooks = view.Hooks()
	}
	return e.importInto(ctx, view, append(hooks, e.tty.progressHooks()...), e.lockView(view.Backend()), a, id, fail)
}

// importInto imports an object under an address that has been checked.
func (e *Engine) importInto(ctx context.Context, view views.Import, hooks []hook, lockView views.StateLocker, a addrs.AbsResourceInstance, id string, fail func(tfdiags.Diagnostics) error) (err error) {
	var diags tfdiags.Diagnostics
	op := e.operation(e.operationView(view.Operation()), hooks, lockView)
	run, mgr, unlock, more := e.localRun(ctx, op)
	if diags = diags.Append(more); more.HasErrors() {
		return fail(diags)
	}
	defer func() {
		if more := unlock(); more.HasErrors() {
			err = fail(more)
		}
	}()
	state, more := run.Core.Import(ctx, run.Config, run.InputState, &tofu.ImportOpts{
		Targets:      []*tofu.ImportTarget{{CommandLineImportTarget: &tofu.CommandLineImportTarget{Addr: a, ID: id}}},
		SetVariables: run.PlanOpts.SetVariables,
	})
	if diags = diags.Append(more); more.HasErrors() {
		return fail(diags)
	}
	if err := statemgr.WriteAndPersist(context.WithoutCancel(ctx), mgr, state, nil); err != nil {
		return fail(diags.Append(fmt.Errorf("error saving the state: %w; nothing was changed but the state, import again", err)))
	}
	view.Success()
	if len(diags) > 0 {
		return fail(diags)
	}
	return nil
}

func configured(cfg *configs.Config, a addrs.AbsResourceInstance) bool {
	c := cfg.DescendentForInstance(a.Module)
	if c == nil {
		return false
	}
	_, ok := c.Module.ManagedResources[a.Resource.Resource.String()]
	return ok
}
