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

// ownedBy keeps the objects whose controller has the uid.
func ownedBy(objects []Object, uid string) []Object {
	var out []Object
	for _, o := range objects {
		for _, ref := range field.List(o, "metadata", "ownerReferences") {
			if field.Bool(ref, "controller") && field.String(ref, "uid") == uid {
				out = append(out, o)
			}
		}
	}
	return out
}
