package direct

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// random makes types and values of all kinds that a provider may be sent.
type random struct{ *rand.Rand }

func (r random) name() string {
	return []string{"a", "b", "c/d", `q"`, "é", "e\u0301", "<&>", strings.Repeat("n", 40), ""}[r.IntN(9)]
}

// some is a number of elements: a few, and many where that makes no large value.
func (r random) some(depth int) int {
	if depth == 0 && r.IntN(10) == 0 {
		return 20
	}
	return r.IntN(4)
}

func (r random) typ(depth int, dynamic bool) cty.Type {
	n := 9
	if depth > 2 {
		n = 3
	}
	switch k := r.IntN(n); k {
	case 0:
		return cty.String
	case 1:
		return cty.Number
	case 2:
		return cty.Bool
	case 3:
		return cty.List(r.typ(depth+1, false))
	case 4:
		return cty.Set(r.typ(depth+1, false))
	case 5:
		return cty.Map(r.typ(depth+1, false))
	case 6:
		elems := make([]cty.Type, r.some(depth))
		for i := range elems {
			elems[i] = r.typ(depth+1, dynamic)
		}
		return cty.Tuple(elems)
	case 7:
		if dynamic {
			return cty.DynamicPseudoType
		}
	}
	attrs := map[string]cty.Type{}
	for range r.some(depth) {
		attrs[r.name()] = r.typ(depth+1, dynamic)
	}
	return cty.Object(attrs)
}

var numbers = []string{"0", "-0", "1", "-1", "31", "-32", "-33", "127", "128", "255", "256", "-128", "-129", "65535", "65536", "-32768", "-32769",
	"4294967295", "4294967296", "-2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
	"0.5", "0.1", "1e100", "-1e-7", "340282366920938463463374607431768211456"}

func (r random) value(ty cty.Type, depth int) cty.Value {
	switch r.IntN(12) {
	case 0:
		return cty.NullVal(ty)
	case 1:
		if r.IntN(20) == 0 {
			return cty.UnknownVal(ty)
		}
	}
	n := r.IntN(4)
	if depth == 0 && r.IntN(10) == 0 {
		n = 300
	}
	switch {
	case ty == cty.DynamicPseudoType:
		return r.value(r.typ(depth+2, false), depth+1)
	case ty == cty.String:
		return cty.StringVal(strings.Repeat(r.name(), 1+n/3*r.IntN(100)))
	case ty == cty.Bool:
		return cty.BoolVal(r.IntN(2) == 0)
	case ty == cty.Number:
		return cty.MustParseNumberVal(numbers[r.IntN(len(numbers))])
	case ty.IsTupleType():
		elems := ty.TupleElementTypes()
		vals := make([]cty.Value, len(elems))
		for i := range vals {
			vals[i] = r.value(elems[i], depth+1)
		}
		return cty.TupleVal(vals)
	case ty.IsObjectType():
		vals := map[string]cty.Value{}
		for name, t := range ty.AttributeTypes() {
			vals[name] = r.value(t, depth+1)
		}
		return cty.ObjectVal(vals)
	case ty.IsMapType():
		vals := map[string]cty.Value{}
		for range n {
			vals[r.name()] = r.value(ty.ElementType(), depth+1)
		}
		if len(vals) == 0 {
			return cty.MapValEmpty(ty.ElementType())
		}
		return cty.MapVal(vals)
	}
	vals := make([]cty.Value, n)
	for i := range vals {
		vals[i] = r.value(ty.ElementType(), depth+1)
	}
	switch {
	case ty.IsSetType() && n == 0:
		return cty.SetValEmpty(ty.ElementType())
	case ty.IsSetType():
		return cty.SetVal(vals)
	case n == 0:
		return cty.ListValEmpty(ty.ElementType())
	}
	return cty.ListVal(vals)
}

// What is encoded and decoded here is what cty would make of it: a byte or a
// value that differs would be one that stock tofu and yuba don't agree on.
func TestCodingIsCtys(t *testing.T) {
	seed := rand.Uint64()
	r := random{rand.New(rand.NewPCG(seed, 1))}
	own, read, known := 0, 0, 0
	for range 500 {
		ty := r.typ(0, true)
		v := r.value(ty, 0)
		want, wantErr := msgpack.Marshal(v, ty)
		got, gotErr := marshal(v, ty)
		if (wantErr == nil) != (gotErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %#v of %#v:\n%x, %v\nnot cty's\n%x, %v", seed, v, ty, got, gotErr, want, wantErr)
		}
		if _, ok := appendValue(nil, v, ty); ok {
			own++
		}
		if !v.IsWhollyKnown() {
			continue
		}
		data, err := ctyjson.Marshal(v, ty)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sameJSON(t, data, ty)
		known++
		if _, ok := (&jsonReader{b: data}).value(ty, 0); ok {
			read++
		}
		// Something is wrong with it, or not.
		data[r.IntN(len(data))] = `0"{}[],:x`[r.IntN(9)]
		sameJSON(t, data, ty)
		sameJSON(t, data[:r.IntN(len(data))], ty)
	}
	if own < 250 {
		t.Errorf("only %d of 500 values were encoded here", own)
	}
	if read < known*9/10 {
		t.Errorf("only %d of %d values were decoded here", read, known)
	}
}

