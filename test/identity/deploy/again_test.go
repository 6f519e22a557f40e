package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// A node that the spire node refuses costs no other node its identity: not when
// it is refused, and not when the apply is made again, however often.
func TestARefusedNodeCostsNobodyTheirIdentity(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("web")
	web := h.agent("web")
	web.UntilSVID(t, h.id("web").HostID(h.server.TrustDomain))

	// Node c of namespace NS-b has the identity that node b-c of namespace NS would have.
	other := h.Namespace + "-b"
	h.must(drop.Receive(t.Context(), h.path("drops"), handoff.Handoff{Namespace: other, Kubeconfig: h.read("drops/" + h.Namespace + ".kubeconfig"), Nodes: []string{"c"}}))
	before, joined := h.dropTimes(), h.joinTimes()
	h.group("web", "b-c")
	for range 3 {
		h.says(h.Must(1, "k8s", "apply", "-auto-approve"), "The spire node has not taken the hand-off", other)
		if got := h.dropTimes(); got != before {
			t.Fatalf("a refused hand-off left of\n%s\nthis:\n%s", before, got)
		}
	}
	h.must(drop.Retire(t.Context(), h.path("drops"), other))
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("b-c", "web")
	for id, serial := range joined {
		if h.joinTimes()[id] != serial || web.Ended() {
			t.Errorf("the agent %s had to attest anew", id)
		}
	}
	h.plans()

	// The drop directory is lost on the same machine: the way back that docs/spire.md tells.
	h.must(drop.Retire(t.Context(), h.path("drops"), h.Namespace))
	h.handed()
	h.plans()
	h.Must(0, "k8s", "apply", "-auto-approve", "-replace=spire_handoff.this")
	h.handed("b-c", "web")
	h.Must(0, "k8s", "destroy", "-auto-approve")
	h.handed()
}

// A hand-off is replaced, and the apply fails before the new one is given. The
// nodes have their identities until the destroy that comes next, which takes
// them back.
func TestADestroyInTheMiddleOfAReplacement(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	h.Must(0, "k8s", "apply", "-auto-approve")
	h.handed("web")
	before := h.dropTimes()

	data, err := os.ReadFile(lab.Archive(t, lab.Image{Content: "two"}))
	h.must(err)
	archive := filepath.Join(h.Dir, "db.tar")
	h.must(os.WriteFile(archive, data, 0o600))
	h.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}}, world.Node{Name: "db", Tag: "two", Archive: archive})
	h.Edit(func(g map[string]any) { g["spire"] = h.spire })
	h.Must(2, "k8s", "plan", "-detailed-exitcode", "-out=group.plan")
	h.must(os.Remove(archive))
	h.says(h.Must(1, "k8s", "apply", "group.plan"), "db.tar")
	if left := h.Must(0, "state", "list").Stdout; strings.Contains(left, "spire_handoff") {
		t.Fatalf("the apply did not end in the middle of the replacement; the state has\n%s", left)
	}
	if got := h.dropTimes(); got != before {
		t.Errorf("an apply that failed before the hand-off left of\n%s\nthis:\n%s", before, got)
	}
	h.handed("web")
	h.Must(0, "k8s", "destroy", "-auto-approve")
	h.handed()
}

// A first apply that is killed while it hands over, and then a destroy: the
// spire node keeps nothing.
func TestADestroyAfterAKilledFirstHandoff(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	right := h.spire["command"].(string)
	given := h.path("given")
	h.spire["command"] = h.door.Script(t, "slow", fmt.Sprintf("%s \"$@\" || exit\n[ $2 != receive ] || { touch %s; exec sleep 600; }\n", right, given))
	h.group("web")
	cmd := h.Command("k8s", "apply", "-auto-approve")
	h.must(cmd.Start())
	lab.Eventually(t, "hand-off", func() error {
		_, err := os.Stat(given)
		return err
	})
	h.must(cmd.Process.Kill())
	cmd.Wait()
	h.handed("web")
	h.spire["command"] = right
	h.group("web")
	h.Must(0, "force-unlock", "-force", h.Holder())
	h.Must(0, "k8s", "destroy", "-auto-approve")
	h.handed()
	h.Unchanged()
}
