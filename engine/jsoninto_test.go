package engine_test

import (
	"os"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// With JSONInto humans read what they always read, and the file has the stream.
func TestStreamBesidesText(t *testing.T) {
	b := newBench(t)
	into, err := os.Create("stream.json")
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	b.set = func(o *engine.Options) { o.JSONInto = into }
	p := b.ok(b.apply(lab + `resource "lab_thing" "x" { name = "x" }`))
	has(t, p.out, "Plan: 1 to add", "Apply complete!")
	has(t, p.err, "lab_thing.x: Creating...")
	lacks(t, p.out+p.err, `"@level"`)
	b.fails(b.apply(lab + `resource "lab_thing" "x" { none = "x" }`))
	stream, err := os.ReadFile("stream.json")
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(stream), `"type":"version"`, `"type":"apply_complete"`, `"type":"change_summary"`, `"@level":"error"`)
}

// Addresses come from files, too, with comments between them.
func TestTargetsFromFiles(t *testing.T) {
	b := newBench(t)
	for name, content := range map[string]string{"targets": "# these\nlab_thing.a\n", "bad": "lab_thing.\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := lab + `
resource "lab_thing" "a" { name = "a" }
resource "lab_thing" "b" { name = "b" }
`
	_, p := b.plan(config, engine.PlanOptions{TargetFiles: []string{"targets"}})
	has(t, p.out, "lab_thing.a will be created", "Plan: 1 to add")
	_, p = b.plan(config, engine.PlanOptions{ExcludeFiles: []string{"targets"}})
	has(t, p.out, "lab_thing.b will be created", "Plan: 1 to add")
	for _, o := range []engine.PlanOptions{{TargetFiles: []string{"bad"}}, {TargetFiles: []string{"none"}}, {TargetFiles: []string{"targets"}, Excludes: []string{"lab_thing.b"}}} {
		_, p = b.plan(config, o)
		b.fails(p)
	}
}
