// Package ownership compares what was applied with what the API server holds,
// and nothing else of the object.
//
// The server defaults, normalises (1024Mi becomes 1Gi) and mutates what it is
// given. After an apply, Learn keeps a Memory of how the server took the
// manifest: which lists are merged by key, and a hash of each value that came
// back different. Later, Compare finds only what somebody else changed.
package ownership

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Tree is a decoded fieldsV1 of metadata.managedFields: keys are "f:NAME" for
// fields, "k:JSON" for list items by key, "v:JSON" for items of a set, "i:N" for
// items by position and "." for the value itself. An empty node is a value that
// is owned whole.
type Tree = map[string]any

// Owned finds what manager owns by apply in obj, nil when nothing. Its use of
// subresources (status, scale) is not counted.
func Owned(obj map[string]any, manager string) Tree {
	for _, e := range Entries(obj) {
		if e.Operation == "Apply" && e.Manager == manager && e.Subresource == "" {
			return e.Fields
		}
	}
	return nil
}

// Entry is one manager's part in an object.
type Entry struct {
	Manager, Operation, Subresource string
	Fields                          Tree
}

// Entries reads metadata.managedFields.
func Entries(obj map[string]any) []Entry {
	meta, _ := obj["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	var out []Entry
	for _, it := range list {
		m, _ := it.(map[string]any)
		if m == nil {
			continue
		}
		var e Entry
		e.Manager, _ = m["manager"].(string)
		e.Operation, _ = m["operation"].(string)
		e.Subresource, _ = m["subresource"].(string)
		e.Fields, _ = m["fieldsV1"].(map[string]any)
		out = append(out, e)
	}
	return out
}

// Project gives the part of live that tree names, ok false when there is none.
// Items of keyed lists come with their keys.
func Project(live any, tree Tree) (part any, ok bool) {
	if len(tree) == 0 {
		return live, true
	}
	switch l := live.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, sub := range tree {
			name, isField := strings.CutPrefix(key, "f:")
			if !isField {
				continue
			}
			v, has := l[name]
			if !has {
				continue
			}
			subtree, _ := sub.(map[string]any)
			if p, ok := Project(v, subtree); ok {
				out[name] = p
			}
		}
		_, self := tree["."]
		return out, self || len(out) > 0
	case []any:
		var out []any
		for i, item := range l {
			for key, sub := range tree {
				if key == "." {
					continue
				}
				subtree, _ := sub.(map[string]any)
				if !itemMatches(key, i, item) {
					continue
				}
				p, ok := Project(item, subtree)
				if m, isMap := p.(map[string]any); isMap && len(subtree) > 0 && strings.HasPrefix(key, "k:") {
					whole, _ := item.(map[string]any)
					for name := range keyOf(key) {
						m[name] = whole[name]
					}
					ok = true
				}
				if ok {
					out = append(out, p)
				}
				break
			}
		}
		_, self := tree["."]
		return out, self || len(out) > 0
	}
	_, self := tree["."]
	return live, self
}

func itemMatches(key string, i int, item any) bool {
	switch {
	case strings.HasPrefix(key, "k:"):
		m, _ := item.(map[string]any)
		fields := keyOf(key)
		if m == nil || fields == nil {
			return false
		}
		for name, v := range fields {
			if !equal(m[name], v) {
				return false
			}
		}
		return true
	case strings.HasPrefix(key, "v:"):
		var v any
		return decode(key[2:], &v) && equal(item, v)
	case strings.HasPrefix(key, "i:"):
		return key[2:] == strconv.Itoa(i)
	}
	return false
}

// keyOf gives the key fields of a "k:" element, nil when it isn't well formed.
func keyOf(key string) map[string]any {
	var m map[string]any
	if !decode(key[2:], &m) {
		return nil
	}
	return m
}

func decode(s string, into any) bool {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	return d.Decode(into) == nil
}

// Memory is what Learn keeps of one apply. It holds no value of the object,
// only hashes of those that the server changed. Its zero value knows nothing:
// lists are compared whole.
type Memory struct {
	// Lists that are merged by key, by their place in the schema.
	Lists map[string]List `json:"lists,omitempty"`
	// Sets are lists whose items are owned one by one.
	Sets map[string]bool `json:"sets,omitempty"`
	// Atomic are maps that are owned whole.
	Atomic map[string]bool `json:"atomic,omitempty"`
	// Changed has, by path, the hash of the value that the server made of the
	// applied one; "" when it dropped it.
	Changed map[string]string `json:"changed,omitempty"`
}

