package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/lab"
)

// Without a pod an image has shown nothing: it is neither complete nor the way
// back, and no node without a pod is said to be ready.
func TestScaledToNothing(t *testing.T) {
	waiting := when("running, not ready")
	c := newCluster(t, kubernetes.WithProgress(waiting.listen))
	n := c.node("web", "1m")
	good, bad := c.push("good", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.NeverReady})
	scale := func(pods string) { c.lab.Kubectl(t, "scale", "-n", c.ns, "deployment/web", "--replicas="+pods) }
	n.must(good)
	go func() {
		<-waiting.came
		scale("0")
	}()
	says(t, n.apply(bad), "failed", "0/0 ready: somebody scaled it to 0 pods", "scale it to 1", "given up after 1s", "was set back", good, "asks for no pod")
	if s := c.status("web"); s.LastGood != good {
		t.Errorf("the last good image is %s", s.LastGood)
	}
	if err := c.operator().Await(context.Background(), c.ns, "web", time.Minute); err == nil || !strings.Contains(err.Error(), "somebody scaled it to 0 pods") {
		t.Errorf("the rollback of a node without a pod: %v", err)
	}
	if dep, roll := n.plan(bad); dep.noop() || roll.noop() {
		t.Error("the next plan does not show what is still to do")
	}
	n.must(good)
	n.runs(good)
	n.quiet(good)
}

// A manifest that asks for no pod has what it asks for. It leaves no image to go
// back to.
func TestNoPodWanted(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	m := c.deployment("web", c.push("one", lab.Image{}))
	m["spec"].(map[string]any)["replicas"] = 0
	c.put(n.dep, with(m))
	// What others change besides is a new generation, and makes no difference.
	c.patch(deployments, "web", "kubectl-edit", "merge", `{"spec":{"minReadySeconds":1}}`)
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
	if _, _, err := c.operator().LastGood(context.Background(), c.ns, "web"); err == nil || !strings.Contains(err.Error(), "no last good image") {
		t.Errorf("what never ran is the last good image: %v", err)
	}
}

// A Deployment that others have made and that runs is the way back however it
// came into state: imported, or made anew under its name.
func TestOthersDeploymentInState(t *testing.T) {
	c := newCluster(t)
	theirs, bad := c.push("theirs", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.ConfigError})
	for name, take := range map[string]func(*node){
		"imported": func(n *node) {
			c.create(deployments, "kubectl-create", c.deployment(n.name, theirs))
			c.ready(n.name)
			i, s := c.walk().importID("kubernetes_object", "apiVersion=apps/v1,kind=Deployment,namespace="+c.ns+",name="+n.name)
			if s != "" {
				t.Fatal(s)
			}
			n.dep = i
		},
		"made-anew": func(n *node) {
			n.must(c.push("ours", lab.Image{}))
			c.lab.Kubectl(t, "delete", "-n", c.ns, "deployment/"+n.name)
			c.create(deployments, "kubectl-create", c.deployment(n.name, theirs))
			c.ready(n.name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.node(name, "1m")
			n.force = true
			take(n)
			// The operator's way back needs nothing of ours in it either.
			if _, _, err := c.operator().LastGood(context.Background(), c.ns, name); err == nil || !strings.Contains(err.Error(), "no last good image") {
				t.Errorf("somebody else's Deployment has a last good image: %v", err)
			}
			says(t, n.apply(bad), "failed", "CreateContainerConfigError", "was set back", theirs, "ready again")
			n.runs(theirs)
		})
	}
}

// What became ready while nobody waited for it was good, also when not even state
// has heard of it.
func TestKilledInTheFirstRollout(t *testing.T) {
	c := newCluster(t)
	good, bad := c.push("good", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.ConfigError})
	c.put(object(), with(c.deployment("web", good))) // killed before state was saved
	c.ready("web")
	n := c.node("web", "1m")
	says(t, n.apply(bad), "failed", "was set back", good, "ready again")
	n.runs(good)
}

// What nobody could look at is neither complete nor set back.
func TestRolloutThatNobodyCouldSee(t *testing.T) {
	var blind atomic.Bool
	c := newCluster(t, kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !blind.Load() || !strings.HasSuffix(r.URL.Path, "/pods") {
				return rt.RoundTrip(r)
			}
			const no = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods is forbidden: no","reason":"Forbidden","code":403}`
			return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Body: io.NopCloser(strings.NewReader(no)), Request: r}, nil
		})
	}))
	n := c.node("web", "1m")
	one, two := c.push("one", lab.Image{}), c.push("two", lab.Image{})
	n.must(one)
	blind.Store(true)
	says(t, n.apply(two), "It is not known whether the rollout", "is complete", "pods is forbidden", "Nothing was set back, because nobody could look", "next apply waits for it again")
	blind.Store(false)
	c.ready("web")
	n.runs(two)
	n.must(two)
	n.quiet(two)
}
