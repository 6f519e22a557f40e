package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// The first interrupt lets what runs finish, saves the state and releases the
// lock; what hadn't begun isn't done.
func TestInterrupt(t *testing.T) {
	config := lab + `
resource "lab_thing" "a" { name = "a" }
resource "lab_thing" "b" { name = lab_thing.a.id }
`
	b := newBench(t)
	interrupts := make(chan struct{}, 2)
	b.set = func(o *engine.Options) { o.Interrupts = interrupts }
	b.lab.On = func(ctx context.Context, method, name string) error {
		if method == "Create" {
			interrupts <- struct{}{}
			<-ctx.Done() // the provider is told to stop
		}
		return nil
	}
	p := b.fails(b.apply(config))
	has(t, p.err, "Interrupted: what is under way is stopped")
	b.free()
	if got := b.objects(); len(got) != 1 || got["lab_thing.a"] == nil {
		t.Errorf("the state has %v", got)
	}
	b.lab.On = nil
	b.ok(b.apply(config))
}

// The second one waits for nobody, and still releases the lock.
func TestSecondInterrupt(t *testing.T) {
	for method, config := range map[string]string{"Create": two, "Plan": two} {
		t.Run(method, func(t *testing.T) {
			b := newBench(t)
			interrupts := make(chan struct{}, 2)
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			b.set = func(o *engine.Options) { o.Interrupts = interrupts }
			b.lab.On = func(_ context.Context, m, name string) error {
				if m == method && name == "bad" {
					interrupts <- struct{}{}
					interrupts <- struct{}{}
					<-hang // whatever it is told
				}
				return nil
			}
			p := b.fails(b.apply(config))
			has(t, p.err, "Interrupted again", "operation canceled")
			b.free()
		})
	}
}

// An interrupt at the question isn't an answer.
func TestInterruptAtQuestion(t *testing.T) {
	b := newBench(t)
	interrupts := make(chan struct{}, 1)
	r, w := pipe(t)
	defer w.Close()
	b.set = func(o *engine.Options) {
		o.Interrupts = interrupts
		o.Stdin = r
		stderr := o.Stderr
		o.Stderr = watched(t, stderr, func(s string) {
			if strings.Contains(s, "Enter a value:") {
				interrupts <- struct{}{}
			}
		})
	}
	p := b.fails(b.run(one, apply(engine.ApplyOptions{})))
	_ = p
	if b.store.State() != "" {
		t.Error("it was applied")
	}
	b.free()
}

// An interrupted plan doesn't go on to the next object.
func TestInterruptDuringPlan(t *testing.T) {
	b := newBench(t)
	interrupts := make(chan struct{})
	b.set = func(o *engine.Options) { o.Interrupts = interrupts }
	first := true
	b.lab.On = func(_ context.Context, method, name string) error {
		if method == "Plan" && first {
			first = false
			interrupts <- struct{}{}
		}
		return nil
	}
	b.fails(b.apply(one))
	if b.store.State() != "" {
		t.Error("it was applied")
	}
	b.free()
}

// A server that doesn't answer holds nobody up who has had enough.
func TestInterruptWaiting(t *testing.T) {
	output := func(ctx context.Context, e *engine.Engine) error { return e.Output(ctx, "", false) }
	for name, c := range map[string]struct {
		verb       func(context.Context, *engine.Engine) error
		interrupts int
	}{
		"output": {output, 1},
		"pull":   {pull, 1},
		"show":   {func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, "") }, 1},
		"list":   {func(ctx context.Context, e *engine.Engine) error { return e.StateList(ctx) }, 1},
		"plan": {func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Plan(ctx, engine.PlanOptions{})
			return err
		}, 2},
		"import": {func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, "lab_thing.a", "a") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			interrupts := make(chan struct{}, 2)
			b.set = func(o *engine.Options) { o.Interrupts = interrupts }
			b.store.OnGet = func(ctx context.Context) error {
				for range c.interrupts {
					interrupts <- struct{}{}
				}
				<-ctx.Done()
				return context.Cause(ctx)
			}
			b.fails(b.run(one, c.verb))
			b.free()
		})
	}
}

// An interrupted import has imported or it hasn't; the lock is free.
func TestInterruptImport(t *testing.T) {
	b := newBench(t)
	interrupts := make(chan struct{}, 1)
	b.set = func(o *engine.Options) { o.Interrupts = interrupts }
	b.lab.On = func(ctx context.Context, method, _ string) error {
		if method == "Import" {
			interrupts <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	p := b.fails(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, "lab_thing.a", "a") }))
	has(t, p.err, "import failed")
	if len(b.objects()) != 0 {
		t.Error("it was imported")
	}
	b.free()
}

// A key provider that doesn't answer keeps nobody who has had enough.
func TestInterruptOfAKeyProvider(t *testing.T) {
	for name, start := range map[string]func(b *bench, config string) error{
		"of options": func(b *bench, config string) error {
			interrupts := b.interrupts
			b.set = func(o *engine.Options) { o.Encryption, o.Interrupts = config, interrupts }
			return b.apply(one).failure
		},
		"of a configuration": func(b *bench, config string) error {
			d := newDesk(b.t, map[string]string{"main.tf": one})
			b.t.Setenv("TF_ENCRYPTION", config)
			d.interrupts = b.interrupts
			has(b.t, d.must(1, "plan").err, "Interrupted")
			return errors.New("interrupted")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.interrupts = make(chan struct{}, 1)
			fifo := filepath.Join(t.TempDir(), "key")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			asked := make(chan *os.File)
			go func() {
				w, _ := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the provider
				b.interrupts <- struct{}{}
				asked <- w
			}()
			err := start(b, `
key_provider "external" "k" { command = ["cat", "`+fifo+`"] }
method "aes_gcm" "m" { keys = key_provider.external.k }
state { method = method.aes_gcm.m }
`)
			(<-asked).Close()
			if err == nil || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
