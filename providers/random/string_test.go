package random_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"fediversity.eu/yuba/providers/random"
	"fediversity.eu/yuba/test/providertest"
)

type values = providertest.Values

func kind(t *testing.T, name string) *providertest.Resource {
	return providertest.New(t, random.Server("test"), nil).Resource(name)
}

// create makes the resource, and checks that its configuration then has nothing to change.
func create(t *testing.T, r *providertest.Resource, config values) {
	t.Helper()
	p := r.Plan(t.Context(), config)
	if p.Err() != "" {
		t.Fatal(p.Err())
	}
	if err := providertest.Errors(p.Apply(t.Context(), nil)); err != "" {
		t.Fatal(err)
	}
	if p := r.Plan(t.Context(), config); p.Action != "no-op" {
		t.Fatalf("second plan is %s %s", p.Action, p.Err())
	}
}

func count(s, chars string) (n int) {
	for _, c := range s {
		if strings.ContainsRune(chars, c) {
			n++
		}
	}
	return n
}

const (
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	special = "!@#$%&*()-_=+[]{}<>:?"
)

func TestStringIsOfTheRecipe(t *testing.T) {
	for _, c := range []struct {
		name   string
		config values
		only   string
		least  map[string]int
	}{
		{"defaults", values{"length": int64(200)}, upper + lower + digits + special, nil},
		{"letters", values{"length": int64(200), "special": false, "numeric": false}, upper + lower, nil},
		{"the old name", values{"length": int64(200), "special": false, "number": false}, upper + lower, nil},
		{"only digits", values{"length": int64(50), "special": false, "upper": false, "lower": false}, digits, nil},
		{"own special characters", values{"length": int64(50), "numeric": false, "upper": false, "lower": false, "override_special": "ä€😀"}, "ä€😀", nil},
		{"least numbers", values{"length": int64(10), "min_upper": int64(4), "min_lower": int64(3), "min_numeric": int64(2), "min_special": int64(1)}, upper + lower + digits + special,
			map[string]int{upper: 4, lower: 3, digits: 2, special: 1}},
		{"at least of a class that's off", values{"length": int64(4), "special": false, "lower": false, "numeric": false, "min_numeric": int64(4)}, digits, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kind(t, "random_string")
			create(t, r, c.config)
			s := r.State["result"].(string)
			if !utf8.ValidString(s) || utf8.RuneCountInString(s) != int(c.config["length"].(int64)) || count(s, c.only) != utf8.RuneCountInString(s) || r.State["id"] != s {
				t.Errorf("state %v", r.State)
			}
			for class, n := range c.least {
				if count(s, class) < n {
					t.Errorf("%s has fewer than %d of %s", s, n, class)
				}
			}
		})
	}
}

func TestStringErrors(t *testing.T) {
	for _, c := range []struct {
		config values
		want   string
	}{
		{values{"length": int64(0)}, "length must be from 1"},
		{values{"length": int64(1 << 40)}, "length must be from 1"},
		{values{"length": int64(3), "min_upper": int64(2), "min_lower": int64(2)}, "at least the sum"},
		{values{"length": int64(3), "min_upper": int64(-1)}, "min_upper must be from 0"},
		{values{"length": int64(3), "upper": false, "lower": false, "special": false, "numeric": false}, "no characters to choose from"},
		{values{"length": int64(3), "upper": false, "lower": false, "special": false, "number": false}, "no characters to choose from"},
		{values{"length": int64(3), "number": false, "numeric": true}, "different values"},
	} {
		for _, name := range []string{"random_string", "random_password"} {
			r := kind(t, name)
			if got := r.Plan(t.Context(), c.config).Err(); !strings.Contains(got, c.want) {
				t.Errorf("%s %v: %q", name, c.config, got)
			}
			// What will only be known at apply isn't judged yet.
			late := values{}
			for k := range c.config {
				late[k] = providertest.Unknown
			}
			if got := r.Plan(t.Context(), late).Err(); got != "" {
				t.Errorf("%s %v, all unknown: %s", name, c.config, got)
			}
		}
	}
}

func TestStringIsReplacedOrNot(t *testing.T) {
	for _, c := range []struct {
		before, after values
		want          string
	}{
		{values{"length": int64(3)}, values{"length": int64(4)}, "replace"},
		{values{"length": int64(3)}, values{"length": int64(3), "upper": false}, "replace"},
		{values{"length": int64(3)}, values{"length": int64(3), "numeric": true}, "no-op"},
		{values{"length": int64(3), "number": false}, values{"length": int64(3), "numeric": false}, "no-op"},
		{values{"length": int64(3), "number": false}, values{"length": int64(3)}, "replace"},
		{values{"length": int64(3)}, values{"length": int64(3), "min_lower": int64(1)}, "replace"},
		{values{"length": int64(3)}, values{"length": int64(3), "override_special": "x"}, "replace"},
		{values{"length": int64(3), "override_special": ""}, values{"length": int64(3)}, "update"},
		{values{"length": int64(3)}, values{"length": int64(3), "override_special": ""}, "replace"},
	} {
		r := kind(t, "random_string")
		create(t, r, c.before)
		before := r.State["result"]
		p := r.Plan(t.Context(), c.after)
		if p.Action != c.want {
			t.Errorf("%v -> %v is %s %s", c.before, c.after, p.Action, p.Err())
			continue
		}
		if p.Apply(t.Context(), nil); c.want == "update" && r.State["result"] != before {
			t.Errorf("%v -> %v has made another string", c.before, c.after)
		}
	}
}

