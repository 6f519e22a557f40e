package engine

import (
	"context"
	"errors"
	"sync/atomic"
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
	if l == nil || e.state.rescue != nil { // which looks after a file's state, too
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

// run carries an operation out, to its end or to the second interrupt. It
// prints what there is to print. An operation that was interrupted fails, also
// when it came to its end.
func (e *Engine) run(ctx context.Context, op *backend.Operation) (*backend.RunningOperation, error) {
	if len(e.warnings) > 0 {
		op.View.Diagnostics(e.warnings)
		e.warnings = nil
	}
	if op.PlanOutPath != "" {
		done, err := reservePlanFile(op.PlanOutPath)
		if err != nil {
			op.View.Diagnostics(tfdiags.Diagnostics{}.Append(sourceless("Failed to write plan file", "The plan file could not be written: %s.", err)))
			return nil, ErrReported
		}
		defer done()
	}
	unlocked := keepLocker(op.StateLocker)
	op.StateLocker = unlocked
	stop := &stopHook{}
	op.Hooks = append(op.Hooks, stop)
	if len(e.opts.Precious) > 0 {
		op.Hooks = append(op.Hooks, &preciousHook{types: e.opts.Precious, rescue: e.state.rescue})
	}
	l := e.local()
	// A configuration is not validated again when its plan is applied, where
	// files may be gone that it needed to be planned.
	l.OpValidation = op.PlanFile == nil && !e.opts.Valid
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
	e.interrupted = true
	op.View.Interrupted()
	stop.stop()
	running.Stop()
	defer e.stopping(ctx)()
	late := time.NewTimer(stopGrace)
	defer late.Stop()
	select {
	case <-running.Done():
		if _, err := e.result(running, op.View, *unlocked.failed); err == nil {
			op.View.Diagnostics(tfdiags.Diagnostics{}.Append(sourceless("Interrupted", "The interrupt came when nothing was left to be stopped: all was done.")))
		}
		return running, ErrReported
	case <-late.C:
	case <-e.opts.Interrupts:
		op.View.FatalInterrupt()
	}
	diags := e.abandon(ctx, running)
	// The operation has released its lock if it has come so far. A provider
	// that hangs keeps it from that.
	if unlocked.begun.Load() {
		wait(running.Done(), unlockGrace+cancelGrace)
	}
	if running.Err() != nil {
		diags = diags.Append(*unlocked.failed)
	} else if err := e.unlock(ctx); err != nil {
		diags = diags.Append(sourceless("Error releasing the state lock", "%s", err))
	}
	op.View.Diagnostics(diags)
	return nil, ErrReported
}

// abandon leaves an operation that doesn't end, or that nobody wants to wait
// for. What it has done so far is saved.
func (e *Engine) abandon(ctx context.Context, running *backend.RunningOperation) tfdiags.Diagnostics {
	running.Cancel()
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		e.state.rescue.persist(ctx)
	}()
	wait(saved, saveGrace)
	e.state.client.cancel(errCancelled)
	wait(running.Done(), cancelGrace)
	wait(saved, cancelGrace)
	return tfdiags.Diagnostics{}.Append(errors.New("operation canceled")).Append(e.state.rescue.write(e.enc.State()))
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
	begun  *atomic.Bool // to unlock
}

func keepLocker(l clistate.Locker) *keptLocker {
	return &keptLocker{l, new(tfdiags.Diagnostics), new(atomic.Bool)}
}

func (l *keptLocker) WithContext(ctx context.Context) clistate.Locker {
	return &keptLocker{l.Locker.WithContext(ctx), l.failed, l.begun}
}

func (l *keptLocker) Unlock() tfdiags.Diagnostics {
	l.begun.Store(true)
	*l.failed = l.failed.Append(l.Locker.Unlock())
	return nil
}
