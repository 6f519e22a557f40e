package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fediversity.eu/yuba/providers/kubernetes"
)

// node is a Deployment with its rollout, as the method has them.
type node struct {
	c       *cluster
	name    string
	timeout string
	force   bool // take fields from other managers
	dep     *instance
	roll    *instance
}

func (c *cluster) node(name, timeout string) *node {
	return &node{c: c, name: name, timeout: timeout, dep: object(), roll: &instance{kind: "kubernetes_rollout"}}
}

// rolloutConfig takes uid and generation from the planned or applied object.
func (n *node) rolloutConfig(uid, generation any) map[string]any {
	return map[string]any{"namespace": n.c.ns, "name": n.name, "uid": uid, "generation": generation, "timeout": n.timeout}
}

// plan refreshes and plans both.
func (n *node) plan(image string) (dep, roll *change) {
	n.c.t.Helper()
	w := n.c.walk()
	w.refresh(n.dep)
	w.refresh(n.roll)
	more := map[string]any{}
	if n.force {
		more["force_conflicts"] = true
	}
	dep = w.plan(n.dep, with(n.c.deployment(n.name, image), more))
	roll = w.plan(n.roll, n.rolloutConfig(dep.attr(n.c.t, "uid"), dep.attr(n.c.t, "generation")))
	return dep, roll
}

// apply deploys an image; the text is the error.
func (n *node) apply(image string) string {
	n.c.t.Helper()
	dep, roll := n.plan(image)
	w := n.c.walk()
	if s := w.tryApply(context.Background(), dep); s != "" {
		return s
	}
	if roll.noop() {
		return ""
	}
	return w.tryApply(context.Background(), roll, n.rolloutConfig(n.dep.attr(n.c.t, "uid"), n.dep.attr(n.c.t, "generation")))
}

func (n *node) must(image string) {
	n.c.t.Helper()
	if s := n.apply(image); s != "" {
		n.c.t.Fatal(s)
	}
}

// quiet says that a plan shows no change.
func (n *node) quiet(image string) {
	n.c.t.Helper()
	dep, roll := n.plan(image)
	if !dep.noop() || !roll.noop() {
		n.c.t.Errorf("a plan shows changes: deployment %v, rollout %v", !dep.noop(), !roll.noop())
	}
}

// runs checks what the cluster runs.
func (n *node) runs(image string) {
	n.c.t.Helper()
	if got := n.image(); got != image {
		n.c.t.Errorf("the Deployment has %s", got)
	}
	list, err := n.c.other.Resource(pods).Namespace(n.c.ns).List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + n.name})
	must(n.c.t, err)
	if len(list.Items) != 1 {
		n.c.t.Fatalf("%d pods", len(list.Items))
	}
	containers, _, _ := unstructured.NestedSlice(list.Items[0].Object, "spec", "containers")
	if got := containers[0].(map[string]any)["image"]; got != image {
		n.c.t.Errorf("the pod has %v", got)
	}
	conds, _, _ := unstructured.NestedSlice(list.Items[0].Object, "status", "conditions")
	for _, c := range conds {
		if m := c.(map[string]any); m["type"] == "Ready" && m["status"] != "True" {
			n.c.t.Error("the pod is not ready")
		}
	}
}

func (n *node) image() string {
	n.c.t.Helper()
	containers, _, _ := unstructured.NestedSlice(n.c.get(deployments, n.name).Object, "spec", "template", "spec", "containers")
	s, _ := containers[0].(map[string]any)["image"].(string)
	return s
}

// says checks that a text has some words, in this order.
func says(t *testing.T, got string, wants ...string) {
	t.Helper()
	t.Log(got)
	at := 0
	for _, want := range wants {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Errorf("it lacks %q, in this order", want)
			return
		}
		at += i
	}
}

