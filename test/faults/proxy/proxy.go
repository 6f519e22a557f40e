// Package proxy stands between a program under test and the servers that it
// asks, counts what is asked, and does harm at any point that a test chooses.
//
//	p := proxy.New()
//	state := p.Front(proxy.Server{Name: "state", URL: "http://127.0.0.1:8390"})
//	p.Watch(func(at proxy.Point) proxy.Harm { ... })
//
// A point is a moment of one request, and has a name that is the same in each
// run that asks the same: "state POST /web #2 after its effect" is the second
// POST to that path, when the server has answered and the program doesn't know
// yet. So a test can count the points of a run first, and then go through them.
package proxy

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Moment is when, in the course of a request, a point is.
type Moment string

// The moments of a request.
const (
	// Before is before the server gets to know of the request.
	Before Moment = "before it is sent on"
	// Within is when the server has got a part of a large body, and not the rest.
	Within Moment = "in the middle of its body"
	// After is when the server has answered, and the program hasn't got that yet.
	After Moment = "after its effect"
)

// Point is a moment of one request.
type Point struct {
	Server string // its Name
	Method string
	Path   string // as Server.Comparable gives it
	N      int    // the how manieth request of this server, method and path it is, from 1 on
	Moment Moment
}

func (p Point) String() string {
	return fmt.Sprintf("%s %s %s #%d %s", p.Server, p.Method, p.Path, p.N, p.Moment)
}

// Harm is what becomes of a request at a point. The zero Harm is none.
type Harm struct {
	// Delay comes before everything else.
	Delay time.Duration
	// Cut ends the connection without an answer. After the effect, the server
	// has done what was asked, and the program can't know. With HTTP/2 only the
	// request's stream is ended.
	Cut bool
	// Reset ends the connection by a TCP RST, with all that goes by it.
	Reset bool
	// Truncate ends the connection in the middle of the answer's body. Only
	// After.
	Truncate bool
	// Status answers with this, and Body and Header. Before, the server is not
	// asked; After, its answer is thrown away.
	Status int
	Header http.Header
	Body   string
	// Hold gives no answer as long as the program waits for one.
	Hold bool
}

// Server is one that is asked.
type Server struct {
	Name string // short: "state", "api", "registry"
	URL  string // without a path
	// TLS is how to reach it, with https.
	TLS *tls.Config
	// Secure speaks TLS with the program; CA is the certificate to trust.
	Secure bool
	// Comparable, if set, makes of a URL what is comparable between runs; without it,
	// it is the path.
	Comparable func(*url.URL) string
	// Of, if set, tells which requests are the program's; others pass.
	Of func(*http.Request) bool
	// Clock, if set, is how far the server's clock is ahead of the program's, now.
	Clock func() time.Duration
}

// Front is where the program reaches a server.
type Front struct {
	URL string // what takes the place of Server.URL
	CA  []byte // PEM, when it is secure
}

// Proxy is any number of fronts and what is known of their points. Close it.
type Proxy struct {
	mu      sync.Mutex
	watch   func(Point) Harm
	count   map[Point]int // by a Point without N and Moment
	points  []Point
	servers []*httptest.Server
	closed  chan struct{}
}

// New makes a proxy without fronts.
func New() *Proxy { return &Proxy{count: map[Point]int{}, closed: make(chan struct{})} }

// Close ends all fronts and the requests that they hold.
func (p *Proxy) Close() {
	close(p.closed)
	for _, s := range p.servers {
		s.CloseClientConnections()
		s.Close()
	}
}

// Watch starts to count anew and calls f at each point from now on, from many
// goroutines; nil calls nothing. What f does, such as killing the program, is
// done before the request goes on.
func (p *Proxy) Watch(f func(Point) Harm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch, p.points = f, nil
	clear(p.count)
}

// Points are all points since the last Watch, in the order in which they were
// come to.
func (p *Proxy) Points() []Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Point(nil), p.points...)
}

// at is come to with each point.
func (p *Proxy) at(point Point) Harm {
	p.mu.Lock()
	p.points = append(p.points, point)
	f := p.watch
	p.mu.Unlock()
	if f == nil {
		return Harm{}
	}
	return f(point)
}

// come is at, for a request whose context has its connection: it waits for the
// harm's delay, and resets the connection.
func (p *Proxy) come(ctx context.Context, point Point) Harm {
	harm := p.at(point)
	if harm.Delay > 0 {
		select {
		case <-time.After(harm.Delay):
		case <-ctx.Done():
		case <-p.closed:
		}
	}
	if harm.Reset {
		conn, _ := ctx.Value(connKey{}).(net.Conn)
		if c, ok := conn.(*tls.Conn); ok {
			conn = c.NetConn()
		}
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0)
			c.Close()
		}
	}
	return harm
}

// number gives a request its Point, without the moment.
func (p *Proxy) number(point Point) Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[point]++
	point.N = p.count[point]
	return point
}

// errCut ends a connection.
var errCut = errors.New("cut by the test")

type (
	pointKey struct{}
	connKey  struct{}
)

// largeBody is the size from which on a body has a middle, in bytes.
const largeBody = 256

