package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/opentofu/opentofu/internal/states/remote"
	"github.com/opentofu/opentofu/internal/states/statemgr"
)

// StateStore holds one state, and its lock. The engine calls it from one
// goroutine at a time, except that Unlock may come while a cancelled call
// hasn't returned.
//
// An error of Lock or Unlock that means that someone else holds the lock
// satisfies
//
//	interface{ error; Holder() []byte }
//
// where Holder is the holder's lock info as JSON, nil if it isn't known. One of
// Unlock that means that the lock isn't held, by anyone or by whoever is to
// release it, has a method NotHeld().
type StateStore interface {
	// Get returns the state; nil, nil means that there is none.
	Get(ctx context.Context) ([]byte, error)
	// Put stores the state, under the lock if Lock has been called.
	Put(ctx context.Context, data []byte) error
	// Delete removes the state. There may be none.
	Delete(ctx context.Context) error
	// Lock takes the lock. Info is what the next one that wants the lock gets
	// to see: JSON, with an ID that no one else has. A lock is tried for with
	// the same bytes each time. When ctx ends, what may have been taken is
	// released, or the error says that this could not be done.
	Lock(ctx context.Context, info []byte) error
	// Unlock releases the lock with this ID, whoever took it.
	Unlock(ctx context.Context, id string) error
}

// holder is an error that means that someone else holds the lock.
type holder interface {
	error
	Holder() []byte
}

// notHolder is an error of Unlock that means that the lock is not held any more.
type notHolder interface {
	error
	NotHeld()
}

// errCancelled is what a cancelled operation gets that still wants to write:
// its lock is or will be another's.
var errCancelled = errors.New("the operation was cancelled")

// errStateLate is why a request to the state server was given up.
var errStateLate = errors.New("there was no answer soon enough after the interrupt")

// errNotSent is why a request is not even sent then.
var errNotSent = errors.New("nothing more is sent to the state server: an earlier request had no answer soon enough after the interrupt")

// stateClient adapts a StateStore to OpenTofu's remote state.
type stateClient struct {
	store       StateStore
	forceUnlock string                   // the command that a hint names
	onWait      func(*statemgr.LockInfo) // guarded by mu

	hard     context.Context // done: nothing but Unlock is let through
	cancel   context.CancelCauseFunc
	stopping context.Context // done: Unlock is bounded, too
	stop     context.CancelFunc

	late time.Duration // lateGrace

	mu      sync.Mutex
	stopped time.Time         // when the interrupt came
	held    string            // ID of the lock that we hold
	info    map[string][]byte // lock infos by ID, marshalled once
}

var _ remote.ClientLocker = (*stateClient)(nil)

func newStateClient(store StateStore, forceUnlock string) *stateClient {
	c := &stateClient{store: store, forceUnlock: forceUnlock, late: lateGrace, info: map[string][]byte{}, onWait: func(*statemgr.LockInfo) {}}
	c.hard, c.cancel = context.WithCancelCause(context.Background())
	c.stopping, c.stop = context.WithCancel(context.Background())
	return c
}

// stopSoon gives what is asked of the state server from now on a time to be
// answered in.
func (c *stateClient) stopSoon() {
	c.mu.Lock()
	c.stopped = time.Now()
	c.mu.Unlock()
	c.stop()
}

// left is the time that a request has that is sent, or under way, after an
// interrupt.
func (c *stateClient) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(time.Until(c.stopped.Add(stateGrace)), c.late)
}

// during derives a context that also ends when the engine is cancelled: local
// operations use contexts that nothing ends. One that ends because an interrupt
// has come, and no answer, is the last one.
func (c *stateClient) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.hard, func() { cancel(context.Cause(c.hard)) })
	hurry := context.AfterFunc(c.stopping, func() {
		t := time.NewTimer(c.left())
		defer t.Stop()
		select {
		case <-t.C:
			c.cancel(errStateLate)
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); hurry(); cancel(nil) }
}

// refused is why nothing is sent any more, nil as long as something is.
func (c *stateClient) refused() error {
	cause := context.Cause(c.hard)
	if errors.Is(cause, errStateLate) {
		return errNotSent
	}
	return cause
}

