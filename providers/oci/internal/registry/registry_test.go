package registry

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"fediversity.eu/yuba/providers/oci/internal/auth"
)

func TestNames(t *testing.T) {
	for repository, ok := range map[string]bool{
		"r.example/ns/node": true, "r.example:5000/node": true, "localhost/node": true, "127.0.0.1:5000/ns/node": true,
		"[::1]:5000/node": true, "r.example/a.b_c__d---e/1": true,
		"": false, "node": false, "ns/node": false, "r.example/": false, "/node": false, "r.example/Node": false,
		"r.example/ns//node": false, "r.example/ns/node/": false, "r.example/ns/../node": false, "r.example/-node": false,
		"r.example/node-": false, "r.example/_node": false, "r.example/a..b": false, "r.example/a___b": false, "r.example/a._b": false,
		"https://r.example/node": false, "r.example/node:tag": false, "r.example/node@sha256:x": false, "r.example/no de": false,
		"u:p@r.example/node": false, "r.example/nöde": false, "r.example/a_-b": false, "r.example/a-_b": false,
		"r.example/" + strings.Repeat("a", 256): false,
	} {
		if err := CheckRepository(repository); (err == nil) != ok {
			t.Errorf("repository %q: %v", repository, err)
		}
	}
	if err := CheckRepository("user:hunter2@r.example/node"); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("password in %q", err)
	}
	for tag, ok := range map[string]bool{
		"1": true, "_x": true, "a.b-c_D": true, strings.Repeat("a", 128): true,
		"": false, ".a": false, "-a": false, "a/b": false, "a:b": false, "a b": false, "a@b": false, "ä": false, "a\n": false,
		strings.Repeat("a", 129): false,
	} {
		if err := CheckTag(tag); (err == nil) != ok {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}

// A password must never go over an open wire because a name looks local.
func TestPlainHTTPOnlyWhereAllowed(t *testing.T) {
	c := New(Options{PlainHTTP: []string{"plain.example", "port.example:5000"}})
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "x.localhost": true, "127.0.0.1:5000": true, "127.1.2.3": true, "[::1]:5000": true, "::1": true,
		"plain.example": true, "plain.example:80": true, "port.example:5000": true,
		"port.example": false, "port.example:5001": false, "10.0.0.1:5000": false, "192.168.1.1": false, "172.16.0.1:5000": false,
		"registry.local": false, "notlocalhost": false, "localhost.example": false, "127.0.0.1.example": false, "r.example": false,
	} {
		if got := c.plainAllowed(host); got != want {
			t.Errorf("%s: plain %v, want %v", host, got, want)
		}
	}

	sent := 0
	g := &guard{plainAllowed: c.plainAllowed, inner: roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, errors.New("sent")
	})}
	repo, err := c.Repository("10.0.0.1:5000/ns/node") // a private address: go-containerregistry would try http
	if err != nil {
		t.Fatal(err)
	}
	if scheme := repo.Scheme(); scheme != "http" {
		t.Fatalf("scheme %s: the library has changed, is the guard still needed?", scheme)
	}
	_, err = transport.Ping(t.Context(), repo.Registry, g)
	if err == nil || sent != 1 {
		t.Errorf("%d requests were sent, want the one over TLS: %v", sent, err)
	}
	if what, _ := Explain(err, "10.0.0.1:5000", ""); !strings.Contains(what, "plain HTTP to 10.0.0.1:5000 is not allowed") || !strings.Contains(what, "plain_http") {
		t.Errorf("it says %q", what)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func host(s *httptest.Server) string { return s.Listener.Addr().String() }

func TestOwnCA(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/ns/") {
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	find := func(file string) error {
		c := New(Options{CAFile: file})
		repo, err := c.Repository(host(s) + "/ns/node")
		if err != nil {
			t.Fatal(err)
		}
		_, found, err := c.Find(t.Context(), repo, "1")
		if err == nil && !found {
			t.Error("not found")
		}
		return err
	}
	if err := find(ca); err != nil {
		t.Errorf("with the CA: %v", err)
	}
	if what, todo := Explain(find(""), host(s), ""); !strings.Contains(what, "authority that is not known") || !strings.Contains(todo, "ca_file") {
		t.Errorf("without the CA: %q %q", what, todo)
	}
	if err := find(ca + "x"); err == nil || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("with a CA file that is missing: %v", err)
	}
}

