package engine_test

import (
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// Nothing is applied that nobody approved.
func TestApproval(t *testing.T) {
	ask := apply(engine.ApplyOptions{})
	for name, c := range map[string]struct {
		stdin string
		input bool
		want  string
	}{
		"no":                  {"no\n", true, "Apply cancelled."},
		"nothing but a line":  {"\n", true, "Apply cancelled."},
		"yes in other words":  {"YES\n", true, "Apply cancelled."},
		"end of input":        {"", true, "the standard input ended without an answer"},
		"end within a line":   {"yes", true, "the standard input ended without an answer"},
		"not to be asked":     {"yes\n", false, "input is disabled"},
		"not to be asked how": {"yes\n", false, "yuba apply -auto-approve"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.stdin = c.stdin
			b.set = func(o *engine.Options) { o.Input = c.input }
			p := b.fails(b.run(one, ask))
			has(t, p.out, "Plan: 1 to add")
			has(t, p.err, c.want)
			if b.store.State() != "" {
				t.Error("it was applied")
			}
			b.free()
		})
	}
	t.Run("yes", func(t *testing.T) {
		b := newBench(t)
		b.stdin = "yes\n"
		p := b.ok(b.run(one, ask))
		has(t, p.err, "Do you want to perform these actions?", "Only 'yes' will be accepted")
		has(t, p.out, "Apply complete!")
		lacks(t, p.out, "Enter a value")
	})
	t.Run("no stdin at all", func(t *testing.T) {
		b := newBench(t)
		b.set = func(o *engine.Options) { o.Stdin = nil }
		b.fails(b.run(one, ask))
		if b.store.State() != "" {
			t.Error("it was applied")
		}
	})
	t.Run("nothing to do", func(t *testing.T) {
		b := newBench(t)
		b.ok(b.apply(one))
		b.set = func(o *engine.Options) { o.Input = false }
		has(t, b.ok(b.run(one, ask)).out, "No changes.", "0 added, 0 changed, 0 destroyed")
	})
	t.Run("json", func(t *testing.T) {
		b := newBench(t)
		b.stdin = "yes\n"
		b.set = func(o *engine.Options) { o.JSON = true }
		has(t, b.fails(b.run(one, ask)).out, "Plan file or auto-approve required")
		if b.store.State() != "" {
			t.Error("it was applied")
		}
	})
	t.Run("destroy", func(t *testing.T) {
		b := newBench(t)
		b.ok(b.apply(one))
		b.stdin = "no\n"
		p := b.fails(b.run(one, apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}})))
		has(t, p.err, "Do you really want to destroy all resources?", "Destroy cancelled.")
		if len(b.objects()) != 1 {
			t.Error("it was destroyed")
		}
	})
}
