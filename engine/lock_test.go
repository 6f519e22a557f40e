package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	engine "github.com/opentofu/opentofu/yuba"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
)

const othersLock = `{"ID":"1111-2222","Operation":"OperationTypeApply","Info":"","Who":"ann@ci-7","Version":"1.12.6","Created":"2026-01-02T03:04:05Z","Path":""}`

// A locked state says who holds it, and how to go on.
func TestLocked(t *testing.T) {
	b := newBench(t)
	b.store.Hold([]byte(othersLock))
	verbs := map[string]func(context.Context, *engine.Engine) error{
		"plan": func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Plan(ctx, engine.PlanOptions{})
			return err
		},
		"apply":  apply(engine.ApplyOptions{AutoApprove: true}),
		"import": func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, "lab_thing.a", "a") },
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			b.t = t
			p := b.fails(b.run(one, verb))
			has(t, p.err, "Error acquiring the state lock", "ID: 1111-2222", "Who: ann@ci-7", "Operation: OperationTypeApply",
				"Created: 2026-01-02 03:04:05", "yuba force-unlock 1111-2222")
		})
	}
	if string(b.store.Held()) != othersLock {
		t.Error("the lock was touched")
	}
	if b.store.State() != "" {
		t.Error("the state was written")
	}
	b.t = t
	b.set = func(o *engine.Options) { o.NoLock = true }
	_, p := b.plan(one, engine.PlanOptions{})
	b.ok(p)
}

// Whoever waits for a lock is told for whom, once.
func TestLockWait(t *testing.T) {
	b := newBench(t)
	b.store.Hold([]byte(othersLock))
	b.set = func(o *engine.Options) { o.LockTimeout = 1200 * time.Millisecond } // OpenTofu's second try is after a second
	p := b.fails(b.apply(one))
	const line = "Waiting for the state's lock, at most 1.2s: ann@ci-7 holds it since 2026-01-02 03:04:05 UTC for OperationTypeApply (1111-2222)"
	if n := strings.Count(p.err, line); n != 1 {
		t.Errorf("it says %d times %q", n, line)
	}
}

// What holds the lock may be anything.
func TestLockedByWhom(t *testing.T) {
	for name, info := range map[string]string{
		"not json":   "<html>locked</html>",
		"null":       "null",
		"empty":      " ",
		"other json": `{"id": 7}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.store.Hold([]byte(info))
			p := b.fails(b.apply(one))
			has(t, p.err, "Error acquiring the state lock", "doesn't say who holds it", "-lock-timeout")
		})
	}
	t.Run("escape sequences", func(t *testing.T) {
		b := newBench(t)
		b.store.Hold([]byte(`{"ID":"x","Who":"\u001b[2Jeve"}`))
		p := b.fails(b.apply(one))
		has(t, p.err, "[2Jeve")
		lacks(t, p.err, "\x1b")
	})
}

// -lock-timeout waits for the lock, and asks for it with the same bytes.
func TestLockTimeout(t *testing.T) {
	b := newBench(t)
	b.store.Hold([]byte(othersLock))
	tries := 0
	b.store.OnLock = func() error {
		if tries++; tries == 2 {
			b.store.Hold(nil)
		}
		return nil
	}
	b.set = func(o *engine.Options) { o.LockTimeout = time.Minute }
	p := b.ok(b.apply(one))
	has(t, p.err, "Acquiring state lock. This may take a few moments...")
	infos := b.store.Tried()
	if len(infos) != 2 || !bytes.Equal(infos[0], infos[1]) {
		t.Errorf("the lock was tried with %q", infos)
	}
	var info struct{ ID, Operation, Version string }
	if err := json.Unmarshal(infos[0], &info); err != nil || info.ID == "" || info.Operation == "" || info.Version == "" {
		t.Errorf("lock info: %v, %+v", err, info)
	}
	b.free()
}

func TestLockTimeoutEnds(t *testing.T) {
	b := newBench(t)
	b.store.Hold([]byte(othersLock))
	b.set = func(o *engine.Options) { o.LockTimeout = time.Millisecond }
	has(t, b.fails(b.apply(one)).err, "ann@ci-7")
}

// A lock that can't be released says with which command it can be later.
func TestUnlockFails(t *testing.T) {
	b := newBench(t)
	b.store.OnUnlock = func() error { return errors.New("no route to host") }
	p := b.fails(b.apply(one))
	var held struct{ ID string }
	if err := json.Unmarshal(b.store.Held(), &held); err != nil {
		t.Fatal(err)
	}
	has(t, p.err, "Error releasing the state lock", "no route to host", "yuba force-unlock "+held.ID)
	if len(b.objects()) != 1 {
		t.Error("what was applied isn't in the state")
	}
}

// So it does when the verb failed before it began.
func TestUnlockFailsOfAVerbThatCannotBegin(t *testing.T) {
	for verb, args := range map[string][]string{"plan": nil, "console": nil, "graph": nil, "import": {"lab_thing.a", "a"}} {
		t.Run(verb, func(t *testing.T) {
			d := newDesk(t, map[string]string{"main.tf": one + "terraform {\n  backend \"http\" {\n    address = \"http://state.example/g\"\n  }\n}\n"})
			d.store.OnGet = func(context.Context) error { return errors.New("502 bad gateway") }
			d.store.OnUnlock = func() error { return errors.New("no route to host") }
			p := d.must(1, verb, args...)
			var held struct{ ID string }
			if d.store.Held() == nil { // graph doesn't lock
				return
			}
			if err := json.Unmarshal(d.store.Held(), &held); err != nil {
				t.Fatal(err)
			}
			has(t, p.err, "502 bad gateway", "no route to host", "yuba force-unlock "+held.ID)
		})
	}
}

func TestForceUnlock(t *testing.T) {
	unlock := func(id string, force bool) func(context.Context, *engine.Engine) error {
		return func(ctx context.Context, e *engine.Engine) error { return e.ForceUnlock(ctx, id, force) }
	}
	b := newBench(t)
	b.store.Hold([]byte(othersLock))
	p := b.fails(b.run(one, unlock("3333", true)))
	has(t, p.err, "failed to unlock state", "ID: 1111-2222")
	b.stdin = "no\n"
	has(t, b.fails(b.run(one, unlock("1111-2222", false))).out, "force-unlock cancelled.")
	if b.store.Held() == nil {
		t.Fatal("it was unlocked")
	}
	b.stdin = "yes\n"
	p = b.ok(b.run(one, unlock("1111-2222", false)))
	has(t, p.err, "Do you really want to force-unlock?")
	has(t, p.out, "OpenTofu state has been successfully unlocked!")
	b.free()
	has(t, b.fails(b.run(one, unlock("1111-2222", true))).err, "state is not locked")
}

var _ error = (*enginetest.Locked)(nil)
