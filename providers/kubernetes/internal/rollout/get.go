package rollout

// The getters read decoded JSON; what is missing or of another type is zero.

func obj(o Object, path ...string) Object {
	for _, p := range path {
		o, _ = o[p].(Object)
	}
	return o
}

func str(o Object, path ...string) string {
	last := len(path) - 1
	s, _ := obj(o, path[:last]...)[path[last]].(string)
	return s
}

func num(o Object, path ...string) int64 {
	last := len(path) - 1
	switch n := obj(o, path[:last]...)[path[last]].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func boolean(o Object, path ...string) bool {
	last := len(path) - 1
	b, _ := obj(o, path[:last]...)[path[last]].(bool)
	return b
}

func list(o Object, path ...string) []Object {
	last := len(path) - 1
	l, _ := obj(o, path[:last]...)[path[last]].([]any)
	out := make([]Object, 0, len(l))
	for _, it := range l {
		if m, ok := it.(Object); ok {
			out = append(out, m)
		}
	}
	return out
}

// condition finds a condition by type, nil when there is none.
func condition(o Object, kind string) Object {
	for _, c := range list(o, "status", "conditions") {
		if str(c, "type") == kind {
			return c
		}
	}
	return nil
}

// ownedBy keeps the objects whose controller has the uid.
func ownedBy(objects []Object, uid string) []Object {
	var out []Object
	for _, o := range objects {
		for _, ref := range list(o, "metadata", "ownerReferences") {
			if boolean(ref, "controller") && str(ref, "uid") == uid {
				out = append(out, o)
			}
		}
	}
	return out
}