func hashMatches(r values) bool {
	b := []byte(r["result"].(string))
	return bcrypt.CompareHashAndPassword([]byte(r["bcrypt_hash"].(string)), b[:min(72, len(b))]) == nil
}

func TestPasswordHasAHashThatMatches(t *testing.T) {
	r := kind(t, "random_password")
	create(t, r, values{"length": int64(100)}) // more than bcrypt takes
	if len(r.State["result"].(string)) != 100 || r.State["id"] != "none" || !hashMatches(r.State) {
		t.Errorf("state %v", r.State)
	}
}

func TestStringAndPasswordImport(t *testing.T) {
	for _, name := range []string{"random_string", "random_password"} {
		r := kind(t, name)
		if diags := r.Import(t.Context(), "s3cr€t"); len(diags) > 0 {
			t.Fatal(providertest.Text(diags))
		}
		if r.State["result"] != "s3cr€t" || r.State["length"] != int64(6) {
			t.Errorf("%s: state %v", name, r.State)
		}
		if p := r.Plan(t.Context(), values{"length": int64(6)}); p.Action != "no-op" {
			t.Errorf("%s: plan after import is %s %v", name, p.Action, p.After)
		}
	}
}

func TestOldStatesAreUpgraded(t *testing.T) {
	good, err := bcrypt.GenerateFromPassword([]byte("abc"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := bcrypt.GenerateFromPassword([]byte("xyz"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	const (
		full = `{"id":"abc","result":"abc","keepers":{"k":"v","n":null},"length":3,"lower":true,"upper":true,"special":true,"number":false,
			"min_lower":0,"min_upper":1,"min_numeric":0,"min_special":0,"override_special":"+"`
		imported = `{"id":"abc","result":"abc","keepers":null,"length":null,"lower":null,"upper":null,"special":null,"number":null,
			"min_lower":null,"min_upper":null,"min_numeric":null,"min_special":null,"override_special":null`
	)
	wantFull := values{"id": "abc", "result": "abc", "keepers": map[string]any{"k": "v", "n": nil}, "length": int64(3), "lower": true, "upper": true, "special": true,
		"number": false, "numeric": false, "min_lower": int64(0), "min_upper": int64(1), "min_numeric": int64(0), "min_special": int64(0), "override_special": "+"}
	wantImported := values{"id": "abc", "result": "abc", "keepers": nil, "length": int64(3), "lower": true, "upper": true, "special": true,
		"number": true, "numeric": true, "min_lower": int64(0), "min_upper": int64(0), "min_numeric": int64(0), "min_special": int64(0), "override_special": nil}
	for _, c := range []struct {
		name, kind string
		version    int64
		state      string
		want       values
		keepsHash  bool
	}{
		{"string 1", "random_string", 1, full + "}", wantFull, false},
		{"string 1, imported", "random_string", 1, imported + "}", wantImported, false},
		{"string 2", "random_string", 2, full + `,"numeric":false}`, wantFull, false},
		{"password 0", "random_password", 0, full + "}", wantFull, false},
		{"password 1", "random_password", 1, full + fmt.Sprintf(`,"bcrypt_hash":%q}`, good), wantFull, true},
		{"password 2", "random_password", 2, full + fmt.Sprintf(`,"numeric":false,"bcrypt_hash":%q}`, good), wantFull, true},
		{"password 2 with the hash of 3.4.0", "random_password", 2, full + fmt.Sprintf(`,"numeric":false,"bcrypt_hash":%q}`, wrong), wantFull, false},
		{"password 0, imported", "random_password", 0, imported + "}", wantImported, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kind(t, c.kind)
			if diags := r.Upgrade(t.Context(), c.version, c.state); len(diags) > 0 {
				t.Fatal(providertest.Text(diags))
			}
			if c.kind == "random_password" {
				if !hashMatches(r.State) || c.keepsHash != (r.State["bcrypt_hash"] == string(good)) {
					t.Errorf("hash %v", r.State["bcrypt_hash"])
				}
				delete(r.State, "bcrypt_hash")
			}
			if diff := cmp.Diff(c.want, r.State); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{"", "[", "{}", `{"result":12345}`, `{"result":"12345","length":12345678901234567890}`} {
		got := providertest.Errors(kind(t, "random_password").Upgrade(t.Context(), 2, bad))
		if !strings.Contains(got, "isn't one that a release of hashicorp/random wrote") || strings.Contains(got, "12345") {
			t.Errorf("state %s: %q", bad, got)
		}
	}
}

func TestEphemeralPassword(t *testing.T) {
	core := providertest.New(t, random.Server("test"), nil)
	first, diags := core.Open(t.Context(), "random_password", values{"length": int64(20), "special": false, "min_numeric": int64(3)})
	if len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	s := first["result"].(string)
	if len(s) != 20 || count(s, upper+lower+digits) != 20 || count(s, digits) < 3 || !hashMatches(first) || first["upper"] != true || first["min_lower"] != int64(0) {
		t.Errorf("result %v", first)
	}
	if second, _ := core.Open(t.Context(), "random_password", values{"length": int64(20)}); second["result"] == s {
		t.Error("two openings gave the same password")
	}
	if _, diags := core.Open(t.Context(), "random_password", values{"length": int64(1), "min_upper": int64(2)}); !strings.Contains(providertest.Errors(diags), "at least the sum") {
		t.Error(providertest.Text(diags))
	}
}

func TestBytes(t *testing.T) {
	r := kind(t, "random_bytes")
	create(t, r, values{"length": int64(32)})
	a, err1 := base64.StdEncoding.DecodeString(r.State["base64"].(string))
	b, err2 := hex.DecodeString(r.State["hex"].(string))
	if err1 != nil || err2 != nil || len(a) != 32 || !bytes.Equal(a, b) {
		t.Errorf("state %v", r.State)
	}
	if p := r.Plan(t.Context(), values{"length": int64(32), "keepers": map[string]any{"a": nil}}); p.Action != "replace" {
		t.Errorf("keepers with a null: %s", p.Action)
	}
	imported := kind(t, "random_bytes")
	if diags := imported.Import(t.Context(), r.State["base64"].(string)); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if diff := cmp.Diff(r.State, imported.State); diff != "" {
		t.Errorf("imported (-made +imported):\n%s", diff)
	}
	if got := providertest.Errors(imported.Import(t.Context(), "s3cr€t")); !strings.Contains(got, "must be the bytes in base64") || strings.Contains(got, "s3cr") {
		t.Errorf("bad import: %q", got)
	}
	for _, n := range []int64{0, -1, 1 << 40} {
		if got := r.Plan(t.Context(), values{"length": n}).Err(); !strings.Contains(got, "length must be from 1") {
			t.Errorf("length %d: %q", n, got)
		}
	}
}

func TestPet(t *testing.T) {
	for _, c := range []struct {
		config values
		words  int
		sep    string
	}{
		{values{}, 2, "-"},
		{values{"length": int64(1)}, 1, "-"},
		{values{"length": int64(4), "separator": "_"}, 4, "_"},
		{values{"prefix": "p", "separator": "."}, 3, "."},
	} {
		r := kind(t, "random_pet")
		create(t, r, c.config)
		words := strings.Split(r.State["id"].(string), c.sep)
		if len(words) != c.words || slices.Contains(words, "") || c.config["prefix"] != nil && words[0] != c.config["prefix"] {
			t.Errorf("%v gives %v", c.config, r.State)
		}
	}
	p := kind(t, "random_pet").Plan(t.Context(), values{"length": int64(1 << 40)})
	if got := providertest.Errors(p.Apply(t.Context(), nil)); !strings.Contains(got, "length must be at most") {
		t.Errorf("too many words: %q", got)
	}
}

func TestShuffle(t *testing.T) {
	input := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		count any
		want  []any
	}{ // what hashicorp/random gives for this seed, by its own tests
		{nil, []any{"a", "c", "b", "e", "d"}},
		{int64(3), []any{"a", "c", "b"}},
	} {
		r := kind(t, "random_shuffle")
		create(t, r, values{"input": input, "seed": "-", "result_count": c.count})
		if !cmp.Equal(c.want, r.State["result"]) || r.State["id"] != "-" {
			t.Errorf("count %v: state %v", c.count, r.State)
		}
	}

	r := kind(t, "random_shuffle")
	create(t, r, values{"input": input, "result_count": int64(12)})
	times := map[any]int{}
	for _, e := range r.State["result"].([]any) {
		times[e]++
	}
	if len(r.State["result"].([]any)) != 12 || len(times) != 5 || slices.Max([]int{times["a"], times["b"], times["c"], times["d"], times["e"]}) > 3 {
		t.Errorf("result %v", r.State["result"])
	}
	for _, c := range []values{{"input": input, "result_count": int64(0)}, {"input": []any{}}, {"input": []any{}, "result_count": int64(3)}} {
		r := kind(t, "random_shuffle")
		create(t, r, c)
		if got := r.State["result"]; len(got.([]any)) != 0 {
			t.Errorf("%v: %v", c, got)
		}
	}
	if got := r.Plan(t.Context(), values{"input": input, "result_count": int64(-1)}).Err(); !strings.Contains(got, "result_count must be from 0") {
		t.Errorf("negative count: %q", got)
	}
}
