package kubernetes_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/lab"
)

// wire is a way to the API server that can be cut.
type wire struct {
	mu   sync.Mutex
	down bool
	cuts []context.CancelFunc
}

// cut ends all connections and lets none begin until mend.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, end := range w.cuts {
		end()
	}
	w.cuts = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

func (w *wire) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx, end := context.WithCancel(r.Context())
		r = r.Clone(ctx)
		w.mu.Lock()
		down := w.down
		w.cuts = append(w.cuts, end)
		w.mu.Unlock()
		if down {
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		return rt.RoundTrip(r)
	})
}

// moment is something that progress tells of once.
type moment struct {
	word string
	once sync.Once
	came chan struct{}
}

func when(word string) *moment { return &moment{word: word, came: make(chan struct{})} }

// hears says whether a message tells of it, for the first time.
func (m *moment) hears(message string) bool {
	select {
	case <-m.came:
		return false
	default:
		return strings.Contains(message, m.word)
	}
}

func (m *moment) listen(_, _, message string) {
	if m.hears(message) {
		m.once.Do(func() { close(m.came) })
	}
}

// cutAt cuts at a moment: the cut is there before anybody hears of the moment.
func (w *wire) cutAt(m *moment) kubernetes.Option {
	return kubernetes.WithProgress(func(namespace, name, message string) {
		if m.hears(message) {
			w.cut()
			m.listen(namespace, name, message)
		}
	})
}

// behave says in the pod template what becomes of the pod, whatever its image.
func behave(m map[string]any, behaviour string) map[string]any {
	meta := m["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
	meta["annotations"] = map[string]any{"yuba.test/behaviour": behaviour}
	return m
}

// rolled waits for the rollout of what was applied, and gives its error.
func (n *node) rolled() string {
	n.c.t.Helper()
	w := n.c.walk()
	return w.tryApply(context.Background(), w.plan(n.roll, n.rolloutConfig(n.dep.attr(n.c.t, "uid"), n.dep.attr(n.c.t, "generation"))))
}

// What has healed while the cluster was out of sight is no failure, however long
// it had lasted when it was seen last.
func TestHealedOutOfSight(t *testing.T) {
	w, ill := &wire{}, when("CreateContainerConfigError")
	c := newCluster(t, kubernetes.WithTransport(w.wrap), w.cutAt(ill)) // before it has lasted for long
	n := c.node("web", "1m")
	c.put(n.dep, with(behave(c.deployment("web", c.push("one", lab.Image{})), lab.ConfigError)))
	go func() {
		<-ill.came
		for _, pod := range c.pods("web") {
			c.patch(pods, pod, "kubectl-edit", "merge", `{"metadata":{"annotations":{"yuba.test/behaviour":"ready"}}}`)
		}
		c.ready("web")
		time.Sleep(1200 * time.Millisecond) // until its time is over by the clock
		w.mend()
	}()
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
}

// A rollout that was complete in time is complete, also when nobody could see it
// before time was over.
func TestCompleteButOutOfSightWhenTimeWasOver(t *testing.T) {
	w, creating := &wire{}, when("0/1")
	c := newCluster(t, kubernetes.WithTransport(w.wrap), w.cutAt(creating))
	n := c.node("web", "2s")
	c.put(n.dep, with(c.deployment("web", c.push("one", lab.Image{ReadyAfter: 500 * time.Millisecond}))))
	go func() {
		<-creating.came
		c.ready("web")
		time.Sleep(2 * time.Second)
		w.mend()
	}()
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
}

// A cluster that goes away between the verdict and the way back is waited for:
// else the node would stay down.
func TestSetBackWaitsForTheCluster(t *testing.T) {
	w, back, away := &wire{}, when("setting back to"), when("to be set back: ")
	c := newCluster(t, kubernetes.WithTransport(w.wrap), kubernetes.WithProgress(func(a, b, m string) {
		// Progress is told before the request that it tells of.
		if strings.HasPrefix(m, back.word) {
			w.cut()
		}
		away.listen(a, b, m)
	}))
	n := c.node("web", "1m")
	one := c.push("one", lab.Image{})
	n.must(one)
	go func() {
		<-away.came
		w.mend()
	}()
	says(t, n.apply(c.push("bad", lab.Image{Behaviour: lab.ConfigError})), "failed", "CreateContainerConfigError", "was set back", one, "ready again")
	n.runs(one)
}

// What has healed since the verdict, while the cluster was away, is not set back.
func TestHealedBeforeItWasSetBack(t *testing.T) {
	w, away := &wire{}, when("to be set back: ")
	var armed atomic.Bool
	c := newCluster(t, kubernetes.WithProgress(away.listen), kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		rt = w.wrap(rt)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			// Before a verdict is believed, the pods of the Deployment are looked at.
			looks := r.URL.Query().Has("labelSelector") && strings.HasSuffix(r.URL.Path, "/pods") && armed.CompareAndSwap(true, false)
			resp, err := rt.RoundTrip(r)
			if !looks || err != nil {
				return resp, err
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(data))
			w.cut()
			return resp, err
		})
	}))
	n := c.node("web", "1m")
	one, two := c.push("one", lab.Image{}), c.push("two", lab.Image{})
	n.must(one)
	c.put(n.dep, with(behave(c.deployment("web", two), lab.ConfigError)))
	armed.Store(true)
	go func() {
		<-away.came
		for _, pod := range c.pods("web") {
			c.patch(pods, pod, "kubectl-edit", "merge", `{"metadata":{"annotations":{"yuba.test/behaviour":"ready"}}}`)
		}
		c.ready("web")
		w.mend()
	}()
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
	n.runs(two)
}

