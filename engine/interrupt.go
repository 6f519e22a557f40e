package engine

import (
	"context"
	"errors"
)

var errInterrupted = errors.New("interrupted")

// interruptible is for verbs that are no operation of OpenTofu's. The first
// interrupt ends the context and stops the providers' calls; the second one
// lets nothing but Unlock through to the state. The caller calls done.
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
		go func() { _ = e.linked.pool.Stop(context.WithoutCancel(ctx)) }()
		select {
		case <-ended:
		case <-e.opts.Interrupts:
			e.state.client.cancel()
		}
	}()
	return ctx, func() {
		close(ended)
		cancel(nil)
	}
}
