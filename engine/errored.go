package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/statefile"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// erroredState is where OpenTofu writes a state that it couldn't store.
const erroredState = "errored.tfstate"

// rescue looks after a state that could not be stored. OpenTofu writes it to
// errored.tfstate, but leaves the file's mode to the umask, overwrites an
// earlier one, and says that the file is there when it could not be made.
type rescue struct {
	// OpenTofu stores the state from a goroutine of its own when it is
	// stopped, and a second interrupt doesn't wait for that.
	mu      sync.Mutex
	mgr     *rescuedState   // of the operation, nil before it has read a state
	unsaved *statefile.File // of the last attempt; nil when that worked
	err     error           // why there is no file to write it to
	earlier string          // where the file that was there before is now, "" if there was none
	cause   error           // why it could not be stored
	told    bool            // it is written, or printed, and that is said
	over    bool            // the operation has ended
}

// stored notes that the state could be stored.
func (r *rescue) stored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved, r.cause, r.err = nil, nil, nil
	r.release()
}

// failed notes that it could not, and prepares the file for it. What an operation
// that was left alone comes to after its end is nobody's: there would be a file,
// and no word of it.
func (r *rescue) failed(unsaved *statefile.File, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.told {
		return
	}
	earlier, err := reserveErroredState()
	r.unsaved, r.cause, r.err = unsaved, cause, err
	if earlier != "" {
		r.earlier = earlier
	}
}

// end removes the file if nothing had to be written to it. There is none from
// now on.
func (r *rescue) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.release()
}

// release undoes the preparation of a file that nothing had to be written to.
func (r *rescue) release() {
	if fi, err := os.Lstat(erroredState); err == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		_ = os.Remove(erroredState)
	}
	if _, err := os.Lstat(erroredState); os.IsNotExist(err) && r.earlier != "" {
		_ = os.Rename(r.earlier, erroredState)
		r.earlier = ""
	}
}

// whereEarlier says where the file is that was there before.
func (r *rescue) whereEarlier() string {
	if r.earlier == "" {
		return ""
	}
	return fmt.Sprintf("\n\nThere was an %s from an earlier run, which is in %s now.", erroredState, r.earlier)
}

// watch is the state with this rescue.
func (r *rescue) watch(s forgetfulState) *rescuedState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mgr = &rescuedState{forgetfulState: s, rescue: r}
	return r.mgr
}

// state is the state that an operation works on, nil when it has not read one.
func (r *rescue) state() *rescuedState {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mgr
}

// persist tries to store the state of an operation that is cancelled.
func (r *rescue) persist(ctx context.Context) {
	if mgr := r.state(); mgr != nil && mgr.written.Load() {
		_ = mgr.PersistState(context.WithoutCancel(ctx), nil) // it is noted
	}
}

// write writes what could not be stored to errored.tfstate, unless OpenTofu has
// done so.
func (r *rescue) write(enc encryption.StateEncryption) (diags tfdiags.Diagnostics) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsaved == nil || r.told {
		return nil
	}
	r.told = true // core may go on: what it comes to takes no file away
	diags = diags.Append(sourceless("Failed to save state", "Error saving state: %s", r.cause))
	err := r.err
	if err == nil {
		err = statemgr.NewFilesystem(erroredState, enc).WriteStateForMigration(r.unsaved, true)
	}
	if err != nil {
		return diags.Append(sourceless(persistFailed, "The state could not be written to a file either: %s. The next apply finds out what was done as far as it can be found out.", err))
	}
	return diags.Append(sourceless(persistFailed, "%s", persistFailedDetail+r.whereEarlier()))
}

// persistFailedDetail is OpenTofu's, and gets this program's commands as all its
// words.
const persistFailedDetail = "The error shown above has prevented OpenTofu from writing the updated state to the configured backend. " +
	"To allow for recovery, the state " + claimsFile + " in the current working directory.\n\n" +
	"Running \"tofu apply\" again at this point will create a forked state, making it harder to recover.\n\n" +
	"To retry writing this state, use the following command:\n    tofu state push errored.tfstate"

