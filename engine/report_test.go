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
)

// A tool that reads -json gets JSON also when nothing could be started.
func TestReportJSON(t *testing.T) {
	report := func(form engine.JSONForm) string {
		name := filepath.Join(t.TempDir(), "out")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := engine.ReportJSON(f, os.Stderr, form, errors.New(`no "group" file`)); !errors.Is(err, engine.ErrReported) {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type diagnostic struct{ Severity, Summary string }
	want := diagnostic{"error", `no "group" file`}
	lines := strings.Split(strings.TrimSpace(report(engine.JSONStream)), "\n")
	var last struct {
		Type       string
		Diagnostic diagnostic
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 || last.Type != "diagnostic" || last.Diagnostic != want {
		t.Errorf("the stream is %q (%v)", lines, err)
	}
	var result struct {
		Valid       bool
		Diagnostics []diagnostic
	}
	if err := json.Unmarshal([]byte(report(engine.JSONResult)), &result); err != nil || result.Valid || len(result.Diagnostics) != 1 || result.Diagnostics[0] != want {
		t.Errorf("the result is %+v (%v)", result, err)
	}
}

// What is no plan is refused with a sentence.
func TestNoPlanFile(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile("group.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nowhere":    "no such file",
		"group.json": `group.json is not a saved plan: "yuba plan -out=FILE" makes one`,
		".":          ". is not a regular file",
	} {
		has(t, b.fails(b.run(one, apply(engine.ApplyOptions{PlanFile: path}))).err, want)
	}
}

// A plan holds the state: nobody else is to read it. Where it can't be written
// nothing is planned, and a plan that fails leaves no file.
func TestPlanFileIsPrivate(t *testing.T) {
	b := newBench(t)
	_, p := b.plan(one, engine.PlanOptions{Out: "p"})
	b.ok(p)
	if fi, err := os.Stat("p"); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() == 0 {
		t.Errorf("the plan file: %v, %v", fi, err)
	}
	_, p = b.plan(one, engine.PlanOptions{Out: "nowhere/p"})
	has(t, b.fails(p).err, "Failed to write plan file", "nowhere/p")
	lacks(t, p.out, "Plan:")
	_, p = b.plan(lab+`output "o" { value = lab_thing.gone.id }`, engine.PlanOptions{Out: "q"})
	b.fails(p)
	if _, err := os.Stat("q"); err == nil {
		t.Error("a plan that failed left a file")
	}
}

// Hints name no commands that this program does not have.
func TestNoOutputs(t *testing.T) {
	b := newBench(t)
	p := b.ok(b.run(lab, func(ctx context.Context, e *engine.Engine) error { return e.Output(ctx, "", false) }))
	has(t, p.err, "The state has no outputs", "yuba apply")
	lacks(t, p.err, "tofu refresh", "tofu console")
}
