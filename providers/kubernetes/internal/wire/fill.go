package wire

import (
	"bytes"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Values in msgpack.
const (
	Null = "\xc0"
	// NotYet is unknown, and nothing else is known of it.
	NotYet = "\xd4\x00\x00"
)

// Text is a string in msgpack.
func Text(s string) string {
	var b bytes.Buffer // which takes all there is, without an error
	_ = msgpack.NewEncoder(&b).EncodeString(s)
	return b.String()
}

// Int is an integer in msgpack.
func Int(i int64) string {
	var b bytes.Buffer
	_ = msgpack.NewEncoder(&b).EncodeInt(i)
	return b.String()
}

// Fill gives an object in msgpack whose attributes of these names have these
// values instead of their own. All else is copied as it is, but for what is known
// of unknown values, such as that one is never null: core says so, and
// terraform-plugin-go's answers don't. ok is false when the object isn't well
// formed, lacks one of the attributes, has them in another order than core and
// terraform-plugin-go write them, or when a value instead of which there is
// another is made of values.
func Fill(data []byte, values map[string]string) (filled []byte, ok bool) {
	f := filling{input: open(data), out: make([]byte, 0, len(data)+256)}
	defer f.close()
	if c, err := f.dec.PeekCode(); err != nil || !isMap(c) {
		return nil, false
	}
	n, err := f.dec.DecodeMapLen()
	if err != nil {
		return nil, false
	}
	found, last := 0, ""
	for i := range n {
		name, err := f.text()
		if err != nil || i > 0 && name <= last {
			return nil, false
		}
		last = name
		value, instead := values[name]
		if !instead {
			if f.keep(0) != nil {
				return nil, false
			}
			continue
		}
		if f.replace(value) != nil {
			return nil, false
		}
		found++
	}
	return append(f.out, data[f.copied:]...), found == len(values) && f.src.Len() == 0
}

// filling is an object that is being copied.
type filling struct {
	*input
	out    []byte
	copied int // how much of data is in out, or has been replaced
}

// replace goes over a value that isn't made of others, and has another instead.
func (f *filling) replace(value string) error {
	f.out = append(append(f.out, f.data[f.copied:f.at()]...), value...)
	if parts, err := f.parts(); err != nil || parts > 0 {
		return errUncommon
	}
	f.copied = f.at()
	return nil
}

// keep goes over a value that is kept.
func (f *filling) keep(depth int) error {
	c, err := f.dec.PeekCode()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return errUncommon
	}
	if msgpcode.IsExt(c) {
		return f.keepUnknown()
	}
	n, err := f.parts()
	for i := 0; i < n && err == nil; i++ { // ends with the data, whatever n is
		err = f.keep(depth + 1)
	}
	return err
}

// refined is the extension that cty has for unknown values of which something is
// known (cty's msgpack package, unknownWithRefinementsExt).
const refined = 12

func (f *filling) keepUnknown() error {
	if bytes.HasPrefix(f.data[f.at():], []byte(NotYet)) {
		_, err := f.take(len(NotYet))
		return err
	}
	from := f.at()
	id, _, err := f.dec.DecodeExtHeader()
	if err != nil || id != refined {
		return errUncommon
	}
	if _, err := f.src.Seek(int64(from), io.SeekStart); err != nil {
		return err
	}
	return f.replace(NotYet)
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}
