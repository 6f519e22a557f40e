package kubernetes_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/lab"
)

// ready waits until the one pod of a Deployment is.
func (c *cluster) ready(name string) {
	c.t.Helper()
	c.lab.Kubectl(c.t, "rollout", "status", "-n", c.ns, "deployment/"+name, "--timeout=1m")
}

// pods gives the names of a Deployment's pods.
func (c *cluster) pods(name string) []string {
	c.t.Helper()
	return strings.Fields(c.lab.Kubectl(c.t, "get", "pods", "-n", c.ns, "-l", "app="+name, "-o", "jsonpath={.items[*].metadata.name}"))
}

// What somebody else deployed, and what was good, is the way back of the first
// rollout by us.
func TestAdoptedDeploymentIsSetBack(t *testing.T) {
	c := newCluster(t)
	theirs, good := c.push("theirs", lab.Image{}), c.push("good", lab.Image{})
	bad := c.push("bad", lab.Image{Behaviour: lab.ConfigError})
	m := c.deployment("web", theirs)
	m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"] = map[string]any{"kubernetes.io/os": "linux"}
	c.create(deployments, "kubectl-create", m)
	c.ready("web")
	n := c.node("web", "1m")
	n.force = true
	says(t, n.apply(bad), "failed", "set back", theirs, "ready again")
	n.runs(theirs)
	dep, roll := n.plan(bad)
	if dep.noop() || roll.noop() {
		t.Error("the next plan does not show what is still to do")
	}
	n.must(good)
	n.runs(good)
	n.quiet(good)
}

// What `kubectl rollout undo` did shows in the plan, is taken back, and is never
// taken for the last good template.
func TestRolloutUndo(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	one, two, bad := c.push("one", lab.Image{}), c.push("two", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.ConfigError})
	n.must(one)
	n.must(two)
	undo := func() {
		t.Helper()
		c.lab.Kubectl(t, "rollout", "undo", "-n", c.ns, "deployment/web")
		c.ready("web")
		n.runs(one)
	}
	undo()
	if dep, roll := n.plan(two); dep.noop() || roll.noop() {
		t.Error("the plan does not show it")
	}
	n.must(two)
	n.runs(two)
	n.quiet(two)
	undo()
	says(t, n.apply(bad), "failed", "set back", two, "ready again")
	n.runs(two)
	// Now it goes to the one that did not become ready, behind everyone's back.
	c.lab.Kubectl(t, "rollout", "undo", "-n", c.ns, "deployment/web")
	says(t, n.apply(bad), "failed", "set back", two, "ready again")
	n.must(two)
	n.runs(two)
	n.quiet(two)
}

// The way back needs no old ReplicaSet.
func TestPrunedReplicaSets(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	one, bad, worse := c.push("one", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.ConfigError}), c.push("worse", lab.Image{Behaviour: lab.ConfigError, Jobs: "x"})
	apply := func(image string) string {
		m := c.deployment("web", image)
		m["spec"].(map[string]any)["revisionHistoryLimit"] = 0
		w := c.walk()
		w.refresh(n.dep)
		w.refresh(n.roll)
		dep := w.plan(n.dep, with(m))
		roll := w.plan(n.roll, n.rolloutConfig(dep.attr(t, "uid"), dep.attr(t, "generation")))
		w = c.walk()
		w.apply(dep)
		return w.tryApply(context.Background(), roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	}
	if s := apply(one); s != "" {
		t.Fatal(s)
	}
	for _, image := range []string{bad, bad, worse} {
		says(t, apply(image), "failed", "set back", one, "ready again")
		n.runs(one)
	}
}

