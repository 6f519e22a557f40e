package oci

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/providertest"
)

// recorder holds an answer back, for a fault that loses it after its effect.
type recorder struct {
	header http.Header
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

// incompressible data, so that a cut in the middle of the body is one.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func pushConfig(t testing.TB, r *testRegistry) providertest.Values {
	return providertest.Values{"repository": r.Host + "/ns/node", "tag": "1",
		"source": archiveOf(t, image.Spec{Files: map[string][]byte{"noise": noise(4 << 20)}})}
}

// A push survives what a registry, or a proxy before it, does on a bad day; the image is whole and its digest the same.
func TestPushSurvives(t *testing.T) {
	calm := newRegistry(t)
	reference := newImage(t)
	ok(t, reference.Plan(t.Context(), pushConfig(t, calm)).Apply(t.Context(), nil))

	type answer = func(w http.ResponseWriter, r *http.Request, next http.Handler)
	status := func(code int, retryAfter string) answer {
		return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			w.WriteHeader(code)
		}
	}
	cut := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	cutBody := func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		io.CopyN(io.Discard, r.Body, 2<<20)
		panic(http.ErrAbortHandler)
	}
	lost := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&recorder{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name         string
		method, path string
		times        int
		answer       answer
		wait         time.Duration
	}{
		{"upload is not begun, 503", "POST", "/uploads/", 2, status(503, ""), 0},
		{"429 with Retry-After", "POST", "/uploads/", 1, status(429, "11"), 11 * time.Second},
		{"layer is cut", "PATCH", "", 2, cutBody, 0},
		{"layer is refused, 503 with Retry-After", "PATCH", "", 1, status(503, "9"), 9 * time.Second},
		{"layer is refused after it was read, 500", "PATCH", "", 1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
		}, 0},
		{"layer is taken, the answer lost", "PATCH", "", 1, lost, 0},
		{"commit is cut", "PUT", "/uploads/", 1, cut, 0},
		{"commit is done, the answer lost", "PUT", "/uploads/", 1, lost, 0},
		{"upload is forgotten", "PUT", "/uploads/", 1, status(404, ""), 0},
		{"502 of a proxy at the commit", "PUT", "/uploads/", 1, status(502, ""), 0},
		{"manifest, 503", "PUT", "/manifests/", 2, status(503, ""), 0},
		{"manifest is taken, the answer lost", "PUT", "/manifests/", 1, lost, 0},
		{"HEAD, 504", "HEAD", "/manifests/", 2, status(504, ""), 0},
		{"ping is cut", "GET", "/v2/", 1, cut, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t)
			var left atomic.Int32
			left.Store(int32(c.times))
			r.setFault(func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
				if req.Method != c.method || !strings.Contains(req.URL.Path, c.path) || left.Add(-1) < 0 {
					return false
				}
				c.answer(w, req, next)
				return true
			})
			s := new(setup)
			img := s.image(t)
			p := img.Plan(t.Context(), pushConfig(t, r))
			if p.Err() != "" {
				t.Fatal(p.Err())
			}
			ok(t, p.Apply(t.Context(), nil))
			if left.Load() > 0 {
				t.Error("the fault did not happen")
			}
			if img.State["digest"] != reference.State["digest"] {
				t.Errorf("digest %v, without faults %v", img.State["digest"], reference.State["digest"])
			}
			if c.wait > 0 && !s.waits.has(c.wait) {
				t.Errorf("Retry-After is not honoured: waited %v", s.waits.d)
			}
			r.setFault(nil)
			pulled := r.pull(r.Host + "/ns/node:1")
			if d, err := pulled.Digest(); err != nil || d.String() != img.State["digest"] {
				t.Errorf("the registry holds %s (%v)", d, err)
			}
		})
	}
}

