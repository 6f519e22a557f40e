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
	"io"
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

const (
	// maxDepth bounds how deep a type and a value may be nested.
	maxDepth = 100
	// maxDigits bounds a number's text; the time to read it grows with its square.
	// The greatest float64 has 309.
	maxDigits = 512
	// room is for how many elements there is memory at once: that there are more
	// is seen when they come.
	room = 64
)

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
	in := open(data)
	defer in.close()
	in.Reader, in.whole = r, true
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
	in := open(data)
	defer in.close()
	n, err := in.dec.DecodeMapLen()
	for i := 0; i < n && err == nil; i++ {
		var key []byte
		if key, err = in.bytes(); err != nil {
			break
		}
		from = in.at()
		if err = in.skip(0); err == nil && string(key) == name {
			return from, in.at(), true
		}
	}
	return 0, 0, false
}

// input is a value in msgpack that is being read.
//
// No length in it is believed before it is held against what is left: the
// decoder makes room for a string before it reads one, a MiB and more at once, and
// keeps that for who has it next.
type input struct {
	*Reader
	data  []byte
	src   *bytes.Reader // of data; a reader that dec reads no further than it must
	dec   *msgpack.Decoder
	whole bool
}

// open begins to read a value. The caller closes the input.
func open(data []byte) *input {
	in := &input{data: data, src: bytes.NewReader(data), dec: msgpack.GetDecoder()}
	in.dec.Reset(in.src)
	return in
}

func (in *input) close() { msgpack.PutDecoder(in.dec) }

// at is how far data was read.
func (in *input) at() int { return len(in.data) - in.src.Len() }

// take gives the next n bytes, which stay data's.
func (in *input) take(n int) ([]byte, error) {
	if n < 0 || n > in.src.Len() {
		return nil, errUncommon
	}
	from := in.at()
	_, err := in.src.Seek(int64(n), io.SeekCurrent)
	return in.data[from : from+n], err
}

// bytes reads a string, or bytes. They stay data's.
func (in *input) bytes() ([]byte, error) {
	n, err := in.dec.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	return in.take(n)
}

// text reads a string.
func (in *input) text() (string, error) {
	b, err := in.bytes()
	return string(b), err
}

// parts goes over a value that isn't made of others, or to the first of those
// that it is made of, and says how many they are.
func (in *input) parts() (int, error) {
	c, err := in.dec.PeekCode()
	switch {
	case err != nil:
		return 0, err
	case isMap(c):
		n, err := in.dec.DecodeMapLen()
		return 2 * n, err
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return in.dec.DecodeArrayLen()
	case msgpcode.IsString(c), msgpcode.IsBin(c):
		_, err := in.bytes()
		return 0, err
	case msgpcode.IsExt(c):
		_, n, err := in.dec.DecodeExtHeader()
		if err == nil {
			_, err = in.take(n)
		}
		return 0, err
	}
	return 0, in.dec.Skip()
}

// skip goes over a value.
func (in *input) skip(depth int) error {
	if depth > maxDepth {
		return errUncommon
	}
	n, err := in.parts()
	for i := 0; i < n && err == nil; i++ { // ends with the data, whatever n is
		err = in.skip(depth + 1)
	}
	return err
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
		return Unknown{}, in.skip(depth)
	case c == msgpcode.Nil:
		return nil, in.dec.DecodeNil()
	}
	switch t.kind {
	case text:
		if !msgpcode.IsString(c) {
			return nil, errUncommon
		}
		return in.text()
	case boolean:
		return in.dec.DecodeBool()
	case number:
		return in.number(c)
	case dynamic:
		n, err := in.dec.DecodeArrayLen()
		if err != nil || n != 2 {
			return nil, errUncommon
		}
		form, err := in.bytes()
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
		s, err := in.text()
		if err != nil || len(s) > maxDigits {
			return nil, errUncommon
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
	out := make([]any, 0, min(n, room))
	for i := range n {
		e := t.elem
		if e == nil {
			e = t.elems[i]
		}
		v, err := in.value(e, depth+1)
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, errUncommon
		}
		out = append(out, v)
	}
	return out, nil
}

func (in *input) object(t *Type, depth int) (any, error) {
	n, err := in.dec.DecodeMapLen()
	if err != nil || n < 0 || n > in.src.Len() || t.elem == nil && n != len(t.attrs) {
		return nil, errUncommon
	}
	out := make(map[string]any, min(n, room))
	for range n {
		k, err := in.text()
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
