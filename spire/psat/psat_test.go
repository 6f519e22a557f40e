package psat

import (
	"fmt"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
)

// What is written is what the server's decoder reads: none, one and many nodes,
// and paths that a format has a meaning for.
func TestTheServerReadsWhatIsMeant(t *testing.T) {
	var many []handoff.Identity
	for i := range 300 {
		many = append(many, handoff.Identity{Namespace: fmt.Sprintf("ns%d", i%7), Node: fmt.Sprintf("node-%d", i)})
	}
	for _, dir := range []string{"/var/lib/yuba-spire", "/a b/ü", `/a"b\c`, "/${HOME}/%s", "/a\nb"} {
		for _, nodes := range [][]handoff.Identity{nil, many[:1], many[:2], many} {
			data, err := Render(dir, nodes)
			if err != nil {
				t.Errorf("%q, %d nodes: %v", dir, len(nodes), err)
				continue
			}
			got, err := Parse(data)
			if err != nil || len(got) != len(nodes) {
				t.Errorf("%q: %d clusters, want %d: %v", dir, len(got), len(nodes), err)
			}
			for _, id := range nodes {
				c := got[id.Cluster()]
				if c == nil || len(c.ServiceAccountAllowList) != 1 || c.ServiceAccountAllowList[0] != id.AllowListed() ||
					c.KubeConfigFile != dir+"/"+id.Namespace+".kubeconfig" || len(*c.Audience) != 1 {
					t.Errorf("%s: %+v", id, c)
				}
			}
		}
	}
}

func TestRefused(t *testing.T) {
	if _, err := Render("relative", nil); err == nil {
		t.Error("a relative path is taken")
	}
	if _, err := Render("/d", []handoff.Identity{{Namespace: "a", Node: "b-c"}, {Namespace: "a-b", Node: "c"}}); err == nil {
		t.Error("two nodes with one cluster are taken")
	}
	for _, data := range []string{`clusters = {`, `{"clusters":{"a":{"kube_config_file":"/x"}}}`, `{"clusters":{"a":{"service_account_allow_list":{"x":"y"}}}}`} {
		if _, err := Parse([]byte(data)); err == nil {
			t.Errorf("%s is taken", data)
		}
	}
}
