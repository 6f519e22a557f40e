package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/layout"
	"fediversity.eu/yuba/providers/oci/internal/push"
	"fediversity.eu/yuba/providers/oci/internal/rootfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(b []byte) v1.Hash { return push.Descriptor("", b).Digest }

// layer is a layer that a source doesn't have compressed.
func layer(content string) image.Layer {
	diffID := digest([]byte(content)).String()
	return image.Layer{DiffID: diffID, Size: int64(len(content)), Open: func(_ context.Context, read func(int64)) (io.ReadCloser, error) {
		return blob.Stored{Content: io.NopCloser(strings.NewReader(content)), Size: int64(len(content)), Read: read}.Tar(diffID)
	}}
}

// compressed is one that it has.
func compressed(content string) image.Layer {
	l := layer(content)
	var b bytes.Buffer
	d, err := push.Compress(context.Background(), &b, push.Layer{DiffID: l.DiffID, Open: func(ctx context.Context) (io.ReadCloser, error) { return l.Open(ctx, nil) }}, push.Gzip)
	if err != nil {
		panic(err)
	}
	l.Blob, l.Size = &d, d.Size
	l.Open = func(_ context.Context, read func(int64)) (io.ReadCloser, error) {
		return blob.Stored{Content: io.NopCloser(bytes.NewReader(b.Bytes())), Size: d.Size, Read: read}.Whole(d.Digest.String()), nil
	}
	return l
}

func node(name string, layers ...image.Layer) Node {
	config := rootfs.Config(layers[0].DiffID, "")
	for _, l := range layers[1:] {
		config = bytes.Replace(config, []byte(`"]}}`), []byte(`","`+l.DiffID+`"]}}`), 1)
	}
	return Node{Name: name, Read: func(int64, int64) {}, Open: func(context.Context) (*image.Image, error) {
		return &image.Image{Config: config, Layers: layers}, nil
	}}
}

const group = `{"version":1}` + "\n"

func write(t testing.TB, nodes ...Node) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
	must(t, err)
	defer f.Close()
	images, err := Write(t.Context(), f, []byte(group), nodes, push.Gzip)
	must(t, err)
	if len(images) != len(nodes) {
		t.Errorf("%d images of %d nodes", len(images), len(nodes))
	}
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return b
}

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func open(t testing.TB, b []byte) (*Bundle, error) {
	return New(t.Context(), file{bytes.NewReader(b)}, int64(len(b)))
}

func sample(t testing.TB) []byte {
	return write(t, node("db", layer("base"), layer("db")), node("web", layer("base"), compressed("web"), layer("")))
}

func TestRoundTrip(t *testing.T) {
	b := sample(t)
	if !bytes.Equal(b, sample(t)) {
		t.Error("the same group gives other bytes")
	}
	got, err := open(t, b)
	must(t, err)
	if string(got.Group) != group || fmt.Sprint(got.Nodes()) != "[db web]" {
		t.Errorf("%q %v", got.Group, got.Nodes())
	}
	for name, want := range map[string][]string{"db": {"base", "db"}, "web": {"base", "web", ""}} {
		img, err := got.Image(name)
		must(t, err)
		for i, l := range img.Layers {
			var last int64
			r, err := l.Open(t.Context(), func(n int64) { last = n })
			must(t, err)
			packed, err := io.ReadAll(r)
			must(t, err)
			if digest(packed) != l.Blob.Digest || last != l.Size {
				t.Errorf("%s, layer %d: %s, %d of %d", name, i, digest(packed), last, l.Size)
			}
			content, err := blob.Stored{Content: io.NopCloser(bytes.NewReader(packed)), Size: int64(len(packed))}.Tar(l.DiffID)
			must(t, err)
			if got, err := io.ReadAll(content); err != nil || string(got) != want[i] {
				t.Errorf("%s, layer %d: %q, %v", name, i, got, err)
			}
		}
	}
	if _, err := got.Image("mail"); err == nil {
		t.Error("there is an image of no node")
	}
	if n := bytes.Count(b, []byte("blobs/sha256/"+digest([]byte("base")).Hex)); n != 0 {
		t.Error("a layer is not compressed")
	}
	var names int
	for r := tar.NewReader(bytes.NewReader(b)); ; names++ {
		if _, err := r.Next(); err == io.EOF {
			break
		} else {
			must(t, err)
		}
	}
	// The layers base, db, web and the empty one, two configs, two manifests.
	if want := 4 + 4 + 2 + 2; names != want {
		t.Errorf("%d entries, want %d: what nodes share is there once", names, want)
	}
}

