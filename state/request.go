package state

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"fediversity.eu/yuba/internal/trust"
)

const (
	// maxErrorBody bounds what is read of an answer that is no state.
	maxErrorBody = 64 << 10
	// maxWords bounds the server's words in an error, in bytes.
	maxWords = 300
	// maxRedirects bounds the redirects of one GET.
	maxRedirects = 5
	// userAgent says who asks; versions are the command's business.
	userAgent = "yuba"
)

// request is one HTTP request of the protocol.
type request struct {
	op     string
	method string
	to     endpoint
	lockID string // sent as ?ID= when set
	body   []byte
	state  bool // a good answer is a state: read it whole
}

// answer is a server's answer, body read.
type answer struct {
	status int
	header http.Header
	body   []byte
	cut    error // the body ended early
}

func (a *answer) ok() bool { return a.status >= 200 && a.status < 300 }
func (a *answer) locked() bool {
	return a.status == http.StatusConflict || a.status == http.StatusLocked
}

// unclear says that the server failed in a way that may have had the effect.
func (a *answer) unclear() bool { return a.status >= 500 && a.status != http.StatusNotImplemented }

// errTooLarge is not retried.
type errTooLarge struct{ limit int64 }

func (e errTooLarge) Error() string {
	return fmt.Sprintf("the state is larger than %d bytes", e.limit)
}

// send sends r once. A success that comes with a web page is no answer. sent says
// whether the server may have seen it: false is certain, for there was no
// connection.
func (c *Client) send(ctx context.Context, r request) (a *answer, sent bool, err error) {
	actx, cancel := c.within(ctx, c.cfg.AttemptTimeout)
	defer cancel()

	var connected atomic.Bool
	actx = httptrace.WithClientTrace(actx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	u := *r.to.url
	if r.lockID != "" {
		q := u.Query()
		q.Set("ID", r.lockID)
		u.RawQuery = q.Encode()
	}
	var body io.Reader
	if len(r.body) > 0 {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(actx, r.method, u.String(), body)
	if err != nil {
		return nil, false, c.failed(r, fmt.Errorf("method %q or address is not valid for HTTP", r.method))
	}
	req.Header.Set("User-Agent", userAgent)
	for k, v := range c.cfg.Headers {
		req.Header.Set(k, v)
	}
	switch {
	case c.cfg.Username != "":
		req.SetBasicAuth(c.cfg.Username, c.cfg.Password)
	case r.to.user != "" || r.to.password != "":
		req.SetBasicAuth(r.to.user, r.to.password)
	}
	if len(r.body) > 0 {
		sum := md5.Sum(r.body)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}

	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(actx); cause != nil && ctx.Err() == nil {
			err = cause
		}
		return nil, connected.Load(), c.failed(r, err)
	}
	defer resp.Body.Close()
	a = &answer{status: resp.StatusCode, header: resp.Header}
	limit := int64(maxErrorBody)
	if r.state && a.ok() {
		limit = c.cfg.MaxStateBytes
	}
	a.body, a.cut = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(a.body)) > limit {
		if r.state && a.ok() {
			return nil, true, c.failed(r, errTooLarge{limit})
		}
		a.body = a.body[:limit]
	}
	if a.cut != nil {
		if cause := context.Cause(actx); cause != nil && ctx.Err() == nil {
			a.cut = cause
		}
	}
	if a.ok() && !r.state && isHTML(a) {
		// A login page, or a server that is fond of pages. A state is looked at itself.
		return nil, true, c.failed(r, fmt.Errorf("the server answers with a web page (%q): check the address and the login", c.words(a)))
	}
	return a, true, nil
}

// redirects is the client's policy: a write is never sent anywhere else, a read
// only to the same host, for it carries the credentials.
func redirects(req *http.Request, via []*http.Request) error {
	from, to := via[0].URL, req.URL
	same := from.Scheme == to.Scheme && from.Host == to.Host
	upgrade := from.Scheme == "http" && to.Scheme == "https" && from.Hostname() == to.Hostname()
	if via[0].Method != http.MethodGet || !same && !upgrade || to.User != nil || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// failed wraps the cause of a request that got no answer.
func (c *Client) failed(r request, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) { // it repeats the URL
		err = ue.Err
	}
	switch {
	case trust.Unknown(err):
		err = fmt.Errorf("%w: give it in TF_HTTP_CLIENT_CA_CERTIFICATE_PEM, or %s", err, trust.Advice())
	case trust.OutOfTime(err):
		err = fmt.Errorf("%w: renew the server's certificate, or check the clock of this machine", err)
	}
	if clean := c.scrub(err.Error()); clean != err.Error() {
		err = errors.New(clean)
	}
	return &RequestError{Op: r.op, URL: r.to.shown, Err: err}
}

// refused makes the error for an answer that is no success.
func (c *Client) refused(r request, a *answer) error {
	if info, ok := ParseLockInfo(a.body); a.locked() || ok && a.status == http.StatusBadRequest {
		for _, text := range []*string{&info.Operation, &info.Info, &info.Who, &info.Version, &info.Path} {
			*text = c.scrub(*text) // not the ID: it must stay comparable
		}
		e := &LockedError{Op: r.op, URL: r.to.shown, Status: a.status, Info: info, Raw: []byte(c.scrub(string(a.body)))}
		if !ok {
			e.Words = c.words(a)
		}
		return e
	}
	e := &StatusError{Op: r.op, URL: r.to.shown, Status: a.status, Words: c.words(a)}
	if l := a.header.Get("Location"); l != "" && a.status >= 300 && a.status < 400 {
		if to, err := r.to.url.Parse(l); err == nil {
			e.Location = c.scrub(redactURL(to.String()))
		}
	}
	return e
}

