package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/providertest"
)

// testRegistry is a registry in this process, whose requests a test can count, answer otherwise, or cut.
type testRegistry struct {
	t     *testing.T
	Host  string
	inner atomic.Pointer[http.Handler]

	mu       sync.Mutex
	requests []string
	// fault, if set, sees each request first; true: it has answered.
	fault func(w http.ResponseWriter, r *http.Request, next http.Handler) bool
}

func newRegistry(t *testing.T) *testRegistry {
	t.Helper()
	r := &testRegistry{t: t}
	r.wipe()
	s := httptest.NewUnstartedServer(r)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	r.Host = s.Listener.Addr().String()
	return r
}

// wipe makes the registry forget everything.
func (r *testRegistry) wipe() {
	h := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	r.inner.Store(&h)
}

func (r *testRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	fault := r.fault
	r.mu.Unlock()
	next := *r.inner.Load()
	if fault == nil || !fault(w, req, next) {
		next.ServeHTTP(w, req)
	}
}

func (r *testRegistry) setFault(f func(http.ResponseWriter, *http.Request, http.Handler) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// count returns how many requests had the method ("": any) and a path that contains part.
func (r *testRegistry) count(method, part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, s := range r.requests {
		if m, path, _ := strings.Cut(s, " "); (method == "" || m == method) && strings.Contains(path, part) {
			n++
		}
	}
	return n
}

func (r *testRegistry) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

func (r *testRegistry) pull(ref string) v1.Image {
	r.t.Helper()
	n, err := name.ParseReference(ref)
	if err != nil {
		r.t.Fatal(err)
	}
	img, err := remote.Image(n)
	if err != nil {
		r.t.Fatal(err)
	}
	return img
}

func archiveOf(t testing.TB, s image.Spec) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "node.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := image.Write(f, s); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// waits collects the pauses between retries in place of making them.
type waits struct {
	mu sync.Mutex
	d  []time.Duration
}

func (w *waits) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d = append(w.d, d)
	return ctx.Err()
}

func (w *waits) has(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, got := range w.d {
		if got == d {
			return true
		}
	}
	return false
}

type setup struct {
	config providertest.Values
	env    map[string]string
	opts   []Option
	waits  waits
}

func (s *setup) image(t testing.TB) *providertest.Resource {
	t.Helper()
	opts := append([]Option{func(c *config) {
		c.getenv = func(key string) string { return s.env[key] }
		c.registry.Sleep = s.waits.sleep
	}}, s.opts...)
	return providertest.New(t, Server("test", opts...), s.config).Resource("oci_image")
}

func newImage(t testing.TB) *providertest.Resource { return new(setup).image(t) }

func ok(t *testing.T, diags []*tfprotov6.Diagnostic) {
	t.Helper()
	if len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
}

func wantErr(t *testing.T, got string, parts ...string) {
	t.Helper()
	if got == "" {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("error lacks %q:\n%s", p, got)
		}
	}
}

const unknownDigest = providertest.Unknown

func TestPushOfEveryLayout(t *testing.T) {
	r := newRegistry(t)
	digests := map[any]string{}
	n := 0
	for layoutName, layout := range image.Layouts() {
		for _, outer := range []bool{false, true} {
			n++
			config := providertest.Values{"source": archiveOf(t, image.Spec{Layout: layout, Gzip: outer, Labels: map[string]string{"a": "b"}}),
				"repository": fmt.Sprintf("%s/ns/node%d", r.Host, n), "tag": "1"}
			img := newImage(t)
			p := img.Plan(t.Context(), config)
			if p.Err() != "" || p.Action != "create" || p.After["digest"] != unknownDigest || p.After["id"] != unknownDigest || p.After["present"] != true {
				t.Fatalf("%s: plan %s %v %s", layoutName, p.Action, p.After, p.Err())
			}
			ok(t, p.Apply(t.Context(), nil))
			digest := img.State["digest"].(string)
			digests[digest] = layoutName
			if want := config["repository"].(string) + "@" + digest; img.State["id"] != want {
				t.Errorf("id %v, want %s", img.State["id"], want)
			}

			pulled := r.pull(config["repository"].(string) + ":1")
			if got, err := pulled.Digest(); err != nil || got.String() != digest {
				t.Errorf("the registry holds %s, the state says %s (%v)", got, digest, err)
			}
			if err := validate.Image(pulled); err != nil {
				t.Errorf("%s: what was pushed is not valid: %v", layoutName, err)
			}
			if c, err := pulled.ConfigFile(); err != nil || c.Config.Labels["a"] != "b" || c.Config.StopSignal != "SIGRTMIN+3" || c.Config.Cmd[0] != "/sbin/init" {
				t.Errorf("config %+v %v", c, err)
			}

			ok(t, img.Refresh(t.Context()))
			r.forget()
			if p := img.Plan(t.Context(), config); p.Action != "no-op" {
				t.Errorf("second plan is %s %v %s", p.Action, p.After, p.Err())
			}
			if r.count("", "") != 0 {
				t.Errorf("a plan without changes asks the registry beside the refresh: %v", r.requests)
			}
		}
	}
	if len(digests) != 1 {
		t.Errorf("the same image has %d digests, by the layout of the archive", len(digests))
	}
}

