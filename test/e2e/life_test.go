package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// changed are the addresses that a plan's JSON stream says it will change.
func changed(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(stream) {
		var m struct {
			Type   string
			Change struct {
				Action   string
				Resource struct{ Addr string }
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("no line of OpenTofu's stream: %q: %v", line, err)
		}
		if m.Type == "planned_change" {
			out = append(out, m.Change.Resource.Addr)
		}
	}
	slices.Sort(out)
	return out
}

// The whole life of a group, as the specification's user stories tell it.
func TestGroupLivesAndDies(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	web := func(content string) world.Node { return world.Node{Name: "web", Image: lab.Image{Content: content}} }
	db := world.Node{Name: "db", Image: lab.Image{Content: "db1"}}

	w.Group(web("one"), db)
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
	w.Unchanged()
	w.Must(0, "k8s", "apply", "-auto-approve")

	// SC-001: every node runs as a ready pod, from its image by digest.
	for _, n := range []string{"web", "db"} {
		image := w.Get("deployment/"+n, world.ImagePath)
		if !strings.HasPrefix(image, w.Lab.Registry+"/"+w.Namespace+"/"+n+"@sha256:") {
			t.Errorf("%s runs %s: not the image by its digest", n, image)
		}
		if ready := w.Get("deployment/"+n, ".status.readyReplicas"); ready != "1" {
			t.Errorf("%s has %q ready pods", n, ready)
		}
	}
	if id := [2]string{w.Get("deployment/web", uuidPath), w.Get("deployment/db", uuidPath)}; id[0] == "" || id[0] == id[1] {
		t.Errorf("the nodes' machine ids are %q: not one for each", id)
	}

	// SC-002: then there is nothing to do, and doing it restarts no pod.
	r := w.Must(0, "k8s", "plan", "-detailed-exitcode")
	if !strings.Contains(r.Stdout, "No changes.") {
		t.Errorf("the plan after an apply: %v", r)
	}
	pods := func() string { return w.Get("pods", ".items[*].metadata.uid") }
	before := pods()
	w.Must(0, "k8s", "apply", "-auto-approve")
	if after := pods(); after != before {
		t.Errorf("an apply of nothing replaced pods: %s, then %s", before, after)
	}

	// One changed node: only its image, Deployment and rollout change.
	claim, machine := w.Get("pvc/web-state", ".metadata.uid"), w.Get("deployment/web", uuidPath)
	dbPod := w.Get("pods", `.items[?(@.metadata.labels.app\.kubernetes\.io/name=="db")].metadata.uid`)
	w.Group(web("two"), db)
	r = w.Must(0, "k8s", "plan", "-json")
	want := []string{"kubernetes_object.deployment_web", "kubernetes_rollout.node_web", `oci_image.node["web"]`}
	if got := changed(t, r.Stdout); !slices.Equal(got, want) {
		t.Errorf("one node changed; the plan changes %q, want %q", got, want)
	}
	one := w.Get("deployment/web", world.ImagePath)
	w.Must(0, "k8s", "apply", "-auto-approve")
	two := w.Get("deployment/web", world.ImagePath)
	if one == two {
		t.Error("the changed node runs its old image")
	}
	if got := w.Get("pods", `.items[?(@.metadata.labels.app\.kubernetes\.io/name=="db")].metadata.uid`); got != dbPod || got == "" {
		t.Errorf("the other node's pod was %q and is %q", dbPod, got)
	}

	// User story 2: what never gets ready is set back, and that is a failure.
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: "never-ready"}}, db)
	w.Shorten()
	r = w.Must(1, "k8s", "apply", "-auto-approve")
	if !strings.Contains(r.Stderr, "web") || !strings.Contains(r.Stderr, "set back") {
		t.Errorf("the failure does not tell of the rollback: %v", r)
	}
	if got := w.Get("deployment/web", world.ImagePath); got != two {
		t.Errorf("after the rollback web runs %s, want %s", got, two)
	}
	if got := w.Get("deployment/web", ".status.readyReplicas"); got != "1" {
		t.Errorf("after the rollback web has %q ready pods", got)
	}
	if got := w.Get("pvc/web-state", ".metadata.uid"); got != claim {
		t.Errorf("the claim was %s and is %s", claim, got)
	}
	if got := w.Get("deployment/web", uuidPath); got != machine {
		t.Errorf("the machine id was %s and is %s", machine, got)
	}
	w.Free()
	// The plan shows what is still to do, and the next apply tries it again.
	r = w.Must(2, "k8s", "plan", "-detailed-exitcode")
	if !strings.Contains(r.Stdout, "kubernetes_rollout.node_web") {
		t.Errorf("the plan after a rollback does not show the rollout: %v", r)
	}
	w.Must(1, "k8s", "apply", "-auto-approve")
	if got := w.Get("deployment/web", world.ImagePath); got != two {
		t.Errorf("after the second rollback web runs %s, want %s", got, two)
	}

	w.Group(web("three"), db)
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// FR-009: the names of the nodes are published.
	r = w.Must(0, "k8s", "output", "-json", "nodes")
	var names []string
	if err := json.Unmarshal([]byte(r.Stdout), &names); err != nil || !slices.Equal(names, []string{"db", "web"}) {
		t.Errorf("the output nodes is %s (%v)", r.Stdout, err)
	}
	if got := w.Must(0, "k8s", "nodes").Stdout; got != "db\nweb\n" && got != "web\ndb\n" {
		t.Errorf("k8s nodes prints %q", got)
	}

	// A node leaves: its claim goes, too.
	w.Group(web("three"))
	w.Must(0, "k8s", "apply", "-auto-approve")
	if got := w.Kubectl("get", "deployment,pvc", "-n", w.Namespace, "-o", "name"); got != "deployment.apps/web\npersistentvolumeclaim/web-state" {
		t.Errorf("after db left, there are:\n%s", got)
	}

	// User story 3.
	w.Must(0, "k8s", "plan", "-destroy", "-out=gone.plan")
	got := w.Must(0, "k8s", "show", "-no-color", "gone.plan").Stdout
	if want := `oci_image.node["web"] will be removed from the OpenTofu state`; !strings.Contains(got, want) {
		t.Errorf("the plan of a destroy does not say %q:\n%s", want, got)
	}
	w.Must(0, "k8s", "apply", "gone.plan")
	w.Unchanged()
	repository, digest, _ := strings.Cut(two, "@")
	if !lab.Exists(t, repository, digest) {
		t.Errorf("the image %s left the registry", two)
	}
	if got = w.Must(0, "state", "list").Stdout; got != "" {
		t.Errorf("the state still has:\n%s", got)
	}
}

const uuidPath = `.spec.template.spec.containers[0].env[?(@.name=="container_uuid")].value`
