package e2e

import (
	"fmt"
	"slices"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// A plan of nothing asks the API server once for each kind, however many
// objects there are.
func TestRequestsOfANoOpPlanDoNotGrowWithTheGroup(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	requests := w.CountRequests()
	deploy := func(n int) []string {
		var nodes []world.Node
		for i := range n {
			nodes = append(nodes, world.Node{Name: fmt.Sprintf("n%d", i), Image: lab.Image{Content: "one"}})
		}
		w.Group(nodes...)
		w.Must(0, "k8s", "apply", "-auto-approve")
		requests.Reset()
		w.Must(0, "k8s", "plan", "-detailed-exitcode")
		list := requests.List()
		slices.Sort(list)
		return list
	}
	one, five := deploy(1), deploy(5)
	if !slices.Equal(one, five) {
		t.Errorf("the plan of one node asks\n%q\nof five\n%q", one, five)
	}
	if len(five) > 8 {
		t.Errorf("the plan asks %d times: %q", len(five), five)
	}
}
