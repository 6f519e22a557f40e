package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/lab"
)

// operator is the operator's side of a test's cluster.
func (c *cluster) operator() *kubernetes.Cluster {
	c.t.Helper()
	k, err := kubernetes.Open("test", append([]kubernetes.Option{kubernetes.WithEnv(func(k string) string { return c.env[k] })}, c.opts...)...)
	must(c.t, err)
	return k
}

// status is that of one node.
func (c *cluster) status(name string) kubernetes.Node {
	c.t.Helper()
	nodes, err := c.operator().Status(context.Background(), c.ns, []string{name}, kubernetes.StatusOptions{})
	must(c.t, err)
	return nodes[0]
}

func TestStatus(t *testing.T) {
	c := newCluster(t)
	if n := c.status("web"); n.State != kubernetes.Missing || n.Well() {
		t.Error("a node that was never applied is well")
	}
	n := c.node("web", "1m")
	one, two, manual := c.push("one", lab.Image{}), c.push("two", lab.Image{}), c.push("manual", lab.Image{})
	bad := c.push("bad", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "nginx.service"})
	n.must(one)
	s := c.status("web")
	if !s.Well() || !s.Ready || s.Wanted != one || s.Running != one || s.LastGood != one || s.Pod == "" || s.Host == "" || s.Since == nil || s.Reason != "" {
		t.Error("it is well, and that is not said")
	}

	// Applied, and killed before the verdict.
	c.put(n.dep, with(c.deployment("web", two)))
	c.ready("web")
	if s := c.status("web"); s.State != kubernetes.Unconfirmed || !s.Ready || s.Wanted != two || s.LastGood != one || s.Well() {
		t.Error("what no apply has confirmed")
	}
	n.must(two)

	n.timeout = "4s"
	n.apply(bad)
	if s := c.status("web"); s.State != kubernetes.SetBack || !s.Ready || s.Wanted != bad || s.Running != two || s.LastGood != two || s.Well() || !strings.Contains(s.Reason, "did not become ready") {
		t.Error("what was set back")
	}
	c.put(n.dep, with(c.deployment("web", bad)))
	var now kubernetes.Node
	eventually(t, "the bad image runs", func() bool {
		now = c.status("web")
		return strings.HasPrefix(now.Reason, "0/1 ready: running, not ready") && now.Running == bad
	})
	if now.State != kubernetes.NotReady || now.Ready || !strings.Contains(strings.Join(now.Details, "\n"), "failed unit nginx.service") {
		t.Error("what is not ready")
	}

	// By hand, from there: the last good one is that of the last complete rollout.
	k := c.operator()
	good, was, err := k.LastGood(context.Background(), c.ns, "web")
	must(t, err)
	if good != two || was != bad {
		t.Errorf("it would go from %s to %s", was, good)
	}
	must(t, k.Rollback(context.Background(), c.ns, "web", time.Minute))
	n.runs(two)
	if s := c.status("web"); s.State != kubernetes.SetBack || s.Wanted != bad || s.Running != two {
		t.Error("what was rolled back")
	}
	if err := k.Rollback(context.Background(), c.ns, "web", time.Minute); !errors.Is(err, kubernetes.ErrNothingToRollBack) {
		t.Errorf("a second time: %v", err)
	}
	if dep, roll := n.plan(bad); dep.noop() || roll.noop() {
		t.Error("the plan does not show it")
	}

	// What others do shows.
	n.timeout = "1m"
	n.must(one)
	c.lab.Kubectl(t, "annotate", "-n", c.ns, "deployment/web", "note=mine")
	eventually(t, "an annotation is no drift", func() bool { return c.status("web").Well() })
	c.lab.Kubectl(t, "set", "image", "-n", c.ns, "deployment/web", "node="+manual)
	c.ready("web")
	if s := c.status("web"); s.Well() || len(s.Drift) != 1 || !strings.Contains(s.Drift[0], "kubectl-set changed the image to "+manual) {
		t.Errorf("kubectl set image: %+v", s)
	}
	must(t, k.Rollback(context.Background(), c.ns, "web", time.Minute))
	n.runs(one)
	n.must(one)
	c.lab.Kubectl(t, "scale", "-n", c.ns, "deployment/web", "--replicas=0")
	eventually(t, "it is scaled to nothing", func() bool { s := c.status("web"); return s.Pod == "" && !s.Well() && len(s.Drift) == 1 })
}

func TestLogs(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	n.must(c.push("one", lab.Image{Log: "one\ntwo\nthree"}))
	var out bytes.Buffer
	must(t, c.operator().Logs(context.Background(), c.ns, "web", kubernetes.LogOptions{Lines: 2}, &out))
	if out.String() != "two\nthree\n" {
		t.Errorf("log %q", out.String())
	}
	// Following it ends with the pod, and with the operator's patience.
	ctx, cancel := context.WithCancel(context.Background())
	r := &firstLine{found: cancel}
	err := c.operator().Logs(ctx, c.ns, "web", kubernetes.LogOptions{Lines: -1, Follow: true}, r)
	if err == nil || !strings.HasPrefix(r.text.String(), "one\n") {
		t.Errorf("%v, log %q", err, r.text.String())
	}
	if err := c.operator().Logs(context.Background(), c.ns, "web", kubernetes.LogOptions{Previous: true}, &out); err == nil || !strings.Contains(err.Error(), "previous terminated container") {
		t.Errorf("%v", err)
	}
}

// firstLine calls found when it has one.
type firstLine struct {
	text  bytes.Buffer
	found func()
}

func (f *firstLine) Write(p []byte) (int, error) {
	if bytes.ContainsRune(p, '\n') {
		f.found()
	}
	return f.text.Write(p)
}

// A rollback that is interrupted before it hears of its change says what has become of it.
func TestRollbackUnheard(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	var armed atomic.Bool
	c := newCluster(t, kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/deployments/web") || !armed.CompareAndSwap(true, false) {
				return rt.RoundTrip(r)
			}
			resp, err := rt.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			resp.Body.Close()
			interrupt()
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
	}))
	n := c.node("web", "1m")
	one, bad := c.push("one", lab.Image{}), c.push("bad", lab.Image{Behaviour: lab.ConfigError})
	n.must(one)
	c.put(n.dep, with(c.deployment("web", bad)))
	armed.Store(true)
	err := c.operator().Rollback(ctx, c.ns, "web", time.Minute)
	if err == nil || !strings.HasPrefix(err.Error(), "it was set back; waiting for its pod was interrupted") {
		t.Errorf("error %v", err)
	}
	c.ready("web")
	n.runs(one)
}

func TestRollbackOfAFirstDeploy(t *testing.T) {
	c := newCluster(t)
	c.put(object(), with(c.deployment("web", c.push("bad", lab.Image{Behaviour: lab.ConfigError}))))
	err := c.operator().Rollback(context.Background(), c.ns, "web", time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no last good image") {
		t.Error(err)
	}
}
