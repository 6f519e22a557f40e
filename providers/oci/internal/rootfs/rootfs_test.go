package rootfs

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
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"fediversity.eu/yuba/providers/oci/internal/image"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes a root file system in order of names, or in the opposite one.
func tree(t testing.TB, reverse bool) string {
	t.Helper()
	dir := t.TempDir()
	steps := []func(){
		func() { must(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755)) },
		func() {
			must(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\n"), 0o644))
		},
		func() { must(t, os.WriteFile(filepath.Join(dir, "etc-1"), nil, 0o600)) },
		func() {
			must(t, os.MkdirAll(filepath.Join(dir, "sbin"), 0o755))
			must(t, os.Symlink("/nix/store/x-systemd/bin/init", filepath.Join(dir, "sbin/init")))
		},
		func() {
			must(t, os.WriteFile(filepath.Join(dir, "su"), []byte("x"), 0o700))
			must(t, os.Chmod(filepath.Join(dir, "su"), 0o4755|os.ModeSetuid))
		},
	}
	for i := range steps {
		if reverse {
			i = len(steps) - 1 - i
			if i == 1 {
				steps[0]()
			}
		}
		steps[i]()
	}
	if reverse {
		must(t, os.Chtimes(filepath.Join(dir, "su"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	return dir
}

func packed(t testing.TB, d Dir) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, d.Write(t.Context(), &b))
	return b.Bytes()
}

// entry is what a test looks at.
type entry struct {
	Name, Link, Content string
	Mode                int64
	Type                byte
	UID, GID            int
	Major, Minor        int64
	Xattrs              map[string]string
}

func entries(t testing.TB, b []byte) []entry {
	t.Helper()
	var out []entry
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		e := entry{Name: h.Name, Link: h.Linkname, Content: string(content), Mode: h.Mode, Type: h.Typeflag, UID: h.Uid, GID: h.Gid,
			Major: h.Devmajor, Minor: h.Devminor}
		for k, v := range h.PAXRecords {
			if name, ok := strings.CutPrefix(k, "SCHILY.xattr."); ok {
				if e.Xattrs == nil {
					e.Xattrs = map[string]string{}
				}
				e.Xattrs[name] = v
			}
		}
		if !h.ModTime.Equal(time.Unix(1, 0)) || !h.AccessTime.IsZero() || !h.ChangeTime.IsZero() || h.Uname+h.Gname != "" {
			t.Errorf("%s: %v", h.Name, h)
		}
		out = append(out, e)
	}
}

// A copy of a directory, made later and in another order, is the same image. The digest is in states and Deployments: no
// version of yuba may give another one.
func TestDirIsDeterministic(t *testing.T) {
	const want = "sha256:a546e0ec5721e244e5496712b176b04c94824394a26e024c6c9c077d65b364f9"
	for _, reverse := range []bool{false, true} {
		d := Dir{Path: tree(t, reverse)}
		b := packed(t, d)
		sum := sha256.Sum256(b)
		diffID, size, err := d.Measure(t.Context())
		if err != nil || diffID != "sha256:"+hex.EncodeToString(sum[:]) || size != int64(len(b)) {
			t.Errorf("measured %s, %d, %v; written %x, %d", diffID, size, err, sum, len(b))
		}
		if diffID != want {
			t.Errorf("reverse=%v: digest %s, want %s", reverse, diffID, want)
		}
		if d := cmp.Diff([]entry{
			{Name: "etc/", Mode: 0o755, Type: tar.TypeDir},
			{Name: "etc/passwd", Mode: 0o644, Type: tar.TypeReg, Content: "root:x:0:0::/:/bin/sh\n"},
			{Name: "etc-1", Mode: 0o600, Type: tar.TypeReg},
			{Name: "sbin/", Mode: 0o755, Type: tar.TypeDir},
			{Name: "sbin/init", Mode: 0o777, Type: tar.TypeSymlink, Link: "/nix/store/x-systemd/bin/init"},
			{Name: "su", Mode: 0o4755, Type: tar.TypeReg, Content: "x"},
		}, entries(t, b)); d != "" {
			t.Error(d)
		}
		// What yuba packs, it takes as a tar, too, and it's the same image.
		if got, err := Tar(t.Context(), bytes.NewReader(b)); err != nil || got != diffID {
			t.Errorf("as a tar it's %s, %v", got, err)
		}
	}
}

func TestDirKeepsWhatMatters(t *testing.T) {
	dir := tree(t, false)
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Link(in("su"), in("su-2")))
	must(t, os.Link(in("su"), in("etc/su-0")))
	must(t, unix.Mkfifo(in("fifo"), 0o600))
	must(t, unix.Setxattr(in("su"), "user.note", []byte("a\x00b"), 0))
	long := strings.Repeat("n", 200)
	must(t, os.WriteFile(in(long), nil, 0o644))
	must(t, os.WriteFile(in("latin-\xe9"), nil, 0o644))
	l, err := net.Listen("unix", in("socket"))
	must(t, err)
	defer l.Close()
	want := []entry{
		{Name: "etc/", Mode: 0o755, Type: tar.TypeDir},
		{Name: "etc/passwd", Mode: 0o644, Type: tar.TypeReg, Content: "root:x:0:0::/:/bin/sh\n"},
		{Name: "etc/su-0", Mode: 0o4755, Type: tar.TypeReg, Content: "x", Xattrs: map[string]string{"user.note": "a\x00b"}},
		{Name: "etc-1", Mode: 0o600, Type: tar.TypeReg},
		{Name: "fifo", Mode: 0o600, Type: tar.TypeFifo},
		{Name: "latin-\xe9", Mode: 0o644, Type: tar.TypeReg},
		{Name: long, Mode: 0o644, Type: tar.TypeReg},
		{Name: "sbin/", Mode: 0o755, Type: tar.TypeDir},
		{Name: "sbin/init", Mode: 0o777, Type: tar.TypeSymlink, Link: "/nix/store/x-systemd/bin/init"},
		{Name: "su", Mode: 0o4755, Type: tar.TypeLink, Link: "etc/su-0"},
		{Name: "su-2", Mode: 0o4755, Type: tar.TypeLink, Link: "etc/su-0"},
	}
	if d := cmp.Diff(want, entries(t, packed(t, Dir{Path: dir}))); d != "" {
		t.Error(d)
	}

	// In the Nix store hard links are no content.
	for i, e := range want {
		if e.Type == tar.TypeLink {
			want[i].Type, want[i].Link, want[i].Content, want[i].Xattrs = tar.TypeReg, "", "x", want[2].Xattrs
		}
	}
	if d := cmp.Diff(want, entries(t, packed(t, Dir{Path: dir, Unlinked: true}))); d != "" {
		t.Error(d)
	}
}