// The second deploy of an image, from another machine or after a lost state, pushes nothing, and the plan knows the digest.
func TestHeldTagIsNotPushed(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	first := newImage(t)
	ok(t, first.Plan(t.Context(), config).Apply(t.Context(), nil))

	r.forget()
	config["source"] = archiveOf(t, image.Spec{Files: map[string][]byte{"other": nil}}) // another image under the same tag
	second := newImage(t)
	p := second.Plan(t.Context(), config)
	if p.After["digest"] != first.State["digest"] {
		t.Errorf("planned digest %v, the registry holds %v", p.After["digest"], first.State["digest"])
	}
	ok(t, p.Apply(t.Context(), nil))
	if r.count("POST", "") != 0 || r.count("PUT", "") != 0 || second.State["digest"] != first.State["digest"] {
		t.Errorf("the tag was moved: %v", r.requests)
	}
}

// FR-002: pushed anew when, and only when, the tag (or the repository) changes.
func TestPushedAnewOnlyWithTheTag(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	img := newImage(t)
	ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
	old := img.State["digest"]

	config["source"] = "/nowhere/else.tar" // a per-run value
	if p := img.Plan(t.Context(), config); p.Action != "no-op" {
		t.Errorf("another source: %s %v %s", p.Action, p.After, p.Err())
	}
	config["tag"], config["source"] = "2", archiveOf(t, image.Spec{Labels: map[string]string{"v": "2"}})
	p := img.Plan(t.Context(), config)
	if p.Action != "update" || p.After["digest"] != unknownDigest {
		t.Fatalf("another tag: %s %v %s", p.Action, p.After, p.Err())
	}
	ok(t, p.Apply(t.Context(), nil))
	if img.State["digest"] == old {
		t.Error("digest did not change")
	}
	r.pull(r.Host + "/ns/node:1") // an earlier image stays, for a rollback
}

func TestImageGoneFromTheRegistryIsPushedAgain(t *testing.T) {
	r := newRegistry(t)
	source := archiveOf(t, image.Spec{})
	config := providertest.Values{"source": source, "repository": r.Host + "/ns/node", "tag": "1"}
	img := newImage(t)
	ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
	digest := img.State["digest"]

	r.wipe()
	ok(t, img.Refresh(t.Context()))
	p := img.Plan(t.Context(), config)
	if p.Action != "update" || p.After["digest"] != digest || p.After["present"] != true {
		t.Fatalf("plan %s %v %s", p.Action, p.After, p.Err())
	}
	other := providertest.Values{"source": archiveOf(t, image.Spec{Labels: map[string]string{"v": "2"}}), "repository": config["repository"], "tag": "1"}
	wantErr(t, providertest.Errors(p.Apply(t.Context(), other)), "not the one that was planned", digest.(string), "another tag")
	if r.count("PUT", "/manifests/") != 1 { // the first apply's
		t.Error("another image was put under the tag")
	}

	ok(t, img.Refresh(t.Context()))
	p = img.Plan(t.Context(), config)
	ok(t, p.Apply(t.Context(), nil))
	if img.State["present"] != true || img.State["digest"] != digest {
		t.Errorf("state %v", img.State)
	}
	r.pull(r.Host + "/ns/node:1")

	// Someone else has put another image under the tag meanwhile.
	r.wipe()
	ok(t, img.Refresh(t.Context()))
	p = img.Plan(t.Context(), config)
	ok(t, newImage(t).Plan(t.Context(), other).Apply(t.Context(), nil))
	wantErr(t, providertest.Errors(p.Apply(t.Context(), nil)), "Another image has the tag", "never moved")
}

