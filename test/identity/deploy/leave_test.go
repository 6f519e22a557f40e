package deploy

import (
	"strings"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/lab"
)

// A group gives up its identities as docs/spire.md says: on the spire node, in
// the state, in the group file.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("web")

	h.Edit(func(g map[string]any) { delete(g, "spire") })
	h.says(h.Must(1, "k8s", "plan", "-no-color"), "No spire node", "yuba spire retire")
	retirement, err := handoff.Retirement{Namespace: h.Namespace}.Marshal()
	h.must(err)
	retire := h.World.Command("spire", "retire", "-dir="+h.path("drops"))
	retire.Stdin = strings.NewReader(string(retirement))
	h.must(retire.Run())
	h.handed()
	h.Must(0, "state", "rm", "spire_handoff.this", "spire_namespace.this")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.plans()
	if left := h.Kubectl("get", "serviceaccounts,roles,rolebindings", "-n", h.Namespace, "-o", "name"); left != "serviceaccount/default" {
		t.Errorf("the namespace has\n%s", left)
	}
	h.Must(0, "k8s", "destroy", "-auto-approve")
}