// What has the tools of the host knows to do with a bundle.
func TestOtherToolsReadIt(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "b"), sample(t), 0o644))
	cmd := exec.Command("sh", "-c", "tar xf b && sha256sum --strict -c SHA256SUMS && cat group.json")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "index.json: OK\n"+group) {
		t.Errorf("%s, %v", out, err)
	}
}

// Every bit of a bundle is checked: content, names, padding, end.
func TestOneFlippedBit(t *testing.T) {
	b := write(t, node("web", layer("base")))
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(b); i += 1 + random.IntN(4) {
		bit := byte(1) << random.IntN(8)
		b[i] ^= bit
		if _, err := open(t, b); err == nil {
			t.Fatalf("bit %x of byte %d of %d is flipped, and the bundle taken", bit, i, len(b))
		}
		b[i] ^= bit
	}
	for cut := range len(b) {
		if cut%64 != 0 && len(b)-cut > 1024 {
			continue
		}
		if _, err := open(t, b[:cut]); err == nil {
			t.Fatalf("cut at %d of %d the bundle is taken", cut, len(b))
		}
	}
	if _, err := open(t, append(bytes.Clone(b), 0)); err == nil {
		t.Error("a byte more is taken")
	}
}

// forge writes the entries of a bundle after a change, with sums that are right.
func forge(t testing.TB, b []byte, change func(name string, content []byte) (string, []byte)) []byte {
	var out, sums bytes.Buffer
	sums.WriteString(comment)
	put := func(name string, content []byte) {
		h, err := header(name, int64(len(content)))
		must(t, err)
		out.Write(h)
		out.Write(content)
		out.Write(make([]byte, padding(int64(len(content)))))
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		name := h.Name
		if change != nil {
			if name, content = change(name, content); name == "" {
				continue
			}
		}
		if name == Sums {
			content = bytes.Clone(sums.Bytes())
		}
		put(name, content)
	}
	out.Write(make([]byte, 2*blockBytes))
	return out.Bytes()
}