var (
	htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	htmlTag   = regexp.MustCompile(`(?s)<[^>]*>`)
)

// words is what the server said, in one line without secrets.
func (c *Client) words(a *answer) string {
	text := string(a.body)
	if isHTML(a) {
		if m := htmlTitle.FindStringSubmatch(text); m != nil {
			text = m[1]
		} else {
			text = htmlTag.ReplaceAllString(text, " ")
		}
	} else {
		var said struct {
			Message any `json:"message"`
			Error   any `json:"error"`
		}
		if json.Unmarshal(a.body, &said) == nil {
			for _, v := range []any{said.Message, said.Error} {
				if s, ok := v.(string); ok && s != "" {
					text = s
					break
				}
			}
		}
	}
	return cleanText(c.scrub(text), maxWords)
}

func isHTML(a *answer) bool {
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	return kind == "text/html" || bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<"))
}

var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"']*@`)

// scrub takes every secret of the configuration out of a text from outside,
// and userinfo of any URL.
func (c *Client) scrub(s string) string {
	return userinfo.ReplaceAllString(c.secrets.Replace(s), "${1}")
}

// secretsOf lists each secret in the forms in which a server or a library may
// repeat it. Those of one or two characters would match ordinary text.
func secretsOf(cfg Config, ends ...endpoint) *strings.Replacer {
	var pairs []string
	add := func(s string) {
		if len(s) > 2 {
			pairs = append(pairs, s, "[secret]")
		}
	}
	login := func(user, password string) {
		if password == "" {
			return
		}
		add(base64.StdEncoding.EncodeToString([]byte(user + ":" + password)))
		add(password)
		add(url.QueryEscape(password))
		add(url.PathEscape(password))
		quoted, _ := json.Marshal(password)
		add(strings.Trim(string(quoted), `"`))
	}
	login(cfg.Username, cfg.Password)
	for _, e := range ends {
		login(e.user, e.password)
		for _, vs := range e.url.Query() {
			for _, v := range vs {
				if len(v) > 7 {
					add(v)
				}
			}
		}
	}
	for _, v := range cfg.Headers {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token)
		}
	}
	return strings.NewReplacer(pairs...)
}

// redactURL shows a URL without userinfo, query values and fragment; what is
// no URL is not shown at all.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	s := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		s += "?..."
	}
	return s
}

// heals says whether a request without an answer is worth repeating.
func heals(err error) bool {
	var (
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		large   errTooLarge
		dns     *net.DNSError
	)
	switch {
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid),
		errors.As(err, &record), errors.As(err, &alert), errors.As(err, &large), errors.Is(err, http.ErrSchemeMismatch):
		return false
	case errors.As(err, &dns) && dns.IsNotFound:
		return false
	}
	return true
}

// attempts calls try until it is done or has failed for good, at most
// RetryMax+1 times. try says whether another attempt makes sense; pause is
// what the server asked for, if it did.
func (c *Client) attempts(ctx context.Context, try func() (again bool, pause time.Duration, err error)) error {
	for n := 0; ; n++ {
		again, pause, err := try()
		if err == nil || !again || n >= c.cfg.RetryMax || ctx.Err() != nil {
			return err
		}
		wait := c.cfg.RetryWaitMin << min(n, 20)
		if pause > wait {
			wait = pause
		}
		if c.sleep(ctx, min(wait, c.cfg.RetryWaitMax)) != nil {
			return err
		}
	}
}

// retryAfter is what a 429 or 503 asks for, in seconds or as a date, which is
// counted from the server's own clock.
func retryAfter(a *answer) time.Duration {
	if a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
		return 0
	}
	v := a.header.Get("Retry-After")
	if n, err := strconv.ParseInt(v, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(v)
	now, nowErr := http.ParseTime(a.header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// within bounds one request with its answer.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no complete answer within %v", d))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func transport(cfg Config) (*http.Transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.SkipCertVerification}
	if cfg.CACertificatePEM != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(cfg.CACertificatePEM)) {
			return nil, errors.New("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM holds no PEM certificate")
		}
	}
	switch {
	case cfg.ClientCertificatePEM != "" && cfg.ClientPrivateKeyPEM == "":
		return nil, errors.New("TF_HTTP_CLIENT_CERTIFICATE_PEM is set but TF_HTTP_CLIENT_PRIVATE_KEY_PEM is not")
	case cfg.ClientCertificatePEM == "" && cfg.ClientPrivateKeyPEM != "":
		return nil, errors.New("TF_HTTP_CLIENT_PRIVATE_KEY_PEM is set but TF_HTTP_CLIENT_CERTIFICATE_PEM is not")
	case cfg.ClientCertificatePEM != "":
		pair, err := tls.X509KeyPair([]byte(cfg.ClientCertificatePEM), []byte(cfg.ClientPrivateKeyPEM))
		if err != nil {
			return nil, fmt.Errorf("TF_HTTP_CLIENT_CERTIFICATE_PEM and TF_HTTP_CLIENT_PRIVATE_KEY_PEM: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		// Length and MD5 of an answer are those of the bytes on the wire.
		DisableCompression: true,
	}, nil
}
