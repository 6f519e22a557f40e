package engine

import (
	"context"
	"errors"
	"time"
)

// StopLimit is the time within which a verb ends after an interrupt, whatever
// the servers do, and CancelLimit that after a second one. They are the sums of
// what is below, with room to spare.
const (
	StopLimit   = 30 * time.Second
	CancelLimit = 20 * time.Second
)

// A state server has these times after an interrupt. When they are over, a
// [StateStore] may still ask for a few seconds what became of its request.
const (
	lockGrace   = time.Second     // to give the lock
	stateGrace  = 8 * time.Second // for all that it is asked but the locks
	lateGrace   = 2 * time.Second // for each thing that it is asked when that is over, or nearly; the first that is not answered is the last one
	unlockGrace = 3 * time.Second // to release the lock
	saveGrace   = 4 * time.Second // to store the state of an operation that is cancelled
)

const (
	// stopGrace is how long an operation may take to stop. In that time a
	// state server that doesn't answer can have had its times for the state and
	// for the lock, and what it didn't take is in errored.tfstate. An operation that
	// ends late, as when a rollout is set back, has its state saved all the same
	// where the server answers.
	stopGrace = 18 * time.Second
	// cancelGrace is how long a cancelled operation may take to end: a bit more
	// than a store takes to ask what became of a request.
	cancelGrace = 4 * time.Second
	// stopEvery is the pause until providers are told again to stop: calls may
	// have begun meanwhile.
	stopEvery = 200 * time.Millisecond
)

var errInterrupted = errors.New("interrupted")

// untilInterrupt is for what comes before there is anything to stop, to save or to
// unlock. An interrupt withdraws the question that is asked, and ends the context.
// The caller calls done, which tells whether one came.
func (e *Engine) untilInterrupt(ctx context.Context) (_ context.Context, done func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended, gone := make(chan struct{}), make(chan struct{})
	came := false
	go func() {
		defer close(gone)
		select {
		case <-ended:
		case <-e.opts.Interrupts:
			came = true
			e.asker.quit()
			cancel(errInterrupted)
		}
	}()
	return ctx, func() bool {
		close(ended)
		<-gone
		cancel(nil)
		return came
	}
}

// interruptible is for verbs that are no operation of OpenTofu's. The first
// interrupt ends the context and stops the providers' calls; the second one, or
// a verb that doesn't end, lets nothing but Unlock through to the state. The
// caller calls done.
func (e *Engine) interruptible(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-e.opts.Interrupts:
		}
		cancel(errInterrupted)
		defer e.stopping(ctx)()
		select {
		case <-ended:
			return
		case <-e.opts.Interrupts:
		case <-time.After(stopGrace):
		}
		if e.state == nil {
			return
		}
		e.state.client.cancel(errCancelled)
		select {
		case <-ended:
		case <-time.After(cancelGrace):
			_ = e.unlock(ctx)
		}
	}()
	return ctx, func() {
		close(ended)
		cancel(nil)
	}
}

// stopping makes all that is under way end soon: questions, calls of providers,
// and requests to the state server. The caller calls done.
func (e *Engine) stopping(ctx context.Context) (done func()) {
	ctx = context.WithoutCancel(ctx)
	e.asker.withdraw()
	if e.state != nil {
		e.state.client.stopSoon()
	}
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(stopEvery)
		defer tick.Stop()
		for {
			_ = e.linked.pool.Stop(ctx)
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(ended) }
}

// wait waits for something, and not for long.
func wait(what <-chan struct{}, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-what:
	case <-t.C:
	}
}

// unlock releases the lock if it is held, for an operation that doesn't.
func (e *Engine) unlock(ctx context.Context) error {
	id := e.state.client.heldLock()
	if id == "" {
		return nil
	}
	return e.state.client.Unlock(context.WithoutCancel(ctx), id)
}
