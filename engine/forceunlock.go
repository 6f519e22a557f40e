package engine

import (
	"context"
	"fmt"

	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// ForceUnlock releases the lock with this ID, whoever holds it. It asks first,
// unless force is set.
func (e *Engine) ForceUnlock(ctx context.Context, id string, force bool) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	view := views.NewUnlock(e.tty.viewOptions(), e.tty.results)
	fail := func(err error) error {
		diags := tfdiags.Diagnostics{}.Append(err)
		if e.opts.JSON {
			view.Diagnostics(diags)
			return ErrReported
		}
		return e.fail(diags)
	}
	if !force {
		answer, err := e.asker.Input(ctx, &tofu.InputOpts{
			Id:    "force-unlock",
			Query: "Do you really want to force-unlock?",
			Description: "OpenTofu will remove the lock on the remote state.\n" +
				"This will allow local OpenTofu commands to modify this state, even though it\n" +
				"may still be in use. Only 'yes' will be accepted to confirm.",
		})
		if err != nil {
			return fail(fmt.Errorf("error asking for confirmation: %w", err))
		}
		if answer != "yes" {
			view.ForceUnlockCancelled()
			return ErrReported
		}
	}
	if err := e.state.client.Unlock(ctx, id); err != nil {
		return fail(fmt.Errorf("failed to unlock state: %w", err))
	}
	view.ForceUnlockSucceeded()
	return nil
}
