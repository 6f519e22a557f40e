package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fediversity.eu/yuba/test/faults/proxy"
)

// asked is a server that remembers what it was asked, and the proxy before it.
func asked(t *testing.T) (p *proxy.Proxy, url string, bodies *[]string) {
	t.Helper()
	bodies = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			*bodies = append(*bodies, string(body))
		}
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(server.Close)
	p = proxy.New()
	t.Cleanup(p.Close)
	f, err := p.Front(proxy.Server{Name: "server", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return p, f.URL, bodies
}

func TestHarm(t *testing.T) {
	long := strings.Repeat("x", 1<<10)
	for name, c := range map[string]struct {
		point  string
		harm   proxy.Harm
		status int // 0: no answer
		answer string
		cut    bool // in the middle of the answer
		known  int  // requests that the server has got
	}{
		"none":                   {"nowhere", proxy.Harm{}, 200, "answer", false, 1},
		"cut before":             {"server POST /a #1 before it is sent on", proxy.Harm{Cut: true}, 0, "", false, 0},
		"cut within":             {"server POST /a #1 in the middle of its body", proxy.Harm{Cut: true}, 0, "", false, 0},
		"cut after":              {"server POST /a #1 after its effect", proxy.Harm{Cut: true}, 0, "", false, 1},
		"reset before":           {"server POST /a #1 before it is sent on", proxy.Harm{Reset: true}, 0, "", false, 0},
		"reset within":           {"server POST /a #1 in the middle of its body", proxy.Harm{Reset: true}, 0, "", false, 0},
		"reset after":            {"server POST /a #1 after its effect", proxy.Harm{Reset: true}, 0, "", false, 1},
		"late before":            {"server POST /a #1 before it is sent on", proxy.Harm{Delay: time.Millisecond}, 200, "answer", false, 1},
		"late after":             {"server POST /a #1 after its effect", proxy.Harm{Delay: time.Millisecond}, 200, "answer", false, 1},
		"another answer before":  {"server POST /a #1 before it is sent on", proxy.Harm{Status: 503, Body: "no"}, 503, "no", false, 0},
		"another answer after":   {"server POST /a #1 after its effect", proxy.Harm{Status: 503, Body: "no"}, 503, "no", false, 1},
		"the half of an answer":  {"server POST /a #1 after its effect", proxy.Harm{Truncate: true}, 200, "ans", true, 1},
		"none, another request":  {"server POST /a #2 after its effect", proxy.Harm{Cut: true}, 200, "answer", false, 1},
		"none, another path":     {"server POST /b #1 after its effect", proxy.Harm{Cut: true}, 200, "answer", false, 1},
		"no answer, before":      {"server POST /a #1 before it is sent on", proxy.Harm{Hold: true}, 0, "", false, 0},
		"no answer, after":       {"server POST /a #1 after its effect", proxy.Harm{Hold: true}, 0, "", false, 1},
		"no answer, in the body": {"server POST /a #1 in the middle of its body", proxy.Harm{Hold: true}, 0, "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, url, bodies := asked(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.Watch(func(at proxy.Point) proxy.Harm {
				if at.String() != c.point {
					return proxy.Harm{}
				}
				if c.harm.Hold {
					cancel()
				}
				return c.harm
			})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/a", strings.NewReader(long))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if c.status == 0 {
				if err == nil {
					t.Errorf("there was an answer: %s", resp.Status)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || string(answer) != c.answer || (err != nil) != c.cut {
					t.Errorf("the answer is %s %q, %v", resp.Status, answer, err)
				}
			}
			if len(*bodies) != c.known {
				t.Errorf("the server has got %d requests", len(*bodies))
			}
		})
	}
}

func TestPointsAreCountedAnew(t *testing.T) {
	p, url, _ := asked(t)
	get := func() {
		resp, err := http.Get(url + "/a")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	names := func() (out []string) {
		for _, at := range p.Points() {
			out = append(out, at.String())
		}
		return out
	}
	for range 2 {
		p.Watch(nil)
		get()
		get()
		want := []string{"server GET /a #1 before it is sent on", "server GET /a #1 after its effect", "server GET /a #2 before it is sent on", "server GET /a #2 after its effect"}
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("the points are %q", got)
		}
	}
}

// A stream ends where it is cut, and not before.
func TestStream(t *testing.T) {
	long := strings.Repeat("x", 3*proxy.Mark)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, long)
			conn.Close()
		}
	}()
	p := proxy.New()
	defer p.Close()
	addr, err := p.Stream(proxy.Server{Name: "server", URL: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	for point, want := range map[string]int{
		"nowhere": len(long),
		"server CONNECT begin #1 before it is sent on":                0,
		"server CONNECT after 128 bytes #1 in the middle of its body": proxy.Mark,
		"server CONNECT after 256 bytes #1 in the middle of its body": 2 * proxy.Mark,
	} {
		for _, harm := range []proxy.Harm{{Cut: true}, {Reset: true}} {
			p.Watch(func(at proxy.Point) proxy.Harm {
				if at.String() == point {
					return harm
				}
				return proxy.Harm{}
			})
			var got []byte
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				got, err = io.ReadAll(conn)
				conn.Close()
			}
			if harm.Reset && want < len(long) {
				if err == nil {
					t.Errorf("%s: it is not reset", point)
				}
			} else if err != nil || len(got) != want {
				t.Errorf("%s: %d bytes, want %d; %v", point, len(got), want, err)
			}
		}
	}
}
