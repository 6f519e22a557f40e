package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// With JSON, all that is printed is a stream of objects.
func TestJSONStream(t *testing.T) {
	b := newBench(t)
	b.set = func(o *engine.Options) { o.JSON = true }
	types := func(p printed) (out []string) {
		t.Helper()
		if p.err != "" {
			t.Errorf("stderr has %q", p.err)
		}
		for line := range strings.Lines(p.out) {
			var m struct {
				Type  string `json:"type"`
				Level string `json:"@level"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Errorf("%v: %s", err, line)
			}
			out = append(out, m.Type)
		}
		return out
	}
	wants := func(got []string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("no %s in %v", w, got)
			}
		}
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != "version" })); n != 1 {
			t.Errorf("%d version messages", n)
		}
	}
	_, p := b.plan(one, engine.PlanOptions{})
	wants(types(b.ok(p)), "version", "planned_change", "change_summary", "outputs")
	wants(types(b.ok(b.apply(one))), "version", "planned_change", "apply_start", "apply_complete", "change_summary", "outputs")
	wants(types(b.ok(b.run(one, apply(engine.ApplyOptions{PlanOptions: engine.PlanOptions{Mode: engine.Destroy}, AutoApprove: true})))), "apply_start", "apply_complete")
	_, p = b.plan(lab+`output "o" { value = lab_thing.gone.id }`, engine.PlanOptions{})
	wants(types(b.fails(p)), "version", "diagnostic")
	b.store.Hold([]byte(othersLock))
	wants(types(b.fails(b.apply(one))), "diagnostic")
	has(t, b.fails(b.apply(one)).out, "ann@ci-7", "yuba force-unlock 1111-2222")
	wants(types(b.ok(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.ForceUnlock(ctx, "1111-2222", true) }))), "version")
	wants(types(b.fails(b.run(one, func(ctx context.Context, e *engine.Engine) error { return e.Import(ctx, "lab_thing.zz", "a") }))), "diagnostic")
}

// A live view gets events in place of the lines.
func TestEvents(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var events []string
	b.set = func(o *engine.Options) {
		o.Events = func(e engine.Event) {
			mu.Lock()
			defer mu.Unlock()
			s := e.Addr + " " + e.Action + " " + string(e.Phase)
			if e.Err != nil {
				s += ": " + e.Err.Error()
			}
			events = append(events, s)
		}
	}
	p := b.ok(b.apply(one))
	lacks(t, p.err, "Creating", "complete")
	has(t, p.out, "Apply complete!")
	if want := []string{"lab_thing.a create started", "lab_thing.a create done"}; !slices.Equal(events, want) {
		t.Errorf("got %q, want %q", events, want)
	}
	events = nil
	b.lab.On = panicsIn("Update")
	b.fails(b.apply(strings.Replace(one, `x = "1"`, `x = "2"`, 1)))
	if len(events) != 4 || events[0] != "lab_thing.a refresh started" || !strings.HasPrefix(events[3], "lab_thing.a update failed: ") {
		t.Errorf("got %q", events)
	}
}

func TestConcise(t *testing.T) {
	b := newBench(t)
	b.set = func(o *engine.Options) { o.Concise = true }
	p := b.ok(b.apply(one))
	if p.err != "" {
		t.Errorf("stderr has %q", p.err)
	}
	has(t, p.out, "Apply complete! Resources: 1 added")
}
