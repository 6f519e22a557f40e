package kubernetes

import (
	"math/big"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// A value that the cluster has as the configuration has it must not differ in
// type or digits, or the plan shows a change that is none.
func TestValuesKeepTheirTypes(t *testing.T) {
	text := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	number := func(s string) tftypes.Value {
		f, _, err := big.ParseFloat(s, 10, 512, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		return tftypes.NewValue(tftypes.Number, f)
	}
	labels := tftypes.Map{ElementType: tftypes.String}
	args := tftypes.List{ElementType: tftypes.String}
	set := tftypes.Set{ElementType: tftypes.Number}
	tuple := tftypes.Tuple{ElementTypes: []tftypes.Type{tftypes.String, labels}}
	attrs := map[string]tftypes.Value{
		"half":   number("0.5"),
		"tenth":  number("0.1"),
		"big":    number("9007199254740993"),
		"labels": tftypes.NewValue(labels, map[string]tftypes.Value{"a": text("b")}),
		"args":   tftypes.NewValue(args, []tftypes.Value{text("x")}),
		"none":   tftypes.NewValue(args, []tftypes.Value{}),
		"set":    tftypes.NewValue(set, []tftypes.Value{number("1")}),
		"tuple":  tftypes.NewValue(tuple, []tftypes.Value{text("x"), tftypes.NewValue(labels, map[string]tftypes.Value{"c": text("d")})}),
		"yes":    tftypes.NewValue(tftypes.Bool, true),
	}
	types := map[string]tftypes.Type{}
	for k, v := range attrs {
		types[k] = v.Type()
	}
	v := tftypes.NewValue(tftypes.Object{AttributeTypes: types}, attrs)
	m, whole, err := decodeManifest(v)
	if err != nil || !whole {
		t.Fatal(err, whole)
	}
	if got := encodeValue(m, v.Type()); !got.Equal(v) {
		t.Errorf("it comes back as %s", got)
	}
	// A value of another type is what it is.
	m["labels"] = map[string]any{"a": int64(1)}
	got, err := attrsOf(encodeValue(m, v.Type()))
	if err != nil || got["labels"].Type().Is(labels) {
		t.Errorf("a number among strings: %s", got["labels"])
	}
}

// Values of a Secret go out of a text in every form in which they may be in it.
func TestRedactor(t *testing.T) {
	clean := redactor(map[string]any{"kind": "Secret", "metadata": map[string]any{"name": "visible"},
		"stringData": map[string]any{"a": "line one\nline \"two\"", "b": "hunter2"}, "data": map[string]any{"c": "aHVudGVyMw=="}})
	for _, s := range []string{"hunter2", "aHVudGVyMg==", "hunter3", "aHVudGVyMw==", "line one", `line \"two\"`} {
		if got := clean("visible: bad value " + s + "!"); got != "visible: bad value (redacted)!" {
			t.Errorf("%q: %s", s, got)
		}
	}
	if got := redactor(map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": "shown"}})("shown"); got != "shown" {
		t.Error(got)
	}
}