// What only root can make: devices, owners, capabilities.
func TestDirAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		// The tests run as root where they count; another user can make none of this.
		return
	}
	dir := tree(t, false)
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Lchown(in("su"), 71, 72))
	must(t, os.Lchown(in("sbin/init"), 71, 72))
	capability := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	must(t, unix.Setxattr(in("etc-1"), "security.capability", capability, 0))
	must(t, unix.Setxattr(in("etc-1"), "trusted.host", []byte("x"), 0))
	var device bool
	if err := unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err == nil {
		device = true
		must(t, os.Chmod(in("null"), 0o666))
	} else if !errors.Is(err, unix.EPERM) { // in a user namespace
		t.Fatal(err)
	}
	for _, e := range entries(t, packed(t, Dir{Path: dir})) {
		switch e.Name {
		case "su", "sbin/init":
			if e.UID != 71 || e.GID != 72 {
				t.Errorf("%+v", e)
			}
		case "etc-1":
			if d := cmp.Diff(map[string]string{"security.capability": string(capability)}, e.Xattrs); d != "" {
				t.Error(d)
			}
		case "null":
			if e.Type != tar.TypeChar || e.Major != 1 || e.Minor != 3 || e.Mode != 0o666 {
				t.Errorf("%+v", e)
			}
			device = false
		}
	}
	if device {
		t.Error("the device is missing")
	}
}

// The image of somebody who isn't root has root's files, as it has everywhere else.
func TestOwner(t *testing.T) {
	for _, c := range []struct {
		id   uint32
		own  int
		want int
	}{{0, 0, 0}, {71, 0, 71}, {1000, 1000, 0}, {0, 1000, 0}, {71, 1000, 71}} {
		if got := owner(c.id, c.own); got != c.want {
			t.Errorf("%d of a file that %d packs is %d, want %d", c.id, c.own, got, c.want)
		}
	}
}