func (r *rescue) last() (unsaved *statefile.File, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsaved, r.err
}

// rescuing prepares for a state that can't be stored. The caller calls done
// when the operation has ended.
func (e *Engine) rescuing() (done func()) {
	r := &rescue{}
	e.state.rescue = r
	return func() {
		e.state.rescue = nil
		r.end()
	}
}

// rescuedFile is a state in a file that tells a rescue when it can't be stored.
type rescuedFile struct {
	*statemgr.Filesystem
	path   string
	rescue *rescue
}

var _ statemgr.Full = (*rescuedFile)(nil)

func (s *rescuedFile) PersistState(ctx context.Context, schemas *tofu.Schemas) error {
	err := s.Filesystem.PersistState(ctx, schemas)
	if err == nil {
		err = s.opens()
	}
	if err == nil {
		s.rescue.stored()
		return nil
	}
	s.rescue.failed(statemgr.Export(s.Filesystem), err)
	return err
}

// opens tells of a file that could not be made or opened, which OpenTofu's
// PersistState does not.
func (s *rescuedFile) opens() error {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// rescuedState is a remote state that tells a rescue when it can't be stored.
//
// As long as OpenTofu's remote state has neither read nor stored one, it reads
// before it stores, and then stores what it has read. That is something else than
// what was to be stored when an earlier attempt has stored its state and the
// answer was lost. So the first state of all is stored in steps of our own.
type rescuedState struct {
	forgetfulState
	rescue  *rescue
	written atomic.Bool

	mu      sync.Mutex // what is to be stored is not changed meanwhile
	based   bool       // a state was read or stored
	tried   []string   // lineages of states of which it isn't known whether they were
	foreign error      // there is another's state
}

var _ statemgr.Full = (*rescuedState)(nil)

func (s *rescuedState) RefreshState(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.remoteState.RefreshState(ctx)
	s.based = s.based || err == nil && s.remoteState.StateSnapshotMeta().Lineage != ""
	return err
}

func (s *rescuedState) PersistState(ctx context.Context, schemas *tofu.Schemas) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.foreign
	if err == nil {
		err = s.store(ctx, schemas)
	}
	if err == nil {
		s.rescue.stored()
		return nil
	}
	s.rescue.failed(s.export(), err)
	return err
}

func (s *rescuedState) store(ctx context.Context, schemas *tofu.Schemas) error {
	if s.based {
		return s.remoteState.PersistState(ctx, schemas)
	}
	want := s.remoteState.StateForMigration().State // never nil
	if len(s.tried) > 0 {
		if err := s.remoteState.RefreshState(ctx); err != nil {
			return fmt.Errorf("failed checking for existing remote state: %w", err)
		}
		there := s.remoteState.StateForMigration()
		_ = s.remoteState.WriteState(want) // which has no error
		if there.Lineage != "" && !slices.Contains(s.tried, there.Lineage) {
			return s.others(there)
		}
	}
	err := s.remoteState.PersistState(ctx, schemas)
	there := s.remoteState.StateForMigration()
	if statefile.StatesMarshalEqual(there.State, want) {
		if s.based = err == nil; !s.based && there.Lineage != "" && !slices.Contains(s.tried, there.Lineage) {
			s.tried = append(s.tried, there.Lineage)
		}
		return err
	}
	_ = s.remoteState.WriteState(want)
	return s.others(there)
}

// others is the error for a state that wasn't there when this run read it, and
// is not of this run. To overwrite it is for somebody to decide who knows.
func (s *rescuedState) others(there *statefile.File) error {
	s.foreign = fmt.Errorf("the state server now has a state (serial %d, lineage %q) where there was none when this run began: another run made it, and it stays as it is; "+
		"look at both before one of them is pushed with -force", there.Serial, there.Lineage)
	return s.foreign
}