// List describes a list that is merged by key.
type List struct {
	Keys []string `json:"keys"`
	// Defaults are the values of keys that the manifest leaves out.
	Defaults map[string]any `json:"defaults,omitempty"`
}

// Learn makes the memory of an apply: manifest as it was sent, tree what the
// manager owns since, live the object that the server answered with.
func Learn(manifest, live map[string]any, tree Tree) *Memory {
	m := &Memory{}
	m.shape(manifest, tree, "")
	w := walk{mem: m, differ: func(p string, _, l any, has bool) bool {
		put(&m.Changed, p, hash(l, has))
		return true
	}}
	w.object(manifest, live)
	return m
}

// Compare gives the manifest with every value that was changed in live since
// the apply, and the paths of these. With no paths the manifest comes back as
// it was given.
func (m *Memory) Compare(manifest, live map[string]any) (now map[string]any, drifted []string) {
	w := walk{mem: m, differ: func(p string, _, l any, has bool) bool {
		if h, known := m.Changed[p]; known && h == hash(l, has) {
			return true
		}
		drifted = append(drifted, p)
		return false
	}}
	now = w.object(manifest, live)
	if len(drifted) == 0 {
		return manifest, nil
	}
	sort.Strings(drifted)
	return now, drifted
}

// Paths gives the paths of all fields of the manifest as the API server names
// them in conflicts.
func (m *Memory) Paths(manifest map[string]any) map[string]bool {
	out := map[string]bool{}
	w := walk{mem: m, visit: func(p string) { out[p] = true }, differ: func(string, any, any, bool) bool { return true }}
	w.object(manifest, nil)
	return out
}

// Guess makes a memory of a manifest that somebody else applied, without what
// the server would tell: lists whose items all have different names are taken
// as merged by name.
func Guess(manifest map[string]any) *Memory {
	m := &Memory{}
	m.guess(manifest, "")
	return m
}

func (m *Memory) guess(v any, place string) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			m.guess(child, place+"/"+escape(name))
		}
	case []any:
		seen := map[string]bool{}
		for _, it := range v {
			item, _ := it.(map[string]any)
			name, _ := item["name"].(string)
			if name == "" || seen[name] {
				return
			}
			seen[name] = true
		}
		if len(v) > 0 {
			put(&m.Lists, place, List{Keys: []string{"name"}})
		}
		for _, it := range v {
			m.guess(it, place+"/*")
		}
	}
}

// shape notes what the tree tells of the schema's lists and maps.
func (m *Memory) shape(manifest any, tree Tree, place string) {
	switch v := manifest.(type) {
	case map[string]any:
		if tree != nil && len(tree) == 0 && len(v) > 0 {
			put(&m.Atomic, place, true)
			return
		}
		for name, child := range v {
			sub, ok := tree["f:"+name].(map[string]any)
			if ok {
				m.shape(child, sub, place+"/"+escape(name))
			}
		}
	case []any:
		for key, sub := range tree {
			subtree, _ := sub.(map[string]any)
			switch {
			case strings.HasPrefix(key, "v:"):
				put(&m.Sets, place, true)
			case strings.HasPrefix(key, "k:"):
				fields := keyOf(key)
				item, missing := findItem(v, fields)
				if item == nil {
					continue
				}
				l, known := m.Lists[place]
				if !known {
					for name := range fields {
						l.Keys = append(l.Keys, name)
					}
					sort.Strings(l.Keys)
				}
				for _, name := range missing {
					put(&l.Defaults, name, fields[name])
				}
				put(&m.Lists, place, l)
				m.shape(item, subtree, place+"/*")
			}
		}
	}
}

// findItem finds the item that a key means, and the key fields that the item
// leaves to the server's defaults. An item that names all fields goes first.
func findItem(items []any, fields map[string]any) (item map[string]any, missing []string) {
	for _, it := range items {
		m, ok := it.(map[string]any)
		if !ok {
			continue
		}
		var absent []string
		match := true
		for name, v := range fields {
			got, has := m[name]
			if !has {
				absent = append(absent, name)
			} else if !equal(got, v) {
				match = false
			}
		}
		if match && (item == nil || len(absent) < len(missing)) {
			item, missing = m, absent
		}
	}
	return item, missing
}

// walk goes through a manifest beside the live object.
type walk struct {
	mem *Memory
	// differ is told of a value that is not the manifest's; it says whether
	// the manifest's is kept all the same.
	differ func(path string, manifest, live any, has bool) bool
	visit  func(path string)
}

