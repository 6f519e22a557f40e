package direct

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// unmarshalJSON is cty's json.Unmarshal.
func unmarshalJSON(data []byte, ty cty.Type) (cty.Value, error) {
	r := &jsonReader{b: data}
	if v, ok := r.value(ty, 0); ok && r.i == len(data) {
		return v, nil
	}
	return ctyjson.Unmarshal(data, ty)
}

// jsonReader reads values straight from the bytes of a state, each once, where
// cty reads each value once for every value that it is in. It gives up on what
// isn't of the type as it stands, on what occurs twice, and on what isn't JSON:
// who gets no answer asks cty.
type jsonReader struct {
	b []byte
	i int // of the next byte
}

// maxDepth bounds how deep a value and its type may be nested.
const maxDepth = 200

// peek is the next byte that isn't white space, 0 at the end.
func (r *jsonReader) peek() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take takes the next byte that isn't white space, if it is this one.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.i++
	return true
}

// word takes these letters.
func (r *jsonReader) word(w string) bool {
	if len(r.b)-r.i < len(w) || string(r.b[r.i:r.i+len(w)]) != w {
		return false
	}
	r.i += len(w)
	return true
}

func (r *jsonReader) string() (_ string, ok bool) {
	text, escaped, ok := r.quoted()
	switch {
	case !ok:
		return "", false
	case !escaped && utf8.Valid(text):
		return string(text[1 : len(text)-1]), true
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err == nil
}

// quoted takes what may be a string, its quotes included; what it escapes is
// encoding/json's to know.
func (r *jsonReader) quoted() (text []byte, escaped, ok bool) {
	if !r.take('"') {
		return nil, false, false
	}
	begin := r.i - 1
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; {
		case c == '"':
			r.i++
			return r.b[begin:r.i], escaped, true
		case c == '\\':
			escaped = true
			r.i++
		case c < ' ':
			return nil, false, false
		}
	}
	return nil, false, false
}

// number takes what may be a number; the grammar is encoding/json's to know.
func (r *jsonReader) number() (_ cty.Value, ok bool) {
	begin := r.i
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			continue
		}
		break
	}
	text := r.b[begin:r.i]
	if !json.Valid(text) {
		return cty.NilVal, false
	}
	// Integers as from msgpack, not with 512 bits, which are slow to write again.
	// There is no other negative zero than that of ParseNumberVal.
	if i, err := strconv.ParseInt(string(text), 10, 64); err == nil && i != 0 {
		return cty.NumberIntVal(i), true
	}
	v, err := cty.ParseNumberVal(string(text))
	return v, err == nil
}

// list takes an array; elem takes each element and says whether it is good.
func (r *jsonReader) list(elem func(i int) bool) bool {
	if !r.take('[') {
		return false
	}
	if r.take(']') {
		return true
	}
	for i := 0; elem(i); i++ {
		if !r.take(',') {
			return r.take(']')
		}
	}
	return false
}

// object takes an object; attr takes the value of each name.
func (r *jsonReader) object(attr func(name string) bool) bool {
	if !r.take('{') {
		return false
	}
	if r.take('}') {
		return true
	}
	for {
		name, ok := r.string()
		if !ok || !r.take(':') || !attr(name) {
			return false
		}
		if !r.take(',') {
			return r.take('}')
		}
	}
}

func (r *jsonReader) value(ty cty.Type, depth int) (_ cty.Value, ok bool) {
	c := r.peek()
	switch {
	case depth > maxDepth:
		return cty.NilVal, false
	case c == 'n':
		return cty.NullVal(ty), r.word("null")
	case ty == cty.DynamicPseudoType:
		return r.dynamic(depth)
	case ty == cty.String:
		s, ok := r.string()
		return cty.StringVal(s), ok
	case ty == cty.Number:
		return r.number()
	case ty == cty.Bool && c == 't':
		return cty.True, r.word("true")
	case ty == cty.Bool:
		return cty.False, r.word("false")
	case ty.IsTupleType():
		elems := ty.TupleElementTypes()
		vals := make([]cty.Value, 0, len(elems))
		ok := r.list(func(i int) bool { return i < len(elems) && r.append(&vals, elems[i], depth) })
		return cty.TupleVal(vals), ok && len(vals) == len(elems)
	case ty.IsObjectType():
		attrs := ty.AttributeTypes()
		vals := make(map[string]cty.Value, len(attrs))
		ok := r.object(func(name string) bool {
			elem, ok := attrs[name]
			return ok && r.set(vals, name, elem, depth)
		})
		return cty.ObjectVal(vals), ok && len(vals) == len(attrs)
	case ty.HasDynamicTypes():
		return cty.NilVal, false
	case ty.IsMapType():
		vals := map[string]cty.Value{}
		switch ok := r.object(func(name string) bool { return r.set(vals, name, ty.ElementType(), depth) }); {
		case !ok:
			return cty.NilVal, false
		case len(vals) == 0:
			return cty.MapValEmpty(ty.ElementType()), true
		}
		return cty.MapVal(vals), true
	case ty.IsListType(), ty.IsSetType():
		var vals []cty.Value
		switch ok := r.list(func(int) bool { return r.append(&vals, ty.ElementType(), depth) }); {
		case !ok:
			return cty.NilVal, false
		case ty.IsSetType() && len(vals) == 0:
			return cty.SetValEmpty(ty.ElementType()), true
		case ty.IsSetType():
			return cty.SetVal(vals), true
		case len(vals) == 0:
			return cty.ListValEmpty(ty.ElementType()), true
		}
		return cty.ListVal(vals), true
	}
	return cty.NilVal, false
}