// The whole life: a good deploy, a change, one that never becomes ready and is
// set back, twice, and a good one again.
func TestRolloutAndTheWayBack(t *testing.T) {
	var mu sync.Mutex
	var said []string
	c := newCluster(t, kubernetes.WithProgress(func(ns, name, m string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, ns+"/"+name+": "+m)
	}))
	n := c.node("web", "1m")
	one, two, bad := c.image("one", "ready"), c.image("two", "ready"), c.image("bad", "never-ready")
	n.must(one)
	n.runs(one)
	n.quiet(one)
	n.must(two)
	n.runs(two)
	n.quiet(two)
	mu.Lock()
	if len(said) == 0 || !strings.Contains(strings.Join(said, "\n"), c.ns+"/web: 0/1 ready") || !strings.Contains(strings.Join(said, "\n"), "1/1 ready") {
		t.Errorf("progress: %v", said)
	}
	mu.Unlock()
	list, err := c.other.Resource(revisions).Namespace(c.ns).List(context.Background(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 {
		t.Errorf("%d records of the last good template", len(list.Items))
	}

	n.timeout = "12s"
	for range 2 {
		s := n.apply(bad)
		says(t, s, "not complete within 12s", "not ready", "set back to the last image", two, "ready again")
		n.runs(two)
		// The plan shows what is still to do: the image, and the rollout.
		dep, roll := n.plan(bad)
		if dep.noop() || roll.noop() {
			t.Errorf("the next plan: deployment changes %v, rollout changes %v", !dep.noop(), !roll.noop())
		}
		if !strings.Contains(n.dep.attr(t, "manifest").String(), two) {
			t.Error("the plan does not show the image that runs")
		}
	}
	// Going back to the good image is one apply too.
	n.timeout = "1m"
	n.must(two)
	n.quiet(two)
	n.must(one)
	n.runs(one)
	n.quiet(one)
	if s := c.walk().tryDestroy(context.Background(), n.roll); s != "" {
		t.Error(s)
	}
	if s := c.walk().tryDestroy(context.Background(), n.dep); s != "" {
		t.Error(s)
	}
	eventually(t, "the record goes with its Deployment", func() bool {
		list, err := c.other.Resource(revisions).Namespace(c.ns).List(context.Background(), metav1.ListOptions{})
		must(t, err)
		return len(list.Items) == 0
	})
}

func TestFirstDeployThatFails(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "6s")
	bad, good := c.image("bad", "never-ready"), c.image("good", "ready")
	says(t, n.apply(bad), "not complete within 6s", "there is no previous image to set back", bad)
	if n.roll.exists() {
		t.Error("the failed rollout is in state")
	}
	if n.image() != bad {
		t.Error("the Deployment was changed")
	}
	_, roll := n.plan(bad)
	if roll.noop() {
		t.Error("the next plan does not show the rollout")
	}
	n.timeout = "1m"
	n.must(good)
	n.quiet(good)
}

// Reasons that don't heal by themselves don't take the operator's whole time.
func TestEarlyFailures(t *testing.T) {
	c := newCluster(t)
	good := c.image("good", "ready")
	for name, tt := range map[string]struct {
		image string
		want  string
	}{
		"crash-loop":   {c.image("crash", "crash-loop"), "CrashLoopBackOff"},
		"config-error": {c.image("config", "config-error"), "CreateContainerConfigError"},
		"no-image":     {c.lab.Registry + "/" + c.ns + "/none@sha256:" + strings.Repeat("0", 64), "Pull"},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.node(name, "2m")
			n.must(good)
			s := n.apply(tt.image)
			says(t, s, "The rollout of "+c.ns+"/"+name+" failed", tt.want, "set back", good, "ready again")
			n.runs(good)
		})
	}
}

// A pod that no node takes may find one: the operator's time rules, and the
// error has the scheduler's words.
func TestUnschedulable(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "6s")
	m := c.deployment("web", c.image("good", "ready"))
	m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{"requests": map[string]any{"cpu": "100000"}}
	c.put(n.dep, with(m))
	w := c.walk()
	p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	says(t, w.tryApply(context.Background(), p), "not complete within 6s", "Unschedulable", "no previous image")
}

// A process that was killed after the Deployment was applied leaves the
// rollout to do; so does one that was killed before state was saved.
func TestKilledBetweenApplyAndVerdict(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	one, two, three, bad := c.image("one", "ready"), c.image("two", "ready"), c.image("three", "ready"), c.image("bad", "config-error")
	n.must(one)
	c.put(n.dep, with(c.deployment("web", two))) // killed here
	_, roll := n.plan(two)
	if roll.noop() {
		t.Error("the rollout is not to do any more")
	}
	n.must(two)
	n.quiet(two)

	unsaved := *n.dep
	c.put(&unsaved, with(c.deployment("web", three))) // killed before state was saved
	_, roll = n.plan(three)
	if roll.noop() {
		t.Error("the rollout is not to do any more")
	}
	n.must(three)
	n.runs(three)
	n.quiet(three)

	// Killed between the moment in which it was ready and the verdict: it was
	// good all the same, and what ran by hand was not.
	four := c.image("four", "ready")
	c.put(n.dep, with(c.deployment("web", four)))
	c.ready("web")
	says(t, n.apply(bad), "failed", "set back", four)
	n.runs(four)
	n.must(three)

	c.put(n.dep, with(c.deployment("web", bad))) // killed while a bad one was waited for
	says(t, n.apply(bad), "failed", "set back", three)
	n.runs(three)
}

