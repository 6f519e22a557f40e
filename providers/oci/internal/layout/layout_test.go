package layout

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// files are a layout by name.
type files map[string][]byte

// put adds a blob and describes it.
func (f files) put(mt types.MediaType, b []byte) v1.Descriptor {
	f[Blob(digest(b))] = b
	return v1.Descriptor{MediaType: mt, Size: int64(len(b)), Digest: digest(b)}
}

func (f files) json(t testing.TB, mt types.MediaType, v any) v1.Descriptor {
	b, err := json.Marshal(v)
	must(t, err)
	return f.put(mt, b)
}

func config(diffIDs ...string) []byte {
	b, _ := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs}})
	return b
}

// image adds an image of one layer.
func (f files) image(t testing.TB, layer string, mt types.MediaType) v1.Descriptor {
	content := []byte(layer)
	if strings.HasSuffix(string(mt), "gzip") {
		content = gz(t, content)
	}
	return f.json(t, types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: f.put(types.OCIConfigJSON, config(digest([]byte(layer)).String())), Layers: []v1.Descriptor{f.put(mt, content)}})
}

func gz(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	must(t, err)
	must(t, z.Close())
	return out.Bytes()
}

func (f files) index(t testing.TB, d ...v1.Descriptor) {
	b, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: d})
	must(t, err)
	f[Index], f[Marker] = b, []byte(MarkerContent)
}

// open writes the layout and opens it.
func (f files) open(t testing.TB) (*Dir, string) {
	t.Helper()
	dir := t.TempDir()
	for name, b := range f {
		name = filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, b, 0o644))
	}
	d, err := OpenDir(dir)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, dir
}

// read is the first layer of the one image.
func read(t testing.TB, d *Dir) (string, *v1.Descriptor, error) {
	img, err := Open(d)
	if err != nil {
		return "", nil, err
	}
	r, err := img.Layers[0].Open(t.Context(), nil)
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), img.Layers[0].Blob, err
}

// A layer that is compressed is pushed as it is, so that its digest stays; another one is for yuba to compress.
func TestLayers(t *testing.T) {
	for _, c := range []struct {
		in, out types.MediaType
	}{
		{types.OCILayer, types.OCILayer}, {types.OCILayerZStd, types.OCILayerZStd}, {types.DockerLayer, types.OCILayer},
		{types.OCIUncompressedLayer, ""}, {types.DockerUncompressedLayer, ""},
	} {
		f := files{}
		f.index(t, f.image(t, "hello", c.in))
		d, _ := f.open(t)
		got, blob, err := read(t, d)
		if c.out == "" {
			if err != nil || blob != nil || got != "hello" {
				t.Errorf("%s: %q %v, %v", c.in, got, blob, err)
			}
			continue
		}
		if err != nil || blob == nil || blob.MediaType != c.out || digest([]byte(got)) != blob.Digest || blob.Size != int64(len(got)) {
			t.Errorf("%s: %q %v, %v", c.in, got, blob, err)
		}
	}
}

// What tools make that keep more than one thing in a layout.
func TestWhichImage(t *testing.T) {
	f := files{}
	web, db := f.image(t, "web", types.OCILayer), f.image(t, "db", types.OCILayer)
	web.Annotations, db.Annotations = map[string]string{RefName: "web:1"}, map[string]string{RefName: "db:1"}
	platform := func(d v1.Descriptor, os, arch string) v1.Descriptor {
		d.Platform = &v1.Platform{OS: os, Architecture: arch}
		return d
	}
	f.index(t, f.json(t, types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{platform(web, "linux", "amd64"), platform(db, "unknown", "unknown")}}))
	d, _ := f.open(t)
	if _, blob, err := read(t, d); err != nil || blob.Digest != digest(gz(t, []byte("web"))) {
		t.Errorf("an index with an attestation: %v, %v", blob, err)
	}
	f.index(t, web, db)
	d, _ = f.open(t)
	if _, _, err := read(t, d); err == nil || !strings.Contains(err.Error(), `holds 2 images for Linux ("web:1", "db:1")`) {
		t.Errorf("two images: %v", err)
	}
	f.index(t, platform(web, "windows", "amd64"))
	d, _ = f.open(t)
	if _, _, err := read(t, d); err == nil || !strings.Contains(err.Error(), `holds 0 images for Linux`) {
		t.Errorf("no image: %v", err)
	}
	inner := web
	for range 3 {
		inner = f.json(t, types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{inner}})
	}
	f.index(t, inner)
	d, _ = f.open(t)
	if _, _, err := read(t, d); err == nil || !strings.Contains(err.Error(), `index in an index`) {
		t.Errorf("an index in an index in an index in an index: %v", err)
	}
}