// What can't be survived ends with a sentence, without the tag and without a state.
func TestPushGivesUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  func(w http.ResponseWriter, r *http.Request, next http.Handler) bool
		want   []string
		tagged bool
	}{
		{"always 503", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == "PATCH" {
				w.WriteHeader(503)
			}
			return r.Method == "PATCH"
		}, []string{"503", "Try again later"}, false},
		{"body too large for the proxy", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == "PATCH" {
				w.WriteHeader(413)
			}
			return r.Method == "PATCH"
		}, []string{"413", "limit of the request body"}, false},
		{"may not push", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == "POST" {
				w.WriteHeader(403)
				io.WriteString(w, `{"errors":[{"code":"DENIED","message":"read only"}]}`)
			}
			return r.Method == "POST"
		}, []string{"403", "DENIED: read only", "may push there"}, false},
		{"upload elsewhere", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == "POST" {
				w.Header().Set("Location", "http://169.254.169.254/latest")
				w.WriteHeader(202)
			}
			return r.Method == "POST"
		}, []string{"another host, 169.254.169.254"}, false},
		{"redirect elsewhere", func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == "PATCH" {
				io.Copy(io.Discard, r.Body)
				http.Redirect(w, r, "http://127.0.0.2:1/x?secret=hunter2", http.StatusSeeOther)
			}
			return r.Method == "PATCH"
		}, []string{"redirects to another host"}, false},
		{"body is damaged on the way", func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			if r.Method == "PATCH" {
				r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), r.Body))
				r.ContentLength = -1
			}
			return false
		}, []string{"DIGEST"}, false},
		{"another digest for the tag", func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			if r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") {
				r.Body = io.NopCloser(strings.NewReader(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[]}`))
			}
			return false
		}, []string{"not the one that was planned", "another tag"}, true},
		{"registry holds nothing after all", func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			if r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") {
				w.WriteHeader(201)
				return true
			}
			return false
		}, []string{"does not hold it"}, false},
		{"nonsense digest", func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
			if r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") {
				w.WriteHeader(201)
				return true
			}
			if r.Method == "HEAD" && strings.Contains(r.URL.Path, "/manifests/1") && r.Header.Get("X-Pushed") == "" {
				w.Header().Set("Docker-Content-Digest", "md5:x")
				return true
			}
			return false
		}, []string{"digest that is none"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t)
			img := newImage(t)
			p := img.Plan(t.Context(), pushConfig(t, r))
			r.setFault(c.fault)
			got := providertest.Errors(p.Apply(t.Context(), nil))
			wantErr(t, got, append(c.want, r.Host)...)
			if strings.Contains(got, "hunter2") {
				t.Errorf("a URL's secret is in %q", got)
			}
			if img.State != nil {
				t.Errorf("state %v", img.State)
			}
			r.setFault(nil)
			r.forget()
			if after := newImage(t).Plan(t.Context(), pushConfig(t, r)); (after.After["digest"] != unknownDigest) != c.tagged {
				t.Errorf("afterwards the plan's digest is %v", after.After["digest"])
			}
		})
	}
}

// Registries on object storage answer the question for a blob with where it is. Nobody needs to go there.
func TestBlobsOnObjectStorage(t *testing.T) {
	r := newRegistry(t)
	first := newImage(t)
	ok(t, first.Plan(t.Context(), pushConfig(t, r)).Apply(t.Context(), nil))
	r.setFault(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		if req.Method != http.MethodHead || !strings.Contains(req.URL.Path, "/blobs/") {
			return false
		}
		http.Redirect(w, req, "https://storage.invalid/bucket/x?signature=secret", http.StatusTemporaryRedirect)
		return true
	})
	r.forget()
	config := pushConfig(t, r)
	config["tag"] = "2"
	second := newImage(t)
	ok(t, second.Plan(t.Context(), config).Apply(t.Context(), nil))
	if second.State["digest"] != first.State["digest"] || r.count("PATCH", "") != 1 {
		t.Errorf("%d uploads, want the layer's only", r.count("PATCH", ""))
	}
}

// Somebody else makes the tag while the layer is on its way.
func TestTagIsMadeMeanwhile(t *testing.T) {
	r := newRegistry(t)
	other := pushConfig(t, r)
	other["source"] = archiveOf(t, image.Spec{Labels: map[string]string{"of": "somebody else"}})
	theirs := newImage(t)
	theirPlan := theirs.Plan(t.Context(), other)
	img := newImage(t)
	p := img.Plan(t.Context(), pushConfig(t, r))
	var once sync.Once
	r.setFault(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		if req.Method == http.MethodPatch {
			once.Do(func() {
				r.setFault(nil)
				ok(t, theirPlan.Apply(t.Context(), nil))
			})
		}
		return false
	})
	wantErr(t, providertest.Errors(p.Apply(t.Context(), nil)), "another tag", theirs.State["digest"].(string))
	if n := r.count("PUT", "/manifests/"); n != 1 {
		t.Errorf("the tag was put %d times", n)
	}
}

func TestCancelDuringUpload(t *testing.T) {
	r := newRegistry(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.setFault(func(w http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		if req.Method != "PATCH" {
			return false
		}
		io.CopyN(io.Discard, req.Body, 1<<20)
		cancel()
		io.Copy(io.Discard, req.Body) // until the client hangs up
		return true
	})
	img := newImage(t)
	p := img.Plan(ctx, pushConfig(t, r))
	wantErr(t, providertest.Errors(p.Apply(ctx, nil)), "cancelled", r.Host)
	if r.count("PUT", "") != 0 || r.count("PATCH", "") != 1 {
		t.Errorf("requests after the cancel: %v", r.requests)
	}
}

// protect asks for Basic authentication.
func protect(user, pass string) func(http.ResponseWriter, *http.Request, http.Handler) bool {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if u, p, _ := r.BasicAuth(); u == user && p == pass {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(401)
		return true
	}
}

func authFile(t testing.TB, host, user, pass string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "auth.json")
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + pass))
	if err := os.WriteFile(name, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Neither the archive's path nor a credential may be found in plan or state, and no credential in what is said.
func TestSecretsAndPathsStayOut(t *testing.T) {
	const password = "hunter2-canary"
	r := newRegistry(t)
	r.setFault(protect("u", password))
	config := pushConfig(t, r)
	path := config["source"].(string)
	encoded := base64.StdEncoding.EncodeToString([]byte("u:" + password))

	s := &setup{env: map[string]string{"REGISTRY_AUTH_FILE": authFile(t, r.Host, "u", password)}}
	img := s.image(t)
	p := img.Plan(t.Context(), config)
	if p.Err() != "" {
		t.Fatal(p.Err())
	}
	planned := fmt.Sprint(p.After)
	ok(t, p.Apply(t.Context(), nil))
	for _, secret := range []string{password, encoded, path} {
		if strings.Contains(planned, secret) || strings.Contains(fmt.Sprint(img.State), secret) {
			t.Errorf("%s is in plan or state", secret)
		}
	}

	for name, c := range map[string]struct {
		s    *setup
		want []string
	}{
		"wrong password":      {&setup{env: map[string]string{"REGISTRY_AUTH_FILE": authFile(t, r.Host, "u", password+"x")}}, []string{"401", "auth file", "auth.json"}},
		"no credentials":      {&setup{}, []string{"401", "REGISTRY_AUTH_FILE is not set"}},
		"of another registry": {&setup{env: map[string]string{"REGISTRY_AUTH_FILE": authFile(t, "other.example", "u", password)}}, []string{"401"}},
		"setting before environment": {&setup{config: providertest.Values{"auth_file": authFile(t, r.Host, "u", password+"y")},
			env: map[string]string{"REGISTRY_AUTH_FILE": authFile(t, r.Host, "u", password)}}, []string{"401"}},
		"file is missing": {&setup{env: map[string]string{"REGISTRY_AUTH_FILE": "/nowhere/auth.json"}}, []string{"/nowhere/auth.json", "no such file", "was not asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			config["tag"] = "2"
			got := c.s.image(t).Plan(t.Context(), config).Err()
			wantErr(t, got, append(c.want, r.Host)...)
			if strings.Contains(got, password) || strings.Contains(got, encoded[:12]) {
				t.Errorf("the password is in %q", got)
			}
		})
	}
}

// tokens is a token server: each token is good for so many requests.
type tokens struct {
	mu     sync.Mutex
	good   map[string]int
	issued int
	uses   int
	scopes []string
}

func (k *tokens) fault(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.URL.Path == "/token" {
		if u, p, _ := r.BasicAuth(); u != "u" || p != "p" {
			w.WriteHeader(401)
			return true
		}
		k.issued++
		token := fmt.Sprintf("token-%d", k.issued)
		k.good[token] = k.uses
		k.scopes = append(k.scopes, r.URL.Query()["scope"]...)
		fmt.Fprintf(w, `{"token":%q}`, token)
		return true
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if k.good[token] == 0 {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="registry",scope="repository:ns/node:pull,push"`, r.Host))
		w.WriteHeader(401)
		return true
	}
	k.good[token]--
	return false
}

// A token that expires while a push runs is renewed, whichever request it is that finds out.
func TestFreshTokenInTheMiddleOfAPush(t *testing.T) {
	for uses := 1; uses <= 9; uses++ {
		t.Run(fmt.Sprintf("after %d requests", uses), func(t *testing.T) {
			r := newRegistry(t)
			k := &tokens{good: map[string]int{}, uses: uses}
			r.setFault(k.fault)
			s := &setup{config: providertest.Values{"auth_file": authFile(t, r.Host, "u", "p")}}
			img := s.image(t)
			p := img.Plan(t.Context(), pushConfig(t, r))
			if p.Err() != "" {
				t.Fatal(p.Err())
			}
			ok(t, p.Apply(t.Context(), nil))
			if k.issued < 3 && uses < 7 {
				t.Errorf("%d tokens for requests that need more", k.issued)
			}
			if len(k.scopes) == 0 || !strings.Contains(strings.Join(k.scopes, " "), "push") {
				t.Errorf("scopes %v", k.scopes)
			}
		})
	}
}
