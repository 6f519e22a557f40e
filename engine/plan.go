package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/plans"
)

// Mode is what a plan is to reach.
type Mode int

// The modes of a plan.
const (
	Normal      Mode = iota // the configuration
	Destroy                 // nothing left (-destroy)
	RefreshOnly             // a state that tells what there is (-refresh-only)
)

func (m Mode) plans() plans.Mode {
	switch m {
	case Destroy:
		return plans.DestroyMode
	case RefreshOnly:
		return plans.RefreshOnlyMode
	}
	return plans.NormalMode
}

// PlanOptions says how to plan.
type PlanOptions struct {
	// Mode is what the plan is to reach.
	Mode Mode
	// Out is the path of the plan file to write, "" for none. (-out)
	Out string
	// SkipRefresh plans on what the state says without asking the providers.
	// (-refresh=false)
	SkipRefresh bool
	// Targets limits the plan to these objects and what they depend on;
	// Excludes leaves these and what depends on them out. Only one may be set.
	Targets, Excludes []string
	// TargetFiles and ExcludeFiles name files with more of them, one a line.
	TargetFiles, ExcludeFiles []string
	// Replace replaces these objects even if nothing else changes.
	Replace []string
	// Forgets names the resources of the root module, as "TYPE.NAME", whose
	// objects a destroy only forgets, because the configuration says so. That is
	// no failure then, also of a saved plan. And nothing is ordered by them, which
	// spares core a connection from each of them to each object that was made
	// after them; but in a plan for a part of the objects (Targets, Excludes), and
	// with a state in a file, the order stays.
	Forgets []string
}

// Plan plans and prints the plan. It reports whether there is something to
// apply, which -detailed-exitcode tells as 2.
func (e *Engine) Plan(ctx context.Context, o PlanOptions) (changes bool, err error) {
	view := views.NewPlan(e.tty.viewOptions(), e.tty.results)
	op := e.operation(e.operationView(view.Operation()), append(view.Hooks(), e.tty.progressHooks()...), e.lockView(view.Backend()))
	op.Type = backend.OperationTypePlan
	if err := e.planOptions(op, o); err != nil {
		return false, err
	}
	defer e.forgetting(op, o)()
	op.PlanOutPath = o.Out
	if op.PlanOutBackend, err = e.state.forPlan(); err != nil {
		return false, err
	}
	running, err := e.run(ctx, op)
	if err != nil {
		return false, err
	}
	return !running.PlanEmpty, nil
}

// reservePlanFile makes the file that a plan is to be written to, before the
// work of planning, and for its owner only: a plan holds the state, and with it
// what is secret there. Done takes the file away again if it stayed empty.
func reservePlanFile(path string) (done func(), _ error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // it is overwritten, its mode is somebody's choice
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
			return func() {}, nil // who reads a pipe would take this for its end
		}
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return func() {}, f.Close()
	}
	if err != nil {
		return nil, err
	}
	return func() {
		if fi, err := os.Stat(path); err == nil && fi.Size() == 0 {
			_ = os.Remove(path)
		}
	}, f.Close()
}

// planOptions puts the options into an operation, or prints what is wrong.
func (e *Engine) planOptions(op *backend.Operation, o PlanOptions) error {
	op.PlanMode = o.Mode.plans()
	op.PlanRefresh = !o.SkipRefresh
	if diags := selectObjects(op, o); diags.HasErrors() {
		op.View.Diagnostics(diags)
		return ErrReported
	}
	return nil
}
