package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"fediversity.eu/yuba/providers/oci/internal/archive"
	node "fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/nix"
	"fediversity.eu/yuba/test/image"
)

func store() *Store { return NewStore(nil, nix.NewStore(os.Environ())) }

func quiet(string) {}

func tempFile(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func build(t testing.TB, s image.Spec) []byte {
	t.Helper()
	b, err := image.Bytes(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entryOf is one entry of a hand-made archive.
type entryOf struct {
	name, content, link string
	typ                 byte
	pax                 map[string]string
}

func tarOf(t testing.TB, entries ...entryOf) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.typ, Mode: 0o644, Size: int64(len(e.content)), PAXRecords: e.pax}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	someDiffID   = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	goodConfig   = `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + someDiffID + `"]}}`
	goodManifest = `[{"Config":"c.json","Layers":["l.tar"]}]`
)

func manifest(s string) entryOf { return entryOf{name: "manifest.json", content: s} }
func config(s string) entryOf   { return entryOf{name: "c.json", content: s} }
func layer() entryOf            { return entryOf{name: "l.tar", content: "hello"} }

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Whoever made the archive, and however it's packed, the same image must come out.
func TestReadsWhatOthersWrite(t *testing.T) {
	var want []byte
	for name, layout := range image.Layouts() {
		for _, packed := range []struct{ outer, inner bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			t.Run(fmt.Sprintf("%s gzip=%v layer gzip=%v", name, packed.outer, packed.inner), func(t *testing.T) {
				b := build(t, image.Spec{Layout: layout, Gzip: packed.outer, GzipLayer: packed.inner, Files: map[string][]byte{"etc/x": []byte("y")}})
				a, err := store().Open(t.Context(), tempFile(t, b), quiet)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				var last int64
				// Twice: an upload that was cut reads it again.
				for range 2 {
					s, err := a.Layers[0].Open(t.Context(), func(n int64) { last = n })
					if err != nil {
						t.Fatal(err)
					}
					layer, err := io.ReadAll(s)
					if err != nil {
						t.Fatal(err)
					}
					s.Close()
					if last != a.Layers[0].Size {
						t.Errorf("progress ends at %d of %d", last, a.Layers[0].Size)
					}
					if want == nil {
						want = append(layer, a.Config...)
					} else if !bytes.Equal(want, append(layer, a.Config...)) {
						t.Error("another layer or config than from the other layouts")
					}
				}
			})
		}
	}
}

func TestZstdLayer(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := tarOf(t, manifest(goodManifest), config(goodConfig), entryOf{name: "l.tar", content: string(z.EncodeAll([]byte("hello"), nil))})
	if got, err := readAll(t.Context(), tempFile(t, b)); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func readAll(ctx context.Context, name string) (string, error) {
	a, err := store().Open(ctx, name, quiet)
	if err != nil {
		return "", err
	}
	defer a.Close()
	s, err := a.Layers[0].Open(ctx, nil)
	if err != nil {
		return "", err
	}
	defer s.Close()
	b, err := io.ReadAll(s)
	return string(b), err
}

func TestHostileArchives(t *testing.T) {
	sum := sha256.Sum256([]byte(goodConfig))
	configHex := hex.EncodeToString(sum[:])
	many := make([]entryOf, 10_001)
	for i := range many {
		many[i] = entryOf{name: fmt.Sprint(i)}
	}
	for _, c := range []struct {
		name    string
		entries []entryOf
		want    string
	}{
		{"good", []entryOf{manifest(goodManifest), config(goodConfig), layer()}, ""},
		{"good, config by digest", []entryOf{manifest(`[{"Config":"` + configHex + `.json","Layers":["./l.tar"]}]`), {name: configHex + ".json", content: goodConfig}, layer()}, ""},
		{"good, layer by a symlink", []entryOf{manifest(`[{"Config":"c.json","Layers":["d/l.tar"]}]`), config(goodConfig), layer(), {name: "d/l.tar", typ: tar.TypeSymlink, link: "../l.tar"}}, ""},
		{"no manifest", []entryOf{config(goodConfig), layer()}, "has no manifest.json"},
		{"half an OCI archive", []entryOf{{name: "oci-layout", content: "{}"}, {name: "index.json", content: "{}"}}, "OCI layout of version"},
		{"manifest is no JSON", []entryOf{manifest("{"), config(goodConfig), layer()}, "manifest.json is not"},
		{"manifest is an object", []entryOf{manifest("{}"), config(goodConfig), layer()}, "manifest.json is not"},
		{"no image", []entryOf{manifest("[]")}, "holds 0 images"},
		{"two images", []entryOf{manifest(`[{},{}]`)}, "holds 2 images"},
		{"no layer", []entryOf{manifest(`[{"Config":"c.json"}]`)}, "image without a layer"},
		{"too many layers", []entryOf{manifest(`[{"Config":"c.json","Layers":[` + strings.Repeat(`"a",`, 127) + `"b"]}]`)}, "image of 128 layers"},
		{"two layers of one", []entryOf{manifest(`[{"Config":"c.json","Layers":["a","b"]}]`), config(goodConfig)}, "has 1 diff_ids, and the image 2"},
		{"layer is missing", []entryOf{manifest(goodManifest), config(goodConfig)}, `"l.tar" is named but not in the archive`},
		{"config is missing", []entryOf{manifest(goodManifest), layer()}, `"c.json" is named but not in the archive`},
		{"config outside", []entryOf{manifest(`[{"Config":"../../etc/shadow","Layers":["l.tar"]}]`), layer()}, "unsafe name"},
		{"layer absolute", []entryOf{manifest(`[{"Config":"c.json","Layers":["/etc/shadow"]}]`), config(goodConfig)}, "unsafe name"},
		{"config is a directory", []entryOf{manifest(goodManifest), {name: "c.json", typ: tar.TypeDir}, layer()}, "is a directory"},
		{"entry outside", []entryOf{{name: "../x"}, manifest(goodManifest)}, "unsafe name"},
		{"entry that climbs", []entryOf{{name: "a/../../x"}, manifest(goodManifest)}, "unsafe name"},
		{"entry absolute", []entryOf{{name: "/x"}, manifest(goodManifest)}, "unsafe name"},
		{"entry twice", []entryOf{manifest(goodManifest), config(goodConfig), layer(), {name: "./l.tar", content: "other"}}, `two entries "l.tar"`},
		{"manifest twice", []entryOf{manifest(goodManifest), manifest(goodManifest)}, `two entries "manifest.json"`},
		{"directory over file", []entryOf{layer(), {name: "l.tar", typ: tar.TypeDir}}, `two entries "l.tar"`},
		{"symlink outside", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", typ: tar.TypeSymlink, link: "../../etc/shadow"}}, "leads out of the archive"},
		{"symlink absolute", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", typ: tar.TypeSymlink, link: "/etc/shadow"}}, "leads out of the archive"},
		{"symlink to itself", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", typ: tar.TypeSymlink, link: "l.tar"}}, "leads out of the archive"},
		{"symlinks in a circle", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", typ: tar.TypeSymlink, link: "m"}, {name: "m", typ: tar.TypeSymlink, link: "l.tar"}}, "symlink to a symlink"},
		{"symlink to nothing", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", typ: tar.TypeSymlink, link: "m"}}, "not in the archive"},
		{"hard link", []entryOf{manifest(goodManifest), {name: "l.tar", typ: tar.TypeLink, link: "m"}}, "neither a file"},
		{"device", []entryOf{manifest(goodManifest), {name: "l.tar", typ: tar.TypeChar}}, "neither a file"},
		{"fifo", []entryOf{manifest(goodManifest), {name: "l.tar", typ: tar.TypeFifo}}, "neither a file"},
		{"too many entries", many, "more than 10000 entries"},
		{"large manifest", []entryOf{manifest(strings.Repeat(" ", node.MaxMetadata+1)), config(goodConfig), layer()}, "manifest.json has 4194305 bytes"},
		{"large config", []entryOf{manifest(goodManifest), config(strings.Repeat(" ", node.MaxMetadata+1)), layer()}, "c.json has 4194305 bytes"},
		{"config of another digest", []entryOf{manifest(`[{"Config":"` + strings.Repeat("0", 64) + `.json","Layers":["l.tar"]}]`), {name: strings.Repeat("0", 64) + ".json", content: goodConfig}, layer()}, "does not have the digest"},
		{"config is no JSON", []entryOf{manifest(goodManifest), config("{x"), layer()}, "not an image config"},
		{"config for windows", []entryOf{manifest(goodManifest), config(strings.Replace(goodConfig, "linux", "windows", 1)), layer()}, `os is "windows"`},
		{"config without architecture", []entryOf{manifest(goodManifest), config(strings.Replace(goodConfig, "amd64", "", 1)), layer()}, "architecture"},
		{"config of two layers", []entryOf{manifest(goodManifest), config(strings.Replace(goodConfig, `["sha`, `["x","sha`, 1)), layer()}, "has 2 diff_ids"},
		{"config with a bad diff_id", []entryOf{manifest(goodManifest), config(strings.Replace(goodConfig, `sha256:`, `md5:`, 1)), layer()}, "not a sha256 digest"},
		{"layer of another digest", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", content: "hellO"}}, "the image is damaged"},
		{"layer is half a gzip", []entryOf{manifest(goodManifest), config(goodConfig), {name: "l.tar", content: string(gzipped(t, []byte("hello")))[:20]}}, "truncated"},
	} {
		for _, zipped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s gzip=%v", c.name, zipped), func(t *testing.T) {
				b := tarOf(t, c.entries...)
				if zipped {
					b = gzipped(t, b)
				}
				got, err := readAll(t.Context(), tempFile(t, b))
				if c.want == "" {
					if err != nil || got != "hello" {
						t.Fatalf("%q, %v", got, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
			})
		}
	}
}

// raw is a tar header by hand, for what archive/tar doesn't write.
func raw(name string, typ byte, size int64) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x0000000000001\x00        ", size))
	b[156] = typ
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, x := range b {
		sum += int(x)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

func pad(b []byte) []byte { return append(b, make([]byte, (512-len(b)%512)%512)...) }

// pax is a header of such records, "LENGTH KEY=VALUE\n" with any length.
func pax(records string) []byte {
	return append(raw("pax", tar.TypeXHeader, int64(len(records))), pad([]byte(records))...)
}

// Headers that say one thing and mean another must not lead past the checks, or take memory.
func TestTrickyHeaders(t *testing.T) {
	good := tarOf(t, manifest(goodManifest), config(goodConfig), layer())
	hello := append(raw("l.tar", tar.TypeReg, 5), pad([]byte("hello"))...)
	for name, c := range map[string]struct {
		b    [][]byte
		want string
	}{
		"none":                 {nil, ""},
		"path by PAX":          {[][]byte{pax("13 path=../x\n"), raw("ok", tar.TypeReg, 0)}, "unsafe name"},
		"absolute path by PAX": {[][]byte{pax("12 path=/xx\n"), raw("ok", tar.TypeReg, 0)}, "unsafe name"},
		"the layer's name":     {[][]byte{pax("14 path=l.tar\n"), raw("ok", tar.TypeReg, 0)}, `two entries "l.tar"`},
		"link by PAX":          {[][]byte{pax("20 linkpath=../../x\n"), raw("ok", tar.TypeSymlink, 0)}, "leads out"},
		"size by PAX":          {[][]byte{pax("19 size=9999999999\n"), raw("x", tar.TypeReg, 0)}, "truncated"},
		"size below zero":      {[][]byte{pax("11 size=-1\n"), raw("x", tar.TypeReg, 0)}, "not an archive"},
		"no number":            {[][]byte{pax("10 size=x\n"), raw("x", tar.TypeReg, 0)}, "not an archive"},
		"wrong length":         {[][]byte{pax("99 path=x\n"), raw("x", tar.TypeReg, 0)}, "not an archive"},
		"NUL in a path":        {[][]byte{pax("12 path=a\x00b\n"), raw("x", tar.TypeReg, 0)}, "not an archive"},
		"sparse":               {[][]byte{pax("22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=4096\n"), raw("x", tar.TypeReg, 512), pad([]byte("1\n0\n0\n"))}, "archive"},
		"huge PAX header":      {[][]byte{append(raw("pax", tar.TypeXHeader, 2<<20), make([]byte, 2<<20)...)}, "archive/tar: header field too long"},
		"huge long name":       {[][]byte{append(raw("././@LongLink", tar.TypeGNULongName, 2<<20), make([]byte, 2<<20)...)}, "archive/tar: header field too long"},
		"layer twice":          {[][]byte{hello}, `two entries "l.tar"`},
		"only half a header":   {[][]byte{raw("x", tar.TypeReg, 0)[:300]}, "truncated"},
		"header of noise":      {[][]byte{bytes.Repeat([]byte("x"), 512)}, "not an archive"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good[:len(good)-1024])
			for _, part := range c.b {
				b = append(b, part...)
			}
			if name != "only half a header" {
				b = append(b, make([]byte, 1024)...)
			}
			for _, b := range [][]byte{b, gzipped(t, b)} {
				_, err := readAll(t.Context(), tempFile(t, b))
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
		})
	}
}

// A few bytes that become very many, or ask for much memory.
func TestBombs(t *testing.T) {
	// A frame of zstd that wants a window of 2 GiB.
	window := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3}, 1, 0, 0)
	for name, b := range map[string][]byte{
		"window":          window,
		"window in layer": tarOf(t, manifest(goodManifest), config(goodConfig), entryOf{name: "l.tar", content: string(window)}),
	} {
		if _, err := readAll(t.Context(), tempFile(t, b)); err == nil || !strings.Contains(err.Error(), "needs more memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// 16 MiB of zeros in 16 KiB, where a config should be and in a layer: neither is held.
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(z, zeros{}, 16<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := readAllBut(t, tarOf(t, manifest(goodManifest), config(goodConfig), entryOf{name: "l.tar", content: bomb.String()}))
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "layer has the digest") {
		t.Errorf("layer: %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("it took %d MiB", grown>>20)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// readAllBut is readAll that keeps nothing.
func readAllBut(t *testing.T, b []byte) (int64, error) {
	img, err := store().Open(t.Context(), tempFile(t, b), quiet)
	if err != nil {
		return 0, err
	}
	defer img.Close()
	s, err := img.Layers[0].Open(t.Context(), nil)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return io.Copy(io.Discard, s)
}

// A gzipped archive with the layer before thousands of small files must not make yuba hold them all.
func TestSmallFilesAreNotHoarded(t *testing.T) {
	entries := []entryOf{layer()}
	for i := range (16 << 20) / node.MaxMetadata {
		size := node.MaxMetadata
		if i == 0 {
			size -= len("hello")
		}
		entries = append(entries, entryOf{name: fmt.Sprint(i), content: strings.Repeat("{", size)})
	}
	entries = append(entries, config(goodConfig), manifest(goodManifest))
	_, err := readAll(t.Context(), tempFile(t, gzipped(t, tarOf(t, entries...))))
	if err == nil || !strings.Contains(err.Error(), "too many other small files") {
		t.Errorf("error %v", err)
	}
	if got, err := readAll(t.Context(), tempFile(t, tarOf(t, entries...))); err != nil || got != "hello" {
		t.Errorf("a plain archive needs no such limit: %q, %v", got, err)
	}
}

func TestNotAnArchive(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "no such file"},
		{"directory", dir, "is a directory, but not an OCI layout"},
		{"device", "/dev/null", "not a regular file"},
		{"empty", tempFile(t, nil), "is empty"},
		{"text", tempFile(t, []byte(strings.Repeat("hello\n", 500))), "is not an archive"},
		{"script", tempFile(t, []byte("#!/bin/sh\necho\n")), "is a script"},
		{"xz", tempFile(t, []byte("\xfd7zXZ\x00............")), "compressed with xz"},
		{"gzipped text", tempFile(t, gzipped(t, []byte(strings.Repeat("hello\n", 500)))), "is not an archive"},
		{"zeros", tempFile(t, make([]byte, 4096)), "is not a docker archive"},
		{"an archive of something else", tempFile(t, tarOf(t, entryOf{name: "README"})), "is not a docker archive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := store().Check(t.Context(), c.path, true, quiet)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), c.path) {
				t.Errorf("the path, which the caller names, is in %q", err)
			}
		})
	}
}

// Wherever an archive is cut off, it must not get through: at plan for a plain one, before the end of the layer's
// stream for a gzipped one.
func TestTruncated(t *testing.T) {
	for _, spec := range []image.Spec{{Layout: image.Docker}, {Layout: image.StreamLayered}, {Layout: image.Save}} {
		b := build(t, spec)
		end := len(b) - 1024 // without all of the end mark
		for cut := 1; cut < end; cut += 97 {
			if err := store().Check(t.Context(), tempFile(t, b[:cut]), false, quiet); err == nil {
				t.Fatalf("layout %d cut at %d of %d is taken", spec.Layout, cut, len(b))
			}
		}
		spec.Gzip = true
		z := build(t, spec)
		for cut := 1; cut < len(z); cut += 13 {
			if _, err := readAll(t.Context(), tempFile(t, z[:cut])); err == nil {
				t.Fatalf("layout %d gzipped, cut at %d of %d, is taken", spec.Layout, cut, len(z))
			}
		}
	}
}

func TestChangedWhileReading(t *testing.T) {
	name := tempFile(t, build(t, image.Spec{}))
	a, err := store().Open(t.Context(), name, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.Truncate(name, 1000); err != nil {
		t.Fatal(err)
	}
	s, err := a.Layers[0].Open(t.Context(), nil)
	if err == nil {
		_, err = io.ReadAll(s)
	}
	if err == nil {
		t.Error("a file that became shorter was taken")
	}
}

func TestCancel(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := store().Open(ctx, tempFile(t, build(t, image.Spec{Zeros: 1 << 20, Gzip: zipped})), quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		s, err := a.Layers[0].Open(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.ReadAll(s); !errors.Is(err, context.Canceled) {
			t.Errorf("read after cancel: %v", err)
		}
		if _, err := store().Open(ctx, tempFile(t, build(t, image.Spec{Gzip: zipped})), quiet); !errors.Is(err, context.Canceled) {
			t.Errorf("open after cancel: %v", err)
		}
	}
}

type nopClose struct{ *bytes.Reader }

func (nopClose) Close() error { return nil }

func FuzzArchive(f *testing.F) {
	for _, layout := range image.Layouts() {
		f.Add(build(f, image.Spec{Layout: layout}))
		f.Add(build(f, image.Spec{Layout: layout, Gzip: true}))
	}
	f.Add(tarOf(f, manifest(goodManifest), config(goodConfig), layer()))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := archive.New(t.Context(), nopClose{bytes.NewReader(b)})
		if err != nil {
			return
		}
		a, err := inArchive(files)
		if err != nil {
			return
		}
		s, err := a.Layers[0].Open(t.Context(), nil)
		if err != nil {
			return
		}
		defer s.Close()
		want := a.Layers[0].DiffID
		if d := a.Layers[0].Blob; d != nil {
			want = d.Digest.String()
		}
		h := sha256.New()
		if _, err := io.Copy(h, s); err == nil && "sha256:"+hex.EncodeToString(h.Sum(nil)) != want {
			t.Error("a layer of another digest got through")
		}
	})
}

// A second look at a gzipped archive is free, but never at the price of taking another file for the one that was seen.
func TestCache(t *testing.T) {
	c := store()
	name := tempFile(t, build(t, image.Spec{Gzip: true}))
	first, err := c.Open(t.Context(), name, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // with this, nothing can be decompressed
	second, err := c.Open(cancelled, name, quiet)
	if err != nil {
		t.Fatalf("it's decompressed again: %v", err)
	}
	defer second.Close()
	if !bytes.Equal(first.Config, second.Config) || first.Layers[0].DiffID != second.Layers[0].DiffID || first.Layers[0].Size != second.Layers[0].Size {
		t.Error("the second look found something else")
	}
	for i, a := range []*node.Image{first, second} {
		s, err := a.Layers[0].Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, s); err != nil {
			t.Errorf("layer of look %d: %v", i+1, err)
		}
	}

	if err := os.WriteFile(name, build(t, image.Spec{Gzip: true, Images: 2}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(t.Context(), name, true, quiet); err == nil || !strings.Contains(err.Error(), "2 images") {
		t.Errorf("the file was replaced, and the error is %v", err)
	}
}
