package k8s

import "strings"

// Addresses returns the addresses in the graph of what a deploy waits for: the
// rollout of a node by "<namespace>/<node>", its image by the reference that
// is pushed, "<repository>:<tag>".
func (g *Group) Addresses(env Env) (map[string]string, error) {
	namespace, err := g.Namespace(env)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, n := range g.EnabledNodes() {
		repo, err := repository(env, namespace, n.Name)
		if err != nil {
			return nil, err
		}
		t := target{Node: n, group: g, namespace: namespace, repository: repo}
		out[namespace+"/"+n.Name] = strings.Join(t.rolloutAddr(), ".")
		out[repo+":"+n.Tag] = `oci_image.node["` + n.Name + `"]`
	}
	return out, nil
}