func (r *jsonReader) append(vals *[]cty.Value, ty cty.Type, depth int) bool {
	v, ok := r.value(ty, depth+1)
	*vals = append(*vals, v)
	return ok
}

func (r *jsonReader) set(vals map[string]cty.Value, name string, ty cty.Type, depth int) bool {
	if _, twice := vals[name]; twice {
		return false
	}
	v, ok := r.value(ty, depth+1)
	vals[name] = v
	return ok
}

// dynamic takes a value with its type. Cty writes the type last.
func (r *jsonReader) dynamic(depth int) (v cty.Value, ok bool) {
	var ty cty.Type
	at, to := -1, 0
	form := false
	ok = r.object(func(name string) (ok bool) {
		switch {
		case name == "value" && at < 0:
			r.peek()
			at = r.i
			ok = r.skip(depth)
			to = r.i
			return ok
		case name == "type" && !form:
			form = true
			ty, ok = r.typ(depth)
			return ok
		}
		return false
	})
	if !ok || !form || at < 0 {
		return cty.NilVal, false
	}
	end := r.i
	r.i = at
	v, ok = r.value(ty, depth+1)
	ok = ok && r.i == to
	r.i = end
	return v, ok
}

// skip goes over a value, which is read for what it is later.
func (r *jsonReader) skip(depth int) bool {
	switch c := r.peek(); {
	case depth > maxDepth:
		return false
	case c == '"':
		_, _, ok := r.quoted()
		return ok
	case c == '[':
		return r.list(func(int) bool { return r.skip(depth + 1) })
	case c == '{':
		return r.object(func(string) bool { return r.skip(depth + 1) })
	}
	begin := r.i
	for ; r.i < len(r.b); r.i++ {
		switch r.b[r.i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return r.i > begin
		}
	}
	return false
}

// typ is cty's Type.UnmarshalJSON.
func (r *jsonReader) typ(depth int) (ty cty.Type, ok bool) {
	if depth > maxDepth {
		return cty.NilType, false
	}
	if r.peek() == '"' {
		name, ok := r.string()
		switch name {
		case "string":
			return cty.String, ok
		case "number":
			return cty.Number, ok
		case "bool":
			return cty.Bool, ok
		case "dynamic":
			return cty.DynamicPseudoType, ok
		}
		return cty.NilType, false
	}
	kind, parts := "", 0
	ok = r.list(func(i int) (ok bool) {
		switch parts++; i {
		case 0:
			kind, ok = r.string()
		case 1:
			ty, ok = r.typOf(kind, depth)
		}
		return ok
	})
	return ty, ok && parts == 2
}

// typOf takes what a type of this kind is made of.
func (r *jsonReader) typOf(kind string, depth int) (_ cty.Type, ok bool) {
	switch kind {
	case "list", "set", "map":
		elem, ok := r.typ(depth + 1)
		switch {
		case !ok:
			return cty.NilType, false
		case kind == "list":
			return cty.List(elem), true
		case kind == "set":
			return cty.Set(elem), true
		}
		return cty.Map(elem), true
	case "tuple":
		elems := []cty.Type{}
		ok := r.list(func(int) bool {
			elem, ok := r.typ(depth + 1)
			elems = append(elems, elem)
			return ok
		})
		return cty.Tuple(elems), ok
	case "object":
		attrs := map[string]cty.Type{}
		ok := r.object(func(name string) bool {
			if _, twice := attrs[name]; twice {
				return false
			}
			elem, ok := r.typ(depth + 1)
			attrs[name] = elem
			return ok
		})
		if !ok {
			return cty.NilType, false
		}
		return cty.Object(attrs), true
	}
	return cty.NilType, false
}
