package random_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/random"
	"fediversity.eu/yuba/test/providertest"
)

func uuid(t *testing.T) *providertest.Resource {
	return providertest.New(t, random.Server("test"), nil).Resource("random_uuid")
}

// The schemas are those of hashicorp/random 3.7.2: https://search.opentofu.org/provider/hashicorp/random/latest
func TestSchemaIsHashicorps(t *testing.T) {
	const recipe = `  keepers Map[String] optional
  length Number required
  lower Bool optional computed
  min_lower Number optional computed
  min_numeric Number optional computed
  min_special Number optional computed
  min_upper Number optional computed
  number Bool optional computed deprecated
  numeric Bool optional computed
  override_special String optional
`
	const want = `provider version 0
resource random_bytes version 0
  base64 String computed sensitive
  hex String computed sensitive
  keepers Map[String] optional
  length Number required
resource random_id version 0
  b64_std String computed
  b64_url String computed
  byte_length Number required
  dec String computed
  hex String computed
  id String computed
  keepers Map[String] optional
  prefix String optional
resource random_integer version 0
  id String computed
  keepers Map[String] optional
  max Number required
  min Number required
  result Number computed
  seed String optional
resource random_password version 3
  bcrypt_hash String computed sensitive
  id String computed
` + recipe + `  result String computed sensitive
  special Bool optional computed
  upper Bool optional computed
resource random_pet version 0
  id String computed
  keepers Map[String] optional
  length Number optional computed
  prefix String optional
  separator String optional computed
resource random_shuffle version 0
  id String computed
  input List[String] required
  keepers Map[String] optional
  result List[String] computed
  result_count Number optional
  seed String optional
resource random_string version 2
  id String computed
` + recipe + `  result String computed
  special Bool optional computed
  upper Bool optional computed
resource random_uuid version 0
  id String computed
  keepers Map[String] optional
  result String computed
ephemeral random_password version 0
  bcrypt_hash String computed sensitive
  length Number required
  lower Bool optional computed
  min_lower Number optional computed
  min_numeric Number optional computed
  min_special Number optional computed
  min_upper Number optional computed
  numeric Bool optional computed
  override_special String optional
  result String computed sensitive
  special Bool optional computed
  upper Bool optional computed
`
	got := providertest.Describe(providertest.New(t, random.Server("test"), nil).Schema())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-hashicorp +here):\n%s", diff)
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
	// Both are what hashicorp/random does since 3.6.1.
	if p := r.Plan(t.Context(), providertest.Values{}); p.Action != "no-op" {
		t.Errorf("plan after import, without keepers, is %s %v", p.Action, p.After)
	}
	if p := r.Plan(t.Context(), providertest.Values{"keepers": map[string]any{}}); p.Action != "update" || p.After["result"] != id {
		t.Errorf("plan after import, with empty keepers, is %s", p.Action)
	}
	for _, bad := range []string{"", "x", id + "0", strings.Replace(id, "-", "0", 1), strings.Replace(id, "6", "g", 1)} {
		if got := providertest.Errors(uuid(t).Import(t.Context(), bad)); !strings.Contains(got, "is not a UUID") {
			t.Errorf("import of %q: %q", bad, got)
		}
	}
}

func TestID(t *testing.T) {
	config := providertest.Values{"byte_length": int64(8), "prefix": "p,-"}
	r := providertest.New(t, random.Server("test"), nil).Resource("random_id")
	if diags := r.Plan(t.Context(), config).Apply(t.Context(), nil); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if p := r.Plan(t.Context(), config); p.Action != "no-op" {
		t.Errorf("second plan is %s", p.Action)
	}
	b, err := base64.RawURLEncoding.DecodeString(r.State["id"].(string))
	if err != nil || len(b) != 8 || r.State["hex"] != fmt.Sprintf("p,-%x", b) {
		t.Errorf("state %v, %v", r.State, err)
	}
	imported := providertest.New(t, random.Server("test"), nil).Resource("random_id")
	if diags := imported.Import(t.Context(), "p,-,"+r.State["id"].(string)); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if diff := cmp.Diff(r.State, imported.State); diff != "" {
		t.Errorf("imported (-made +imported):\n%s", diff)
	}

	// The notations of a known value, as the documentation of hashicorp/random has them for its import.
	if diags := imported.Import(t.Context(), "p-9hUg"); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	want := providertest.Values{"id": "p-9hUg", "b64_url": "p-9hUg", "b64_std": "p+9hUg==", "hex": "a7ef6152", "dec": "2817483090",
		"byte_length": int64(4), "prefix": nil, "keepers": nil}
	if diff := cmp.Diff(want, imported.State); diff != "" {
		t.Errorf("known value (-want +got):\n%s", diff)
	}

	for _, n := range []int64{0, -1, 1<<20 + 1} {
		if got := r.Plan(t.Context(), providertest.Values{"byte_length": n}).Err(); !strings.Contains(got, "must be from 1") {
			t.Errorf("byte_length %d: %q", n, got)
		}
	}
	if got := r.Plan(t.Context(), providertest.Values{"byte_length": int64(9), "prefix": "p,-"}); got.Action != "replace" {
		t.Errorf("another length is %s", got.Action)
	}
}

func TestInteger(t *testing.T) {
	core := providertest.New(t, random.Server("test"), nil)
	make := func(lowest, highest int64, seed any) (any, string) {
		r := core.Resource("random_integer")
		diags := r.Plan(t.Context(), providertest.Values{"min": lowest, "max": highest, "seed": seed}).Apply(t.Context(), nil)
		if r.State == nil {
			return nil, providertest.Errors(diags)
		}
		if r.State["id"] != fmt.Sprint(r.State["result"]) {
			t.Errorf("state %v", r.State)
		}
		return r.State["result"], ""
	}
	// What hashicorp/random gives for these seeds, by its own tests.
	for _, c := range []struct {
		lowest, highest int64
		seed            string
		want            int64
	}{{1, 3, "12345", 3}, {1, 3, "123456", 2}, {7227701560655103597, 7227701560655103598, "12345", 7227701560655103598}} {
		if got, err := make(c.lowest, c.highest, c.seed); got != c.want {
			t.Errorf("%+v: %v %s", c, got, err)
		}
	}
	for range 50 {
		if got, err := make(-1, 1, nil); err != "" || got.(int64) < -1 || got.(int64) > 1 {
			t.Fatalf("%v %s is not from -1 to 1", got, err)
		}
	}
	if got, err := make(5, 5, nil); got != int64(5) {
		t.Errorf("%v %s", got, err)
	}
	if got, err := make(math.MinInt64, math.MaxInt64, nil); got == nil {
		t.Error(err)
	}
	if _, err := make(math.MinInt64, math.MaxInt64, "x"); !strings.Contains(err, "at most") {
		t.Errorf("error %q", err)
	}
	if _, err := make(2, 1, nil); !strings.Contains(err, "must not be smaller") {
		t.Errorf("error %q", err)
	}

	r := core.Resource("random_integer")
	if diags := r.Import(t.Context(), "3,1,3,12345"); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if p := r.Plan(t.Context(), providertest.Values{"min": int64(1), "max": int64(3), "seed": "12345"}); p.Action != "no-op" {
		t.Errorf("plan after import is %s %v", p.Action, p.After)
	}
	for _, bad := range []string{"", "1", "1,2", "a,1,2", "1,b,2"} {
		if got := providertest.Errors(r.Import(t.Context(), bad)); !strings.Contains(got, "want result,min,max") {
			t.Errorf("import of %q: %q", bad, got)
		}
	}
}
