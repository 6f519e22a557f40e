// Package field reads fields of Kubernetes objects as decoded JSON. What is
// missing or of another type is zero.
package field

// Object is a Kubernetes object, or a part of one, as decoded JSON.
type Object = map[string]any

// Map is the object at a path; nil when there is none.
func Map(o Object, path ...string) Object {
	for _, p := range path {
		o, _ = o[p].(Object)
	}
	return o
}

// String is the string at a path.
func String(o Object, path ...string) string {
	s, _ := at(o, path).(string)
	return s
}

// Int is the number at a path, without its fraction.
func Int(o Object, path ...string) int64 {
	switch n := at(o, path).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// Bool is the truth value at a path.
func Bool(o Object, path ...string) bool {
	b, _ := at(o, path).(bool)
	return b
}

// List gives the objects of the list at a path, without what is none.
func List(o Object, path ...string) []Object {
	l, _ := at(o, path).([]any)
	out := make([]Object, 0, len(l))
	for _, it := range l {
		if m, ok := it.(Object); ok {
			out = append(out, m)
		}
	}
	return out
}

func at(o Object, path []string) any {
	last := len(path) - 1
	return Map(o, path[:last]...)[path[last]]
}
