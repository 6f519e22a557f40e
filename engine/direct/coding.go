package direct

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// Each call encodes and decodes values, and cty's encoders spend most of their
// time on the types of dynamic values and on paths for errors. What is common is
// encoded and decoded here, byte for byte and value for value as cty does it;
// what isn't, errors included, is left to cty.

// marshal is cty's msgpack.Marshal.
func marshal(v cty.Value, ty cty.Type) ([]byte, error) {
	if v != cty.NilVal && v.Type().TestConformance(ty) == nil {
		if b, ok := appendValue(make([]byte, 0, 512), v, ty); ok {
			return b, nil
		}
	}
	return msgpack.Marshal(v, ty)
}

func appendValue(b []byte, v cty.Value, ty cty.Type) (_ []byte, ok bool) {
	switch {
	case v.IsMarked():
		return b, false
	case ty == cty.DynamicPseudoType && v.Type() != cty.DynamicPseudoType:
		ty = v.Type()
		form, ok := appendType(nil, ty)
		if !ok {
			return b, false
		}
		return appendValue(append(appendLen(append(b, 0x92), binLens, len(form)), form...), v, ty)
	case !v.IsKnown():
		return b, false
	case v.IsNull():
		return append(b, 0xc0), true
	case ty == cty.String:
		return appendString(b, v.AsString()), true
	case ty == cty.Bool:
		if v.True() {
			return append(b, 0xc3), true
		}
		return append(b, 0xc2), true
	case ty == cty.Number:
		i, acc := v.AsBigFloat().Int64()
		return appendInt(b, i), acc == big.Exact
	case ty.IsListType(), ty.IsSetType(), ty.IsMapType():
		lens := arrayLens
		if ty.IsMapType() {
			lens = mapLens
		}
		b = appendLen(b, lens, v.LengthInt())
		elem, ok := ty.ElementType(), true
		for it := v.ElementIterator(); ok && it.Next(); {
			k, e := it.Element()
			if ty.IsMapType() {
				b = appendString(b, k.AsString())
			}
			b, ok = appendValue(b, e, elem)
		}
		return b, ok
	case ty.IsTupleType():
		elems, ok := ty.TupleElementTypes(), true
		b = appendLen(b, arrayLens, len(elems))
		i := 0
		for it := v.ElementIterator(); ok && it.Next(); i++ {
			_, e := it.Element()
			b, ok = appendValue(b, e, elems[i])
		}
		return b, ok
	case ty.IsObjectType():
		attrs, ok := ty.AttributeTypes(), true
		b = appendLen(b, mapLens, len(attrs))
		for _, name := range sorted(attrs) {
			if b, ok = appendValue(appendString(b, name), v.GetAttr(name), attrs[name]); !ok {
				break
			}
		}
		return b, ok
	}
	return b, false
}

func sorted(attrs map[string]cty.Type) []string {
	names := make([]string, 0, len(attrs))
	for name := range attrs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendType is cty's Type.MarshalJSON.
func appendType(b []byte, ty cty.Type) (_ []byte, ok bool) {
	switch {
	case ty == cty.String:
		return append(b, `"string"`...), true
	case ty == cty.Number:
		return append(b, `"number"`...), true
	case ty == cty.Bool:
		return append(b, `"bool"`...), true
	case ty == cty.DynamicPseudoType:
		return append(b, `"dynamic"`...), true
	case ty.IsListType():
		b, ok = appendType(append(b, `["list",`...), ty.ElementType())
	case ty.IsSetType():
		b, ok = appendType(append(b, `["set",`...), ty.ElementType())
	case ty.IsMapType():
		b, ok = appendType(append(b, `["map",`...), ty.ElementType())
	case ty.IsTupleType():
		b, ok = append(b, `["tuple",[`...), true
		for i, e := range ty.TupleElementTypes() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendType(b, e); !ok {
				break
			}
		}
		b = append(b, ']')
	case ty.IsObjectType() && len(ty.OptionalAttributes()) == 0:
		attrs := ty.AttributeTypes()
		b, ok = append(b, `["object",{`...), true
		for i, name := range sorted(attrs) {
			if i > 0 {
				b = append(b, ',')
			}
			quoted, err := json.Marshal(name)
			if err != nil {
				return b, false
			}
			if b, ok = appendType(append(append(b, quoted...), ':'), attrs[name]); !ok {
				break
			}
		}
		b = append(b, '}')
	}
	return append(b, ']'), ok
}

// lens are the codes before a length in msgpack: the longest length that is
// part of the code, that code, and those before 8, 16 and 32 bits; 0 is none.
// https://github.com/msgpack/msgpack/blob/master/spec.md
type lens struct {
	short                     int
	fix, bits8, bits16, bit32 byte
}

var (
	stringLens = lens{31, 0xa0, 0xd9, 0xda, 0xdb}
	binLens    = lens{-1, 0, 0xc4, 0xc5, 0xc6}
	arrayLens  = lens{15, 0x90, 0, 0xdc, 0xdd}
	mapLens    = lens{15, 0x80, 0, 0xde, 0xdf}
)

func appendLen(b []byte, l lens, n int) []byte {
	switch {
	case n <= l.short:
		return append(b, l.fix|byte(n))
	case n < 1<<8 && l.bits8 != 0:
		return append(b, l.bits8, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, l.bits16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, l.bit32), uint32(n))
}

func appendString(b []byte, s string) []byte {
	return append(appendLen(b, stringLens, len(s)), s...)
}

// appendInt takes the shortest form.
func appendInt(b []byte, i int64) []byte {
	switch {
	case i >= -32 && i < 1<<7:
		return append(b, byte(i))
	case i >= 0 && i < 1<<8:
		return append(b, 0xcc, byte(i))
	case i >= 0 && i < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(i))
	case i >= 0 && i < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(i))
	case i >= 0:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(i))
	case i >= -1<<7:
		return append(b, 0xd0, byte(i))
	case i >= -1<<15:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(i))
	case i >= -1<<31:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(i))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(i))
}
