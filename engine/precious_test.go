package engine_test

import (
	"context"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
)

// What nobody but the state has is stored before something is made of it: the
// process may be killed then.
func TestPreciousIsStoredFirst(t *testing.T) {
	config := lab + `
resource "terraform_data" "id" { input = "precious" }
resource "lab_thing" "a" { name = terraform_data.id.output }
resource "lab_thing" "b" { name = lab_thing.a.id }
`
	b := newBench(t)
	b.set = func(o *engine.Options) { o.Precious = map[string][]string{"terraform_data": {"lab_thing"}} }
	var stored []string
	b.lab.On = func(_ context.Context, method, _ string) error {
		if method == "Create" {
			stored = append(stored, b.store.State())
		}
		return nil
	}
	b.ok(b.apply(config))
	if len(stored) != 2 || !strings.Contains(stored[0], `"precious"`) {
		t.Fatalf("before the first thing was made, the state was %q", stored)
	}
	if stored[1] != stored[0] {
		t.Error("it was stored again for nothing")
	}
}

// Without a place to store it, nothing is made of it.
func TestPreciousThatIsNotStored(t *testing.T) {
	b := newBench(t)
	b.set = func(o *engine.Options) { o.Precious = map[string][]string{"terraform_data": {"lab_thing"}} }
	b.store.OnPut = func() error { return context.DeadlineExceeded }
	b.lab.On = func(_ context.Context, method, _ string) error {
		if method == "Create" {
			t.Error("it was made")
		}
		return nil
	}
	p := b.fails(b.apply(lab + `
resource "terraform_data" "id" { input = "precious" }
resource "lab_thing" "a" { name = terraform_data.id.output }
`))
	has(t, p.err, "the state could not be saved, so nothing is made that depends on it", "errored.tfstate")
	b.free()
}

// What nothing precious goes into is made without a state stored before.
func TestPreciousDelaysOnlyWhatIsMadeOfIt(t *testing.T) {
	b := newBench(t)
	b.set = func(o *engine.Options) { o.Precious = map[string][]string{"terraform_data": {"lab_other"}} }
	b.lab.On = func(_ context.Context, method, _ string) error {
		if stored := b.store.State(); method == "Create" && stored != "" {
			t.Errorf("a state was stored before: %s", stored)
		}
		return nil
	}
	b.ok(b.apply(lab + `
resource "terraform_data" "id" { input = "precious" }
resource "lab_thing" "a" { name = terraform_data.id.output }
`))
}
