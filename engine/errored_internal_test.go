package engine

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/remote"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
	"github.com/zclconf/go-cty/cty"
)

// cancelled is the rescue of an operation that was cancelled, in a folder of its
// own; store is what core still tries then, and done ends the operation.
func cancelled(t *testing.T) (_ *rescue, store, done func()) {
	t.Helper()
	t.Chdir(t.TempDir())
	client := newStateClient(&enginetest.Store{}, "force-unlock")
	e := &Engine{state: &stateBackend{client: client, enc: encryption.StateEncryptionDisabled()}}
	done = e.rescuing()
	mgr := e.state.rescue.watch(forgetfulState{remoteState: remote.NewState(client, encryption.StateEncryptionDisabled())})
	client.cancel(errCancelled)
	return e.state.rescue, func() {
		t.Helper()
		state := states.NewState()
		state.RootModule().SetOutputValue("x", cty.True, false, "")
		if err := errors.Join(mgr.WriteState(state), mgr.PersistState(context.Background(), nil)); !errors.Is(err, errCancelled) {
			t.Fatalf("error %v", err)
		}
	}, done
}

// After a second interrupt core goes on for a while. What it fails to store then
// doesn't take the file away that was announced.
func TestAnnouncedFileStays(t *testing.T) {
	r, store, done := cancelled(t)
	store()
	if diags := r.write(encryption.StateEncryptionDisabled()); len(diags) != 2 {
		t.Fatalf("it says %v", diags.Err())
	}
	store()
	done()
	if fi, err := os.Stat(erroredState); err != nil || fi.Size() == 0 {
		t.Errorf("%s is gone: %v", erroredState, err)
	}
}

// What an operation that was left alone still wants to store when it is over
// leaves no errored.tfstate behind, of which nobody has told.
func TestLeftAloneLeavesNoFile(t *testing.T) {
	_, store, done := cancelled(t)
	store()
	if _, err := os.Stat(erroredState); err != nil {
		t.Errorf("while it is under way: %v", err)
	}
	done()
	store()
	if _, err := os.Stat(erroredState); !os.IsNotExist(err) {
		t.Errorf("there is an %s (%v)", erroredState, err)
	}
}