func TestBadDir(t *testing.T) {
	deep := func(t *testing.T) string {
		dir := tree(t, false)
		must(t, os.MkdirAll(dir+strings.Repeat("/d", maxDepth+1), 0o755))
		return dir
	}
	with := func(name, content string) func(*testing.T) string {
		return func(t *testing.T) string {
			dir := tree(t, false)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
			return dir
		}
	}
	for _, c := range []struct {
		name, want string
		dir        func(*testing.T) string
	}{
		{"empty", "has no /sbin/init", func(t *testing.T) string { return t.TempDir() }},
		{"init is a directory", "has no /sbin/init", func(t *testing.T) string {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, "sbin/init"), 0o755))
			return dir
		}},
		{"layout", "looks like the files of an image (OCI layout)", func(t *testing.T) string {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "oci-layout"), []byte("{}"), 0o644))
			return dir
		}},
		{"whiteout", `such a name deletes a file`, with("etc/.wh.passwd", "")},
		{"deep", "more than 256 directories", deep},
		{"not there", "no such file", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }},
		{"a file", "not a directory", func(t *testing.T) string { return with("x", "x")(t) + "/x" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			err := Dir{Path: dir}.Write(t.Context(), io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("the path, which the caller names, is in %q", err)
			}
		})
	}
	// Distributions have merged /sbin into others.
	for _, name := range []string{"sbin/init", "usr/sbin/init", "usr/bin/init", "bin/init"} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
		if err := (Dir{Path: dir}).Write(t.Context(), io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing outside the directory gets into an image, whatever links lead there.
func TestDirFollowsNoLink(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	dir := tree(t, false)
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, os.Symlink(outside+"/secret", filepath.Join(dir, "file")))
	must(t, os.Symlink(".", filepath.Join(dir, "loop")))
	for _, e := range entries(t, packed(t, Dir{Path: dir})) {
		if e.Content == "secret" || strings.HasPrefix(e.Name, "out/") || strings.HasPrefix(e.Name, "loop/") {
			t.Errorf("%+v", e)
		}
	}
}

