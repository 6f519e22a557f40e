package oci

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/providertest"
)

// forward has the registry pass on to d what no fault answers, and counts the bytes of uploads.
func (r *testRegistry) forward(d *distribution) *atomic.Int64 {
	target, err := url.Parse("http://" + d.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	sent := new(atomic.Int64)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Body != nil {
			body := req.Body
			req.Body = struct {
				io.Reader
				io.Closer
			}{readerFunc(func(b []byte) (int, error) {
				n, err := body.Read(b)
				sent.Add(int64(n))
				return n, err
			}), body}
		}
		proxy.ServeHTTP(w, req)
	})
	r.inner.Store(&h)
	return sent
}

// uploaded is how many bytes the registry has of uploads that are not committed.
func (d *distribution) uploaded() (n int64) {
	for _, f := range d.files("/_uploads/") {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

// cutAfter ends each request with content after so many bytes, as a proxy with little patience would.
func cutAfter(n int64) func(http.ResponseWriter, *http.Request, http.Handler) bool {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
		if req.Method != http.MethodPatch {
			return false
		}
		body, left := req.Body, n
		req.Body = struct {
			io.Reader
			io.Closer
		}{readerFunc(func(b []byte) (int, error) {
			if left == 0 {
				return 0, errors.New("cut")
			}
			m, err := body.Read(b[:min(int64(len(b)), left)])
			left -= int64(m)
			return m, err
		}), body}
		next.ServeHTTP(w, req)
		return true
	}
}

// An upload that is cut goes on where the registry says, however often it's cut: what has arrived is not sent again.
func TestUploadGoesOnAfterACut(t *testing.T) {
	const size = 24 << 20
	values := func(r *testRegistry) providertest.Values {
		return providertest.Values{"repository": r.Host + "/ns/node", "tag": "1",
			"source": archiveOf(t, image.Spec{Files: map[string][]byte{"noise": noise(size)}})}
	}
	calm := newRegistry(t)
	reference := newImage(t)
	ok(t, reference.Plan(t.Context(), values(calm)).Apply(t.Context(), nil))

	d := startDistribution(t)
	r := newRegistry(t)
	sent := r.forward(d)
	r.setFault(cutAfter(3 << 20))
	// In place of the pause between two attempts: until the registry has written what it had in its buffers at the cut.
	settle := func(c *config) {
		c.registry.Sleep = func(ctx context.Context, _ time.Duration) error {
			for before, now := int64(-1), d.uploaded(); before != now && ctx.Err() == nil; before, now = now, d.uploaded() {
				time.Sleep(50 * time.Millisecond)
			}
			return ctx.Err()
		}
	}
	img := (&setup{opts: []Option{settle}}).image(t)
	ok(t, img.Plan(t.Context(), values(r)).Apply(t.Context(), nil))
	if img.State["digest"] != reference.State["digest"] {
		t.Errorf("digest %v, without cuts %v", img.State["digest"], reference.State["digest"])
	}
	// What was in buffers at each cut is lost.
	if n := sent.Load(); n > size*3/2 {
		t.Errorf("%d MiB were sent for %d", n>>20, size>>20)
	}
	if n := r.count("PATCH", ""); n < 8 {
		t.Errorf("%d requests with content, want one for each 3 MiB", n)
	}
	r.setFault(nil)
	if d, err := r.pull(r.Host + "/ns/node:1").Digest(); err != nil || d.String() != img.State["digest"] {
		t.Errorf("the registry holds %s (%v)", d, err)
	}
}

// A registry that has lost some of what it says it has, or counts in another way, gets the layer again from its beginning.
func TestUploadStartsAgainWhereItCanNotGoOn(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, req *http.Request){
		"no such upload": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"no such method": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) },
		"no range":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Range", "0-x")
			w.WriteHeader(204)
		},
		"nothing": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Range", "0-0")
			w.WriteHeader(204)
		},
		"less than it has": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Range", "0-99")
			w.WriteHeader(204)
		},
		"more than was sent": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Range", "0-99999999")
			w.WriteHeader(204)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			var once sync.Once
			r.setFault(func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
				cut := false
				switch {
				case req.Method == http.MethodPatch:
					once.Do(func() { cut = true })
					if cut {
						io.CopyN(io.Discard, req.Body, 2<<20)
						panic(http.ErrAbortHandler)
					}
				case req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/uploads/"):
					answer(w, req)
					return true
				}
				return false
			})
			img := newImage(t)
			ok(t, img.Plan(t.Context(), pushConfig(t, r)).Apply(t.Context(), nil))
			r.setFault(nil)
			if d, err := r.pull(r.Host + "/ns/node:1").Digest(); err != nil || d.String() != img.State["digest"] {
				t.Errorf("the registry holds %s (%v)", d, err)
			}
		})
	}
}

// apply makes n images at the same time, by one provider.
func applyNodes(t *testing.T, host string, n int, spec func(i int) image.Spec) (digests []string) {
	t.Helper()
	server := Server("test")
	digests = make([]string, n)
	t.Run("nodes", func(t *testing.T) {
		instance := providertest.New(t, server, nil)
		for i := range n {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				img := instance.Resource("oci_image")
				config := providertest.Values{"source": archiveOf(t, spec(i)), "repository": fmt.Sprintf("%s/ns/node%d", host, i), "tag": "1"}
				ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
				digests[i], _ = img.State["digest"].(string)
			})
		}
	})
	return digests
}