// export is what could not be stored. If an attempt may have stored a part of it,
// it has a serial that is taken for newer than that.
func (s *rescuedState) export() *statefile.File {
	f := s.remoteState.StateForMigration()
	if !s.based && slices.Contains(s.tried, f.Lineage) {
		f.Serial++
	}
	return f
}

// StateForMigration is what OpenTofu writes to errored.tfstate.
func (s *rescuedState) StateForMigration() *statefile.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.export()
}

// WriteState and MutateState remember that there is something to store:
// OpenTofu's PersistState makes a state where there was none and nothing has
// happened.
func (s *rescuedState) WriteState(state *states.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Store(true)
	return s.remoteState.WriteState(state)
}

func (s *rescuedState) MutateState(fn func(*states.State) *states.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Store(true)
	return s.remoteState.MutateState(fn)
}

// missing are those of the objects that are not in the state yet: nothing has
// waited for them. Unlike State it copies nothing.
func (s *rescuedState) missing(objects []addrs.AbsResourceInstance) (out []addrs.AbsResourceInstance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.remoteState.MutateState(func(state *states.State) *states.State { // which has no error
		for _, a := range objects {
			if state == nil || state.ResourceInstance(a) == nil {
				out = append(out, a)
			}
		}
		return state
	})
	return out
}

// persistFailed is OpenTofu's error after it has tried to write errored.tfstate.
const persistFailed = "Failed to persist state to backend"

// claimsFile is in that error when OpenTofu believes that it has.
const claimsFile = `has been written to the file "errored.tfstate"`

// truth corrects OpenTofu's claim that a state was written to a file. When it
// was not, the state is printed.
func (r *rescue) truth(diags tfdiags.Diagnostics, view views.Operation, enc encryption.StateEncryption, push string) tfdiags.Diagnostics {
	if r == nil {
		return diags
	}
	unsaved, why := r.last()
	if unsaved == nil {
		return diags
	}
	for i, d := range diags {
		desc := d.Description()
		if desc.Summary != persistFailed || !strings.Contains(desc.Detail, claimsFile) {
			continue
		}
		r.mu.Lock()
		r.told = true
		earlier := r.whereEarlier()
		r.mu.Unlock()
		if fi, err := os.Stat(erroredState); why == nil && err == nil && fi.Size() > 0 {
			if earlier != "" {
				diags[i] = sourceless(desc.Summary, "%s", strings.TrimRight(desc.Detail, "\n")+earlier+"\n")
			}
			continue
		}
		if why == nil {
			why = errors.New(erroredState + " is empty")
		}
		if err := view.EmergencyDumpState(unsaved, enc); err != nil {
			why = errors.Join(why, err)
		}
		diags[i] = sourceless(desc.Summary, "The state could not be written to a file either: %s. It is printed above, from the first { to the last }."+
			"\n\nSave that as %s where you can write files. Do so before the next apply, which would not know what this one did. "+
			"When it can be stored again, do so:\n    %s %[2]s", why, erroredState, push)
	}
	return diags
}

// reserveErroredState makes an empty file that its owner only can read, since
// a state may hold secrets. A file that is there from before, and may be the
// only record of what was applied then, is kept under another name, earlier.
func reserveErroredState() (earlier string, _ error) {
	if fi, err := os.Lstat(erroredState); err == nil && fi.Mode().IsRegular() && fi.Size() > 0 {
		for i := 1; earlier == ""; i++ {
			if i == 1000 {
				return "", fmt.Errorf("%s and %d more from earlier runs are there: push and remove them", erroredState, i-1)
			}
			kept := fmt.Sprintf("%s.%d", erroredState, i)
			if _, err := os.Lstat(kept); os.IsNotExist(err) {
				if err := os.Rename(erroredState, kept); err != nil {
					return "", err
				}
				earlier = kept
			}
		}
	}
	f, err := os.OpenFile(erroredState, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return earlier, err
	}
	return earlier, errors.Join(f.Chmod(0o600), f.Close())
}
