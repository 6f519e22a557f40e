package engine

import (
	"context"
	"errors"
	"time"

	"github.com/opentofu/opentofu/internal/backend"
	backendlocal "github.com/opentofu/opentofu/internal/backend/local"
	"github.com/opentofu/opentofu/internal/command/clistate"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// local is OpenTofu's implementation of plan, apply and refresh, on our state.
func (e *Engine) local() *backendlocal.Local {
	l := e.state.local
	if l == nil {
		l = backendlocal.NewWithBackend(e.state, e.enc.State())
	}
	l.ContextOpts = e.contextOpts()
	l.OpValidation = true
	l.OpInput = e.opts.Input
	return l
}

// operation is what all operations have in common.
func (e *Engine) operation(view views.Operation, hooks []hook, lockView views.StateLocker) *backend.Operation {
	return &backend.Operation{
		Encryption:      e.enc,
		ConfigDir:       configDir,
		ConfigLoader:    e.loader,
		DependencyLocks: e.linked.locks,
		Variables:       e.vars,
		RootCall:        e.call,
		Workspace:       e.state.workspace,
		UIIn:            e.asker, // never nil: OpenTofu would apply without asking
		View:            view,
		Hooks:           append(hooks, e.eventHooks()...),
		StateLocker:     e.locker(lockView),
	}
}

// locker locks the state for an operation, unless it isn't to be locked.
func (e *Engine) locker(view views.StateLocker) clistate.Locker {
	if e.opts.NoLock {
		return clistate.NewNoopLocker()
	}
	return clistate.NewLocker(e.opts.LockTimeout, view)
}

// lockView prints that getting the lock takes long.
func (e *Engine) lockView(results views.Backend) views.StateLocker {
	if e.opts.JSON {
		return results.StateLocker()
	}
	return views.NewBackendHuman(e.tty.progress).StateLocker()
}

// cancelGrace is how long a cancelled operation may take to end.
const cancelGrace = 5 * time.Second

// run carries an operation out, to its end or to the second interrupt. It
// prints what there is to print.
func (e *Engine) run(ctx context.Context, op *backend.Operation) (*backend.RunningOperation, error) {
	if len(e.warnings) > 0 {
		op.View.Diagnostics(e.warnings)
		e.warnings = nil
	}
	unlocked := &keptLocker{op.StateLocker, new(tfdiags.Diagnostics)}
	op.StateLocker = unlocked
	stop := &stopHook{}
	op.Hooks = append(op.Hooks, stop)
	l := e.local()
	// A configuration is not validated again when its plan is applied, where
	// files may be gone that it needed to be planned.
	l.OpValidation = op.PlanFile == nil
	running, err := l.Operation(ctx, op)
	if err != nil {
		op.View.Diagnostics(tfdiags.Diagnostics{}.Append(err))
		return nil, ErrReported
	}
	select {
	case <-running.Done():
		return e.result(running, op.View, *unlocked.failed)
	case <-e.opts.Interrupts:
	}
	stop.stop()
	running.Stop()
	op.View.Interrupted()
	if v, ok := op.View.(*operationView); ok && !v.planned.Load() {
		// OpenTofu stops the providers too, but not in the plan of an apply.
		go func() { _ = e.linked.pool.Stop(context.WithoutCancel(ctx)) }()
	}
	select {
	case <-running.Done():
		return e.result(running, op.View, *unlocked.failed)
	case <-e.opts.Interrupts:
	}
	op.View.FatalInterrupt()
	e.state.client.cancel()
	running.Cancel()
	t := time.NewTimer(cancelGrace)
	defer t.Stop()
	select {
	case <-running.Done():
	case <-t.C:
	}
	diags := tfdiags.Diagnostics{}.Append(errors.New("operation canceled"))
	// The operation has released its lock if it has come so far. A provider
	// that hangs in a plan keeps it from that.
	if id := e.state.client.heldLock(); id != "" {
		if err := e.state.client.Unlock(context.WithoutCancel(ctx), id); err != nil {
			diags = diags.Append(sourceless("Error releasing the state lock", "%s", err))
		}
	}
	op.View.Diagnostics(diags)
	return nil, ErrReported
}

func (e *Engine) result(r *backend.RunningOperation, view views.Operation, unlock tfdiags.Diagnostics) (*backend.RunningOperation, error) {
	if len(unlock) > 0 {
		view.Diagnostics(unlock)
	}
	if r.Result != backend.OperationSuccess || unlock.HasErrors() {
		return r, ErrReported
	}
	return r, nil
}

// keptLocker keeps what goes wrong with unlocking for the end of an operation.
// OpenTofu's local backend loses it when the operation fails before it begins,
// and the lock would stay without a word.
type keptLocker struct {
	clistate.Locker
	failed *tfdiags.Diagnostics
}

func (l *keptLocker) WithContext(ctx context.Context) clistate.Locker {
	return &keptLocker{l.Locker.WithContext(ctx), l.failed}
}

func (l *keptLocker) Unlock() tfdiags.Diagnostics {
	*l.failed = l.failed.Append(l.Locker.Unlock())
	return nil
}
