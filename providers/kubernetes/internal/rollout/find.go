package rollout

import "fediversity.eu/yuba/providers/kubernetes/internal/field"

// condition finds a condition by type, nil when there is none.
func condition(o Object, kind string) Object {
	for _, c := range field.List(o, "status", "conditions") {
		if field.String(c, "type") == kind {
			return c
		}
	}
	return nil
}

// Controller is the uid of the object's controller, "" when it has none.
func Controller(o Object) string {
	for _, ref := range field.List(o, "metadata", "ownerReferences") {
		if field.Bool(ref, "controller") {
			return field.String(ref, "uid")
		}
	}
	return ""
}

// About is the uid of the object that an event is about.
func About(event Object) string { return field.String(event, "involvedObject", "uid") }

// ownedBy keeps the objects whose controller has the uid.
func ownedBy(objects []Object, uid string) []Object {
	var out []Object
	for _, o := range objects {
		if uid != "" && Controller(o) == uid {
			out = append(out, o)
		}
	}
	return out
}