// What somebody set by hand shows in the plan, is taken back, and never counts
// as the last good template.
func TestManualSetImage(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	one, two, manual, bad := c.image("one", "ready"), c.image("two", "ready"), c.image("manual", "ready"), c.image("bad", "config-error")
	n.must(one)
	c.patch(deployments, "web", "kubectl-set", "strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"node","image":"`+manual+`"}]}}}}`)
	dep, roll := n.plan(one)
	if dep.noop() || roll.noop() || !strings.Contains(n.dep.attr(t, "manifest").String(), manual) {
		t.Error("the plan does not show it")
	}
	n.must(one)
	n.runs(one)
	c.patch(deployments, "web", "kubectl-set", "strategic", `{"spec":{"template":{"spec":{"containers":[{"name":"node","image":"`+manual+`"}]}}}}`)
	says(t, n.apply(bad), "failed", "set back", one, "ready again")
	n.runs(one)
	n.must(two)
	n.runs(two)
}

// A template that only left something out is set back like any other, and the
// plan shows that it was, though no field of the manifest differs then.
func TestSetBackOfALeftOutField(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	image := c.image("one", "config-error")
	manifest := func(podAnnotations map[string]any) map[string]any {
		m := c.deployment("web", image)
		m["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)["annotations"] = podAnnotations
		return m
	}
	good, bad := manifest(map[string]any{"yuba.test/behaviour": "ready"}), manifest(nil)
	deploy := func(m map[string]any, refresh bool) string {
		w := c.walk()
		if refresh {
			w.refresh(n.dep)
			w.refresh(n.roll)
		}
		dep := w.plan(n.dep, with(m))
		roll := w.plan(n.roll, n.rolloutConfig(dep.attr(t, "uid"), dep.attr(t, "generation")))
		w = c.walk()
		w.apply(dep)
		if roll.noop() {
			t.Error("there is no rollout to do")
			return ""
		}
		return w.tryApply(context.Background(), roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	}
	if s := deploy(good, true); s != "" {
		t.Fatal(s)
	}
	says(t, deploy(bad, true), "failed", "set back", "ready again")
	// Without a refresh nobody sees what runs; it is no success all the same.
	says(t, deploy(bad, false), "was set back and has not been applied since", "generation", "refresh")
	w := c.walk()
	w.refresh(n.dep)
	if p := w.plan(n.dep, with(bad)); p.noop() || !strings.Contains(n.dep.attr(t, "manifest").String(), "yuba.fediversity.eu/set-back") {
		t.Errorf("the plan does not show that it was set back: %s", n.dep.attr(t, "manifest"))
	}
	says(t, deploy(bad, true), "failed", "set back", "ready again")
	if s := deploy(good, true); s != "" {
		t.Error(s)
	}
	if notes := c.get(deployments, "web").GetAnnotations(); notes["yuba.fediversity.eu/set-back"] != "" {
		t.Error("it still says that it was set back")
	}
	w = c.walk()
	w.refresh(n.dep)
	if !w.plan(n.dep, with(good)).noop() {
		t.Error("a plan shows changes")
	}
}

// A cluster that can't be reached for a while, with all connections cut,
// changes nothing in the verdict.
func TestClusterAwayDuringRollout(t *testing.T) {
	var mu sync.Mutex
	down := false
	var cuts []context.CancelFunc
	waiting := make(chan struct{})
	var once sync.Once
	c := newCluster(t,
		kubernetes.WithProgress(func(_, _, m string) {
			if strings.HasPrefix(m, "0/1") {
				once.Do(func() { close(waiting) })
			}
		}),
		kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				ctx, cancel := context.WithCancel(r.Context())
				mu.Lock()
				gone := down
				cuts = append(cuts, cancel)
				mu.Unlock()
				if gone {
					return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
				}
				return rt.RoundTrip(r.WithContext(ctx))
			})
		}))
	n := c.node("web", "2m")
	m := c.deployment("web", c.image("one", "ready"))
	m["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)["annotations"] = map[string]any{"yuba.test/ready-after": "3s"}
	c.put(n.dep, with(m))
	w := c.walk()
	p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	back := make(chan struct{})
	go func() {
		defer close(back)
		<-waiting
		mu.Lock()
		down = true
		for _, cut := range cuts {
			cut()
		}
		mu.Unlock()
		// Until the pod has become ready, unseen.
		eventually(t, "the pod is ready", func() bool { return c.field(deployments, "web", "status", "readyReplicas") == int64(1) })
		mu.Lock()
		down = false
		mu.Unlock()
	}()
	if s := w.tryApply(context.Background(), p); s != "" {
		t.Error(s)
	}
	<-back
}

