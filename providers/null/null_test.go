package null_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/null"
	"fediversity.eu/yuba/test/providertest"
)

type values = providertest.Values

func core(t *testing.T) *providertest.Core { return providertest.New(t, null.Server("test"), nil) }

// The schemas are those of hashicorp/null 3.2.4: https://search.opentofu.org/provider/hashicorp/null/latest
func TestSchemaIsHashicorps(t *testing.T) {
	const want = `provider version 0
resource null_resource version 0
  id String computed
  triggers Map[String] optional
data null_data_source version 0 deprecated
  has_computed_default String optional computed
  id String computed deprecated
  inputs Map[String] optional
  outputs Map[String] computed
  random String computed
`
	if diff := cmp.Diff(want, providertest.Describe(core(t).Schema())); diff != "" {
		t.Errorf("(-hashicorp +here):\n%s", diff)
	}
}

var number = regexp.MustCompile(`^[0-9]+$`)

func TestResourceIsReplacedByItsTriggers(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after any
		want          string
	}{
		{"nothing", nil, nil, "no-op"},
		{"a value changes", map[string]any{"a": "1"}, map[string]any{"a": "2"}, "replace"},
		{"a value will be known", map[string]any{"a": "1"}, map[string]any{"a": providertest.Unknown}, "replace"},
		{"triggers go", map[string]any{"a": "1"}, nil, "replace"},
		{"a null comes", map[string]any{"a": "1"}, map[string]any{"a": "1", "b": nil}, "update"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := core(t).Resource("null_resource")
			if diags := r.Plan(t.Context(), values{"triggers": c.before}).Apply(t.Context(), nil); len(diags) > 0 {
				t.Fatal(providertest.Text(diags))
			}
			first := r.State["id"].(string)
			if !number.MatchString(first) {
				t.Errorf("id %q", first)
			}
			p := r.Plan(t.Context(), values{"triggers": c.after})
			if p.Action != c.want {
				t.Fatalf("plan is %s, want %s (%s)", p.Action, c.want, p.Err())
			}
			if c.name == "a value will be known" {
				return
			}
			p.Apply(t.Context(), nil)
			if replaced := r.State["id"] != first; replaced != (c.want == "replace") {
				t.Errorf("replaced: %v", replaced)
			}
			r.Plan(t.Context(), nil).Apply(t.Context(), nil)
			if r.State != nil {
				t.Errorf("after destroy the state is %v", r.State)
			}
		})
	}
}

func TestDataSourceGivesBackItsInputs(t *testing.T) {
	inputs := map[string]any{"a": "1", "b": nil}
	got, diags := core(t).Read(t.Context(), "null_data_source", values{"inputs": inputs})
	if err := providertest.Errors(diags); err != "" {
		t.Fatal(err)
	}
	if !number.MatchString(got["random"].(string)) {
		t.Errorf("random %v", got["random"])
	}
	delete(got, "random")
	if diff := cmp.Diff(values{"inputs": inputs, "outputs": inputs, "has_computed_default": "default", "id": "static"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, _ = core(t).Read(t.Context(), "null_data_source", values{"has_computed_default": "x"})
	if got["has_computed_default"] != "x" || got["outputs"] != nil {
		t.Errorf("%v", got)
	}
}
