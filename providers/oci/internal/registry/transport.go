package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// guard is below the authentication, so it sees every request, the ones for tokens too.
type guard struct {
	inner        http.RoundTripper
	plainAllowed func(hostport string) bool

	mu     sync.Mutex
	secure map[string]bool // by host: whether it speaks TLS
}

// speaksTLS tells whether a host that may be spoken to in clear has TLS nevertheless, be it with a certificate that we
// don't trust. go-containerregistry would let http win already when https takes more than 300 ms, and send the
// credentials in clear.
func (g *guard) speaksTLS(req *http.Request) (bool, error) {
	host := req.URL.Host
	g.mu.Lock()
	secure, known := g.secure[host]
	g.mu.Unlock()
	if known {
		return secure, nil
	}
	ask, err := http.NewRequestWithContext(req.Context(), http.MethodGet, "https://"+host+"/v2/", nil)
	if err != nil {
		return false, err
	}
	ask.Header.Set("User-Agent", req.UserAgent())
	resp, err := g.inner.RoundTrip(ask)
	if err == nil {
		resp.Body.Close()
	}
	if ctxErr := req.Context().Err(); err != nil && ctxErr != nil {
		return false, ctxErr
	}
	var alert tls.AlertError
	var certificate *tls.CertificateVerificationError
	secure = err == nil || errors.As(err, &certificate) || errors.As(err, &alert)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.secure == nil {
		g.secure = map[string]bool{}
	}
	g.secure[host] = secure
	return secure, nil
}

// errSpeaksTLS is hidden behind what went wrong with TLS.
var errSpeaksTLS = errors.New("it speaks TLS, so nothing is sent to it in clear")

type plainError struct{ host string }

func (e *plainError) Error() string {
	return fmt.Sprintf("plain HTTP to %s is not allowed: give the registry a certificate (and ca_file), or list it in the provider's plain_http", e.host)
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	// go-containerregistry falls back to http for private addresses and .local names, too.
	if req.URL.Scheme != "https" && !g.plainAllowed(req.URL.Host) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &plainError{req.URL.Host}
	}
	if req.URL.Scheme != "https" {
		secure, err := g.speaksTLS(req)
		if secure {
			err = errSpeaksTLS
		}
		if err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
	}
	// It also sends a request again with a fresh token after a 401, but with the body where the first try left it.
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		clone := req.Clone(req.Context())
		if req.Body != nil {
			req.Body.Close()
		}
		clone.Body = body
		resp, err := g.inner.RoundTrip(clone)
		if resp != nil {
			resp.Request = req
		}
		return g.note(req, resp, err)
	}
	resp, err := g.inner.RoundTrip(req)
	return g.note(req, resp, err)
}

// note keeps Retry-After for the retry loop around the request.
func (g *guard) note(req *http.Request, resp *http.Response, err error) (*http.Response, error) {
	hint, _ := req.Context().Value(hintKey{}).(*hint)
	if hint != nil && resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		hint.after.Store(int64(retryAfter(resp)))
	}
	return resp, err
}

// retryAfter reads the header, in seconds or as a date counted from the server's own clock. 0: there is none.
func retryAfter(resp *http.Response) time.Duration {
	v := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// idleConn fails when for some time no byte moves in either direction. Reads and writes extend each other's
// deadline: while an upload runs, the pending read of the response must not time out.
type idleConn struct {
	net.Conn
	idle time.Duration
}

func newIdleConn(c net.Conn, idle time.Duration) *idleConn {
	ic := &idleConn{c, idle}
	ic.extend()
	return ic
}

func (c *idleConn) extend() { c.Conn.SetDeadline(time.Now().Add(c.idle)) }

func (c *idleConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.extend()
	}
	return n, err
}

func (c *idleConn) Write(b []byte) (int, error) {
	c.extend() // the source may have been slow; from here on it's the peer's turn
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.extend()
	}
	return n, err
}
