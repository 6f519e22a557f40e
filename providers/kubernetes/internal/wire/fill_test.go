package wire

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

func TestFill(t *testing.T) {
	object := func(parts ...string) []byte { return []byte(strings.Join(parts, "")) }
	a, b, c := Text("a"), Text("b"), Text("c")
	long := Text(strings.Repeat("x", 300))
	deep := strings.Repeat("\x91", 2*maxDepth) + Null
	for name, tt := range map[string]struct {
		in     []byte
		values map[string]string
		want   []byte // nil when it isn't to be filled
	}{
		"all":                {object("\x82", a, Null, b, "\x01"), map[string]string{"a": NotYet, "b": long}, object("\x82", a, NotYet, b, long)},
		"between":            {object("\x83", a, "\x92\x01\x81", a, "\x02", b, Null, c, long), map[string]string{"b": NotYet}, object("\x83", a, "\x92\x01\x81", a, "\x02", b, NotYet, c, long)},
		"nothing":            {object("\x81", a, "\x01"), nil, object("\x81", a, "\x01")},
		"empty":              {object("\x80"), nil, object("\x80")},
		"long form":          {object("\xde\x00\x01", a, "\x01"), map[string]string{"a": Null}, object("\xde\x00\x01", a, Null)},
		"name as a value":    {object("\x82", a, b, b, "\x01"), map[string]string{"b": Null}, object("\x82", a, b, b, Null)},
		"unknown, kept":      {object("\x82", a, NotYet, b, Null), map[string]string{"b": Null}, object("\x82", a, NotYet, b, Null)},
		"refined, replaced":  {object("\x81", a, "\xc7\x03\x0c\x81\x01\xc2"), map[string]string{"a": Null}, object("\x81", a, Null)},
		"refined, kept":      {object("\x82", a, "\xc7\x03\x0c\x81\x01\xc2", b, Null), map[string]string{"b": Null}, object("\x82", a, NotYet, b, Null)},
		"refined, kept deep": {object("\x82", a, "\x91\x81", c, "\xc7\x03\x0c\x81\x01\xc2", b, Null), map[string]string{"b": Null}, object("\x82", a, "\x91\x81", c, NotYet, b, Null)},
		"refined, cut":       {object("\x82", a, "\xc7\x03\x0c\x81\x01"), map[string]string{"b": Null}, nil},
		"other extension":    {object("\x82", a, "\xd4\x01\x00", b, Null), map[string]string{"b": Null}, nil},
		"missing":            {object("\x81", a, "\x01"), map[string]string{"b": Null}, nil},
		"twice":              {object("\x82", a, Null, a, Null), map[string]string{"a": Null, "b": Null}, nil},
		"out of order":       {object("\x82", b, Null, a, Null), map[string]string{"a": Null}, nil},
		"made of others":     {object("\x81", a, "\x91\x01"), map[string]string{"a": Null}, nil},
		"more behind":        {object("\x81", a, "\x01\x01"), map[string]string{"a": Null}, nil},
		"cut":                {object("\x82", a, Null, b), map[string]string{"a": Null}, nil},
		"fewer than said":    {object("\xdf\xff\xff\xff\xff", a, Null), map[string]string{"a": Null}, nil},
		"too deep":           {object("\x82", a, deep, b, Null), map[string]string{"b": Null}, nil},
		"null":               {[]byte(Null), nil, nil},
		"unknown":            {[]byte(NotYet), nil, nil},
		"a list":             {object("\x92", a, Null), map[string]string{"a": Null}, nil},
		"none":               {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(tt.in)
			got, ok := Fill(tt.in, tt.values)
			if ok != (tt.want != nil) || ok && !bytes.Equal(got, tt.want) {
				t.Errorf("got %x (%v), want %x", got, ok, tt.want)
			}
			if !bytes.Equal(tt.in, before) {
				t.Error("what was given has changed")
			}
		})
	}
}

// Lengths and counts that are not true take no memory: the decoders that read
// them are used again, and one that had grown stayed so.
func TestLengthsAreNotBelieved(t *testing.T) {
	const rounds = 10
	for name, data := range map[string]string{
		"name":    "\x81\xdb\xff\xff\xff\xffa",
		"string":  "\x82\xa1a\xdb\xff\xff\xff\xffa",
		"bytes":   "\x82\xa1a\x92\xc6\xff\xff\xff\xffa",
		"unknown": "\x82\xa1a\xc9\xff\xff\xff\xff\x0ca",
		"list":    "\x82\xa1a\x92\xc4\x12[\"list\",\"dynamic\"]\xdd\x00\x00\xff\xffa" + strings.Repeat(" ", 1<<16),
		"map":     "\x82\xa1a\x92\xc4\x11[\"map\",\"dynamic\"]\xdf\x00\x00\xff\xffa" + strings.Repeat(" ", 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			var r Reader
			typ, err := r.ParseType([]byte(`["map","dynamic"]`))
			if err != nil {
				t.Fatal(err)
			}
			in := []byte(data)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				if _, _, ok := r.Read(in, typ); ok {
					t.Fatal("read")
				}
				if _, ok := Fill(in, map[string]string{"b": Null}); ok {
					t.Fatal("filled")
				}
				if EqualBut(in, in, "b") {
					t.Fatal("compared")
				}
			}
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) / rounds; took > uint64(2*len(in)+1<<14) {
				t.Errorf("took %d bytes to refuse %d", took, len(in))
			}
		})
	}
}

// FuzzFill fills anything. What comes out is well formed, has the values, and is
// what comes out again.
func FuzzFill(f *testing.F) {
	f.Add([]byte("\x82\xa1a\xc0\xa1b\x01"), "b", "x")
	f.Add([]byte("\x83\xa1a\x92\xc4\x08\"string\"\xa1a\xa1b\xd4\x00\x00\xa1c\xc7\x03\x0c\x81\x01\xc2"), "c", "")
	f.Add([]byte("\xdf\xff\xff\xff\xff\xa1a"), "a", "")
	f.Fuzz(func(t *testing.T, data []byte, name, value string) {
		values := map[string]string{name: Text(value)}
		got, ok := Fill(data, values)
		if !ok {
			return
		}
		again, ok := Fill(got, values)
		if !ok || !bytes.Equal(again, got) {
			t.Fatalf("%x became %x (%v) when it was filled again", got, again, ok)
		}
		from, to, ok := span(got, name)
		if !ok || string(got[from:to]) != values[name] {
			t.Fatalf("%x became %x", data, got)
		}
		// What is replaced may be what can't be kept.
		if plain, ok := Fill(data, nil); ok && !EqualBut(got, plain, name) {
			t.Fatalf("%x became %x", data, got)
		}
		var v string
		if err := msgpack.Unmarshal(got[from:to], &v); err != nil || v != value {
			t.Fatalf("%q became %q: %v", value, v, err)
		}
	})
}