// holdsNodes checks that the registry has the images that applyNodes made.
func holdsNodes(t *testing.T, r *testRegistry, digests []string) {
	t.Helper()
	for i, digest := range digests {
		if d, err := r.pull(fmt.Sprintf("%s/ns/node%d:1", r.Host, i)).Digest(); err != nil || d.String() != digest {
			t.Errorf("the registry holds %s (%v), want %s", d, err, digest)
		}
	}
}

// Layers that nodes share go over the wire once; the other repositories have them mounted, where the registry does that.
func TestSharedLayersAreSentOnce(t *testing.T) {
	const nodes, layers = 6, 5
	spec := func(i int) image.Spec {
		return image.Spec{Layers: layers, Files: map[string][]byte{"name": []byte(fmt.Sprint(i)), "noise": noise(1 << 20)}}
	}
	t.Run("mounted", func(t *testing.T) {
		d := startDistribution(t)
		r := newRegistry(t)
		r.forward(d)
		digests := applyNodes(t, r.Host, nodes, spec)
		// Each node has one layer and a config of its own.
		if n, want := r.count("PATCH", ""), layers-1+2*nodes; n != want {
			t.Errorf("%d uploads, want %d", n, want)
		}
		holdsNodes(t, r, digests)
	})
	t.Run("sent where that is not possible", func(t *testing.T) {
		r := newRegistry(t)
		// go-containerregistry's has the blobs of all repositories in one place: hide them.
		r.setFault(func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
			hide := req.Method == http.MethodHead && strings.Contains(req.URL.Path, "/blobs/")
			if hide {
				w.WriteHeader(404)
			}
			return hide
		})
		digests := applyNodes(t, r.Host, nodes, spec)
		if n, want := r.count("PATCH", ""), nodes*(layers+1); n != want {
			t.Errorf("%d uploads, want %d", n, want)
		}
		holdsNodes(t, r, digests)
	})
	t.Run("by another node when the first one fails", func(t *testing.T) {
		r := newRegistry(t)
		var once sync.Once
		r.setFault(func(w http.ResponseWriter, req *http.Request, next http.Handler) bool {
			denied := false
			if req.Method == http.MethodPost {
				once.Do(func() {
					denied = true
					w.WriteHeader(403)
				})
			}
			return denied
		})
		instance := providertest.New(t, Server("test"), nil)
		var wg sync.WaitGroup
		var failed, made atomic.Int32
		for i := range nodes {
			img := instance.Resource("oci_image")
			p := img.Plan(t.Context(), providertest.Values{"source": archiveOf(t, spec(0)), "repository": fmt.Sprintf("%s/ns/node%d", r.Host, i), "tag": "1"})
			wg.Go(func() {
				if providertest.Errors(p.Apply(t.Context(), nil)) != "" {
					failed.Add(1)
				} else {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if failed.Load() != 1 || made.Load() != nodes-1 {
			t.Errorf("%d failed, %d were made", failed.Load(), made.Load())
		}
	})
}

// A digest is that of image and compression, and zstd is another one.
func TestZstd(t *testing.T) {
	d := startDistribution(t)
	source := archiveOf(t, image.Spec{Files: map[string][]byte{"noise": noise(3 << 20)}, Zeros: 5 << 20})
	digests := map[any]bool{}
	for i, compression := range []string{"zstd", "gzip", "zstd"} {
		img := (&setup{config: providertest.Values{"compression": compression}}).image(t)
		config := providertest.Values{"source": source, "repository": d.Host + "/ns/node", "tag": fmt.Sprint(i)}
		ok(t, img.Plan(t.Context(), config).Apply(t.Context(), nil))
		digests[img.State["digest"]] = true
		pulled := (&testRegistry{t: t}).pull(fmt.Sprintf("%s/ns/node:%d", d.Host, i))
		layers, err := pulled.Layers()
		if err != nil {
			t.Fatal(err)
		}
		mt, err := layers[0].MediaType()
		if want := map[string]string{"zstd": "+zstd", "gzip": "+gzip"}[compression]; err != nil || !strings.HasSuffix(string(mt), want) {
			t.Errorf("%s: media type %s %v", compression, mt, err)
		}
		// Layer.Uncompressed takes its bytes for what they are.
		want, err := layers[0].DiffID()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		got := sumOf(t, content)
		if got != want.String() {
			t.Errorf("%s: the layer is %s, want %s", compression, got, want)
		}
	}
	if len(digests) != 2 {
		t.Errorf("digests %v", digests)
	}
	wantErr(t, (&setup{config: providertest.Values{"compression": "lzma"}}).image(t).Plan(t.Context(), providertest.Values{
		"source": source, "repository": d.Host + "/ns/node", "tag": "x"}).Err(), "lzma", `"gzip" or "zstd"`)
}

func sumOf(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}