func (w *walk) object(manifest, live map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range manifest {
		if name == "apiVersion" || name == "kind" {
			out[name] = v // they say where to look
			continue
		}
		l, has := live[name]
		if name == "metadata" {
			mv, ok := v.(map[string]any)
			lv, _ := l.(map[string]any)
			if ok {
				out[name] = w.metadata(mv, lv)
				continue
			}
		}
		if r, ok := w.value(v, l, has, "/"+escape(name), "."+name); ok {
			out[name] = r
		}
	}
	return out
}

func (w *walk) metadata(m, l map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range m {
		if name == "name" || name == "namespace" {
			out[name] = v
			continue
		}
		lv, has := l[name]
		if r, ok := w.value(v, lv, has, "/metadata/"+escape(name), ".metadata."+name); ok {
			out[name] = r
		}
	}
	return out
}

func (w *walk) value(m, l any, has bool, place, path string) (any, bool) {
	if w.visit != nil {
		w.visit(path)
	}
	switch mv := m.(type) {
	case map[string]any:
		lv, isMap := l.(map[string]any)
		if w.mem.Atomic[place] || has && !isMap || !has && len(mv) == 0 {
			break
		}
		out := map[string]any{}
		for name, child := range mv {
			lc, ok := lv[name]
			if r, keep := w.value(child, lc, ok, place+"/"+escape(name), path+"."+name); keep {
				out[name] = r
			}
		}
		return out, len(out) > 0 || len(mv) == 0
	case []any:
		lv, isList := l.([]any)
		if has && !isList {
			break
		}
		if list, ok := w.mem.Lists[place]; ok {
			return w.keyed(list, mv, lv, place, path)
		}
		if w.mem.Sets[place] {
			return w.set(mv, lv, path)
		}
	}
	if has && equal(m, l) {
		return m, true
	}
	if w.differ(path, m, l, has) {
		return m, true
	}
	return l, has
}

func (w *walk) keyed(list List, m, l []any, place, path string) (any, bool) {
	var out []any
	for i, it := range m {
		item, ok := it.(map[string]any)
		if !ok {
			continue
		}
		want := map[string]any{}
		for _, key := range list.Keys {
			if v, ok := item[key]; ok {
				want[key] = v
			} else if v, ok := list.Defaults[key]; ok {
				want[key] = v
			}
		}
		p := path + keyString(list.Keys, want)
		if len(want) == 0 {
			p = path + "[" + strconv.Itoa(i) + "]"
		}
		var found map[string]any
		for _, c := range l {
			cm, ok := c.(map[string]any)
			if !ok {
				continue
			}
			match := true
			for key, v := range want {
				match = match && equal(cm[key], v)
			}
			if match {
				found = cm
				break
			}
		}
		if r, keep := w.value(item, toAny(found), found != nil, place+"/*", p); keep {
			out = append(out, r)
		}
	}
	return out, len(out) > 0 || len(m) == 0
}

func (w *walk) set(m, l []any, path string) (any, bool) {
	var out []any
	for _, v := range m {
		p := path + "[=" + display(v) + "]"
		if w.visit != nil {
			w.visit(p)
		}
		has := false
		for _, c := range l {
			has = has || equal(v, c)
		}
		if has || w.differ(p, v, nil, false) {
			out = append(out, v)
		}
	}
	return out, len(out) > 0 || len(m) == 0
}

// toAny keeps a nil map from becoming a non-nil interface.
func toAny(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// keyString writes the key of a list item as structured-merge-diff does.
func keyString(keys []string, fields map[string]any) string {
	var parts []string
	for _, k := range keys {
		if v, ok := fields[k]; ok {
			parts = append(parts, k+"="+display(v))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func display(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// escape makes a field name a step of a place, as in a JSON pointer.
func escape(name string) string {
	if !strings.ContainsAny(name, "~/*") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1", "*", "~2").Replace(name)
}

// hash is a short digest of a value; "" when there is none.
func hash(v any, has bool) string {
	if !has {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	sum := sha256.Sum256(data)
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}

// equal compares values of decoded JSON; numbers by value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, has := b[k]
			if !has || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case int64:
		if c, ok := b.(int64); ok {
			return a == c
		}
	case string:
		c, ok := b.(string)
		return ok && a == c
	case bool:
		c, ok := b.(bool)
		return ok && a == c
	case nil:
		return b == nil
	}
	x, xok := number(a)
	y, yok := number(b)
	return xok && yok && x == y
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// Equal compares two values of decoded JSON; numbers by value.
func Equal(a, b any) bool { return equal(a, b) }

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