func TestHostile(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	layer := Blob(digest(gz(t, []byte("hello"))))
	diffID := digest([]byte("hello")).String()
	manifest := func(change func(*v1.Manifest)) func(files, string) {
		return func(f files, dir string) {
			m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: f.put(types.OCIConfigJSON, config(diffID)),
				Layers: []v1.Descriptor{f.put(types.OCILayer, gz(t, []byte("hello")))}}
			change(&m)
			f.index(t, f.json(t, types.OCIManifestSchema1, m))
			for name, b := range f {
				must(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
			}
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(f files, dir string)
	}{
		{"good", "", func(files, string) {}},
		{"no index", "index.json", func(_ files, dir string) { must(t, os.Remove(filepath.Join(dir, Index))) }},
		{"index is no JSON", "not an image index", func(_ files, dir string) { must(t, os.WriteFile(filepath.Join(dir, Index), []byte("x"), 0o644)) }},
		{"large index", "more than the", func(_ files, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, Index), bytes.Repeat([]byte(" "), 4<<20+1), 0o644))
		}},
		{"other version", `version "2.0.0"`, func(_ files, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, Marker), []byte(`{"imageLayoutVersion":"2.0.0"}`), 0o644))
		}},
		{"layer is missing", "named but not in the layout", func(_ files, dir string) { must(t, os.Remove(filepath.Join(dir, layer))) }},
		{"layer is short", "bytes and should have", func(_ files, dir string) { must(t, os.Truncate(filepath.Join(dir, layer), 5)) }},
		{"layer is another", "the image is damaged", func(f files, dir string) {
			b := bytes.Clone(f[layer])
			b[12] ^= 1
			must(t, os.WriteFile(filepath.Join(dir, layer), b, 0o644))
		}},
		{"layer leads outside", "escapes", func(_ files, dir string) {
			must(t, os.Remove(filepath.Join(dir, layer)))
			must(t, os.Symlink(outside, filepath.Join(dir, layer)))
		}},
		{"blobs lead outside", "escapes", func(_ files, dir string) {
			must(t, os.Rename(filepath.Join(dir, "blobs"), filepath.Join(filepath.Dir(outside), "blobs")))
			must(t, os.Symlink(filepath.Join(filepath.Dir(outside), "blobs"), filepath.Join(dir, "blobs")))
		}},
		{"layer is a directory", "not a regular file", func(_ files, dir string) {
			must(t, os.Remove(filepath.Join(dir, layer)))
			must(t, os.Mkdir(filepath.Join(dir, layer), 0o755))
		}},
		{"manifest is another", "does not have the digest", func(f files, dir string) {
			for name, b := range f {
				if bytes.Contains(b, []byte(`"layers":`)) && strings.HasPrefix(name, "blobs/") && bytes.Contains(b, []byte("schemaVersion")) {
					must(t, os.WriteFile(filepath.Join(dir, name), append(b, ' '), 0o644))
				}
			}
		}},
		{"digest that climbs", "non-hex character", manifest(func(m *v1.Manifest) { m.Layers[0].Digest.Hex = "../../../../etc/shadow" })},
		{"another algorithm", "is not sha256", manifest(func(m *v1.Manifest) {
			m.Layers[0].Digest = v1.Hash{Algorithm: "sha512", Hex: strings.Repeat("0", 128)}
		})},
		{"size below zero", "size below 0", manifest(func(m *v1.Manifest) { m.Layers[0].Size = -1 })},
		{"layer from elsewhere", "to be downloaded from elsewhere", manifest(func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://x.example"} })},
		{"layer that may not be pushed", "which yuba does not push", manifest(func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer })},
		{"something encrypted", "which yuba does not push", manifest(func(m *v1.Manifest) { m.Layers[0].MediaType += "+encrypted" })},
		{"an artifact", "and not an image", manifest(func(m *v1.Manifest) { m.Config.MediaType = "application/vnd.example+json" })},
		{"no layer", "without a layer", manifest(func(m *v1.Manifest) { m.Layers = nil })},
		{"128 layers", "128 layers", manifest(func(m *v1.Manifest) {
			for len(m.Layers) < 128 {
				m.Layers = append(m.Layers, m.Layers[0])
			}
		})},
		{"two layers, one diff_id", "1 diff_ids", manifest(func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := files{}
			f.index(t, f.image(t, "hello", types.OCILayer))
			d, dir := f.open(t)
			c.change(maps.Clone(f), dir)
			_, _, err := read(t, d)
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("the path, which the caller names, is in %q", err)
			}
		})
	}
}

