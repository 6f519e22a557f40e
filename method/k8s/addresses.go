package k8s

import "strings"

// Addresses returns the addresses in the graph of what a deploy waits for: the
// rollout of a node by "<namespace>/<node>", its image by the reference that
// is pushed, "<repository>:<tag>".
func (g *Group) Addresses(env Env) (map[string]string, error) {
	namespace, targets, err := g.targets(env)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, t := range targets {
		out[namespace+"/"+t.Name] = strings.Join(t.rolloutAddr(), ".")
		out[t.repository+":"+t.Tag] = `oci_image.node["` + t.Name + `"]`
	}
	return out, nil
}
