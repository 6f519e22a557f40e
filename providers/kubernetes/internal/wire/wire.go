// Package wire reads values as the plugin protocol carries them, straight into
// decoded JSON, and fills in attributes of those that are to be answered.
// terraform-plugin-go's own way, by a tree of typed values, costs a refresh more
// than all the rest.
//
// It reads what is common and gives up on the rest: who gets no answer takes
// the long way.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// kind is what the type of a value is, as far as it decides how to read it.
type kind byte

const (
	text kind = iota
	number
	boolean
	dynamic // the value brings its type
	array   // a list, set or tuple
	object  // a map or object
)

// Type is the type of a value. Types are shared and never changed.
type Type struct {
	kind  kind
	elem  *Type            // of all elements; nil for tuples and objects
	elems []*Type          // of a tuple
	attrs map[string]*Type // of an object
}

// maxTypes bounds what a Reader remembers. A configuration has few types of
// values, and many values of each.
const maxTypes = 1 << 12

// Reader reads values. It remembers their types; the zero value is ready, and
// it may be used by several goroutines at once.
type Reader struct {
	mu    sync.RWMutex
	types map[string]*Type
}

// ParseType reads the JSON form of a type.
func (r *Reader) ParseType(form []byte) (*Type, error) {
	r.mu.RLock()
	t := r.types[string(form)]
	r.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	t, err := parseType(form, 0)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil || len(r.types) >= maxTypes {
		r.types = map[string]*Type{}
	}
	r.types[string(form)] = t
	return t, nil
}

var errUncommon = errors.New("this value is not of the common kind")

// maxDepth bounds how deep a type and a value may be nested.
const maxDepth = 100

var primitives = map[string]*Type{
	`"string"`: {kind: text}, `"number"`: {kind: number}, `"bool"`: {kind: boolean}, `"dynamic"`: {kind: dynamic},
}