// A credential that is rotated while yuba runs goes on being let in, by the registry itself and by a token server, and an
// auth file that is broken meanwhile is named.
func TestRotatedCredentials(t *testing.T) {
	for scheme, challenge := range map[string]string{"Basic": `Basic realm="r"`, "Bearer": `Bearer realm="http://%s/token",service="s"`} {
		t.Run(scheme, func(t *testing.T) {
			password := "first"
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, given, _ := r.BasicAuth()
				switch {
				case r.URL.Path == "/token" && given == password:
					fmt.Fprintf(w, `{"token": %q}`, "for-"+password)
				case r.URL.Path != "/token" && (scheme == "Basic" && given == password || r.Header.Get("Authorization") == "Bearer for-"+password):
					w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
				default:
					w.Header().Set("WWW-Authenticate", strings.ReplaceAll(challenge, "%s", r.Host))
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer s.Close()
			file := filepath.Join(t.TempDir(), "auth.json")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := New(Options{Keychain: auth.New(file, os.Getenv)})
			repo, err := c.Repository(host(s) + "/ns/node")
			if err != nil {
				t.Fatal(err)
			}
			for _, password = range []string{"first", "second", "third"} {
				write(fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host(s), base64.StdEncoding.EncodeToString([]byte("u:"+password))))
				if _, _, err := c.Find(t.Context(), repo, "1"); err != nil {
					t.Errorf("with the %s password: %v", password, err)
				}
			}
			password = "fourth"
			write("{")
			_, _, err = c.Find(t.Context(), repo, "1")
			if what, _ := Explain(err, host(s), ""); !strings.Contains(what, file) || !strings.Contains(what, "was not asked") {
				t.Errorf("with a broken file: %q", what)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	status := func(code int) error { return &transport.Error{StatusCode: code} }
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name    string
		err     error
		patient bool
		want    int
	}{
		{"503", status(503), false, maxAttempts},
		{"429", status(429), false, maxAttempts},
		{"reset", fmt.Errorf("x: %w", syscall.ECONNRESET), false, maxAttempts},
		{"cut", io.ErrUnexpectedEOF, false, maxAttempts},
		{"idle", os.ErrDeadlineExceeded, false, maxAttempts},
		{"refused", refused, false, 1},
		{"refused in the middle of a push", refused, true, maxAttempts},
		{"401", status(401), true, 1},
		{"404", status(404), true, 1},
		{"anything", errors.New("x"), true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			client := New(Options{Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }})
			n := 0
			err := client.Retry(t.Context(), c.patient, func(context.Context) error { n++; return c.err })
			if !errors.Is(err, c.err) || n != c.want || len(waits) != c.want-1 {
				t.Errorf("%d attempts and %d waits, want %d: %v", n, len(waits), c.want, err)
			}
			for i, d := range waits {
				if step := firstWait << i; d < step/2 || d > step {
					t.Errorf("wait %d is %s", i, d)
				}
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second, "Wed, 21 Oct 2015 07:28:09 GMT": 9 * time.Second, "Wed, 21 Oct 2015 07:27:00 GMT": 0, "soon": 0, "-1": 0, "": 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {header}, "Date": {"Wed, 21 Oct 2015 07:28:00 GMT"}}}
		if got := retryAfter(resp); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	n := 0
	answer := "7"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.Header().Set("Retry-After", answer)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	var waits []time.Duration
	client := New(Options{Sleep: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }})
	repo, err := client.Repository(host(s) + "/ns/node")
	if err != nil {
		t.Fatal(err)
	}
	session := func(ctx context.Context) error { _, err := client.Session(ctx, repo, false); return err }
	if err := client.Retry(t.Context(), false, session); err != nil || len(waits) != 1 || waits[0] != 7*time.Second {
		t.Errorf("waits %v, %v", waits, err)
	}
	n, answer, client.sessions = 0, "86400", map[string]*Session{}
	if err := client.Retry(t.Context(), false, session); err == nil || !strings.Contains(err.Error(), "24h0m0s") {
		t.Errorf("a day is waited for: %v", err)
	}
}

// A connection is given up when nothing moves, however long it has been open; and kept while one side still sends.
func TestIdle(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	c := &deadlines{Conn: a}
	ic := newIdleConn(c, time.Hour)
	if len(c.set) != 1 {
		t.Fatalf("a new connection has no deadline")
	}
	go func() { io.CopyN(io.Discard, b, 3); b.Write([]byte("x")) }()
	if _, err := ic.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	writes := len(c.set)
	if writes < 2 {
		t.Error("a write does not extend the deadline, which the pending read has too")
	}
	if _, err := ic.Read(make([]byte, 1)); err != nil || len(c.set) != writes+1 {
		t.Errorf("a read does not extend the deadline: %v", err)
	}
}

type deadlines struct {
	net.Conn
	set []time.Time
}

func (d *deadlines) SetDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

func TestDigestWithoutHeader(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") }))
	defer s.Close()
	c := New(Options{})
	repo, err := c.Repository(host(s) + "/ns/node")
	if err != nil {
		t.Fatal(err)
	}
	d, found, err := c.Find(t.Context(), repo, "1")
	if err != nil || !found || d.String() != "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
		t.Errorf("%s %v %v", d, found, err)
	}
}

// What a server sends ends up before an operator's eyes: it must be short, printable, and without our secrets.
func TestExplainShowsNoSecret(t *testing.T) {
	const password = "hunter2"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"no %s \u001b[31m %s"}]}`, r.Header.Get("Authorization"), strings.Repeat("x", 5000))
	}))
	defer s.Close()
	c := New(Options{})
	repo, err := c.Repository(host(s) + "/ns/node")
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.Session(t.Context(), repo, false)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, session.URL("manifests/1?state=signed"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("u", password)
	_, err = session.Do(req, http.StatusOK)
	what, todo := Explain(err, host(s), "the auth file x")
	if !strings.Contains(what, "DENIED") || !strings.Contains(what, host(s)) || !strings.Contains(todo, "the auth file x") {
		t.Errorf("it says %q %q", what, todo)
	}
	basic := strings.TrimPrefix(req.Header.Get("Authorization"), "Basic ")
	for _, bad := range []string{password, basic, "\x1b", "signed"} {
		if strings.Contains(what+todo, bad) {
			t.Errorf("%q is in %q", bad, what)
		}
	}
	if len(what) > 600 {
		t.Errorf("%d bytes of message", len(what))
	}
}

// A registry that takes the connection and says nothing must not hold up a plan.
func TestSilentRegistry(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	c := New(Options{AskTimeout: 10 * time.Millisecond, Sleep: func(context.Context, time.Duration) error { return nil }})
	repo, err := c.Repository(host(s) + "/ns/node")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Find(t.Context(), repo, "1")
	if what, _ := Explain(err, host(s), ""); !strings.Contains(what, "no answer in time") {
		t.Errorf("it says %q", what)
	}
}

func TestSameHost(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"https://r.example/x", "https://r.example/v2/"}:           true,
		{"http://r.example/x", "https://r.example/v2/"}:            true,
		{"https://r.example:443/x", "https://r.example/v2/"}:       true,
		{"https://r.example:5000/x", "https://r.example:5000/v2/"}: true,
		{"https://r.example:5000/x", "https://r.example/v2/"}:      false,
		{"https://s.example/x", "https://r.example/v2/"}:           false,
		{"https://r.example.evil/x", "https://r.example/v2/"}:      false,
	} {
		a, errA := url.Parse(pair[0])
		b, errB := url.Parse(pair[1])
		if got := SameHost(a, b); got != want || errA != nil || errB != nil {
			t.Errorf("%s for %s: %v", pair[0], pair[1], got)
		}
	}
}

// Where plain HTTP is allowed, a registry that has TLS still gets nothing in clear, however slow it is or whatever its
// certificate.
func TestNothingInClearToWhoSpeaksTLS(t *testing.T) {
	var asked atomic.Int32
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	secure, plain := httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	defer plain.Close()
	for _, c := range []struct {
		name, url string
		inner     http.RoundTripper
		refused   bool
	}{
		{"its certificate is trusted", secure.URL, secure.Client().Transport, true},
		{"its certificate is not trusted", secure.URL, http.DefaultTransport, true},
		{"it has no TLS", plain.URL, http.DefaultTransport, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := http.Client{Transport: &guard{inner: c.inner, plainAllowed: func(string) bool { return true }}}
			_, host, _ := strings.Cut(c.url, "://")
			for range 2 {
				resp, err := client.Get("http://" + host + "/v2/")
				if err == nil {
					resp.Body.Close()
				}
				if refused := errors.Is(err, errSpeaksTLS); refused != c.refused || !refused && err != nil {
					t.Errorf("http to %s: %v", c.url, err)
				}
			}
		})
	}
	if got := asked.Load(); got != 1+2 { // the question whether it has TLS, and what is sent in clear to the plain one
		t.Errorf("the servers were asked %d times", got)
	}
}

// The content of images goes to nobody but the registry and whom the user has named.
func TestUploadLocation(t *testing.T) {
	c := New(Options{UploadHosts: []string{"up.other.example", "storage.example:9000"}})
	for _, test := range []struct{ registry, asked, location, want string }{
		{"r.example", "https://r.example/v2/", "/v2/ns/x", "https://r.example/v2/ns/x"},
		{"r.example", "https://r.example/v2/", "https://r.example/v2/ns/x?a=b", "https://r.example/v2/ns/x?a=b"},
		{"r.example", "https://r.example/v2/", "http://r.example/x", "https://r.example/x"},
		{"r.example", "https://r.example/v2/", "http://r.example:80/x", "https://r.example/x"},
		{"r.example", "https://r.example/v2/", "https://up.r.example/x", "https://up.r.example/x"},
		{"r.example", "https://up.r.example/x", "/y", "https://up.r.example/y"},
		{"r.example", "https://up.r.example/x", "https://r.example/y", "https://r.example/y"},
		{"r.example", "https://r.example/v2/", "https://up.other.example/x", "https://up.other.example/x"},
		{"r.example", "https://r.example/v2/", "https://up.other.example:8443/x", "https://up.other.example:8443/x"},
		{"r.example", "https://r.example/v2/", "https://storage.example:9000/x", "https://storage.example:9000/x"},
		{"r.example", "https://r.example/v2/", "http://up.r.example/x", ""},
		{"r.example", "https://r.example/v2/", "https://r.example:8443/x", ""},
		{"r.example", "https://r.example/v2/", "https://example/x", ""},
		{"r.example", "https://r.example/v2/", "https://xr.example/x", ""},
		{"r.example", "https://r.example/v2/", "https://r.example.evil.example/x", ""},
		{"r.example", "https://r.example/v2/", "https://storage.example/x", ""},
		{"r.example", "https://r.example/v2/", "http://169.254.169.254/latest", ""},
		{"r.example", "https://r.example/v2/", "", ""},
		{"127.0.0.1:5000", "http://127.0.0.1:5000/v2/", "https://x.127.0.0.1/x", ""},
		{"127.0.0.1:5000", "http://127.0.0.1:5000/v2/", "http://127.0.0.1:5001/x", ""},
	} {
		repo, err := c.Repository(test.registry + "/ns/node")
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(http.MethodPost, test.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{Repo: repo, uploadHosts: c.o.UploadHosts}
		got, err := s.Upload(&http.Response{Request: req, Header: http.Header{"Location": {test.location}}})
		if err != nil != (test.want == "") || err == nil && got.String() != test.want {
			t.Errorf("%s, asked at %s, says %q: %v %v, want %q", test.registry, test.asked, test.location, got, err, test.want)
		}
		if err != nil && test.location != "" {
			if _, todo := Explain(err, test.registry, ""); !strings.Contains(todo, "upload_hosts") {
				t.Errorf("%v: %q", err, todo)
			}
		}
	}
}