// Front opens a front of a server. It is of this process, on loopback.
func (p *Proxy) Front(s Server) (*Front, error) {
	target, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	// HTTP/1.1, as a connection that is upgraded needs it.
	transport := &http.Transport{TLSClientConfig: s.TLS, MaxIdleConnsPerHost: 64, DisableCompression: true,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	reverse := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // locations that a server makes lead back here
		},
		ModifyResponse: func(resp *http.Response) error {
			if s.Clock != nil {
				shift(resp, s.Clock)
			}
			point, ok := resp.Request.Context().Value(pointKey{}).(Point)
			if !ok {
				return nil
			}
			point.Moment = After
			return p.answer(resp, p.come(resp.Request.Context(), point))
		},
		// The program sees a connection that ends.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if s.Of != nil && !s.Of(r) {
			reverse.ServeHTTP(rw, r)
			return
		}
		path := r.URL.Path
		if s.Comparable != nil {
			path = s.Comparable(r.URL)
		}
		point := p.number(Point{Server: s.Name, Method: r.Method, Path: path})
		point.Moment = Before
		switch harm := p.come(r.Context(), point); {
		case harm.Cut, harm.Reset:
			panic(http.ErrAbortHandler)
		case harm.Hold:
			p.hold(r)
			panic(http.ErrAbortHandler)
		case harm.Status != 0:
			maps.Copy(rw.Header(), harm.Header)
			rw.WriteHeader(harm.Status)
			_, _ = io.WriteString(rw, harm.Body)
			return
		}
		if r.ContentLength < 0 || r.ContentLength >= largeBody {
			point.Moment = Within
			r.Body = &body{ReadCloser: r.Body, first: largeBody / 2, middle: func() error {
				switch harm := p.come(r.Context(), point); {
				case harm.Hold:
					p.hold(r)
					return errCut
				case harm.Cut, harm.Reset, harm.Status != 0:
					return errCut
				}
				return nil
			}}
		}
		reverse.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), pointKey{}, point)))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	f := &Front{}
	if s.Secure {
		server.EnableHTTP2 = true
		server.StartTLS()
		f.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	} else {
		server.Start()
	}
	f.URL = server.URL
	p.mu.Lock()
	p.servers = append(p.servers, server)
	p.mu.Unlock()
	return f, nil
}

// hold waits until the program has given up, or the test is over: a connection
// whose request has not been read to its end does not tell.
func (p *Proxy) hold(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-p.closed:
	}
}

// answer does harm to an answer.
func (p *Proxy) answer(resp *http.Response, harm Harm) error {
	switch {
	case harm.Cut, harm.Reset, harm.Truncate && (resp.StatusCode == http.StatusSwitchingProtocols || resp.ContentLength == 0):
		resp.Body.Close()
		return errCut
	case harm.Hold:
		p.hold(resp.Request)
		resp.Body.Close()
		return errCut
	case harm.Status != 0:
		resp.Body.Close()
		resp.StatusCode, resp.Header = harm.Status, harm.Header.Clone()
		if resp.Header == nil {
			resp.Header = http.Header{}
		}
		resp.ContentLength = int64(len(harm.Body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(harm.Body)))
		resp.Body = io.NopCloser(strings.NewReader(harm.Body))
	case harm.Truncate:
		// The length stays, so that the rest is missed.
		resp.Body = &truncated{ReadCloser: resp.Body, left: resp.ContentLength / 2}
	}
	return nil
}

// truncated is the first half of an answer, or when it has no length, of what
// comes first.
type truncated struct {
	io.ReadCloser
	left int64 // -1/2 is 0
	over bool
}

func (t *truncated) Read(buf []byte) (int, error) {
	if t.over {
		return 0, errCut
	}
	n, err := t.ReadCloser.Read(buf)
	if t.left == 0 {
		t.left = int64(n+1) / 2
	}
	if int64(n) >= t.left {
		t.over = true
		return int(t.left), nil
	}
	t.left -= int64(n)
	if err != nil {
		err = errCut
	}
	return n, err
}

// body is a request's body that has a middle.
type body struct {
	io.ReadCloser
	first  int
	middle func() error // nil when that was come to
}

func (b *body) Read(buf []byte) (int, error) {
	if b.middle == nil {
		return b.ReadCloser.Read(buf)
	}
	if b.first == 0 {
		middle := b.middle
		b.middle = nil
		if err := middle(); err != nil {
			return 0, err
		}
		return b.ReadCloser.Read(buf)
	}
	n, err := b.ReadCloser.Read(buf[:min(len(buf), b.first)])
	b.first -= n
	return n, err
}

// Variable parts of paths: what a registry or the API server makes up.
var made = regexp.MustCompile(`sha256:[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|-[0-9a-f]{8,10}-[0-9a-z]{5}\b|-[0-9a-f]{10}\b`)

// Comparable gives the path of a URL without what differs between runs: digests,
// UUIDs, names of pods, and the names that are given. A dry run is another
// thing than what it tries.
func Comparable(names ...string) func(*url.URL) string {
	var pairs []string
	for _, n := range names {
		pairs = append(pairs, n, "*")
	}
	own := strings.NewReplacer(pairs...)
	return func(u *url.URL) string {
		path := made.ReplaceAllString(own.Replace(u.Path), "*")
		if u.Query().Has("dryRun") {
			path += "?dryRun"
		}
		return path
	}
}