// caught makes an error of a panic: cty has one for tuples that are too short.
func caught(unmarshal func([]byte, cty.Type) (cty.Value, error), data []byte, ty cty.Type) (v cty.Value, err error) {
	defer rescueError(&err, "cty")
	return unmarshal(data, ty)
}

func sameJSON(t *testing.T, data []byte, ty cty.Type) {
	t.Helper()
	want, wantErr := caught(ctyjson.Unmarshal, data, ty)
	got, gotErr := caught(unmarshalJSON, data, ty)
	if (wantErr == nil) != (gotErr == nil) || wantErr == nil && !(got.Type().Equals(want.Type()) && got.RawEquals(want)) {
		t.Fatalf("%s as %#v:\n%#v, %v\nnot cty's\n%#v, %v", data, ty, got, gotErr, want, wantErr)
	}
	if wantErr != nil || !want.IsWhollyKnown() {
		return
	}
	// A state that is read and written again stays as it is.
	wantText, wantErr := ctyjson.Marshal(want, ty)
	gotText, gotErr := ctyjson.Marshal(got, ty)
	if (wantErr == nil) != (gotErr == nil) || !bytes.Equal(gotText, wantText) {
		t.Fatalf("%s as %#v is written as\n%s, %v\nand cty's as\n%s, %v", data, ty, gotText, gotErr, wantText, wantErr)
	}
}

// What can't be encoded is an error here, too, and what doesn't fit is converted.
func TestCodingOfOddValues(t *testing.T) {
	number := cty.NumberVal(new(big.Float).SetInf(true))
	for _, c := range []struct {
		v  cty.Value
		ty cty.Type
	}{
		{cty.StringVal("secret").Mark("m"), cty.String},
		{cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("1").Mark("m")}), cty.DynamicPseudoType},
		{cty.StringVal("12"), cty.Number},
		{cty.StringVal("x"), cty.Number},
		{number, cty.Number},
		{cty.TupleVal([]cty.Value{cty.True}), cty.List(cty.Bool)},
		{cty.EmptyObjectVal, cty.Object(map[string]cty.Type{"a": cty.String})},
		{cty.NullVal(cty.DynamicPseudoType), cty.DynamicPseudoType},
		{cty.DynamicVal, cty.DynamicPseudoType},
		{cty.UnknownVal(cty.String).RefineNotNull(), cty.DynamicPseudoType},
	} {
		want, wantErr := msgpack.Marshal(c.v, c.ty)
		got, gotErr := marshal(c.v, c.ty)
		if (wantErr == nil) != (gotErr == nil) || !bytes.Equal(got, want) {
			t.Errorf("%#v: %x, %v; cty's: %x, %v", c.v, got, gotErr, want, wantErr)
		}
	}
	for _, c := range []struct {
		data string
		ty   cty.Type
	}{
		{`1`, cty.String}, {`"1"`, cty.Number}, {`"true"`, cty.Bool}, {`true`, cty.String}, {`"x"`, cty.Bool},
		{`{"type":"string","value":"a","more":1}`, cty.DynamicPseudoType}, {`{"value":"a"}`, cty.DynamicPseudoType},
		{`{"type":"string"}`, cty.DynamicPseudoType}, {`{"type":["list","dynamic"],"value":[]}`, cty.DynamicPseudoType},
		{`{"type":["object",{"a":"string"},["a"]],"value":{}}`, cty.DynamicPseudoType},
		{`{"type":["map"],"value":{}}`, cty.DynamicPseudoType}, {`{"type":"dynamic","value":null}`, cty.DynamicPseudoType},
		{`{"a":"1","a":"2"}`, cty.Map(cty.String)}, {`{}`, cty.Object(map[string]cty.Type{"a": cty.String})},
		{`{"b":1}`, cty.Object(map[string]cty.Type{"a": cty.String})}, {`[1]`, cty.Tuple(nil)}, {`"a" "b"`, cty.String}, {``, cty.String},
	} {
		sameJSON(t, []byte(c.data), c.ty)
	}
}