// The registry going away must not keep anyone from destroying.
func TestRegistryUnreachable(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	img := newImage(t)
	ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))

	closed := httptest.NewServer(nil)
	gone := closed.Listener.Addr().String()
	closed.Close()
	img.State["repository"], img.State["id"] = gone+"/ns/node", gone+"/ns/node@"+img.State["digest"].(string)
	before := fmt.Sprint(img.State)
	diags := img.Refresh(t.Context())
	if len(diags) != 1 || diags[0].Severity != tfprotov6.DiagnosticSeverityWarning || !strings.Contains(diags[0].Detail, gone) {
		t.Fatalf("refresh: %s", providertest.Text(diags))
	}
	if fmt.Sprint(img.State) != before {
		t.Errorf("state changed to %v", img.State)
	}
	ok(t, img.Plan(t.Context(), nil).Apply(t.Context(), nil))
	if img.State != nil {
		t.Errorf("state after destroy: %v", img.State)
	}

	config["repository"] = gone + "/ns/node"
	wantErr(t, newImage(t).Plan(t.Context(), config).Err(), gone, "connection refused", "Nothing has changed")
}

func TestDestroyLeavesTheImage(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	img := newImage(t)
	ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
	ok(t, img.Plan(t.Context(), nil).Apply(t.Context(), nil))
	r.pull(r.Host + "/ns/node:1")
}

