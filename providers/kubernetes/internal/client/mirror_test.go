package client

import (
	"slices"
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
		p.keep(o)
	}
	check("a", "one", "two")
	check("b", "three")
	check("")
	p.keep(object("two", "b"))
	check("a", "one")
	check("b", "three", "two")
	p.drop("one")
	p.drop("one")
	check("a")
	if len(p.objects) != 3 || m.Object(0, "one") != nil || len(p.keyed) != 1 {
		t.Errorf("it holds %v", p)
	}
}
