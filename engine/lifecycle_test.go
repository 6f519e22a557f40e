package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

const one = lab + `
resource "lab_thing" "a" {
  name = "a"
  tags = { x = "1" }
  spec = { image = "i", ports = [80, 443] }
}
output "id" { value = lab_thing.a.id }
`

func TestLifeCycle(t *testing.T) {
	b := newBench(t)

	changes, p := b.plan(one, engine.PlanOptions{})
	b.ok(p)
	if !changes {
		t.Error("a first plan has changes")
	}
	has(t, p.out, "# lab_thing.a will be created", "Plan: 1 to add, 0 to change, 0 to destroy.", `if you run "yuba apply" now`)
	lacks(t, p.out, "tofu apply")
	if b.store.State() != "" {
		t.Error("a plan wrote a state")
	}

	p = b.ok(b.apply(one))
	has(t, p.out, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.", "Outputs:", `id = "thing-a"`)
	has(t, p.err, "lab_thing.a: Creating...", "lab_thing.a: Creation complete after ", "[id=thing-a]")
	lacks(t, p.out, "Creating...")

	changes, p = b.plan(one, engine.PlanOptions{})
	b.ok(p)
	if changes {
		t.Error("a plan after an apply has no changes")
	}
	has(t, p.out, "No changes. Your infrastructure matches the configuration.")
	has(t, p.err, "lab_thing.a: Refreshing state... [id=thing-a]")

	_, p = b.plan(one, engine.PlanOptions{SkipRefresh: true})
	b.ok(p)
	lacks(t, p.err, "Refreshing")

	changed := strings.Replace(one, `x = "1"`, `x = "2"`, 1)
	p = b.ok(b.apply(changed))
	has(t, p.out, `~ "x" = "1" -> "2"`, "Resources: 0 added, 1 changed, 0 destroyed.")

	_, p = b.plan(changed, engine.PlanOptions{Mode: engine.Destroy})
	has(t, b.ok(p).out, "Plan: 0 to add, 0 to change, 1 to destroy.")

	p = b.ok(b.run(changed, apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}, AutoApprove: true})))
	has(t, p.out, "Destroy complete! Resources: 1 destroyed.")
	if n := len(b.objects()); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	b.free()
}

func TestSavedPlan(t *testing.T) {
	b := newBench(t)
	_, p := b.plan(one, engine.PlanOptions{Out: "p.tfplan"})
	has(t, b.ok(p).out, "Saved the plan to: p.tfplan", `yuba apply "p.tfplan"`)

	has(t, b.ok(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, "p.tfplan") })).out, "# lab_thing.a will be created")

	b.set = func(o *engine.Options) { o.JSON = true }
	p = b.ok(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, "p.tfplan") }))
	b.set = func(*engine.Options) {}
	var shown struct {
		Changes []struct{ Address string } `json:"resource_changes"`
	}
	if err := json.Unmarshal([]byte(p.out), &shown); err != nil || len(shown.Changes) != 1 || shown.Changes[0].Address != "lab_thing.a" {
		t.Errorf("show -json: %v, %+v", err, shown)
	}

	// It is applied without asking, and only once.
	planned := apply(engine.ApplyOptions{PlanFile: "p.tfplan"})
	has(t, b.ok(b.run(one, planned)).out, "Apply complete! Resources: 1 added")
	has(t, b.fails(b.run(one, planned)).err, "Saved plan is stale")
	b.free()

	raw, err := os.ReadFile("p.tfplan")
	if err != nil {
		t.Fatal(err)
	}
	lacks(t, string(raw), "hunter2")
}

func TestSavedPlanOfAnotherState(t *testing.T) {
	b := newBench(t)
	_, p := b.plan(one, engine.PlanOptions{Out: "p.tfplan"})
	b.ok(p)
	b.set = func(o *engine.Options) { o.StateAddress = "https://state.example/other" }
	p = b.fails(b.run(one, apply(engine.ApplyOptions{PlanFile: "p.tfplan"})))
	has(t, p.err, "the plan was made for the state at https://state.example/group, not for the one at https://state.example/other")
	if b.store.State() != "" {
		t.Error("it was applied")
	}
}

func TestNothingIsNoPlanFile(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile("x", []byte("no plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"x", "missing", "."} {
		has(t, b.fails(b.run(one, apply(engine.ApplyOptions{PlanFile: path}))).err, "as a plan file")
		b.fails(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.Show(ctx, path) }))
	}
}

func TestRefreshOnly(t *testing.T) {
	b := newBench(t)
	b.ok(b.apply(one))
	changes, p := b.plan(one, engine.PlanOptions{Mode: engine.RefreshOnly})
	b.ok(p)
	if changes {
		t.Error("nothing has drifted")
	}
	has(t, p.out, "No changes.")
}

const three = lab + `
resource "lab_thing" "a" { name = "a" }
resource "lab_thing" "b" { name = "b" }
resource "lab_thing" "c" {
  name = "c-${lab_thing.b.id}"
}
`

func TestTargetAndExclude(t *testing.T) {
	b := newBench(t)
	_, p := b.plan(three, engine.PlanOptions{Targets: []string{"lab_thing.c"}})
	has(t, b.ok(p).out, "lab_thing.b will be created", "lab_thing.c will be created", "Plan: 2 to add")
	lacks(t, p.out, "lab_thing.a will")
	_, p = b.plan(three, engine.PlanOptions{Excludes: []string{"lab_thing.b"}})
	has(t, b.ok(p).out, "lab_thing.a will be created", "Plan: 1 to add")
	_, p = b.plan(three, engine.PlanOptions{Targets: []string{"lab_thing.a"}, Excludes: []string{"lab_thing.b"}})
	has(t, b.fails(p).err, "mutually-exclusive")
	_, p = b.plan(three, engine.PlanOptions{Targets: []string{"lab thing"}})
	has(t, b.fails(p).err, `Invalid target "lab thing"`)
}

