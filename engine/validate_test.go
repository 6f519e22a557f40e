package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

func validate(ctx context.Context, e *engine.Engine) error { return e.Validate(ctx) }

func TestValidate(t *testing.T) {
	b := newBench(t)
	p := b.ok(b.run(one, validate))
	has(t, p.out, "Success! The configuration is valid.")

	for name, c := range map[string]struct{ config, want string }{
		"syntax":    {`resource "x" {`, "on main.tf line 1"},
		"attribute": {lab + `resource "lab_thing" "a" { nam = "x" }`, `An argument named "nam" is not expected here`},
		"reference": {lab + `output "o" { value = lab_thing.gone.id }`, "Reference to undeclared resource"},
		"computed":  {"resource \"terraform_data\" \"x\" { id = \"1\" }", "read-only"},
		"type":      {lab + `resource "lab_other" "a" {}`, `does not support resource type "lab_other"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			has(t, b.fails(b.run(c.config, validate)).err, c.want)
			_, p := b.plan(c.config, engine.PlanOptions{})
			has(t, b.fails(p).err, c.want)
			b.free()
		})
	}

	b.lab.On = func(_ context.Context, m, _ string) error {
		if m == "Validate" {
			return errors.New("the provider says no")
		}
		return nil
	}
	p = b.fails(b.run(one, validate))
	has(t, p.err, "the provider says no", "on main.tf line 9, in resource")
	b.lab.On = nil

	large := lab + "resource \"lab_thing\" \"a\" {\n name = \"a\"\n size = 101\n}"
	p = b.ok(b.run(large, validate))
	has(t, p.err, "Warning: large thing")
	has(t, p.out, "Success! The configuration is valid, but there were some validation warnings")
	lacks(t, p.out, "large thing")
	p = b.ok(b.apply(large))
	has(t, p.err, "Warning: large thing")
	b.set = func(o *engine.Options) { o.CompactWarnings = true }
	p = b.ok(b.apply(large))
	lacks(t, p.err, "are slow")

	b.set = func(o *engine.Options) { o.JSON = true }
	p = b.fails(b.run(`resource "x" {`, validate))
	var result struct {
		Valid      bool `json:"valid"`
		ErrorCount int  `json:"error_count"`
	}
	if err := json.Unmarshal([]byte(p.out), &result); err != nil || result.Valid || result.ErrorCount == 0 {
		t.Errorf("%v, %+v", err, result)
	}
}

// A provider that isn't linked is named, with those that are.
func TestUnlinkedProvider(t *testing.T) {
	config := `
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
resource "aws_instance" "a" {}
resource "null_resource" "b" {}
`
	b := newBench(t)
	for name, verb := range map[string]func(context.Context, *engine.Engine) error{
		"validate": validate,
		"plan": func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Plan(ctx, engine.PlanOptions{})
			return err
		},
		"apply":   apply(engine.ApplyOptions{AutoApprove: true}),
		"destroy": apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}, AutoApprove: true}),
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			p := b.fails(b.run(config, verb))
			has(t, p.err, "Provider not linked", "- registry.opentofu.org/hashicorp/aws", "- registry.opentofu.org/hashicorp/null", "- registry.opentofu.org/example/lab")
			lacks(t, p.err, "tofu init")
			b.free()
		})
	}
	// A state can name one as well.
	b.t = t
	b.ok(b.apply(one))
	b.set = func(o *engine.Options) { o.Providers = nil }
	for _, verb := range []func(context.Context, *engine.Engine) error{
		func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, "") },
		apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}, AutoApprove: true}),
	} {
		p := b.fails(b.run("", verb))
		has(t, p.err, "registry.opentofu.org/example/lab", "These are linked: (none)")
	}
}

func TestOptions(t *testing.T) {
	for name, set := range map[string]func(*engine.Options){
		"provider twice":       func(o *engine.Options) { o.Providers = append(o.Providers, o.Providers[0]) },
		"bad provider address": func(o *engine.Options) { o.Providers[0].Address = "a/b/c/d/e" },
		"no state":             func(o *engine.Options) { o.State = nil },
		"no stdout":            func(o *engine.Options) { o.Stdout = nil },
		"parallelism":          func(o *engine.Options) { o.Parallelism = -1 },
		"lock timeout":         func(o *engine.Options) { o.LockTimeout = -1 },
		"bad address":          func(o *engine.Options) { o.StateAddress = "http://u:hunter2@%zz" },
		"bad encryption":       func(o *engine.Options) { o.Encryption = "state {" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.set = set
			p := b.apply(one)
			if p.failure == nil || errors.Is(p.failure, engine.ErrReported) {
				t.Fatalf("got %v", p.failure)
			}
			lacks(t, p.failure.Error(), "hunter2")
		})
	}
}
