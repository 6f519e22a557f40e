package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
)

const lab = `
terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}
`

// bench is one user's desk: a configuration, a state, a provider.
type bench struct {
	t     *testing.T
	store *enginetest.Store
	lab   *enginetest.Lab
	// set changes the options of the runs that follow.
	set func(*engine.Options)
	// interrupts are for tests that have them.
	interrupts chan struct{}
	// stdin is what is typed in the next run.
	stdin string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Chdir(t.TempDir()) // errored.tfstate and plan files
	return &bench{t: t, store: &enginetest.Store{}, lab: &enginetest.Lab{}, set: func(*engine.Options) {}}
}

// printed is what a run left on the streams.
type printed struct {
	out, err string
	failure  error
}

// run carries out a verb with a new engine, as each start of a program does.
func (b *bench) run(config string, verb func(context.Context, *engine.Engine) error) printed {
	b.t.Helper()
	dir := b.t.TempDir()
	file := func(name, content string) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { f.Close() })
		return f
	}
	opts := engine.Options{
		Files:        map[string][]byte{"main.tf": []byte(config)},
		Providers:    []engine.Provider{{Address: enginetest.Address, New: b.lab.Server}},
		State:        b.store,
		StateAddress: "https://user:hunter2@state.example/group",
		Stdin:        file("in", b.stdin),
		Stdout:       file("out", ""),
		Stderr:       file("err", ""),
		Input:        true,
	}
	b.set(&opts)
	e, err := engine.New(context.Background(), opts)
	if err == nil {
		err = verb(context.Background(), e)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			b.t.Fatal(err)
		}
		return string(content)
	}
	p := printed{read("out"), read("err"), err}
	b.t.Logf("--- stdout\n%s--- stderr\n%s--- error: %v", p.out, p.err, p.failure)
	return p
}

func (b *bench) apply(config string) printed {
	b.t.Helper()
	return b.run(config, apply(engine.ApplyOptions{AutoApprove: true}))
}

func apply(o engine.ApplyOptions) func(context.Context, *engine.Engine) error {
	return func(ctx context.Context, e *engine.Engine) error { return e.Apply(ctx, o) }
}

// plan returns whether there were changes as well.
func (b *bench) plan(config string, o engine.PlanOptions) (changes bool, p printed) {
	b.t.Helper()
	p = b.run(config, func(ctx context.Context, e *engine.Engine) (err error) {
		changes, err = e.Plan(ctx, o)
		return err
	})
	return changes, p
}

func (b *bench) ok(p printed) printed {
	b.t.Helper()
	if p.failure != nil {
		b.t.Fatalf("failed: %v", p.failure)
	}
	return p
}

func (b *bench) fails(p printed) printed {
	b.t.Helper()
	if !errors.Is(p.failure, engine.ErrReported) {
		b.t.Fatalf("got error %v, want one that was reported", p.failure)
	}
	return p
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	// Diagnostics are wrapped to the terminal's width.
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
	for _, w := range want {
		if !strings.Contains(flat, w) {
			t.Errorf("missing %q in:\n%s", w, text)
		}
	}
}

func lacks(t *testing.T, text string, not ...string) {
	t.Helper()
	for _, n := range not {
		if strings.Contains(text, n) {
			t.Errorf("%q must not be in:\n%s", n, text)
		}
	}
}

// free fails the test if the lock is held.
func (b *bench) free() {
	b.t.Helper()
	if l := b.store.Held(); l != nil {
		b.t.Errorf("the lock is held: %s", l)
	}
}

// objects are the addresses in the stored state, with their attributes.
func (b *bench) objects() map[string]map[string]any {
	b.t.Helper()
	return objectsIn(b.t, b.store.State())
}

func objectsIn(t *testing.T, state string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	if state == "" {
		return out
	}
	var s struct {
		Resources []struct {
			Type, Name string
			Instances  []struct{ Attributes map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(state), &s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Resources {
		for _, i := range r.Instances {
			out[r.Type+"."+r.Name] = i.Attributes
		}
	}
	return out
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, w
}

// watched is a file whose content is copied to another and shown to see.
func watched(t *testing.T, to *os.File, see func(string)) *os.File {
	t.Helper()
	r, w := pipe(t)
	t.Cleanup(func() { w.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if err != nil {
				return
			}
			_, _ = to.Write(buf[:n])
			see(string(buf[:n]))
		}
	}()
	return w
}