// Watches that end early, and versions that the API server has forgotten,
// change nothing.
func TestWatchesThatEnd(t *testing.T) {
	var mu sync.Mutex
	watches := 0
	c := newCluster(t, kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !r.URL.Query().Has("watch") {
				return rt.RoundTrip(r)
			}
			mu.Lock()
			watches++
			turn := watches % 8
			mu.Unlock()
			answer := func(code int, body string) (*http.Response, error) {
				return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			}
			// The two ways in which an API server says that a version is too old.
			const gone = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (205)","reason":"Expired","code":410}`
			switch turn {
			case 5:
				return answer(http.StatusGone, gone)
			case 6:
				return answer(http.StatusOK, `{"type":"ERROR","object":`+gone+"}\n")
			}
			resp, err := rt.RoundTrip(r)
			if err == nil {
				resp.Body = &shortLived{ReadCloser: resp.Body}
			}
			return resp, err
		})
	}))
	n := c.node("web", "2m")
	c.put(n.dep, with(c.deployment("web", c.push("one", lab.Image{ReadyAfter: 2 * time.Second}))))
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
	mu.Lock()
	defer mu.Unlock()
	if watches < 7 {
		t.Errorf("only %d watches", watches)
	}
}

// shortLived is the body of a watch that ends after one read.
type shortLived struct {
	io.ReadCloser
	read bool
}

func (s *shortLived) Read(p []byte) (int, error) {
	if s.read {
		return 0, io.EOF
	}
	n, err := s.ReadCloser.Read(p)
	// Whole events, as a server ends a watch.
	s.read = n > 0 && p[n-1] == '\n'
	return n, err
}

// What can heal has the operator's whole time, also when that is longer than
// progressDeadlineSeconds.
func TestLongerThanTheProgressDeadline(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	m := c.deployment("web", c.push("one", lab.Image{ReadyAfter: 3 * time.Second}))
	m["spec"].(map[string]any)["progressDeadlineSeconds"] = 1
	c.put(n.dep, with(m))
	exceeded := make(chan struct{})
	go func() {
		defer close(exceeded)
		c.lab.Kubectl(t, "wait", "-n", c.ns, "deployment/web", "--for=condition=Progressing=False", "--timeout=1m")
	}()
	if s := n.rolled(); s != "" {
		t.Error(s)
	}
	<-exceeded
}

// A copy that lags behind the cluster is held against it again and again, but not
// all the time.
func TestLaggingCopy(t *testing.T) {
	ill := when("CreateContainerConfigError")
	var looks atomic.Int32
	c := newCluster(t, kubernetes.WithProgress(ill.listen), kubernetes.WithTransport(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/deployments/web") {
				looks.Add(1)
			}
			resp, err := rt.RoundTrip(r)
			if err == nil && r.URL.Query().Has("watch") {
				resp.Body = &frozen{ReadCloser: resp.Body, at: ill.came, end: r.Context().Done()}
			}
			return resp, err
		})
	}))
	n := c.node("web", "4s")
	c.put(n.dep, with(behave(c.deployment("web", c.push("one", lab.Image{})), lab.ConfigError)))
	go func() {
		<-ill.came
		for _, pod := range c.pods("web") {
			c.patch(pods, pod, "kubectl-edit", "merge", `{"metadata":{"annotations":{"yuba.test/behaviour":"never-ready"}}}`)
		}
	}()
	says(t, n.rolled(), "not complete within 4s", "running, not ready", "first deploy")
	if n := looks.Load(); n < 2 || n > 10 {
		t.Errorf("it looked %d times in 4 s", n)
	}
}

// frozen is a body from which nothing more comes from a moment on.
type frozen struct {
	io.ReadCloser
	at, end <-chan struct{}
}

func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	select {
	case <-f.at:
		<-f.end
		return 0, io.EOF
	default:
		return n, err
	}
}
