package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/oci/internal/bundle"
	node "fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/nix"
	"fediversity.eu/yuba/providers/oci/internal/push"
	"fediversity.eu/yuba/test/image"
)

const drv = "/nix/store/0c4p3nhsqzb5cdyxgq1yjg0a1nz8jcrb-web.tar.gz.drv"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]Ref{
		"web.tar":                 {Path: "web.tar"},
		"/a:b/web.tar":            {Path: "/a:b/web.tar"},
		"./rootfs:x":              {Path: "./rootfs:x"},
		"rootfs:x":                {Kind: Rootfs, Path: "x"},
		"rootfs:/a:b":             {Kind: Rootfs, Path: "/a:b"},
		"rootfs:arm64:/a:b":       {Kind: Rootfs, Path: "/a:b", Architecture: "arm64"},
		"nix:" + drv:              {Kind: Nix, Path: drv, Output: "out"},
		"nix:arm64:" + drv + "!x": {Kind: Nix, Path: drv, Output: "x", Architecture: "arm64"},
		"stdin:":                  {Kind: Stdin},
		"bundle:web:/a:b":         {Kind: Bundle, Node: "web", Path: "/a:b"},
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%s is %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "rootfs:", "rootfs:arm64:", "nix:x", "nix:", "stdin:x", "bundle:", "bundle:x", "bundle::/x", "bundle:x:"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("%q is taken as %+v", in, got)
		}
	}
}

// kinds makes a source of each kind in a directory.
func kinds(t *testing.T) (dir string, file func(string) string) {
	t.Helper()
	dir = t.TempDir()
	file = func(name string) string { return filepath.Join(dir, name) }
	save := build(t, image.Spec{Layout: image.Save, GzipLayer: true})
	must(t, os.WriteFile(file("docker.tar"), build(t, image.Spec{}), 0o644))
	must(t, os.WriteFile(file("docker.tar.gz"), build(t, image.Spec{Gzip: true}), 0o644))
	must(t, os.WriteFile(file("save.tar"), save, 0o644))
	must(t, os.MkdirAll(file("root/sbin"), 0o755))
	must(t, os.WriteFile(file("root/sbin/init"), []byte("x"), 0o755))
	must(t, os.WriteFile(file("script"), []byte("#!/bin/sh\nexec cat\n"), 0o755))
	must(t, os.MkdirAll(file("empty"), 0o755))
	run := func(line string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s, %v", line, out, err)
		}
	}
	run("mkdir layout && tar -C layout -xf save.tar && rm layout/manifest.json layout/repositories")
	run("tar -C layout -cf oci.tar . && gzip -k oci.tar && tar -C root -cf root.tar . && gzip -k root.tar")
	return dir, file
}

// What something is is told by its content, and what it's not by what is wanted.
func TestKinds(t *testing.T) {
	dir, file := kinds(t)
	s := store()
	digests := map[string]string{}
	for _, c := range []struct{ kind, name, want string }{
		{"", "docker.tar", ""}, {"", "docker.tar.gz", ""}, {"", "save.tar", ""}, {"", "layout", ""}, {"", "oci.tar", ""}, {"", "oci.tar.gz", ""},
		{Rootfs, "root", ""}, {Rootfs, "root.tar", ""}, {Rootfs, "root.tar.gz", ""}, {Rootfs + "arm64:", "root", ""},
		{"", "root", "not an OCI layout"}, {"", "root.tar", "not a docker archive and not an OCI archive"}, {"", "script", "is a script"}, {"", "empty", "not an OCI layout"},
		{Rootfs, "docker.tar", "looks like the files of an image (docker archive)"}, {Rootfs, "layout", "looks like the files of an image (OCI layout)"},
		{Rootfs, "oci.tar.gz", "looks like the files of an image (OCI layout)"}, {Rootfs, "script", "is a script"}, {Rootfs, "empty", "no /sbin/init"},
		{Rootfs, "none", "no such file"}, {"", "none", "no such file"},
	} {
		img, err := s.Open(t.Context(), c.kind+file(c.name), quiet)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), dir) {
				t.Errorf("%s%s: error %v, want %q", c.kind, c.name, err, c.want)
			}
			if deep := s.Check(t.Context(), c.kind+file(c.name), true, quiet); deep == nil || deep.Error() != err.Error() {
				t.Errorf("%s%s: a check says %v, and opening it %v", c.kind, c.name, deep, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s%s: %v", c.kind, c.name, err)
			continue
		}
		digests[c.kind+c.name] = content(t, img)
		must(t, img.Close())
		must(t, s.Check(t.Context(), c.kind+file(c.name), false, quiet))
		must(t, s.Check(t.Context(), c.kind+file(c.name), true, quiet))
	}
	for a, b := range map[string]string{"docker.tar": "docker.tar.gz", "layout": "oci.tar", "oci.tar": "oci.tar.gz", "rootfs:root.tar": "rootfs:root.tar.gz"} {
		if digests[a] != digests[b] {
			t.Errorf("%s and %s are different images:\n%s\n%s", a, b, digests[a], digests[b])
		}
	}
	if digests["rootfs:root"] == digests["rootfs:arm64:root"] {
		t.Error("an architecture makes no difference")
	}
}