func TestBadInputFailsThePlan(t *testing.T) {
	r := newRegistry(t)
	good, err := image.Bytes(image.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := image.Bytes(image.Spec{Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	file := func(b []byte) string {
		name := filepath.Join(t.TempDir(), "x.tar")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name   string
		change providertest.Values
		want   string
	}{
		{"missing archive", providertest.Values{"source": "/nowhere/node.tar"}, "no such file"},
		{"directory", providertest.Values{"source": t.TempDir()}, "is a directory, but not"},
		{"no path", providertest.Values{"source": ""}, "must be the path"},
		{"no archive", providertest.Values{"source": file(bytes.Repeat([]byte("x"), 2000))}, "is not an archive"},
		{"truncated", providertest.Values{"source": file(good[:len(good)/2])}, "truncated"},
		{"truncated gzip", providertest.Values{"source": file(zipped[:len(zipped)-4])}, "truncated"},
		{"damaged gzip", providertest.Values{"source": file(append(append(bytes.Clone(zipped[:len(zipped)-8]), 1, 2, 3, 4), zipped[len(zipped)-4:]...))}, "damaged"},
		{"too many layers", providertest.Values{"source": archiveOf(t, image.Spec{Layers: 128})}, "128 layers"},
		{"too many layers, gzip", providertest.Values{"source": archiveOf(t, image.Spec{Layers: 128, Gzip: true})}, "128 layers"},
		{"two images", providertest.Values{"source": archiveOf(t, image.Spec{Images: 2})}, "2 images"},
		{"bad tag", providertest.Values{"tag": "a/b"}, `tag "a/b"`},
		{"empty tag", providertest.Values{"tag": ""}, "Not a valid tag"},
		{"bad repository", providertest.Values{"repository": r.Host + "/Node"}, "lower-case"},
		{"no host", providertest.Values{"repository": "ns/node"}, "host[:port]/path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
			for k, v := range c.change {
				config[k] = v
			}
			wantErr(t, newImage(t).Plan(t.Context(), config).Err(), c.want)
		})
	}
	if r.count("POST", "") != 0 {
		t.Error("something was pushed")
	}
}

// Values that come from resources which are still to be made.
func TestUnknownValues(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	for _, attr := range []string{"source", "repository", "tag"} {
		unknown := providertest.Values{}
		for k, v := range config {
			unknown[k] = v
		}
		unknown[attr] = providertest.Unknown
		p := newImage(t).Plan(t.Context(), unknown)
		if p.Err() != "" || p.After["digest"] != unknownDigest {
			t.Errorf("%s unknown: %v %s", attr, p.After, p.Err())
		}
	}
	wantErr(t, (&setup{config: providertest.Values{"auth_file": providertest.Unknown}}).image(t).Plan(t.Context(), config).Err(), "not known yet")
}

// An archive that went bad between plan and apply is found before the tag is made.
func TestArchiveChangesBeforeApply(t *testing.T) {
	r := newRegistry(t)
	for name, spec := range map[string]image.Spec{"plain": {}, "gzip": {Gzip: true}} {
		t.Run(name, func(t *testing.T) {
			good := archiveOf(t, spec)
			b, err := os.ReadFile(good)
			if err != nil {
				t.Fatal(err)
			}
			config := providertest.Values{"source": good, "repository": r.Host + "/ns/" + name, "tag": "1"}
			img := newImage(t)
			p := img.Plan(t.Context(), config)
			bad := b[:len(b)-9]
			if name == "plain" {
				bad = bytes.Replace(b, []byte("exec sleep"), []byte("exec reboo"), 1)
			}
			if err := os.WriteFile(good, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			wantErr(t, providertest.Errors(p.Apply(t.Context(), nil)), "build or copy it again")
			if r.count("PUT", "/manifests/") != 0 || img.State != nil {
				t.Errorf("the tag was made; state %v", img.State)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	r := newRegistry(t)
	var mu sync.Mutex
	var seen []int64
	var total int64
	s := &setup{opts: []Option{WithProgress(func(ref string, sent, of int64) {
		mu.Lock()
		defer mu.Unlock()
		if ref != r.Host+"/ns/node:1" {
			t.Errorf("ref %s", ref)
		}
		seen, total = append(seen, sent), of
	})}}
	source := archiveOf(t, image.Spec{Zeros: 20 << 20})
	ok(t, s.image(t).Plan(t.Context(), providertest.Values{"source": source, "repository": r.Host + "/ns/node", "tag": "1"}).Apply(t.Context(), nil))
	if len(seen) < 15 || len(seen) > 50 || seen[len(seen)-1] != total || total < 20<<20 {
		t.Errorf("%d reports, up to %d of %d", len(seen), seen[len(seen)-1], total)
	}
}

func TestImport(t *testing.T) {
	r := newRegistry(t)
	config := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	first := newImage(t)
	ok(t, first.Plan(t.Context(), config).Apply(t.Context(), nil))
	img := newImage(t)
	ok(t, img.Import(t.Context(), r.Host+"/ns/node:1"))
	if fmt.Sprint(img.State) != fmt.Sprint(first.State) {
		t.Errorf("imported %v, want %v", img.State, first.State)
	}
	if p := img.Plan(t.Context(), config); p.Action != "no-op" {
		t.Errorf("plan after import: %s", p.Action)
	}
	wantErr(t, providertest.Errors(newImage(t).Import(t.Context(), r.Host+"/ns/node:2")), "does not hold")
	wantErr(t, providertest.Errors(newImage(t).Import(t.Context(), r.Host+"/ns/node")), "want repository:tag")
}

// A group of many nodes must not take the memory and the connections of as many pushes.
func TestPushesAtTheSameTimeAreBounded(t *testing.T) {
	r := newRegistry(t)
	var now, most atomic.Int32
	r.setFault(func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
		if req.Method != http.MethodPatch {
			return false
		}
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		next.ServeHTTP(w, req)
		return true
	})
	server := Server("test")
	source := archiveOf(t, image.Spec{Files: map[string][]byte{"noise": noise(4 << 20)}})
	t.Run("nodes", func(t *testing.T) {
		for i := range 12 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				img := providertest.New(t, server, nil).Resource("oci_image")
				config := providertest.Values{"source": source, "repository": fmt.Sprintf("%s/ns/node%d", r.Host, i), "tag": "1"}
				ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
			})
		}
	})
	if most.Load() > maxPushes {
		t.Errorf("%d uploads at the same time", most.Load())
	}
}