func TestForged(t *testing.T) {
	b := sample(t)
	if !bytes.Equal(b, forge(t, b, nil)) {
		t.Fatal("the forger is no good")
	}
	index, err := open(t, b)
	must(t, err)
	web, err := index.Image("web")
	must(t, err)
	layerName := layout.Blob(web.Layers[1].Blob.Digest)
	rename := func(from, to string) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name == from {
				name = to
			}
			return name, content
		}
	}
	content := func(of string, now func([]byte) []byte) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name == of {
				content = now(content)
			}
			return name, content
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(string, []byte) (string, []byte)
	}{
		{"layer is missing", "is missing", rename(layerName, "")},
		{"group file is missing", "is not a bundle", rename(Group, "")},
		{"index is missing", "is missing", rename(layout.Index, "")},
		{"sums are missing", "there is no SHA256SUMS", rename(Sums, "")},
		{"path escape", `an entry "../../etc/cron.d/x"`, rename(layerName, "../../etc/cron.d/x")},
		{"absolute path", `an entry "/etc/cron.d/x"`, rename(layerName, "/etc/cron.d/x")},
		{"path escape below blobs", "an entry", rename(layerName, "blobs/sha256/../../x")},
		{"something else", "an entry", rename(layerName, "README")},
		{"another digest", "has the digest", rename(layerName, "blobs/sha256/"+strings.Repeat("0", 64))},
		{"layer is another", "has the digest", content(layerName, func(b []byte) []byte { return append(bytes.Clone(b), 0) })},
		{"blob of no image", "no image has", func(name string, b []byte) (string, []byte) {
			if name == layout.Index {
				b = bytes.Replace(b, []byte(`,{"mediaType"`), []byte(`],"x":[{"mediaType"`), 1)
			}
			return name, b
		}},
		{"image without a name", "two images", content(layout.Index, func(b []byte) []byte { return bytes.Replace(b, []byte(`:"web"`), []byte(`:""`), 1) })},
		{"one name, two images", "two images", content(layout.Index, func(b []byte) []byte { return bytes.Replace(b, []byte(`:"web"`), []byte(`:"db"`), 1) })},
		{"index is no JSON", "not an image index", content(layout.Index, func(b []byte) []byte { return b[1:] })},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(t, forge(t, b, c.change))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	twice := append(append([]byte{}, b[:blockBytes+512]...), b...)
	if _, err := open(t, twice); err == nil || !strings.Contains(err.Error(), "two entries") {
		t.Errorf("an entry twice: %v", err)
	}
	// Headers that other tars write for the same thing.
	for name, h := range map[string]tar.Header{
		"symlink":   {Typeflag: tar.TypeSymlink, Name: "index.json", Linkname: "/etc/shadow"},
		"hard link": {Typeflag: tar.TypeLink, Name: "index.json", Linkname: "group.json"},
		"owner":     {Typeflag: tar.TypeReg, Name: "index.json", Uid: 1},
		"pax":       {Typeflag: tar.TypeReg, Name: "index.json", Format: tar.FormatPAX, PAXRecords: map[string]string{"path": "x"}},
		"huge pax":  {Typeflag: tar.TypeReg, Name: "index.json", Format: tar.FormatPAX, PAXRecords: map[string]string{"x": strings.Repeat("x", 900<<10)}},
		"device":    {Typeflag: tar.TypeChar, Name: "index.json"},
	} {
		var other bytes.Buffer
		other.Write(b[:blockBytes+512])
		must(t, tar.NewWriter(&other).WriteHeader(&h))
		other.Write(b[blockBytes+512:])
		if _, err := open(t, other.Bytes()); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A layer of more than 8 GiB has its size in another form, in the same block.
func TestLargeHeader(t *testing.T) {
	name := "blobs/sha256/" + strings.Repeat("0", 64)
	for _, size := range []int64{0, 1, 8<<30 - 1, 8 << 30, 1 << 40} {
		h, err := header(name, size)
		must(t, err)
		gotName, gotSize, err := parse([blockBytes]byte(h), 512)
		if err != nil || gotName != name || gotSize != size {
			t.Errorf("%d: %s %d, %v", size, gotName, gotSize, err)
		}
	}
}

func TestNotABundle(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty": nil, "short": []byte("x"), "text": bytes.Repeat([]byte("hello\n"), 1000), "zeros": make([]byte, 4096), "gzip": {0x1f, 0x8b, 8, 0},
	} {
		if _, err := open(t, b); err == nil || !(strings.Contains(err.Error(), "is not a bundle") || strings.Contains(err.Error(), "damaged")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	for name, want := range map[string]string{dir: "not a regular file", "/dev/null": "not a regular file", dir + "/none": "no such file"} {
		if _, err := Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, file{bytes.NewReader(sample(t))}, 1e6); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// An image that can't be read is told from a file that can't be written.
func TestWriteFails(t *testing.T) {
	bad := layer("x")
	bad.DiffID = digest([]byte("y")).String()
	broken := func(l image.Layer) image.Layer {
		l.Open = func(context.Context, func(int64)) (io.ReadCloser, error) { return nil, errors.New("gone") }
		return l
	}
	wrong := bad
	wrong.Open = func(context.Context, func(int64)) (io.ReadCloser, error) {
		return blob.Stored{Content: io.NopCloser(strings.NewReader("x")), Size: 1}.Tar(bad.DiffID)
	}
	for name, l := range map[string]image.Layer{"not there": broken(layer("x")), "blob not there": broken(compressed("x")), "another digest": wrong} {
		f, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
		must(t, err)
		defer f.Close()
		_, err = Write(t.Context(), f, []byte(group), []Node{node("web", l)}, push.Gzip)
		if failed := (*NodeError)(nil); !errors.As(err, &failed) || failed.Node != "web" {
			t.Errorf("%s: %v", name, err)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	_, err = Write(t.Context(), full, []byte(group), []Node{node("web", layer("x"))}, push.Gzip)
	if failed := (*NodeError)(nil); err == nil || errors.As(err, &failed) {
		t.Errorf("the disk is full: %v", err)
	}
}

// What a bundle holds must be what a push of it sends.
func TestManifestIsTheOneThatIsPushed(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
	must(t, err)
	defer f.Close()
	n := node("web", layer("base"), compressed("web"))
	images, err := Write(t.Context(), f, []byte(group), []Node{n}, push.Gzip)
	must(t, err)
	img, err := n.Open(t.Context())
	must(t, err)
	var layers []v1.Descriptor
	for _, l := range []string{"base", "web"} {
		layers = append(layers, *compressed(l).Blob)
	}
	raw, err := push.Manifest(push.Descriptor(types.OCIConfigJSON, img.Config), layers)
	must(t, err)
	if images[0].Digest != digest(raw) {
		t.Errorf("%s, want %s", images[0].Digest, digest(raw))
	}
}

func FuzzBundle(f *testing.F) {
	good := write(f, node("web", layer("base"), compressed("web")))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := open(t, b)
		if err != nil {
			return
		}
		// The one bundle of these contents, or it would have a bit that nothing checks.
		if !bytes.Equal(b, forge(t, b, nil)) {
			t.Error("a bundle is taken that yuba would not write")
		}
		for _, n := range got.Nodes() {
			if _, err := got.Image(n); err != nil {
				t.Error(err)
			}
		}
	})
}
