package engine

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/plans/planfile"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// ApplyOptions says what to apply. With Mode Destroy it is what `tofu destroy`
// does.
type ApplyOptions struct {
	// PlanOptions say how to plan, if there is no PlanFile. Out isn't used.
	PlanOptions
	// AutoApprove applies without asking.
	AutoApprove bool
	// PlanFile is the path of a saved plan. It is applied without asking.
	PlanFile string
}

// Apply plans, asks and applies, or applies a saved plan.
//
// Nothing is applied that wasn't approved: by AutoApprove, by a saved plan, or
// by the answer "yes". Whatever fails, and when it is interrupted, the state of
// what was done is saved and the lock released; what can't be saved is written
// to errored.tfstate in the working directory, and the user told how to restore
// it.
func (e *Engine) Apply(ctx context.Context, o ApplyOptions) error {
	destroy := o.Mode == Destroy
	view := views.NewApply(e.tty.viewOptions(), destroy, e.tty.results)
	op := e.operation(e.operationView(view.Operation()), append(view.Hooks(), e.tty.progressHooks()...), e.lockView(view.Backend()))
	op.Type = backend.OperationTypeApply
	op.AutoApprove = o.AutoApprove
	op.SuppressForgetErrorsDuringDestroy = len(o.Forgets) > 0
	if err := e.planOptions(op, o.PlanOptions); err != nil {
		return err
	}
	if e.opts.JSON && !o.AutoApprove && o.PlanFile == "" {
		op.View.Diagnostics(tfdiags.Diagnostics{}.Append(sourceless("Plan file or auto-approve required",
			"OpenTofu cannot ask for interactive approval when -json is set. You can either apply a saved plan file, or enable the -auto-approve option.")))
		return ErrReported
	}
	if o.PlanFile != "" {
		if diags := e.openPlan(op, o.PlanFile, destroy); diags.HasErrors() {
			op.View.Diagnostics(diags)
			return ErrReported
		}
	}
	defer e.rescuing()()
	defer e.forgetting(op, o.PlanOptions)()
	running, err := e.run(ctx, op)
	if err != nil {
		return err
	}
	view.ResourceCount("")
	if !destroy && running.State != nil {
		view.Outputs(running.State.RootModule().OutputValues)
	}
	return nil
}

// openPlan opens a saved plan that is for this state.
func (e *Engine) openPlan(op *backend.Operation, path string, destroy bool) tfdiags.Diagnostics {
	var diags tfdiags.Diagnostics
	fail := func(err error) tfdiags.Diagnostics {
		return diags.Append(sourceless("Failed to load "+quoted(path)+" as a plan file", "%s", err))
	}
	if destroy {
		return diags.Append(sourceless("Destroy can't be called with a plan file",
			"If this plan was created using plan -destroy, apply it using:\n  %s %s", e.opts.Commands.Apply, quoted(path)))
	}
	reader, err := e.openPlanFile(path)
	if err != nil {
		return fail(err)
	}
	plan, err := reader.ReadPlan()
	if err != nil {
		return fail(err)
	}
	if err := e.state.checkPlan(plan); err != nil {
		return fail(err)
	}
	locks, more := reader.ReadDependencyLocks()
	if diags = diags.Append(more); more.HasErrors() {
		return diags
	}
	op.PlanFile = planfile.NewWrappedLocal(reader)
	// Which packages of the providers stock tofu planned with doesn't matter
	// here, where there are none.
	if locks != nil {
		op.DependencyLocks = e.linked.over(locks)
	}
	return diags
}

// openPlanFile opens a saved plan that may be for any state. Unlike OpenTofu
// it does not wait for somebody to write to a pipe of that name, and takes no
// references to plans that are kept elsewhere.
func (e *Engine) openPlanFile(path string) (*planfile.Reader, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	r, err := planfile.Open(path, e.enc.Plan())
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("%s is not a saved plan: %q makes one", path, e.opts.Commands.Plan+" -out=FILE")
	}
	return r, err
}