func parseType(form []byte, depth int) (*Type, error) {
	if t := primitives[string(bytes.TrimSpace(form))]; t != nil {
		return t, nil
	}
	var parts []json.RawMessage
	var name string
	if depth > maxDepth || json.Unmarshal(form, &parts) != nil || len(parts) != 2 || json.Unmarshal(parts[0], &name) != nil {
		return nil, errUncommon
	}
	t := &Type{}
	var err error
	switch name {
	case "list", "set", "map":
		t.kind = array
		if name == "map" {
			t.kind = object
		}
		t.elem, err = parseType(parts[1], depth+1)
		return t, err
	case "tuple":
		t.kind = array
		var elems []json.RawMessage
		if err := json.Unmarshal(parts[1], &elems); err != nil {
			return nil, err
		}
		t.elems = make([]*Type, len(elems))
		for i, e := range elems {
			if t.elems[i], err = parseType(e, depth+1); err != nil {
				return nil, err
			}
		}
		return t, nil
	case "object":
		t.kind = object
		var attrs map[string]json.RawMessage
		if err := json.Unmarshal(parts[1], &attrs); err != nil {
			return nil, err
		}
		t.attrs = make(map[string]*Type, len(attrs))
		for k, e := range attrs {
			if t.attrs[k], err = parseType(e, depth+1); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	return nil, errUncommon
}

// Unknown stands for what is known only after apply.
type Unknown struct{}

// Read reads a value in msgpack. It becomes decoded JSON: strings, booleans,
// int64 where a number is one and else float64, slices, and maps, from which
// nulls are left out. whole is false when something in it is Unknown. ok is
// false for nulls in lists and for all that isn't well formed.
func (r *Reader) Read(data []byte, t *Type) (v any, whole, ok bool) {
	in := &input{Reader: r, src: bytes.NewReader(data), whole: true}
	in.dec = msgpack.GetDecoder()
	defer msgpack.PutDecoder(in.dec)
	in.dec.Reset(in.src)
	v, err := in.value(t, 0)
	return v, in.whole, err == nil && in.src.Len() == 0
}

// EqualBut says whether two objects in msgpack are the same, byte for byte, but
// for the attribute of this name, which each of them has.
func EqualBut(a, b []byte, name string) bool {
	from, to, ok := span(a, name)
	from2, to2, ok2 := span(b, name)
	return ok && ok2 && bytes.Equal(a[:from], b[:from2]) && bytes.Equal(a[to:], b[to2:])
}

// span finds an attribute's value in an object.
func span(data []byte, name string) (from, to int, ok bool) {
	src := bytes.NewReader(data)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(src)
	n, err := dec.DecodeMapLen()
	for i := 0; i < n && err == nil; i++ {
		var key string
		if key, err = dec.DecodeString(); err != nil {
			break
		}
		from = len(data) - src.Len()
		err = dec.Skip()
		if to = len(data) - src.Len(); key == name && err == nil {
			return from, to, true
		}
	}
	return 0, 0, false
}

type input struct {
	*Reader
	src   *bytes.Reader // which bounds all lengths, too
	dec   *msgpack.Decoder
	whole bool
}

func (in *input) value(t *Type, depth int) (any, error) {
	c, err := in.dec.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case depth > maxDepth:
		return nil, errUncommon
	case msgpcode.IsExt(c): // how unknown values come, with what is known of them
		in.whole = false
		return Unknown{}, in.dec.Skip()
	case c == msgpcode.Nil:
		return nil, in.dec.DecodeNil()
	}
	switch t.kind {
	case text:
		if !msgpcode.IsString(c) {
			return nil, errUncommon
		}
		return in.dec.DecodeString()
	case boolean:
		return in.dec.DecodeBool()
	case number:
		return in.number(c)
	case dynamic:
		n, err := in.dec.DecodeArrayLen()
		if err != nil || n != 2 {
			return nil, errUncommon
		}
		form, err := in.dec.DecodeBytes()
		if err != nil {
			return nil, err
		}
		if t, err = in.ParseType(form); err != nil {
			return nil, err
		}
		return in.value(t, depth+1)
	case array:
		return in.array(t, depth)
	}
	return in.object(t, depth)
}

// number reads an integer, a float, or, of what is neither exactly, the digits.
func (in *input) number(c byte) (any, error) {
	switch {
	case msgpcode.IsString(c):
		s, err := in.dec.DecodeString()
		if err != nil {
			return nil, err
		}
		f, _, err := big.ParseFloat(s, 10, 512, big.ToNearestEven)
		if err != nil {
			return nil, err
		}
		if i, acc := f.Int64(); acc == big.Exact {
			return i, nil
		}
		n, _ := f.Float64()
		return n, finite(n)
	case c == msgpcode.Float || c == msgpcode.Double:
		n, err := in.dec.DecodeFloat64()
		if err != nil {
			return nil, err
		}
		if n == math.Trunc(n) { // an integer comes as one
			return nil, errUncommon
		}
		return n, finite(n)
	case c == msgpcode.Uint64:
		n, err := in.dec.DecodeUint64()
		if err != nil || n > math.MaxInt64 {
			return nil, errUncommon
		}
		return int64(n), nil
	}
	return in.dec.DecodeInt64()
}

func finite(n float64) error {
	if math.IsInf(n, 0) || math.IsNaN(n) {
		return errUncommon
	}
	return nil
}

func (in *input) array(t *Type, depth int) (any, error) {
	n, err := in.dec.DecodeArrayLen()
	if err != nil || n < 0 || n > in.src.Len() || t.elem == nil && n != len(t.elems) {
		return nil, errUncommon
	}
	out := make([]any, n)
	for i := range out {
		e := t.elem
		if e == nil {
			e = t.elems[i]
		}
		if out[i], err = in.value(e, depth+1); err != nil {
			return nil, err
		}
		if out[i] == nil {
			return nil, errUncommon
		}
	}
	return out, nil
}

func (in *input) object(t *Type, depth int) (any, error) {
	n, err := in.dec.DecodeMapLen()
	if err != nil || n < 0 || n > in.src.Len() || t.elem == nil && n != len(t.attrs) {
		return nil, errUncommon
	}
	out := make(map[string]any, n)
	for range n {
		k, err := in.dec.DecodeString()
		if err != nil {
			return nil, err
		}
		e := t.elem
		if e == nil {
			if e = t.attrs[k]; e == nil {
				return nil, errUncommon
			}
		}
		v, err := in.value(e, depth+1)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[k] = v
		}
	}
	return out, nil
}
