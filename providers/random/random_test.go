package random_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/random"
	"fediversity.eu/yuba/test/providertest"
)

func uuid(t *testing.T) *providertest.Resource {
	return providertest.New(t, random.Server("test"), nil).Resource("random_uuid")
}

// The schema is that of hashicorp/random 3.7: https://search.opentofu.org/provider/hashicorp/random/latest/docs/resources/uuid
func TestSchemaIsHashicorps(t *testing.T) {
	s := providertest.New(t, random.Server("test"), nil).Schema()
	if n := len(s.Provider.Block.Attributes); n != 0 {
		t.Errorf("the provider has %d settings, want none", n)
	}
	got := map[string]tfprotov6.SchemaAttribute{}
	for _, a := range s.ResourceSchemas["random_uuid"].Block.Attributes {
		got[a.Name] = tfprotov6.SchemaAttribute{Name: a.Name, Type: a.Type, Optional: a.Optional, Required: a.Required, Computed: a.Computed}
	}
	want := map[string]tfprotov6.SchemaAttribute{
		"id":      {Name: "id", Type: tftypes.String, Computed: true},
		"result":  {Name: "result", Type: tftypes.String, Computed: true},
		"keepers": {Name: "keepers", Type: tftypes.Map{ElementType: tftypes.String}, Optional: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if v := s.ResourceSchemas["random_uuid"].Version; v != 0 {
		t.Errorf("schema version %d, want 0", v)
	}
}

func TestUUIDIsMadeOnceAndKept(t *testing.T) {
	r := uuid(t)
	p := r.Plan(t.Context(), providertest.Values{})
	if p.Action != "create" || p.After["result"] != providertest.Unknown {
		t.Fatalf("plan %s %v %s", p.Action, p.After, p.Err())
	}
	if diags := p.Apply(t.Context(), nil); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	first := r.State["result"].(string)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first) || r.State["id"] != first {
		t.Fatalf("state %v is no version 4 UUID", r.State)
	}
	if p := r.Plan(t.Context(), providertest.Values{}); p.Action != "no-op" {
		t.Errorf("second plan is %s %v", p.Action, p.After)
	}

	other := uuid(t)
	other.Plan(t.Context(), providertest.Values{}).Apply(t.Context(), nil)
	if other.State["result"] == first {
		t.Error("two resources have the same UUID")
	}
}

func TestKeepers(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after any
		want          string
	}{
		{"a value changes", map[string]any{"a": "1"}, map[string]any{"a": "2"}, "replace"},
		{"a key comes", map[string]any{"a": "1"}, map[string]any{"a": "1", "b": "2"}, "replace"},
		{"a key goes", map[string]any{"a": "1", "b": "2"}, map[string]any{"a": "1"}, "replace"},
		{"keepers come", nil, map[string]any{"a": "1"}, "replace"},
		{"keepers go", map[string]any{"a": "1"}, nil, "replace"},
		{"a value will be known", map[string]any{"a": "1"}, map[string]any{"a": providertest.Unknown}, "replace"},
		{"a null comes", map[string]any{"a": "1"}, map[string]any{"a": "1", "b": nil}, "update"},
		{"only nulls come", nil, map[string]any{"b": nil}, "update"},
		{"nothing", map[string]any{"a": "1"}, map[string]any{"a": "1"}, "no-op"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := uuid(t)
			r.Plan(t.Context(), providertest.Values{"keepers": c.before}).Apply(t.Context(), nil)
			first := r.State["result"]
			p := r.Plan(t.Context(), providertest.Values{"keepers": c.after})
			if p.Action != c.want {
				t.Fatalf("plan is %s, want %s (%s)", p.Action, c.want, p.Err())
			}
			if c.name == "a value will be known" {
				return
			}
			p.Apply(t.Context(), nil)
			if replaced := r.State["result"] != first; replaced != (c.want == "replace") {
				t.Errorf("replaced: %v", replaced)
			}
		})
	}
}

func TestImport(t *testing.T) {
	const id = "6b0f8e7a-1c2d-1e3f-8a4b-5c6d7e8f9a0b" // of another version: what is in a state may be imported
	r := uuid(t)
	if diags := r.Import(t.Context(), strings.ToUpper(id)); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if want := (providertest.Values{"id": id, "result": id, "keepers": nil}); !cmp.Equal(want, r.State) {
		t.Errorf("state %v", r.State)
	}
	if p := r.Plan(t.Context(), providertest.Values{}); p.Action != "no-op" {
		t.Errorf("plan after import is %s", p.Action)
	}
	for _, bad := range []string{"", "x", id + "0", strings.Replace(id, "-", "0", 1), strings.Replace(id, "6", "g", 1)} {
		if got := providertest.Errors(uuid(t).Import(t.Context(), bad)); !strings.Contains(got, "is not a UUID") {
			t.Errorf("import of %q: %q", bad, got)
		}
	}
}
