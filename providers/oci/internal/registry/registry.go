// Package registry speaks to one or more OCI registries: who may be spoken to without TLS, credentials, time limits,
// retries, and errors that a user can act on. What is said is up to the callers.
package registry

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// MaxManifestBytes bounds a manifest; it's the size that registries must accept.
const MaxManifestBytes = 4 << 20

// Options say how to reach registries.
type Options struct {
	// Keychain finds credentials; it's asked at each use, for they may be rotated. nil: anonymous.
	Keychain authn.Keychain
	// PlainHTTP are hosts ("name" or "name:port") that may be spoken to without TLS. Loopback always may.
	PlainHTTP []string
	// CAFile, if set, is a PEM file with CAs that are trusted beside the system's.
	CAFile string
	// UploadHosts are hosts ("name" or "name:port") beside the registry's own that it may send uploads to.
	UploadHosts []string
	// UserAgent is sent with each request.
	UserAgent string
	// IdleTimeout ends a connection on which nothing moves in either direction; there is no limit on the total.
	// Default 5 minutes: registries on object storage take their time to assemble a large blob.
	IdleTimeout time.Duration
	// AskTimeout bounds a question that has a short answer, such as Find. Default 30 seconds.
	AskTimeout time.Duration
	// Sleep waits between retries; tests replace it. nil: a timer.
	Sleep func(context.Context, time.Duration) error
}

// Client is safe for concurrent use.
type Client struct {
	o         Options
	transport func() (http.RoundTripper, error)

	mu       sync.Mutex
	sessions map[string]*Session
}

// New makes a Client. It reads and dials nothing yet.
func New(o Options) *Client {
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 5 * time.Minute
	}
	if o.AskTimeout == 0 {
		o.AskTimeout = 30 * time.Second
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain()
	}
	c := &Client{o: o, sessions: map[string]*Session{}}
	c.transport = sync.OnceValues(c.newTransport)
	return c
}

// CheckRepository says what is wrong with a repository, "host[:port]/path". The host must be there: nothing is
// pushed to a default registry by accident.
func CheckRepository(s string) error {
	_, err := New(Options{}).Repository(s)
	return err
}

// Repository parses what CheckRepository checks.
func (c *Client) Repository(s string) (name.Repository, error) {
	host, path, ok := strings.Cut(s, "/")
	if strings.Contains(host, "@") { // never echo what may be a password
		return name.Repository{}, errors.New("repository has credentials in its host: put them into the auth file")
	}
	if !ok || path == "" || host == "" || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return name.Repository{}, fmt.Errorf("repository %q: want \"host[:port]/path\", with a host that has a dot or a port", s)
	}
	for part := range strings.SplitSeq(path, "/") {
		if !validPart(part) {
			return name.Repository{}, fmt.Errorf("repository %q: %q must be lower-case letters and digits, in groups joined by '.', '_', '__' or '-'", s, part)
		}
	}
	var opts []name.Option
	if c.plainAllowed(host) {
		opts = append(opts, name.Insecure)
	}
	repo, err := name.NewRepository(s, opts...)
	if err != nil {
		return name.Repository{}, fmt.Errorf("repository %q is not valid: want \"host[:port]/path\"", s)
	}
	return repo, nil
}

// validPart tells whether s is a path component as the distribution spec has it.
func validPart(s string) bool {
	separator := "x" // not at the beginning
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			separator = ""
		case r == '-' && strings.Trim(separator, "-") == "" && separator != "x":
			separator += "-"
		case r == '_' && (separator == "" && s[0] != '_' || separator == "_"), r == '.' && separator == "" && s[0] != '.':
			separator += string(r)
		default:
			return false
		}
	}
	return separator == ""
}

// CheckTag says what is wrong with a tag.
func CheckTag(tag string) error {
	ok := len(tag) >= 1 && len(tag) <= 128 && tag[0] != '.' && tag[0] != '-'
	for _, r := range tag {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-')
	}
	if !ok {
		return fmt.Errorf("tag %.140q: want 1 to 128 letters, digits, '_', '.' and '-', not beginning with '.' or '-'", tag)
	}
	return nil
}

