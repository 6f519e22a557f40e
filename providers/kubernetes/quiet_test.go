package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The types that are known here are those of the schemas, or states would be
// given to the engine that are none.
func TestQuietTypes(t *testing.T) {
	resp, err := Server("test")().GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range resp.ResourceSchemas {
		typ := s.ValueType().(tftypes.Object)
		want, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(want, &a) != nil || json.Unmarshal([]byte(stateTypes[name]), &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s is %s, not %s", name, want, stateTypes[name])
		}
		if got := slices.Sorted(slices.Values(stateAttributes[name])); !slices.Equal(got, slices.Sorted(maps.Keys(typ.AttributeTypes))) {
			t.Errorf("%s has the attributes %v", name, got)
		}
		if s.Version != 0 {
			t.Errorf("%s has version %d: states of version 0 are no longer the current ones", name, s.Version)
		}
	}
}

// A manifest that is read on the short way is the manifest that is read on the
// long one, or there is no short way for it.
func TestQuietReadsManifests(t *testing.T) {
	str := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	num := func(s string) tftypes.Value {
		f, _, err := big.ParseFloat(s, 10, 512, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		return tftypes.NewValue(tftypes.Number, f)
	}
	obj := func(m map[string]tftypes.Value) tftypes.Value {
		types := map[string]tftypes.Type{}
		for k, v := range m {
			types[k] = v.Type()
		}
		return tftypes.NewValue(tftypes.Object{AttributeTypes: types}, m)
	}
	tuple := func(l ...tftypes.Value) tftypes.Value {
		types := []tftypes.Type{}
		for _, v := range l {
			types = append(types, v.Type())
		}
		return tftypes.NewValue(tftypes.Tuple{ElementTypes: types}, l)
	}
	s, typ := Server("test")().(*quietServer), objectType(t)
	for name, c := range map[string]struct {
		field tftypes.Value
		long  bool
	}{
		"text":           {field: str("a\nb")},
		"empty":          {field: str("")},
		"digits":         {field: str("0.1")},
		"number":         {field: num("3")},
		"negative":       {field: num("-40000")},
		"large":          {field: num("9223372036854775807")},
		"too large":      {field: num("9223372036854775808")},
		"half":           {field: num("0.5")},
		"tenth":          {field: num("0.1")},
		"huge":           {field: num("1e30")},
		"beyond floats":  {field: num("1e400"), long: true},
		"true":           {field: tftypes.NewValue(tftypes.Bool, true)},
		"null":           {field: tftypes.NewValue(tftypes.String, nil)},
		"no type":        {field: tftypes.NewValue(tftypes.DynamicPseudoType, nil)},
		"unknown":        {field: tftypes.NewValue(tftypes.String, tftypes.UnknownValue)},
		"unknown whole":  {field: tftypes.NewValue(tftypes.DynamicPseudoType, tftypes.UnknownValue)},
		"unknown map":    {field: tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, tftypes.UnknownValue)},
		"map":            {field: tftypes.NewValue(tftypes.Map{ElementType: tftypes.Number}, map[string]tftypes.Value{"a": num("1"), "b": tftypes.NewValue(tftypes.Number, nil)})},
		"object":         {field: obj(map[string]tftypes.Value{"a": num("1"), "b": tuple(str("x"), obj(nil))})},
		"list":           {field: tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{str("a"), str("b")})},
		"set":            {field: tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{str("a")})},
		"empty list":     {field: tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{})},
		"null in a list": {field: tuple(str("a"), tftypes.NewValue(tftypes.String, nil)), long: true},
		"unknown in one": {field: tuple(str("a"), tftypes.NewValue(tftypes.String, tftypes.UnknownValue))},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := obj(map[string]tftypes.Value{"kind": str("ConfigMap"), "field": c.field})
			want, whole, wantErr := decodeManifest(manifest)
			state := map[string]tftypes.Value{}
			for name, typ := range typ.AttributeTypes {
				state[name] = tftypes.NewValue(typ, nil)
			}
			state["manifest"], state["uid"] = manifest, str("u")
			v, err := tfprotov6.NewDynamicValue(typ, tftypes.NewValue(typ, state))
			if err != nil {
				t.Fatal(err)
			}
			a, gotWhole, ok := s.attributes("kubernetes_object", &v)
			if ok == c.long {
				t.Fatalf("read on the short way: %v", ok)
			}
			if !ok {
				return
			}
			if wantErr != nil || gotWhole != whole || !reflect.DeepEqual(a["manifest"], any(want)) || a["uid"] != "u" || a["timeout"] != nil {
				t.Errorf("got %#v (whole: %v), want %#v (%v, %v)", a, gotWhole, want, whole, wantErr)
			}
			// A value that is cut short is none.
			if _, _, ok := s.attributes("kubernetes_object", &tfprotov6.DynamicValue{MsgPack: v.MsgPack[:len(v.MsgPack)-1]}); ok {
				t.Error("a value without its end was read")
			}
			if _, _, ok := s.attributes("kubernetes_object", &tfprotov6.DynamicValue{MsgPack: append(slices.Clone(v.MsgPack), 0xc0)}); ok {
				t.Error("a value with more behind it was read")
			}
		})
	}
}

// FuzzQuiet reads anything, which must end without a panic.
func FuzzQuiet(f *testing.F) {
	f.Add([]byte("\x81\xa8manifest\x92\xc4\x08\"string\"\xa1a"))
	f.Add([]byte("\x86\xa8manifest\x92\xc4\x09[\"list\",\"dynamic\"]\xdf\xff\xff\xff\xff"))
	s := Server("test")().(*quietServer)
	f.Fuzz(func(t *testing.T, data []byte) {
		s.attributes("kubernetes_object", &tfprotov6.DynamicValue{MsgPack: data})
	})
}

// What is write-only is proposed and never prior, and is no change; all else is.
func TestQuietPlans(t *testing.T) {
	typ := objectType(t)
	value := func(unless, uid string) *tfprotov6.DynamicValue {
		vals := map[string]tftypes.Value{}
		for name, at := range typ.AttributeTypes {
			vals[name] = tftypes.NewValue(at, nil)
		}
		vals["uid"] = tftypes.NewValue(tftypes.String, uid)
		switch unless {
		case "":
		case "unknown":
			vals["unless"] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
		default:
			vals["unless"] = tftypes.NewValue(tftypes.String, unless)
		}
		v, err := tfprotov6.NewDynamicValue(typ, tftypes.NewValue(typ, vals))
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	prior := value("", "u")
	for proposed, want := range map[*tfprotov6.DynamicValue]bool{
		value("", "u"): true, value("a reason", "u"): true, value("unknown", "u"): true,
		value("", "v"): false, value("a reason", "v"): false,
	} {
		if got := unchanged("kubernetes_object", prior, proposed); got != want {
			t.Errorf("%x after %x is no change: %v", proposed.MsgPack, prior.MsgPack, got)
		}
	}
	cut := &tfprotov6.DynamicValue{MsgPack: prior.MsgPack[:len(prior.MsgPack)-4]}
	if unchanged("kubernetes_object", prior, cut) {
		t.Error("a value without its end is no change")
	}
}

func objectType(t *testing.T) tftypes.Object {
	t.Helper()
	resp, err := Server("test")().GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.ResourceSchemas["kubernetes_object"].ValueType().(tftypes.Object)
}