// memory is a layout of a fuzz test.
type memory files

func (m memory) Has(name string) bool { _, ok := m[name]; return ok }
func (m memory) Size(name string) (int64, error) {
	b, err := m.Metadata(name)
	return int64(len(b)), err
}
func (m memory) Metadata(name string) ([]byte, error) {
	b, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("%q is named but not in the layout", name)
	}
	return b, nil
}

func (m memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	b, err := m.Metadata(name)
	return io.NopCloser(bytes.NewReader(b)), err
}

func FuzzLayout(f *testing.F) {
	seed := files{}
	seed.index(f, seed.image(f, "hello", types.OCILayer))
	parsed, err := v1.ParseIndexManifest(bytes.NewReader(seed[Index]))
	must(f, err)
	manifest := seed[Blob(parsed.Manifests[0].Digest)]
	m, err := v1.ParseManifest(bytes.NewReader(manifest))
	must(f, err)
	config, layer := seed[Blob(m.Config.Digest)], seed[Blob(m.Layers[0].Digest)]
	f.Add(seed[Index], manifest, config, layer)
	// What the fuzzer changes gets a new digest and size, which are put where the old ones were, or it would never be read.
	moved := func(in, old, now []byte) []byte {
		in = bytes.ReplaceAll(in, []byte(digest(old).Hex), []byte(digest(now).Hex))
		return bytes.ReplaceAll(in, fmt.Appendf(nil, `"size":%d`, len(old)), fmt.Appendf(nil, `"size":%d`, len(now)))
	}
	f.Fuzz(func(t *testing.T, index, newManifest, newConfig, newLayer []byte) {
		all := files{Marker: []byte(MarkerContent)}
		all.put("", newLayer)
		all.put("", newConfig)
		newManifest = moved(moved(newManifest, config, newConfig), layer, newLayer)
		all.put("", newManifest)
		all[Index] = moved(index, manifest, newManifest)
		img, err := Open(memory(all))
		if err != nil {
			return
		}
		for _, l := range img.Layers {
			r, err := l.Open(t.Context(), nil)
			if err != nil {
				continue
			}
			h := sha256.New()
			_, err = io.Copy(h, r)
			r.Close()
			want := l.DiffID
			if l.Blob != nil {
				want = l.Blob.Digest.String()
			}
			if err == nil && "sha256:"+hex.EncodeToString(h.Sum(nil)) != want {
				t.Error("a layer of another digest got through")
			}
		}
	})
}