// plainAllowed tells whether host ("name[:port]") may be spoken to without TLS.
func (c *Client) plainAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	for _, allowed := range c.o.PlainHTTP {
		if allowed == hostport || allowed == host {
			return true
		}
	}
	return false
}

func (c *Client) newTransport() (http.RoundTripper, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.o.CAFile != "" {
		pem, err := os.ReadFile(c.o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		// A minimal image has no system pool; the file alone is then what there is.
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %s holds no PEM certificate", c.o.CAFile)
		}
		tlsConfig.RootCAs = pool
	}
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	// HTTP/1.1 only: one upload per connection, and no flow control window in the way of a long fat one.
	return &guard{plainAllowed: c.plainAllowed, inner: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return newIdleConn(conn, c.o.IdleTimeout), nil
		},
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: 2 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
		WriteBufferSize:       256 << 10, // so that a compressed block goes in one piece
	}}, nil
}

// localError is a failure on this side, before the registry was asked.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// Session is an authenticated conversation about one repository. It's safe for concurrent use.
type Session struct {
	Repo        name.Repository
	http        *http.Client
	uploadHosts []string
}

// Session makes or reuses a session. write asks for the right to push, too. also are other repositories of the registry
// that it asks the right to pull from; a token server grants it or not.
func (c *Client) Session(ctx context.Context, repo name.Repository, write bool, also ...name.Repository) (*Session, error) {
	actions := transport.PullScope
	if write {
		actions = transport.PushScope
	}
	scopes := []string{repo.Scope(actions)}
	for _, r := range also {
		scopes = append(scopes, r.Scope(transport.PullScope))
	}
	key := repo.RegistryStr() + " " + strings.Join(scopes, " ")
	c.mu.Lock()
	s := c.sessions[key]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	base, err := c.transport()
	if err != nil {
		return nil, &localError{err}
	}
	auth := &credentials{c.o.Keychain, repo}
	if _, err := auth.AuthorizationContext(ctx); err != nil {
		return nil, err // before the registry is spoken to
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(base, c.o.UserAgent), scopes)
	if err != nil {
		return nil, err
	}
	s = &Session{Repo: repo, http: &http.Client{Transport: rt, CheckRedirect: sameHost}, uploadHosts: c.o.UploadHosts}
	c.mu.Lock()
	c.sessions[key] = s
	c.mu.Unlock()
	return s, nil
}

// credentials are those that a keychain has at the moment. A session outlives them.
type credentials struct {
	keychain authn.Keychain
	repo     name.Repository
}

var _ authn.ContextAuthenticator = (*credentials)(nil)

func (c *credentials) Authorization() (*authn.AuthConfig, error) {
	return c.AuthorizationContext(context.Background())
}

func (c *credentials) AuthorizationContext(ctx context.Context) (*authn.AuthConfig, error) {
	auth, err := authn.Resolve(ctx, c.keychain, c.repo)
	var config *authn.AuthConfig
	if err == nil {
		config, err = authn.Authorization(ctx, auth)
	}
	if err != nil {
		return nil, &localError{err}
	}
	return config, nil
}

// sameHost keeps a registry from sending us, or what we upload, to somewhere else. That a blob is elsewhere, as
// registries on object storage say, is an answer in itself.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 5 {
		return errors.New("the registry redirects in a circle")
	}
	if !SameHost(req.URL, via[0].URL) {
		if via[0].Method == http.MethodHead && strings.Contains(via[0].URL.Path, "/blobs/") {
			return http.ErrUseLastResponse
		}
		return fmt.Errorf("the registry redirects to another host, %s, which yuba does not follow", req.URL.Host)
	}
	return nil
}

// SameHost tells whether both URLs lead to the same host. Behind a proxy that ends TLS a registry often takes itself
// for http, so of the default ports either will do.
func SameHost(a, b *url.URL) bool {
	if a.Host == b.Host {
		return true
	}
	standard := func(port string) bool { return port == "" || port == "80" || port == "443" }
	return a.Hostname() == b.Hostname() && standard(a.Port()) && standard(b.Port())
}