// A process that ends while it sets back leaves the way back gone, and the rest
// to the next apply. It is the same when it ends before it hears that it was.
func TestStoppedWhileSettingBack(t *testing.T) {
	for name, unheard := range map[string]bool{"heard": false, "unheard": true} {
		t.Run(name, func(t *testing.T) {
			back := make(chan struct{})
			var once, withheld sync.Once
			c := newCluster(t, kubernetes.WithProgress(func(_, _, m string) {
				if strings.HasPrefix(m, "setting back") {
					once.Do(func() { close(back) })
				}
			}), kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					resp, err := rt.RoundTrip(r)
					select {
					case <-back:
						if unheard && err == nil && r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/web") {
							withheld.Do(func() {
								resp.Body.Close()
								<-r.Context().Done()
								resp, err = nil, r.Context().Err()
							})
						}
					default:
					}
					return resp, err
				})
			}))
			n := c.node("web", "1m")
			one, two := c.push("one", lab.Image{}), c.push("two", lab.Image{})
			bad := c.push("bad", lab.Image{Behaviour: lab.ConfigError})
			n.must(one)
			c.put(n.dep, with(c.deployment("web", bad)))
			w := c.walk()
			p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
			go func() {
				<-back
				// The Deployment has been set back once its old image is there.
				eventually(t, "it is set back", func() bool { return n.image() == one })
				w.server.StopProvider(context.Background(), &tfprotov6.StopProviderRequest{})
			}()
			// It may have become ready in that moment.
			says(t, w.tryApply(context.Background(), p), "failed", "CreateContainerConfigError", "was set back", one)
			c.ready("web")
			if dep, roll := n.plan(bad); dep.noop() || roll.noop() {
				t.Error("the next plan does not show what is still to do")
			}
			says(t, n.apply(bad), "failed", "set back", one, "ready again")
			n.must(two)
			n.runs(two)
			n.quiet(two)
		})
	}
}

// Of several nodes each gets a verdict of its own, and none waits for another.
func TestVerdictOfEachNode(t *testing.T) {
	c := newCluster(t)
	good := c.push("good", lab.Image{})
	nodes := map[string]*node{}
	for _, name := range []string{"fine", "crash", "image", "first"} {
		nodes[name] = c.node(name, "1m")
		if name != "first" {
			nodes[name].must(good)
		}
	}
	to := map[string]string{
		"fine": c.push("fine", lab.Image{}), "crash": c.push("crash", lab.Image{Behaviour: lab.CrashLoop, Log: "starting\n\x1b[31mout of cheese\x1b[0m"}),
		"image": c.lab.Registry + "/" + c.ns + "/none@sha256:" + strings.Repeat("0", 64), "first": c.push("first", lab.Image{Behaviour: lab.ConfigError}),
	}
	plan, apply := c.walk(), c.walk()
	type result struct{ name, text string }
	results := make(chan result)
	for name, n := range nodes {
		dep := plan.plan(n.dep, with(c.deployment(name, to[name])))
		roll := plan.plan(n.roll, n.rolloutConfig(dep.attr(t, "uid"), dep.attr(t, "generation")))
		go func() {
			s := apply.tryApply(context.Background(), dep)
			if s == "" {
				s = apply.tryApply(context.Background(), roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
			}
			results <- result{name, s}
		}()
	}
	got := map[string]string{}
	for range nodes {
		r := <-results
		got[r.name] = r.text
	}
	if got["fine"] != "" {
		t.Error(got["fine"])
	}
	says(t, got["crash"], "/crash failed", "CrashLoopBackOff: container node ended", "last with exit code 1", "last lines of container node, before it ended:",
		"  out of cheese\n", "does not heal by itself", "set back", good, "ready again")
	says(t, got["image"], "/image failed", "the registry has no image", "set back", good, "ready again")
	says(t, got["first"], "/first failed", "CreateContainerConfigError", "no previous image")
	nodes["fine"].runs(to["fine"])
	nodes["crash"].runs(good)
	list, err := c.other.Resource(revisions).Namespace(c.ns).List(context.Background(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 3 {
		t.Errorf("%d records of good templates", len(list.Items))
	}
}