func TestReplace(t *testing.T) {
	b := newBench(t)
	b.ok(b.apply(three))
	_, p := b.plan(three, engine.PlanOptions{Replace: []string{"lab_thing.a"}})
	has(t, b.ok(p).out, "lab_thing.a will be replaced, as requested", "Plan: 1 to add, 0 to change, 1 to destroy.")
	_, p = b.plan(three, engine.PlanOptions{Replace: []string{"data.lab_echo.a"}})
	has(t, b.fails(p).err, "Only managed resources")
}

func TestTerraformData(t *testing.T) {
	config := func(input, trigger string) string {
		return `
resource "terraform_data" "x" {
  input            = ` + input + `
  triggers_replace = ` + trigger + `
}
output "x" { value = terraform_data.x.output }
output "vars" { value = provider::terraform::encode_tfvars({ a = 1 }) }
terraform {
  required_providers {
    terraform = { source = "terraform.io/builtin/terraform" }
  }
}
`
	}
	b := newBench(t)
	has(t, b.ok(b.apply(config(`{ n = 1 }`, `["a"]`))).out, "n = 1", "a = 1")
	first := b.objects()["terraform_data.x"]["id"]
	has(t, b.ok(b.apply(config(`{ n = 2 }`, `["a"]`))).out, "0 added, 1 changed", `"n" = 2`)
	if b.objects()["terraform_data.x"]["id"] != first {
		t.Error("an update made another id")
	}
	has(t, b.ok(b.apply(config(`{ n = 2 }`, `["b"]`))).out, "1 added, 0 changed, 1 destroyed")
	if b.objects()["terraform_data.x"]["id"] == first {
		t.Error("a replacement kept the id")
	}
	changes, p := b.plan(config(`{ n = 2 }`, `["b"]`), engine.PlanOptions{})
	if b.ok(p); changes {
		t.Error("changes after an apply")
	}
}

func TestImport(t *testing.T) {
	b := newBench(t)
	imports := func(addr, id string) func(context.Context, *engine.Engine) error {
		return func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, addr, id) }
	}
	bare := lab + `resource "lab_thing" "a" { name = "a" }`
	has(t, b.fails(b.run(bare, imports("lab_thing.zz", "a"))).err, "no resource lab_thing.zz")
	has(t, b.fails(b.run(bare, imports("data.lab_echo.a", "a"))).err, "managed resource")
	has(t, b.ok(b.run(bare, imports("lab_thing.a", "a"))).out, "Import successful!")
	b.free()
	changes, p := b.plan(bare, engine.PlanOptions{})
	if b.ok(p); changes {
		t.Error("changes after an import")
	}

	c := newBench(t)
	block := bare + `
import {
  to       = lab_thing.a
  identity = { name = "a" }
}
`
	has(t, c.ok(c.apply(block)).out, "1 imported, 0 added")
}

func TestVariables(t *testing.T) {
	b := newBench(t)
	config := lab + `
variable "names" { type = list(string) }
resource "lab_thing" "a" {
  for_each = toset(var.names)
  name     = each.key
}
`
	b.set = func(o *engine.Options) { o.Input = false }
	_, p := b.plan(config, engine.PlanOptions{})
	has(t, b.fails(p).err, "No value for required variable")
	b.set = func(o *engine.Options) { o.Variables = map[string]string{"names": `["a", "b"]`} }
	_, p = b.plan(config, engine.PlanOptions{})
	has(t, b.ok(p).out, "Plan: 2 to add")
}

// What a destroy only forgets orders nothing, and what was made after it goes all the same.
func TestDestroyForgets(t *testing.T) {
	const kept = lab + `
resource "lab_thing" "b" {
  count = 0
  name  = "b"
  lifecycle { destroy = false }
}
`
	b := newBench(t)
	b.ok(b.apply(three))
	forgets := engine.PlanOptions{Mode: engine.Destroy, Forgets: []string{"lab_thing.b"}, Out: "p.tfplan"}
	_, p := b.plan(kept, forgets)
	has(t, b.ok(p).out, "lab_thing.a will be destroyed", "lab_thing.b[0] will be removed from the OpenTofu state", "lab_thing.c will be destroyed", "Plan: 0 to add, 0 to change, 2 to destroy, 1 to forget.")

	// A part of the objects is what it is without the option.
	forgets.Out, forgets.Targets = "", []string{"lab_thing.b"}
	_, p = b.plan(kept, forgets)
	has(t, b.ok(p).out, "lab_thing.b[0] will be removed", "lab_thing.c will be destroyed")
	lacks(t, p.out, "lab_thing.a will")

	// What can't be destroyed stays in the state, and goes with the next destroy.
	failed := errors.New("it will not go")
	b.lab.On = func(_ context.Context, method, name string) error {
		if method == "Delete" && strings.HasPrefix(name, "c-") {
			return failed
		}
		return nil
	}
	has(t, b.fails(b.run(kept, apply(engine.ApplyOptions{PlanFile: "p.tfplan", PlanOptions: engine.PlanOptions{Forgets: forgets.Forgets}}))).err, "it will not go")
	if left := b.objects(); len(left) != 1 || left["lab_thing.c"] == nil {
		t.Errorf("left are %v", left)
	}
	failed, forgets.Targets = nil, nil
	b.ok(b.run(kept, apply(engine.ApplyOptions{PlanOptions: forgets, AutoApprove: true})))
	if left := b.objects(); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	b.free()
}
