package engine_test

import (
	"context"
	"fmt"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

const two = lab + `
resource "lab_thing" "good" { name = "good" }
resource "lab_thing" "bad" { name = "bad" }
`

func panicsIn(method string) func(context.Context, string, string) error {
	return func(_ context.Context, m, name string) error {
		if m == method && name != "good" {
			panic("the provider has a bug")
		}
		return nil
	}
}

// A provider that panics fails the one object. What else was done is saved, and
// the lock is free.
func TestProviderPanics(t *testing.T) {
	destroy := apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}, AutoApprove: true})
	change := func(_ string) string {
		return lab + `
resource "lab_thing" "good" {
  name = "good"
  size = 2
}
resource "lab_thing" "bad" {
  name = "bad"
  size = 2
}
`
	}
	for method, c := range map[string]struct {
		before bool // two exist
		config string
		verb   func(context.Context, *engine.Engine) error
		after  map[string]any // name to size
	}{
		"Validate":  {false, two, apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{}},
		"Configure": {false, two, apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{}},
		"Plan":      {false, two, apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{}},
		"Create":    {false, two, apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{"lab_thing.good": 1.0}},
		"Read":      {true, two, apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{"lab_thing.good": 1.0, "lab_thing.bad": 1.0}},
		"Update":    {true, change(""), apply(engine.ApplyOptions{AutoApprove: true}), map[string]any{"lab_thing.good": 2.0, "lab_thing.bad": 1.0}},
		"Delete":    {true, two, destroy, map[string]any{"lab_thing.bad": 1.0}},
		"Import":    {false, two, func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, "lab_thing.bad", "bad") }, map[string]any{}},
	} {
		t.Run(method, func(t *testing.T) {
			b := newBench(t)
			if c.before {
				b.ok(b.apply(two))
			}
			b.lab.On = panicsIn(method)
			p := b.fails(b.run(c.config, c.verb))
			has(t, p.err, "Provider panicked", "the provider has a bug")
			b.free()
			sizes := map[string]any{}
			for name, attrs := range b.objects() {
				sizes[name] = attrs["size"]
			}
			if fmt.Sprint(sizes) != fmt.Sprint(c.after) {
				t.Errorf("the state has %v, want %v", sizes, c.after)
			}
			// Without the bug the next apply mends it.
			b.lab.On = nil
			b.ok(b.run(c.config, apply(engine.ApplyOptions{AutoApprove: true})))
		})
	}
}

// The same for what isn't a resource.
func TestProviderPanicsElsewhere(t *testing.T) {
	for method, config := range map[string]string{
		"ReadData": lab + `data "lab_echo" "e" { say = "x" }`,
		"Function": lab + `output "o" { value = provider::lab::upper("x") }`,
		"Open":     lab + "ephemeral \"lab_token\" \"t\" { value = \"x\" }\nresource \"lab_thing\" \"a\" {\n name = \"good\"\n token = ephemeral.lab_token.t.token\n}",
		"Close":    lab + "ephemeral \"lab_token\" \"t\" { value = \"x\" }\nresource \"lab_thing\" \"a\" {\n name = \"good\"\n token = ephemeral.lab_token.t.token\n}",
	} {
		t.Run(method, func(t *testing.T) {
			b := newBench(t)
			b.lab.On = panicsIn(method)
			p := b.fails(b.apply(config))
			has(t, p.err, "the provider has a bug")
			b.free()
		})
	}
}
