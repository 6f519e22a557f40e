package client

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
)

// What a key finds is what has it now: objects come, change what they belong to,
// and go.
func TestMirrorFindsByKey(t *testing.T) {
	owner := func(o Object) string {
		s, _ := o["owner"].(string)
		return s
	}
	object := func(name, owner string) Object {
		return Object{"metadata": Object{"name": name, "managedFields": []any{}}, "owner": owner}
	}
	m := &Mirror{parts: []part{newPart(owner, true)}}
	p := &m.parts[0]
	check := func(key string, want ...string) {
		t.Helper()
		var got []string
		for _, o := range m.Keyed(0, key) {
			got = append(got, o["metadata"].(Object)["name"].(string))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, not %q", key, got, want)
		}
	}
	for _, o := range []Object{object("one", "a"), object("two", "a"), object("three", "b"), object("nobodys", "")} {
		keep(m, o)
	}
	check("a", "one", "two")
	check("b", "three")
	check("")
	keep(m, object("two", "b"))
	check("a", "one")
	check("b", "three", "two")
	p.drop("one")
	p.drop("one")
	check("a")
	if len(p.objects) != 3 || m.Object(0, "one") != nil || len(p.keyed) != 1 {
		t.Errorf("it holds %v", p)
	}
}

func keep(m *Mirror, o Object) {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	m.keep(&m.parts[0], o, raw)
}

// However many objects there are, each is found as it came, and few are held decoded.
func TestMirrorOfMany(t *testing.T) {
	m := &Mirror{parts: []part{newPart(func(Object) string { return "all" }, true)}}
	const many = 4 * decodedAtMost
	for i := range many {
		keep(m, Object{"metadata": Object{"name": strconv.Itoa(i), "managedFields": []any{"x"}}, "number": int64(i)})
	}
	for range 2 {
		for i := range many {
			o := m.Object(0, strconv.Itoa(i))
			if _, managed := o["metadata"].(Object)["managedFields"]; o["number"] != int64(i) || managed {
				t.Fatalf("%d is %v", i, o)
			}
		}
	}
	if n := len(m.Keyed(0, "all")); n != many {
		t.Errorf("%d objects of %d", n, many)
	}
	decoded := 0
	for _, e := range m.parts[0].objects {
		if e.decoded != nil {
			decoded++
		}
	}
	if decoded != decodedAtMost {
		t.Errorf("%d are decoded", decoded)
	}
}
