package engine_test

import (
	"context"
	"os"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// A write-only attribute reaches the provider and nothing else.
func TestWriteOnly(t *testing.T) {
	const canary = "canary-7f3a"
	b := newBench(t)
	config := lab + `
resource "lab_thing" "a" {
  name  = "a"
  token = "` + canary + `"
}
`
	_, p := b.plan(config, engine.PlanOptions{Out: "p.tfplan"})
	lacks(t, b.ok(p).out+p.err, canary)
	b.set = func(o *engine.Options) { o.JSON = true }
	p = b.ok(b.run(config, func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, "p.tfplan") }))
	b.set = func(*engine.Options) {}
	has(t, p.out, `"token":{"constant_value":"`+canary) // the configuration is in a plan, as it is in stock tofu's
	p = b.ok(b.run(config, apply(engine.ApplyOptions{PlanFile: "p.tfplan"})))
	lacks(t, p.out+p.err+b.store.State(), canary)
	if got := b.lab.Tokens(); len(got) != 1 || got[0] != canary {
		t.Errorf("the provider was given %q", got)
	}
	changes, p := b.plan(config, engine.PlanOptions{})
	if b.ok(p); changes {
		t.Error("changes after an apply")
	}
}

// An ephemeral value in a write-only attribute isn't in the plan file either.
func TestEphemeral(t *testing.T) {
	b := newBench(t)
	config := lab + `
variable "seed" {
  type      = string
  ephemeral = true
}
ephemeral "lab_token" "t" { value = var.seed }
resource "lab_thing" "a" {
  name  = "a"
  token = ephemeral.lab_token.t.token
}
`
	const canary = "canary-99b1"
	b.set = func(o *engine.Options) { o.Variables = map[string]string{"seed": canary} }
	_, p := b.plan(config, engine.PlanOptions{Out: "p.tfplan"})
	b.ok(p)
	raw, err := os.ReadFile("p.tfplan")
	if err != nil {
		t.Fatal(err)
	}
	lacks(t, string(raw)+p.out, canary)
	p = b.ok(b.run(config, apply(engine.ApplyOptions{PlanFile: "p.tfplan"})))
	lacks(t, p.out+b.store.State(), canary)
	if got := b.lab.Tokens(); len(got) != 1 || got[0] != "t-"+canary {
		t.Errorf("the provider was given %q", got)
	}
}

func TestSensitive(t *testing.T) {
	config := lab + `
resource "lab_thing" "a" {
  name   = "a"
  secret = "s3cr3t"
}
output "secret" {
  value     = lab_thing.a.secret
  sensitive = true
}
output "id" { value = lab_thing.a.id }
`
	output := func(name string, raw bool) func(context.Context, *engine.Engine) error {
		return func(ctx context.Context, e *engine.Engine) error { return e.Output(ctx, name, raw) }
	}
	b := newBench(t)
	p := b.ok(b.apply(config))
	has(t, p.out, "secret = (sensitive value)", "secret = <sensitive>")
	lacks(t, p.out+p.err, "s3cr3t")
	p = b.ok(b.run(config, output("", false)))
	has(t, p.out, `id = "thing-a"`, "secret = <sensitive>")
	lacks(t, p.out, "s3cr3t")
	if p = b.ok(b.run(config, output("id", false))); p.out != "\"thing-a\"\n" {
		t.Errorf("got %q", p.out)
	}
	if p = b.ok(b.run(config, output("secret", true))); p.out != "s3cr3t" {
		t.Errorf("got %q", p.out)
	}
	has(t, b.fails(b.run(config, output("nope", false))).err, `Output "nope" not found`)
	has(t, b.fails(b.run(config, output("", true))).err, "only supported for single outputs")

	b.set = func(o *engine.Options) { o.ShowSensitive = true }
	has(t, b.ok(b.run(config, output("", false))).out, `secret = "s3cr3t"`)
	b.set = func(o *engine.Options) { o.JSON = true }
	has(t, b.ok(b.run(config, output("", false))).out, `"secret": { "sensitive": true, "type": "string", "value": "s3cr3t" }`)

	empty := newBench(t)
	p = empty.ok(empty.run(config, output("", false)))
	has(t, p.err, "No outputs found")
	if p.out != "" {
		t.Errorf("got %q", p.out)
	}
}
