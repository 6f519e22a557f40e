package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/plans/planfile"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/statefile"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// Show prints a saved plan or a state file, or the state if path is "".
func (e *Engine) Show(ctx context.Context, path string) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	view := views.NewShow(e.tty.viewOptions(), e.tty.results)
	if path != "" {
		return e.showFile(ctx, view, path)
	}
	mgr, diags := e.readState(ctx)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	return e.showState(ctx, view, statemgr.Export(mgr))
}

// showFile prints a saved plan or a state file.
func (e *Engine) showFile(ctx context.Context, view views.Show, path string) error {
	p, planErr := e.readPlan(ctx, path)
	if planErr == nil {
		return e.showPlan(ctx, view, p)
	}
	if _, err := os.Stat(path); err != nil {
		return e.fail(tfdiags.Diagnostics{}.Append(sourceless("Failed to read the given file as a state or plan file", "%s", err)))
	}
	file, stateErr := e.readStateFile(ctx, path)
	if stateErr == nil {
		return e.showState(ctx, view, file)
	}
	var diags tfdiags.Diagnostics
	var badPlan *planfile.ErrUnusableLocalPlan
	var badState *statefile.ErrUnusableState
	switch {
	case errors.As(planErr, &badPlan):
		diags = diags.Append(sourceless("Couldn't show local plan", "Plan read error: %s", badPlan))
	case errors.As(stateErr, &badState):
		diags = diags.Append(sourceless("Couldn't show state file", "Plan read error: %s", badState))
	default:
		diags = diags.Append(sourceless("Failed to read the given file as a state or plan file", "State read error: %s\n\nPlan read error: %s", stateErr, planErr))
	}
	return e.fail(diags)
}

// savedPlan is what a plan file holds.
type savedPlan struct {
	plan   *plans.Plan
	prior  *statefile.File
	config *configs.Config
}

func (e *Engine) readPlan(ctx context.Context, path string) (*savedPlan, error) {
	r, err := e.openPlanFile(path)
	if err != nil {
		return nil, err
	}
	p := &savedPlan{}
	if p.plan, err = r.ReadPlan(); err != nil {
		return nil, err
	}
	if p.prior, err = r.ReadStateFile(); err != nil {
		return nil, err
	}
	cfg, diags := r.ReadConfig(ctx, e.call.WithVariables(p.plan.VariableMapper()))
	if diags.HasErrors() {
		return nil, fmt.Errorf("the configuration in the plan: %w", diags.Err())
	}
	p.config = cfg
	return p, nil
}

func (e *Engine) showPlan(ctx context.Context, view views.Show, p *savedPlan) error {
	if diags := e.linked.check(p.config); diags.HasErrors() {
		return e.fail(diags)
	}
	schemas, diags := e.schemas(ctx, p.config, p.prior.State)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	if view.DisplayPlan(ctx, p.plan, nil, p.config, p.prior, schemas) != 0 {
		return ErrReported
	}
	return nil
}

func (e *Engine) showState(ctx context.Context, view views.Show, file *statefile.File) error {
	var state *states.State
	if file != nil {
		state = file.State
	}
	schemas, diags := e.schemas(ctx, nil, state)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	if view.DisplayState(ctx, file, schemas) != 0 {
		return ErrReported
	}
	return nil
}

// readStateFile reads a state from a file.
func (e *Engine) readStateFile(ctx context.Context, path string) (*statefile.File, error) {
	b, err := e.readAll(ctx, path)
	if err != nil {
		return nil, err
	}
	return e.parseState(b)
}
