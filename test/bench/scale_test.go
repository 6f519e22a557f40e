package bench

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// BenchmarkScale takes groups of growing size through their lives, and prints
// tables in Markdown: `make scale`. YUBA_SCALE names other sizes than the usual
// ones, smallest first. The control plane has to have room for the pods of the
// largest.
func BenchmarkScale(b *testing.B) {
	sizes := []int{1, 10, 100, 500}
	if list := strings.Fields(os.Getenv("YUBA_SCALE")); len(list) > 0 {
		sizes = nil
		for _, text := range list {
			n, err := strconv.Atoi(text)
			if err != nil {
				b.Fatalf("YUBA_SCALE: %v", err)
			}
			sizes = append(sizes, n)
		}
	}
	lives := make([]life, len(sizes))
	for i, n := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			lives[i] = live(b, n)
		})
		if b.Failed() {
			return
		}
	}
	for i, stage := range stages {
		fmt.Printf("\n%s:\n\n| nodes | wall s | CPU s | CPU ms a node | memory MB | API requests | lists | state writes | state written KB | state KB | CPU exponent |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n", stage)
		for k, n := range sizes {
			s := lives[k][i]
			exponent := ""
			if k > 0 {
				exponent = fmt.Sprintf("%.2f", math.Log(s.cpu.Seconds()/lives[k-1][i].cpu.Seconds())/math.Log(float64(n)/float64(sizes[k-1])))
			}
			fmt.Printf("| %d | %.1f | %.2f | %.1f | %.0f | %d | %d | %d | %d | %d | %s |\n", n, s.wall.Seconds(), s.cpu.Seconds(), s.cpu.Seconds()*1000/float64(n),
				float64(s.rss)/1e6, s.requests, s.lists, s.writes, s.written>>10, s.size>>10, exponent)
		}
	}
}

// stages are those of a group's life.
var stages = []string{"Plan from nothing", "Apply, with the images pushed", "Plan with nothing to do", "Plan of one node changed", "Apply of one node changed", "Destroy"}

// life is what each stage took.
type life [6]stage

type stage struct {
	cost
	requests, lists int   // to the API server
	writes          int   // of the state
	written, size   int64 // bytes of the state: of all writes, and after the last
}

// live takes a group of n nodes through its life.
func live(b *testing.B, n int) (out life) {
	b.Helper()
	w := world.New(b)
	archive := lab.Archive(b, lab.Image{Content: "one"})
	nodes := make([]world.Node, n)
	for i := range nodes {
		nodes[i] = world.Node{Name: fmt.Sprintf("node%04d", i), Tag: "one", Archive: archive}
	}
	w.Group(nodes...)
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "10m" })
	states := countStates(b, w)
	run := func(code int, args ...string) (s stage) {
		before := len(w.Lab.Requests(b, "yuba/"))
		states.reset()
		s.cost = measureCode(b, code, w.Command(append([]string{"k8s"}, args...)...))
		for _, r := range w.Lab.Requests(b, "yuba/")[before:] {
			if s.requests++; r.Verb == "list" {
				s.lists++
			}
		}
		s.writes, s.written, s.size = states.counts()
		return s
	}
	// Said at once: the table comes when all is done, which may take an hour.
	next := 0
	done := func(s stage) {
		fmt.Printf("%d nodes, %s: %.1f s, %.2f CPU s, %.0f MB\n", n, strings.ToLower(stages[next]), s.wall.Seconds(), s.cpu.Seconds(), float64(s.rss)/1e6)
		out[next] = s
		next++
	}
	const parallel = "-parallelism=20"
	done(run(2, "plan", "-detailed-exitcode"))
	done(run(0, "apply", "-auto-approve", parallel))
	done(run(0, "plan", "-detailed-exitcode"))
	w.Edit(func(g map[string]any) {
		g["nodes"].([]any)[n/2].(map[string]any)["resources"] = map[string]any{"requests": map[string]any{"memory": "64Mi"}}
	})
	done(run(2, "plan", "-detailed-exitcode"))
	done(run(0, "apply", "-auto-approve", parallel))
	done(run(0, "destroy", "-auto-approve", parallel))
	return out
}

// stateCounter counts what passes through it to a state server.
type stateCounter struct {
	mu      sync.Mutex
	writes  int
	written int64
	size    int64
}

func (c *stateCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes, c.written = 0, 0
}

func (c *stateCounter) counts() (writes int, written, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, c.written, c.size
}

// countStates lets the world's commands reach their state through a counter.
func countStates(b *testing.B, w *world.World) *stateCounter {
	b.Helper()
	address, err := url.Parse(w.State)
	if err != nil {
		b.Fatal(err)
	}
	c := &stateCounter{}
	server := url.URL{Scheme: address.Scheme, Host: address.Host}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&server) }}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := &countedBody{ReadCloser: r.Body}
		r.Body = body
		proxy.ServeHTTP(rw, r)
		if r.Method == http.MethodPost {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.writes++
			c.written += body.n
			c.size = body.n
		}
	}))
	b.Cleanup(s.Close)
	w.Env["TF_HTTP_ADDRESS"] = s.URL + address.Path
	return c
}

type countedBody struct {
	io.ReadCloser
	n int64
}

func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	return n, err
}