func TestFingerprint(t *testing.T) {
	dir := tree(t, false)
	of := func() string {
		t.Helper()
		s, err := Dir{Path: dir}.Fingerprint(t.Context())
		must(t, err)
		return s
	}
	first := of()
	if again := of(); again != first {
		t.Error("changes by itself")
	}
	must(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("other"), 0o644))
	if of() == first {
		t.Error("a file has changed, the fingerprint has not")
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Dir{Path: tree(t, false)}).Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("directory: %v", err)
	}
	if _, err := Tar(ctx, bytes.NewReader(packed(t, Dir{Path: tree(t, false)}))); !errors.Is(err, context.Canceled) {
		t.Errorf("tar: %v", err)
	}
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		must(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write(make([]byte, h.Size))
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

var initFile = tar.Header{Name: "./sbin/init", Typeflag: tar.TypeReg, Mode: 0o755, Size: 3}

func TestTar(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []tar.Header
		want    string
	}{
		{"good", []tar.Header{initFile}, ""},
		{"all kinds", []tar.Header{initFile, {Name: "./", Typeflag: tar.TypeDir}, {Name: "l", Typeflag: tar.TypeLink, Linkname: "sbin/init"}, {Name: "s", Typeflag: tar.TypeSymlink, Linkname: "/../../x"},
			{Name: "c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, {Name: "b", Typeflag: tar.TypeBlock}, {Name: "f", Typeflag: tar.TypeFifo}}, ""},
		{"again", []tar.Header{initFile, initFile}, ""},
		{"no init", []tar.Header{{Name: "x", Typeflag: tar.TypeReg}}, "no /sbin/init"},
		{"docker archive", []tar.Header{{Name: "manifest.json", Typeflag: tar.TypeReg}}, "looks like the files of an image (docker archive)"},
		{"absolute", []tar.Header{initFile, {Name: "/etc/passwd", Typeflag: tar.TypeReg}}, `"/etc/passwd" has an unsafe name`},
		{"climbing", []tar.Header{initFile, {Name: "a/../../etc", Typeflag: tar.TypeReg}}, "unsafe name"},
		{"up", []tar.Header{initFile, {Name: "..", Typeflag: tar.TypeDir}}, "unsafe name"},
		{"hard link outside", []tar.Header{initFile, {Name: "x", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}}, "hard link out of"},
		{"hard link to an absolute path", []tar.Header{initFile, {Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}}, "hard link out of"},
		{"whiteout", []tar.Header{initFile, {Name: "etc/.wh..wh..opq", Typeflag: tar.TypeReg}}, "deletes a file"},
		{"odd type", []tar.Header{initFile, {Name: "x", Typeflag: '9'}}, `tar type '9'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := tarOf(t, c.headers...)
			sum := sha256.Sum256(b)
			for kind, r := range map[string]io.Reader{"plain": bytes.NewReader(b), "gzip": gz(t, b), "zstd": zst(t, b)} {
				diffID, err := Tar(t.Context(), r)
				switch {
				case c.want == "" && (err != nil || diffID != "sha256:"+hex.EncodeToString(sum[:])):
					t.Errorf("%s: %s, %v", kind, diffID, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s: error %v, want %q", kind, err, c.want)
				}
			}
		})
	}
}

func gz(t testing.TB, b []byte) *bytes.Reader {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	must(t, err)
	must(t, z.Close())
	return bytes.NewReader(out.Bytes())
}

func zst(t testing.TB, b []byte) *bytes.Reader {
	z, err := zstd.NewWriter(nil)
	must(t, err)
	return bytes.NewReader(z.EncodeAll(b, nil))
}

// Wherever a tar is cut off or broken, it must not get through.
func TestBrokenTar(t *testing.T) {
	b := tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 5000, Mode: 0o644}, initFile)
	for cut := 0; cut < len(b)-1024; cut += 7 {
		if _, err := Tar(t.Context(), bytes.NewReader(b[:cut])); err == nil {
			t.Fatalf("cut at %d of %d it is taken", cut, len(b))
		}
	}
	z := gz(t, b)
	for cut := range z.Len() {
		zipped := make([]byte, cut)
		_, err := z.ReadAt(zipped, 0)
		must(t, err)
		if _, err := Tar(t.Context(), bytes.NewReader(zipped)); err == nil {
			t.Fatalf("gzipped and cut at %d of %d it is taken", cut, z.Len())
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty": {nil, "truncated"},
		"text":  {bytes.Repeat([]byte("hello\n"), 1000), "is not the tar of a root file system"},
		"xz":    {[]byte("\xfd7zXZ\x00xxxxxxxxxxxxxx"), "is compressed with xz"},
		"zeros": {make([]byte, 4096), "has no /sbin/init"},
	} {
		if _, err := Tar(t.Context(), bytes.NewReader(c.b)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// The config is in the digest of every image that is made of a root file system.
func TestConfig(t *testing.T) {
	diffID := "sha256:" + strings.Repeat("0", 64)
	want := `{"created":"1970-01-01T00:00:01Z","architecture":"arm64","os":"linux","config":{"Cmd":["/sbin/init"],"StopSignal":"SIGRTMIN+3"},` +
		`"rootfs":{"type":"layers","diff_ids":["` + diffID + `"]}}`
	if got := string(Config(diffID, "arm64")); got != want {
		t.Errorf("%s", got)
	}
	if _, err := image.CheckConfig(Config(diffID, ""), 1); err != nil {
		t.Error(err)
	}
}

func FuzzTar(f *testing.F) {
	good := tarOf(f, initFile, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "sbin/init"}, tar.Header{Name: strings.Repeat("n", 300), Typeflag: tar.TypeReg, Size: 1})
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(tarOf(f, initFile, tar.Header{Name: "../x", Typeflag: tar.TypeReg}))
	zipped := new(bytes.Buffer)
	_, err := gz(f, good).WriteTo(zipped)
	must(f, err)
	f.Add(zipped.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		diffID, err := Tar(t.Context(), bytes.NewReader(b))
		if err != nil {
			if diffID != "" {
				t.Error("an error and a digest")
			}
			return
		}
		if _, err := image.CheckConfig(Config(diffID, ""), 1); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkDir(b *testing.B) {
	dir := tree(b, false)
	for i := range 1000 {
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 4096), 0o644))
	}
	for b.Loop() {
		must(b, Dir{Path: dir}.Write(b.Context(), io.Discard))
	}
}