// The way back needs no state: it is in the cluster.
func TestWayBackSurvivesLostState(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	one, bad := c.image("one", "ready"), c.image("bad", "config-error")
	n.must(one)
	lost := c.node("web", "1m")
	says(t, lost.apply(bad), "failed", "set back", one)
	lost.runs(one)
}

// An interrupt ends the wait at once, changes nothing, and says so.
func TestInterruptedRollout(t *testing.T) {
	waiting := make(chan struct{})
	var once sync.Once
	c := newCluster(t, kubernetes.WithProgress(func(_, _, m string) {
		if strings.Contains(m, "0/1") {
			once.Do(func() { close(waiting) })
		}
	}))
	n := c.node("web", "5m")
	bad := c.image("bad", "never-ready")
	c.put(n.dep, with(c.deployment("web", bad)))
	w := c.walk()
	p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-waiting
		w.server.StopProvider(context.Background(), &tfprotov6.StopProviderRequest{})
	}()
	says(t, w.tryApply(context.Background(), p), "Interrupted", "keeps what was applied", "next apply waits")
	<-stopped
	if n.image() != bad {
		t.Error("it was changed")
	}
}

// Many rollouts of a namespace share their lists and watches.
func TestRolloutsShareWatches(t *testing.T) {
	c := newCluster(t)
	image := c.image("one", "ready")
	var nodes []*node
	for i := range 6 {
		n := c.node(fmt.Sprint("n", i), "2m")
		c.put(n.dep, with(c.deployment(n.name, image)))
		nodes = append(nodes, n)
	}
	w := c.walk()
	c.requests.take()
	var wg sync.WaitGroup
	errs := make([]string, len(nodes))
	for i, n := range nodes {
		p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
		wg.Go(func() { errs[i] = w.tryApply(context.Background(), p) })
	}
	wg.Wait()
	for _, s := range errs {
		if s != "" {
			t.Error(s)
		}
	}
	counts := map[string]int{}
	for _, r := range c.requests.take() {
		counts[r]++
	}
	for _, kind := range []string{"pods", "replicasets"} {
		for r, n := range counts {
			// A second round is fair: the last may begin after the others.
			if strings.HasSuffix(strings.TrimSuffix(r, " watch"), "/"+kind) && n > 3 {
				t.Errorf("%d times %s", n, r)
			}
		}
	}
}

// A rollout goes from state with its Deployment.
func TestRolloutOfADeploymentThatIsGone(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	image := c.image("one", "ready")
	n.must(image)
	must(t, c.other.Resource(deployments).Namespace(c.ns).Delete(context.Background(), "web", metav1.DeleteOptions{}))
	w := c.walk()
	w.refresh(n.dep)
	w.refresh(n.roll)
	if n.dep.exists() || n.roll.exists() {
		t.Error("state still has it")
	}
	n.must(image)
	// Another timeout is nothing to wait for.
	n.timeout = "3m"
	w = c.walk()
	p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
	if p.noop() {
		t.Error("the plan does not show another timeout")
	}
	c.requests.take()
	w.apply(p)
	if got := c.requests.take(); len(got) > 0 {
		t.Errorf("another timeout asks %v", got)
	}
	// One that goes while it is waited for is no matter of time.
	other := c.node("gone", "5m")
	p = c.walk().plan(other.roll, other.rolloutConfig("00000000-0000-0000-0000-000000000000", 1))
	says(t, c.walk().tryApply(context.Background(), p), "does not exist any more", "nothing to set back")
	if s := c.walk().tryDestroy(context.Background(), n.roll); s != "" {
		t.Error(s)
	}
}