// graced derives a context that ends when a time has passed since the interrupt.
func (c *stateClient) graced(ctx context.Context, grace time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.stopping, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(errStateLate)
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

func (c *stateClient) Get(ctx context.Context) (*remote.Payload, error) {
	if err := c.refused(); err != nil {
		return nil, err
	}
	ctx, done := c.during(ctx)
	defer done()
	b, err := c.store.Get(ctx)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return &remote.Payload{Data: b}, nil
}

func (c *stateClient) Put(ctx context.Context, data []byte) error {
	if err := c.refused(); err != nil {
		return err
	}
	ctx, done := c.during(ctx)
	defer done()
	return c.store.Put(ctx, data)
}

func (c *stateClient) Delete(ctx context.Context) error {
	if err := c.refused(); err != nil {
		return err
	}
	ctx, done := c.during(ctx)
	defer done()
	return c.store.Delete(ctx)
}

func (c *stateClient) Lock(ctx context.Context, info *statemgr.LockInfo) (string, error) {
	c.mu.Lock()
	b, ok := c.info[info.ID]
	if !ok {
		if strings.HasPrefix(info.Who, "@") {
			// In a container the user may have no name.
			info.Who = fmt.Sprintf("uid %d%s", os.Getuid(), info.Who)
		}
		b = info.Marshal()
		c.info[info.ID] = b
	}
	c.mu.Unlock()
	if err := c.refused(); err != nil {
		return "", err
	}
	tryCtx, done := c.during(ctx)
	defer done()
	tryCtx, settled := c.graced(tryCtx, lockGrace)
	defer settled()
	if err := c.store.Lock(tryCtx, b); err != nil {
		err = c.lockError(err)
		var theirs *statemgr.LockError
		if errors.As(err, &theirs) {
			c.waits(theirs.Info)
		}
		return "", err
	}
	c.mu.Lock()
	c.held = info.ID
	c.mu.Unlock()
	return info.ID, nil
}

// Unlock releases the lock, also when the operation was cancelled.
func (c *stateClient) Unlock(ctx context.Context, id string) error {
	c.mu.Lock()
	held := c.held == id
	c.mu.Unlock()
	ctx, done := c.graced(ctx, unlockGrace)
	defer done()
	err := c.store.Unlock(ctx, id)
	var h holder
	var gone notHolder
	switch {
	case err == nil, errors.As(err, &gone):
		c.mu.Lock()
		if held {
			c.held = ""
		}
		c.mu.Unlock()
		return err
	case errors.As(err, &h):
		return c.lockError(err)
	case held && !strings.Contains(err.Error(), c.forceUnlock):
		return fmt.Errorf("%w\n\nWhen the state server is well again, release the lock:\n    %s %s", err, c.forceUnlock, id)
	}
	return errors.New(c.ownLine(err.Error()))
}

// heldLock is the ID of the lock that is held, if any.
func (c *stateClient) heldLock() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// lockError makes OpenTofu's LockError, which is what -lock-timeout retries, of
// an error that says that the lock is someone else's.
func (c *stateClient) lockError(err error) error {
	var h holder
	if !errors.As(err, &h) {
		return errors.New(c.ownLine(err.Error()))
	}
	info := holderInfo(h.Holder())
	hint := fmt.Sprintf("%s\n\nIf the process that holds it is gone for sure, release it:\n    %s %s", err, c.forceUnlock, info.ID)
	switch {
	case strings.Contains(err.Error(), c.forceUnlock): // the store has said so
		hint = c.ownLine(err.Error())
	case info.ID == unknownID:
		hint = fmt.Sprintf("%s\n\nThe state server doesn't say who holds it. -lock-timeout=5m waits for it to be released.", err)
	}
	return &statemgr.LockError{Info: info, Err: errors.New(hint)}
}

// ownLine puts the command that releases a lock on a line of its own, which
// OpenTofu does not wrap.
func (c *stateClient) ownLine(text string) string {
	before, after, found := strings.Cut(text, " "+c.forceUnlock+" ")
	if !found {
		return text
	}
	return before + "\n    " + c.forceUnlock + " " + after
}

// waits tells once for whom a lock is waited for.
func (c *stateClient) waits(info *statemgr.LockInfo) {
	c.mu.Lock()
	tell := c.onWait
	c.onWait = func(*statemgr.LockInfo) {}
	c.mu.Unlock()
	tell(info)
}

// unknownID stands for the holder's lock ID when the server keeps it to itself:
// OpenTofu retries only when there is an ID.
const unknownID = "unknown"

// holderInfo reads what another process has put on the lock, which may be
// anything.
func holderInfo(b []byte) *statemgr.LockInfo {
	info := &statemgr.LockInfo{}
	if len(b) > 64<<10 || json.Unmarshal(b, info) != nil {
		info = &statemgr.LockInfo{}
	}
	for _, s := range []*string{&info.ID, &info.Operation, &info.Info, &info.Who, &info.Version, &info.Path} {
		*s = printable(*s)
	}
	if info.ID == "" {
		info.ID = unknownID
	}
	return info
}

// printable cuts what could take a terminal over, and what is too long.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > 512 {
		s = s[:512] + "..."
	}
	return s
}
