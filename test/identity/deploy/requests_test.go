package deploy

import (
	"slices"
	"testing"

	"fediversity.eu/yuba/test/lab"
)

// A plan of nothing asks the API server once for each kind of object in the
// namespace and each object outside of it, and the spire node once, however many
// nodes there are.
func TestRequestsOfANoOpPlanDoNotGrowWithTheGroup(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.Env["K8S_SPIRE_API_SERVER"] = h.Lab.Server // the counter has no TLS
	requests := h.CountRequests()
	deploy := func(names ...string) []string {
		h.group(names...)
		h.Must(0, "k8s", "apply", "-auto-approve")
		requests.Reset()
		connections := h.door.Connections()
		h.Must(0, "k8s", "plan", "-detailed-exitcode")
		if n := h.door.Connections() - connections; n != 1 {
			t.Errorf("the plan makes %d connections to the spire node", n)
		}
		list := requests.List()
		slices.Sort(list)
		return list
	}
	one, four := deploy("a"), deploy("a", "b", "c", "d")
	if !slices.Equal(one, four) {
		t.Errorf("the plan of one node asks\n%q\nof four\n%q", one, four)
	}
	// RuntimeClass, Namespace, ClusterRole, ClusterRoleBinding; Deployments, claims,
	// policies, service accounts, ConfigMaps, Roles, RoleBindings.
	if len(four) != 11 {
		t.Errorf("the plan asks %d times: %q", len(four), four)
	}
	h.Must(0, "k8s", "destroy", "-auto-approve")
}