// Upload is where to go on with the upload that the answer is about. The content goes there, so it must be a host of the
// registry's own, which is the host that was asked or one below its name, or a host that the user has named. Credentials
// go to the registry's host only.
func (s *Session) Upload(resp *http.Response) (*url.URL, error) {
	to, err := resp.Location()
	if err != nil {
		return nil, errors.New("the registry does not say where to upload")
	}
	asked := resp.Request.URL
	own := url.URL{Scheme: s.Repo.Scheme(), Host: s.Repo.RegistryStr()}
	switch {
	case SameHost(to, asked):
		to.Scheme, to.Host = asked.Scheme, asked.Host
	case SameHost(to, &own):
		to.Scheme, to.Host = own.Scheme, own.Host
	case slices.Contains(s.uploadHosts, to.Host), slices.Contains(s.uploadHosts, to.Hostname()):
	case to.Scheme == "https" && net.ParseIP(own.Hostname()) == nil && strings.HasSuffix(to.Hostname(), "."+own.Hostname()):
	default:
		return nil, &elsewhereError{to.Host}
	}
	return to, nil
}

// elsewhereError is an upload that the registry wants on a host that is not its own.
type elsewhereError struct{ host string }

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("the registry wants the upload on another host, %s, which yuba does not follow", e.host)
}

// URL is the address of path below the repository ("manifests/x").
func (s *Session) URL(path string) string {
	return s.Repo.Scheme() + "://" + s.Repo.RegistryStr() + "/v2/" + s.Repo.RepositoryStr() + "/" + path
}

// Do sends the request and demands one of the status codes; anything else is an error and the body is closed.
func (s *Session) Do(req *http.Request, codes ...int) (*http.Response, error) {
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Digest asks which manifest the registry holds under a tag or digest; found is false when it holds none.
// It's the registry's own word where it gives one, else the hash of what it sends.
func (s *Session) Digest(ctx context.Context, identifier string) (d v1.Hash, found bool, err error) {
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		req, err := http.NewRequestWithContext(ctx, method, s.URL("manifests/"+identifier), nil)
		if err != nil {
			return v1.Hash{}, false, err
		}
		for _, mt := range []types.MediaType{types.OCIManifestSchema1, types.OCIImageIndex, types.DockerManifestSchema2, types.DockerManifestList} {
			req.Header.Add("Accept", string(mt))
		}
		resp, err := s.Do(req, http.StatusOK, http.StatusNotFound)
		if err != nil {
			return v1.Hash{}, false, err
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifestBytes+1))
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return v1.Hash{}, false, nil
		}
		if err != nil {
			return v1.Hash{}, false, err
		}
		if said := resp.Header.Get("Docker-Content-Digest"); said != "" {
			d, err := v1.NewHash(said)
			if err != nil || d.Algorithm != "sha256" {
				return v1.Hash{}, false, fmt.Errorf("the registry names a digest that is none: %.100q", said)
			}
			return d, true, nil
		}
		if method == http.MethodGet {
			if len(body) > MaxManifestBytes {
				return v1.Hash{}, false, fmt.Errorf("the registry's manifest is larger than %d bytes", MaxManifestBytes)
			}
			sum := sha256.Sum256(body)
			return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, true, nil
		}
	}
	return v1.Hash{}, false, errors.New("the registry names no digest")
}

// Find is Digest with the retries and the time limit of a question: a registry that isn't there is not waited for.
func (c *Client) Find(ctx context.Context, repo name.Repository, identifier string) (d v1.Hash, found bool, err error) {
	err = c.Retry(ctx, false, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.o.AskTimeout)
		defer cancel()
		s, err := c.Session(ctx, repo, false)
		if err != nil {
			return err
		}
		d, found, err = s.Digest(ctx, identifier)
		return err
	})
	return d, found, err
}