// content is what an image is made of.
func content(t testing.TB, img *node.Image) string {
	t.Helper()
	out := string(img.Config)
	for _, l := range img.Layers {
		r, err := l.Open(t.Context(), nil)
		must(t, err)
		h := sha256.New()
		_, err = io.Copy(h, r)
		must(t, err)
		must(t, r.Close())
		out += " " + hex.EncodeToString(h.Sum(nil))
	}
	return out
}

// Many layers in a compressed archive cost one decompression, in whatever order they are asked for.
func TestLayersOfACompressedArchive(t *testing.T) {
	plain, zipped := tempFile(t, build(t, image.Spec{Layers: 20})), tempFile(t, build(t, image.Spec{Layers: 20, Gzip: true}))
	a, err := store().Open(t.Context(), plain, quiet)
	must(t, err)
	defer a.Close()
	b, err := store().Open(t.Context(), zipped, quiet)
	must(t, err)
	defer b.Close()
	if d := cmp.Diff(content(t, a), content(t, b)); d != "" {
		t.Error(d)
	}
	for _, img := range []*node.Image{a, b} {
		for _, i := range []int{3, 3, 1, 19, 0, 7} { // uploads that are cut begin again
			r, err := img.Layers[i].Open(t.Context(), nil)
			must(t, err)
			if i == 7 {
				_, err = io.CopyN(io.Discard, r, 10)
			} else {
				_, err = io.Copy(io.Discard, r)
			}
			must(t, err)
			must(t, r.Close())
		}
		_ = content(t, img)
	}
}

