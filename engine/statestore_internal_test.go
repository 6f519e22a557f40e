package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/opentofu/opentofu/yuba/internal/enginetest"
)

// muteStore gives no answer as long as it is mute.
type muteStore struct {
	enginetest.Store
	mute bool
	sent int
}

func (s *muteStore) Put(ctx context.Context, b []byte) error {
	s.sent++
	if s.mute {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.Store.Put(ctx, b)
}

// An operation that takes long to stop, as a rollout that is set back, saves its
// state on a server that is well. One that isn't keeps nobody, and what is not
// even sent is not said to have had no answer.
func TestStateOfAnOperationThatStopsLate(t *testing.T) {
	store := &muteStore{}
	c := newStateClient(store, "force-unlock")
	c.late = time.Millisecond
	c.stopSoon()
	c.stopped = c.stopped.Add(-2 * stateGrace)
	if err := c.Put(t.Context(), []byte("{}")); err != nil {
		t.Errorf("a server that answers: %v", err)
	}
	store.mute = true
	if err := c.Put(t.Context(), []byte("{}")); !errors.Is(err, errStateLate) {
		t.Errorf("a server that doesn't: %v", err)
	}
	if err := c.Put(t.Context(), []byte("{}")); !errors.Is(err, errNotSent) || store.sent != 2 {
		t.Errorf("%d requests, the last one: %v", store.sent, err)
	}
}
