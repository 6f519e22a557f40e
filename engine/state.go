package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/statefile"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// readState reads the state, without a lock.
func (e *Engine) readState(ctx context.Context) (statemgr.Full, tfdiags.Diagnostics) {
	var diags tfdiags.Diagnostics
	mgr, err := e.state.StateMgr(ctx, e.state.workspace)
	if err != nil {
		return nil, diags.Append(errLoad(err))
	}
	if err := mgr.RefreshState(ctx); err != nil {
		return nil, diags.Append(errLoad(err))
	}
	return mgr, diags
}

// StatePull prints the state, decrypted. It prints nothing when there is none.
func (e *Engine) StatePull(ctx context.Context) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	mgr, diags := e.readState(ctx)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	file := statemgr.Export(mgr)
	if file == nil {
		return nil
	}
	var b bytes.Buffer
	if err := statefile.Write(file, &b, encryption.StateEncryptionDisabled()); err != nil {
		//lint:ignore ST1005 stock tofu's words
		return e.fail(diags.Append(fmt.Errorf("Failed to write state: %w", err)))
	}
	_, err := fmt.Fprintln(e.opts.Stdout, b.String())
	return err
}

// maxState bounds a state that is pushed.
const maxState = 1 << 30

// StatePush stores the state in the file at path, or on the standard input if
// path is "-". Without force it refuses a state that is older than the stored
// one or has another lineage. The file may be plain or, like errored.tfstate,
// encrypted with the same settings.
func (e *Engine) StatePush(ctx context.Context, path string, force bool) (err error) {
	ctx, done := e.interruptible(ctx)
	defer done()
	var diags tfdiags.Diagnostics
	fail := func(summary string, err error) error { return e.fail(diags.Append(sourceless(summary, "%s", err))) }
	b, err := e.readAll(ctx, path)
	if err != nil {
		return fail("Failed to open the given state file", err)
	}
	file, err := e.parseState(b)
	if err != nil {
		return fail(fmt.Sprintf("Failed to read source state %q", path), err)
	}
	mgr, err := e.state.StateMgr(ctx, e.state.workspace)
	if err != nil {
		return fail("Failed to load destination state", err)
	}
	locker := e.locker(views.NewBackendHuman(e.tty.progress).StateLocker()).WithContext(ctx)
	if diags := locker.Lock(mgr, "state-push"); diags.HasErrors() {
		return e.fail(diags)
	}
	defer func() {
		if unlockErr := e.fail(locker.Unlock()); err == nil {
			err = unlockErr
		}
	}()
	if err := mgr.RefreshState(ctx); err != nil {
		return fail("Failed to refresh destination state", err)
	}
	if err := statemgr.Import(file, mgr, force); err != nil {
		return fail("Failed to write the imported state", err)
	}
	if err := mgr.WriteState(file.State); err != nil {
		return fail("Failed to write state", err)
	}
	if err := mgr.PersistState(context.WithoutCancel(ctx), nil); err != nil {
		return fail("Failed to persist state", err)
	}
	return nil
}

// readAll reads a file, or the standard input if path is "-". A pipe that
// nobody writes to keeps it until ctx ends.
func (e *Engine) readAll(ctx context.Context, path string) ([]byte, error) {
	type content struct {
		b   []byte
		err error
	}
	read := make(chan content, 1)
	go func() {
		b, err := e.readFile(path)
		read <- content{b, err}
	}()
	select {
	case c := <-read:
		return c.b, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (e *Engine) readFile(path string) ([]byte, error) {
	r := e.opts.stdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxState+1))
	if err == nil && len(b) > maxState {
		err = fmt.Errorf("it is larger than %d bytes", maxState)
	}
	return b, err
}

// parseState reads a state that is encrypted as the settings have it, or not at
// all.
func (e *Engine) parseState(b []byte) (*statefile.File, error) {
	file, err := statefile.Read(bytes.NewReader(b), e.enc.State())
	if err == nil {
		return file, nil
	}
	if plain, plainErr := statefile.Read(bytes.NewReader(b), encryption.StateEncryptionDisabled()); plainErr == nil {
		return plain, nil
	}
	return nil, err
}

// StateList prints the addresses of all objects in the state, those below the
// given addresses if there are any.
func (e *Engine) StateList(ctx context.Context, below ...string) error {
	ctx, done := e.interruptible(ctx)
	defer done()
	mgr, diags := e.readState(ctx)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	state := mgr.State()
	if state == nil {
		return e.fail(diags.Append(sourceless("No state file was found!", "There is no state yet. Run %q to make one.", e.opts.Commands.Apply)))
	}
	want := targetables("address", below, &diags)
	if diags.HasErrors() {
		return e.fail(diags)
	}
	for _, a := range instances(state) {
		if contained(want, a) {
			if _, err := fmt.Fprintln(e.opts.Stdout, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// instances are the addresses of all objects, sorted.
func instances(s *states.State) (out []addrs.AbsResourceInstance) {
	for _, mod := range s.Modules {
		for _, r := range mod.Resources {
			for key := range r.Instances {
				out = append(out, r.Addr.Instance(key))
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Less(out[j]) })
	return out
}

func contained(want []addrs.Targetable, a addrs.AbsResourceInstance) bool {
	for _, w := range want {
		if w.TargetContains(a) {
			return true
		}
	}
	return len(want) == 0
}
