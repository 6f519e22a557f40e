package push

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/klauspost/compress/gzip"

	"fediversity.eu/yuba/providers/oci/internal/archive"
	"fediversity.eu/yuba/providers/oci/internal/docker"
	"fediversity.eu/yuba/providers/oci/internal/registry"
)

// sample is data that looks like a root file system to a compressor: runs, text that repeats, and noise.
func sample(n int) []byte {
	b := make([]byte, 0, n)
	x := uint64(42)
	for len(b) < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		switch x % 4 {
		case 0:
			b = append(b, make([]byte, x>>32%2000)...)
		case 1:
			for i := range x >> 32 % 300 {
				b = append(b, byte(x>>(i%8)))
			}
		default:
			b = fmt.Appendf(b, "/nix/store/%x-some-package-1.%d/share/locale\n", x>>20, x%9)
		}
	}
	return b[:n]
}

func diffID(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func compressed(t *testing.T, b []byte, r func(io.Reader) io.Reader) string {
	t.Helper()
	s := newStream(t.Context(), Layer{DiffID: diffID(b), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(r(bytes.NewReader(b))), nil
	}}, Gzip, new(blocks), 0)
	z, err := gzip.NewReader(s)
	if err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(back, b) {
		t.Fatalf("%d of %d bytes come back: %v", len(back), len(b), err)
	}
	s.Close()
	d, ok := s.descriptor()
	if !ok || s.err != nil {
		t.Fatalf("not whole: %v", s.err)
	}
	return d.Digest.String()
}

// The digest of an archive is in states and Deployments: it must be the same on the laptop, in CI, and after an upgrade.
// When this digest changes with a new compressor, every node's next push of a tag that is gone fails: that must be decided.
func TestDigestDependsOnNothingElse(t *testing.T) {
	const golden = "sha256:3da4b12baa4b3071056ceadf37eafa8408a3352232d87b77356bc443284ab22d"
	b := sample(9<<20 + 12345)
	plain := func(r io.Reader) io.Reader { return r }
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, procs := range []int{1, 2, 3, 16} {
		runtime.GOMAXPROCS(procs)
		for range 3 {
			if got := compressed(t, b, plain); got != golden {
				t.Errorf("GOMAXPROCS=%d: %s, want %s", procs, got, golden)
			}
		}
	}
	for name, r := range map[string]func(io.Reader) io.Reader{"one byte a read": iotest.OneByteReader, "half reads": iotest.HalfReader, "data with EOF": iotest.DataErrReader} {
		if got := compressed(t, b[:2<<20], r); got != compressed(t, b[:2<<20], plain) {
			t.Errorf("%s: another digest", name)
		}
	}
}

func newClient(t *testing.T, h http.Handler) (*registry.Client, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return registry.New(registry.Options{Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}), s.Listener.Addr().String()
}

// sparse is an archive with a layer of n zero bytes that takes no place on the disk.
func sparse(t *testing.T, n int64) string {
	t.Helper()
	h := sha256.New()
	zeros := make([]byte, 1<<20)
	for left := n; left > 0; left -= int64(len(zeros)) {
		h.Write(zeros)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, h.Sum(nil))
	for name, content := range map[string]string{"c.json": config, "manifest.json": `[{"Config":"c.json","Layers":["l.tar"]}]`} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	if err := w.WriteHeader(&tar.Header{Name: "l.tar", Size: n, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(n, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(end + 1024); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// A layer of any size is pushed with the memory of a few blocks.
func TestMemoryIsBounded(t *testing.T) {
	const size, bound = 1 << 30, 64 << 20
	f, err := os.Open(sparse(t, size))
	if err != nil {
		t.Fatal(err)
	}
	files, err := archive.New(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	a, err := docker.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	c, host := newClient(t, ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	repo, err := c.Repository(host + "/ns/node")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	start, peak, next := m.HeapAlloc, uint64(0), int64(0)
	_, err = New(c, Gzip, new(Sent)).Push(t.Context(), repo.Tag("1"), Image{Config: a.Config, Layers: []Layer{{DiffID: a.Layers[0].DiffID, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return a.Layers[0].Open(ctx, func(n int64) {
			if n >= next {
				next = n + 8<<20
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		})
	}}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if peak > start+bound {
		t.Errorf("%d MiB more on the heap in the push of %d MiB", (peak-start)>>20, size>>20)
	}
}

// However an upload ends, nothing goes on behind its back: the archive is closed next.
func TestNothingRunsOn(t *testing.T) {
	b := sample(8 << 20)
	for name, c := range map[string]struct {
		source func(io.Reader) io.Reader
		server http.HandlerFunc
		want   string
	}{
		"source fails": {func(r io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(r, 5<<20), iotest.ErrReader(errors.New("disk on fire")))
		}, nil, "disk on fire"},
		"server hangs up": {func(r io.Reader) io.Reader { return r }, func(w http.ResponseWriter, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 1<<20)
			panic(http.ErrAbortHandler)
		}, ""},
		"server answers early": {func(r io.Reader) io.Reader { return r }, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Path)
			w.WriteHeader(http.StatusAccepted)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
			client, host := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch && c.server != nil {
					c.server(w, r)
					return
				}
				inner.ServeHTTP(w, r)
			}))
			repo, err := client.Repository(host + "/ns/node")
			if err != nil {
				t.Fatal(err)
			}
			open := 0
			_, err = New(client, Gzip, new(Sent)).Push(t.Context(), repo.Tag("1"), Image{Config: []byte("{}"), Layers: []Layer{{DiffID: diffID(b),
				Open: func(context.Context) (io.ReadCloser, error) {
					open++
					return &closeCounter{Reader: c.source(bytes.NewReader(b)), open: &open}, nil
				}}}}, "")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if source := (*SourceError)(nil); errors.As(err, &source) != (c.want != "") {
				t.Errorf("blamed on the wrong side: %v", err)
			}
			if open != 0 {
				t.Errorf("%d streams of the source are still open", open)
			}
			// A goroutine that has said that it's done may still be on its last line.
			for buf := make([]byte, 1<<20); strings.Contains(string(buf[:runtime.Stack(buf, true)]), "push.(*stream)"); {
				runtime.Gosched()
			}
		})
	}
}

type closeCounter struct {
	io.Reader
	open *int
}

func (c *closeCounter) Close() error { *c.open--; return nil }
