package rollout

import (
	"slices"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// Ref names an object outside of what a rollout follows all the time.
type Ref struct {
	Kind string // PersistentVolumeClaim, StorageClass or Node
	Name string
}

// Needs gives the objects that would explain why a pod of the Deployment is not
// ready, or does not end. Most rollouts need none. What is known of some of them
// may show that there are more, so that it should be asked again with them.
func Needs(s Snapshot) []Ref {
	var refs []Ref
	add := func(kind, name string) {
		if r := (Ref{kind, name}); name != "" && !slices.Contains(refs, r) {
			refs = append(refs, r)
		}
	}
	sets := ownedBy(s.ReplicaSets, field.String(s.Deployment, "metadata", "uid"))
	for _, rs := range sets {
		for _, p := range ownedBy(s.Pods, field.String(rs, "metadata", "uid")) {
			phase := field.String(p, "status", "phase")
			switch {
			case phase == "Failed" || phase == "Succeeded" || field.String(condition(p, "Ready"), "status") == "True" && field.String(p, "metadata", "deletionTimestamp") == "":
			case field.String(condition(p, "PodScheduled"), "status") == "False" || binding(p):
				for _, claim := range claimsOf(p) {
					add("PersistentVolumeClaim", claim)
					c := s.Related[Ref{"PersistentVolumeClaim", claim}]
					if field.String(c, "status", "phase") != "Bound" {
						add("StorageClass", field.String(c, "spec", "storageClassName"))
					}
				}
			default:
				add("Node", field.String(p, "spec", "nodeName"))
			}
		}
	}
	return refs
}