func TestStdin(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		b := build(t, image.Spec{Layout: image.StreamLayered, Layers: 3, Gzip: zipped})
		want, err := store().Open(t.Context(), tempFile(t, b), quiet)
		must(t, err)
		defer want.Close()
		pr, pw := io.Pipe()
		go func() {
			_, err := pw.Write(b)
			pw.CloseWithError(err)
		}()
		s := NewStore(pr, nix.NewStore(nil))
		// A look that costs nothing leaves the pipe alone.
		must(t, s.Check(t.Context(), "stdin:", false, quiet))
		must(t, s.Check(t.Context(), "stdin:", true, quiet))
		for range 2 {
			img, err := s.Open(t.Context(), "stdin:", quiet)
			must(t, err)
			if d := cmp.Diff(content(t, want), content(t, img)); d != "" {
				t.Error(d)
			}
			must(t, img.Close())
		}
		must(t, s.Close())
		if _, err := s.Open(t.Context(), "stdin:", quiet); err == nil {
			t.Error("open after close")
		}
	}
	for name, c := range map[string]struct {
		in   io.Reader
		want string
	}{
		"none":  {nil, "no standard input"},
		"empty": {strings.NewReader(""), "is empty"},
		"text":  {strings.NewReader("hello, world, this is no archive"), "is truncated"},
		"cut":   {bytes.NewReader(build(t, image.Spec{})[:5000]), "truncated"},
		"error": {io.MultiReader(strings.NewReader("x"), failing{}), "broke"},
	} {
		_, err := NewStore(c.in, nil).Open(t.Context(), "stdin:", quiet)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	// A run that is cancelled doesn't wait for a pipe that says nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pr, _ := io.Pipe()
	if _, err := NewStore(pr, nil).Open(ctx, "stdin:", quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// No place for it.
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := NewStore(strings.NewReader("x"), nil).Open(t.Context(), "stdin:", quiet); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("no TMPDIR: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broke") }

// What a derivation makes may be any of the others.
func TestDerivation(t *testing.T) {
	dir, file := kinds(t)
	bin := t.TempDir()
	// It counts its calls: a run looks several times, and builds once.
	must(t, os.WriteFile(filepath.Join(bin, "nix-store"), []byte("#!/bin/sh\necho x >> "+dir+"/calls\nbasename=${2%.drv!*}; echo "+dir+"/${basename##*-}\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	source := func(name string) string {
		return "nix:/nix/store/" + strings.Repeat("0", 32) + "-" + name + ".drv"
	}
	for name, same := range map[string]string{"docker.tar": "docker.tar", "docker.tar.gz": "docker.tar.gz", "layout": "layout", "oci.tar": "oci.tar",
		"root": Rootfs + "root", "root.tar.gz": Rootfs + "root.tar.gz"} {
		kind, path := "", same
		if rest, ok := strings.CutPrefix(same, Rootfs); ok {
			kind, path = Rootfs, rest
		}
		want, err := store().Open(t.Context(), kind+file(path), quiet)
		must(t, err)
		defer want.Close()
		must(t, os.RemoveAll(file("calls")))
		s := store()
		must(t, s.Check(t.Context(), source(name), false, quiet))
		if _, err := os.Stat(file("calls")); err == nil {
			t.Errorf("%s: a look that should cost nothing has built", name)
		}
		must(t, s.Check(t.Context(), source(name), true, quiet))
		got, err := s.Open(t.Context(), source(name), quiet)
		must(t, err)
		defer got.Close()
		if d := cmp.Diff(content(t, want), content(t, got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if calls, err := os.ReadFile(file("calls")); err != nil || string(calls) != "x\n" {
			t.Errorf("%s: nix-store was called %d times, %v", name, len(calls)/2, err)
		}
	}
	for name, want := range map[string]string{"script": "is a script", "empty": "no /sbin/init", "none": "no such file"} {
		if _, err := store().Open(t.Context(), source(name), quiet); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "which Nix made of it") {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	must(t, os.WriteFile(file("text"), bytes.Repeat([]byte("hello\n"), 200), 0o644))
	if _, err := store().Open(t.Context(), source("text"), quiet); err == nil || !strings.Contains(err.Error(), "as the archive of an image it is not an archive") ||
		!strings.Contains(err.Error(), "as the tar of a root file system it is not the tar") {
		t.Errorf("text: %v", err)
	}
}

// A root file system that changes between two looks is another one.
func TestRootfsChanges(t *testing.T) {
	_, file := kinds(t)
	s := store()
	for _, name := range []string{"root", "root.tar"} {
		before, err := s.Open(t.Context(), Rootfs+file(name), quiet)
		must(t, err)
		defer before.Close()
		old := content(t, before)
		if name == "root" {
			must(t, os.WriteFile(file("root/sbin/init"), []byte("y"), 0o755))
		} else {
			f, err := os.OpenFile(file(name), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.Write(make([]byte, 512))
			must(t, errors.Join(err, f.Close()))
		}
		after, err := s.Open(t.Context(), Rootfs+file(name), quiet)
		must(t, err)
		defer after.Close()
		if content(t, after) == old {
			t.Errorf("%s: the change is not seen", name)
		}
	}
	// And one that changes while it's pushed is none.
	img, err := s.Open(t.Context(), Rootfs+file("root"), quiet)
	must(t, err)
	defer img.Close()
	must(t, os.WriteFile(file("root/sbin/init"), []byte("z"), 0o755))
	r, err := img.Layers[0].Open(t.Context(), nil)
	must(t, err)
	if _, err := io.Copy(io.Discard, r); err == nil || !strings.Contains(err.Error(), "has changed while it was read") {
		t.Errorf("error %v", err)
	}
	must(t, r.Close())
}

func TestBundle(t *testing.T) {
	_, file := kinds(t)
	s := store()
	var nodes []bundle.Node
	for _, name := range []string{"docker.tar", "layout", Rootfs + "root"} {
		source := file(name)
		if rest, ok := strings.CutPrefix(name, Rootfs); ok {
			source = Rootfs + file(rest)
		}
		nodes = append(nodes, bundle.Node{Name: fmt.Sprintf("n%d", len(nodes)), Read: func(int64, int64) {},
			Open: func(ctx context.Context) (*node.Image, error) { return s.Open(ctx, source, quiet) }})
	}
	f, err := os.Create(file("bundle"))
	must(t, err)
	defer f.Close()
	_, err = bundle.Write(t.Context(), f, []byte("{}"), nodes, push.Gzip)
	must(t, err)
	for _, n := range nodes {
		img, err := n.Open(t.Context())
		must(t, err)
		defer img.Close()
		must(t, s.Check(t.Context(), "bundle:"+n.Name+":"+file("bundle"), true, quiet))
		got, err := s.Open(t.Context(), "bundle:"+n.Name+":"+file("bundle"), quiet)
		must(t, err)
		if !bytes.Equal(got.Config, img.Config) {
			t.Errorf("%s: %s, want %s", n.Name, got.Config, img.Config)
		}
		_ = content(t, got)
		must(t, got.Close())
	}
	if _, err := s.Open(t.Context(), "bundle:x:"+file("bundle"), quiet); err == nil || !strings.Contains(err.Error(), `no image of node "x"`) {
		t.Error(err)
	}
	if _, err := s.Open(t.Context(), "bundle:x:"+file("docker.tar"), quiet); err == nil || !strings.Contains(err.Error(), `not a bundle`) {
		t.Error(err)
	}
}
