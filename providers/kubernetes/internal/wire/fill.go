package wire

import (
	"bytes"

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
// values instead of their own. All else is copied as it is. ok is false when the
// object isn't well formed, lacks one of them, has its attributes in another
// order than core and terraform-plugin-go write them, or when a value instead of
// which there is another is made of values. It is false, too, when something is
// known of an unknown value that is kept, such as that it is never null: core
// says so, and terraform-plugin-go's answers don't.
func Fill(data []byte, values map[string]string) (filled []byte, ok bool) {
	in := open(data)
	defer in.close()
	if c, err := in.dec.PeekCode(); err != nil || !isMap(c) {
		return nil, false
	}
	n, err := in.dec.DecodeMapLen()
	if err != nil {
		return nil, false
	}
	filled = make([]byte, 0, len(data)+256)
	copied, found, last := 0, 0, ""
	for i := range n {
		name, err := in.text()
		if err != nil || i > 0 && name <= last {
			return nil, false
		}
		last = name
		value, instead := values[name]
		if !instead {
			if in.keep(0) != nil {
				return nil, false
			}
			continue
		}
		filled = append(append(filled, data[copied:in.at()]...), value...)
		if parts, err := in.parts(); err != nil || parts > 0 {
			return nil, false
		}
		copied = in.at()
		found++
	}
	return append(filled, data[copied:]...), found == len(values) && in.src.Len() == 0
}

// keep goes over a value that is kept.
func (in *input) keep(depth int) error {
	c, err := in.dec.PeekCode()
	if err != nil {
		return err
	}
	if depth > maxDepth || msgpcode.IsExt(c) && !bytes.HasPrefix(in.data[in.at():], []byte(NotYet)) {
		return errUncommon
	}
	n, err := in.parts()
	for i := 0; i < n && err == nil; i++ { // ends with the data, whatever n is
		err = in.keep(depth + 1)
	}
	return err
}

func isMap(c byte) bool {
	return msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32
}
