// Package images holds the tests of where images come from: made by other
// tools, deployed by the built program, carried in bundles. They need skopeo,
// umoci and nix-store, and take minutes: run them by `make images`.
package images

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/nixstore"
	"fediversity.eu/yuba/test/world"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs another tool to its end and returns what it printed.
func run(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// skopeo copies an image, without looking at this machine's policy.
func skopeo(t testing.TB, dir, from, to string, options ...string) {
	t.Helper()
	run(t, dir, "skopeo", append(append([]string{"--insecure-policy", "copy", "-q"}, options...), from, to)...)
}

func write(t testing.TB, name string, s image.Spec) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	must(t, errors.Join(image.Write(f, s), f.Close()))
}

// says fails unless a command's errors have all of these words.
func says(t *testing.T, r world.Result, words ...string) {
	t.Helper()
	text := strings.Join(strings.Fields(r.Stderr), " ") // lines are wrapped
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the error does not say %q:\n%s", word, r.Stderr)
		}
	}
}

// piped runs yuba with an image on its standard input.
func piped(t *testing.T, w *world.World, stdin []byte, code int, args ...string) world.Result {
	t.Helper()
	cmd := w.Command(args...)
	cmd.Stdin = bytes.NewReader(stdin)
	r := world.Run(t, cmd)
	if r.Code != code {
		t.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

// group is a group file with these images.
func group(w *world.World, images map[string]map[string]string) {
	var nodes []any
	for name, source := range images {
		nodes = append(nodes, map[string]any{"name": name, "image": source, "tag": "1"})
	}
	w.Write(map[string]any{"version": 1, "group": "test", "rolloutTimeout": "60s", "storage": map[string]any{"size": "1Gi"}, "nodes": nodes})
}

// sources makes an image of each kind in the world's folder, and what comes on the standard input.
func sources(t *testing.T, w *world.World) (images map[string]map[string]string, stdin []byte) {
	t.Helper()
	file := func(name string) string { return filepath.Join(w.Dir, name) }
	content := func(name string) map[string][]byte { return map[string][]byte{"etc/content": []byte(name)} }

	write(t, file("docker.tar"), image.Spec{Files: content("docker"), Layers: 3})
	write(t, file("build-image.tar.gz"), image.Spec{Layout: image.BuildImage, Gzip: true, Files: content("buildImage")})
	var stream bytes.Buffer
	must(t, image.Write(&stream, image.Spec{Layout: image.StreamLayered, Files: content("stream"), Layers: 5}))

	skopeo(t, w.Dir, "docker-archive:docker.tar", "oci:layout:latest")
	skopeo(t, w.Dir, "docker-archive:docker.tar", "oci-archive:oci.tar")
	skopeo(t, w.Dir, "oci:layout:latest", "docker-archive:skopeo.tar:node:latest")
	run(t, w.Dir, "gzip", "-k", "oci.tar")

	// A root file system as distributions have it, and an image of it in several layers.
	must(t, os.MkdirAll(file("root/usr/sbin"), 0o755))
	must(t, os.Symlink("usr/sbin", file("root/sbin")))
	must(t, os.WriteFile(file("root/usr/sbin/init"), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.Link(file("root/usr/sbin/init"), file("root/usr/sbin/telinit")))
	run(t, w.Dir, "tar", "-C", "root", "--zstd", "-cf", "root.tar.zst", ".")
	run(t, w.Dir, "umoci", "init", "--layout", "umoci")
	run(t, w.Dir, "umoci", "new", "--image", "umoci:v1")
	run(t, w.Dir, "umoci", "insert", "--image", "umoci:v1", "root/usr", "/usr")
	run(t, w.Dir, "umoci", "insert", "--image", "umoci:v1", "root/sbin", "/sbin")
	run(t, w.Dir, "umoci", "config", "--image", "umoci:v1", "--config.cmd", "/sbin/init", "--config.stopsignal", "SIGRTMIN+3")

	s := nixstore.New(t)
	use(s, w)
	return map[string]map[string]string{
		"docker":     {"archive": "docker.tar"},
		"docker-gz":  {"archive": "build-image.tar.gz"},
		"skopeo":     {"archive": "skopeo.tar"},
		"oci":        {"archive": "oci.tar"},
		"oci-gz":     {"archive": "oci.tar.gz"},
		"layout":     {"layout": "layout"},
		"umoci":      {"layout": "umoci"},
		"rootfs":     {"rootfs": "root"},
		"rootfs-tar": {"rootfs": "root.tar.zst"},
		"stream":     {"stream": "-"},
		"derivation": {"derivation": s.Derivation(t, "image.tar", "/bin/cat "+file("docker.tar")+" > $out")},
		"nix-rootfs": {"derivation": s.Derivation(t, "root", "/bin/cp -r "+file("root")+" $out"), "architecture": "arm64"},
	}, stream.Bytes()
}

// digests are the images that the Deployments run, by node.
func digests(w *world.World) map[string]string {
	out := map[string]string{}
	for _, line := range strings.Fields(w.Get("deployments", `range .items[*]}{.metadata.name}={`+world.ImagePath+`}{"\n"}{end`)) {
		name, ref, _ := strings.Cut(line, "=")
		_, digest, _ := strings.Cut(ref, "@")
		out[name] = digest
	}
	return out
}

// The whole way: a group with a node of each kind of source is deployed and then has no changes; from a bundle, in an
// empty folder, it has none either, and becomes the same images in another place.
func TestEverySourceAndTheBundle(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	images, stdin := sources(t, w)
	group(w, images)

	r := piped(t, w, stdin, 1, "k8s", "apply")
	says(t, r, "comes on the standard input", "give -auto-approve")
	w.Unchanged()
	piped(t, w, stdin, 0, "k8s", "apply", "-auto-approve")
	deployed := digests(w)
	if len(deployed) != len(images) {
		t.Fatalf("%d of %d nodes are deployed: %v", len(deployed), len(images), deployed)
	}
	for _, same := range [][]string{{"docker", "derivation"}, {"oci", "oci-gz", "layout"}} {
		for _, name := range same[1:] {
			if deployed[name] != deployed[same[0]] {
				t.Errorf("%s is %s, and %s, which is the same image, %s", name, deployed[name], same[0], deployed[same[0]])
			}
		}
	}
	// Nothing is there to be pushed, so nobody reads the stream; and nobody breaks it off.
	piped(t, w, stdin, 0, "k8s", "plan", "-detailed-exitcode")
	for _, dir := range []string{w.Dir, "images", "nix"} {
		if strings.Contains(w.Must(0, "k8s", "show", "-json").Stdout, dir+"/") {
			t.Errorf("the state knows a path in %s", dir)
		}
	}

	// The other host has the bundle and nothing else.
	printed := piped(t, w, stdin, 0, "k8s", "bundle", "-o", "group.bundle").Stdout
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		name, digest, _ := strings.Cut(line, " ")
		if digest != deployed[name] {
			t.Errorf("%s is %s in the bundle, and %s is deployed", name, digest, deployed[name])
		}
		delete(images, name)
	}
	if len(images) > 0 {
		t.Errorf("the bundle has no image of %v", images)
	}
	carried := filepath.Join(t.TempDir(), "carried.bundle")
	must(t, os.Rename(filepath.Join(w.Dir, "group.bundle"), carried))
	empty := func(w *world.World) {
		w.Dir = t.TempDir()
		for name := range w.Env {
			if strings.HasPrefix(name, "NIX_") || name == "PATH" {
				delete(w.Env, name)
			}
		}
	}
	empty(w)
	w.Must(0, "k8s", "plan", "-bundle="+carried, "-detailed-exitcode")
	w.Must(0, "k8s", "apply", "-bundle="+carried, "-auto-approve")
	w.Must(0, "k8s", "status", "-bundle="+carried)
	if now := digests(w); len(now) != len(deployed) {
		t.Errorf("after an apply of the bundle the nodes are %v", now)
	}

	other := world.New(t)
	empty(other)
	other.Must(0, "k8s", "plan", "-bundle="+carried, "-out=plan")
	other.Must(0, "k8s", "apply", "plan")
	other.Must(0, "k8s", "plan", "-bundle="+carried, "-detailed-exitcode")
	for name, digest := range digests(other) {
		if digest != deployed[name] {
			t.Errorf("%s of the bundle is %s, want %s", name, digest, deployed[name])
		}
		if !lab.Exists(t, other.Lab.Registry+"/"+other.Namespace+"/"+name, digest) {
			t.Errorf("%s is not in the registry", name)
		}
	}
	other.Must(0, "k8s", "destroy", "-bundle="+carried, "-auto-approve")
	other.Unchanged()

	// Other tools read the bundle, too.
	for name, digest := range deployed {
		raw, err := exec.Command("skopeo", "inspect", "--raw", "oci-archive:"+carried+":"+name).Output()
		must(t, err)
		if got := sha256Of(raw); got != digest {
			t.Errorf("skopeo finds %s for %s, want %s", got, name, digest)
		}
	}
}

// An image in the form in which it is pushed keeps its digest, whoever made it: somebody may have signed it.
func TestCompressedImagesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	write(t, filepath.Join(w.Dir, "docker.tar"), image.Spec{Layers: 2})
	skopeo(t, w.Dir, "docker-archive:docker.tar", "oci:layout:latest")
	skopeo(t, w.Dir, "docker-archive:docker.tar", "oci:zstd:latest", "--dest-compress-format=zstd")
	group(w, map[string]map[string]string{"layout": {"layout": "layout"}, "zstd": {"layout": "zstd"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	in := func(ref string, args ...string) string {
		return run(t, w.Dir, "skopeo", append(append([]string{"inspect"}, args...), "--format", "{{.Digest}} {{.Layers}}", ref)...)
	}
	for _, name := range []string{"layout", "zstd"} {
		if want, got := in("oci:"+name+":latest"), in("docker://"+w.Lab.Registry+"/"+w.Namespace+"/"+name+":1", "--tls-verify=false"); got != want {
			t.Errorf("digest and layers are %s, and were %s", got, want)
		}
	}
	raw := run(t, w.Dir, "skopeo", "inspect", "--raw", "--tls-verify=false", "docker://"+w.Lab.Registry+"/"+w.Namespace+"/zstd:1")
	if strings.Count(raw, "tar+zstd") != 2 {
		t.Errorf("the manifest is %s", raw)
	}
}

// A bundle that isn't whole is refused before anything happens: no state is locked, nothing pushed.
func TestBadBundle(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	write(t, filepath.Join(w.Dir, "docker.tar"), image.Spec{Files: map[string][]byte{"noise": bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}})
	group(w, map[string]map[string]string{"web": {"archive": "docker.tar"}})
	w.Must(0, "k8s", "bundle", "-o", "good.bundle")
	good, err := os.ReadFile(filepath.Join(w.Dir, "good.bundle"))
	must(t, err)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 4
	for name, b := range map[string][]byte{"flipped": flipped, "truncated": good[:len(good)-700], "longer": append(bytes.Clone(good), 0), "empty": nil} {
		must(t, os.WriteFile(filepath.Join(w.Dir, name), b, 0o644))
		for _, verb := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"destroy", "-auto-approve"}, {"status"}, {"nodes"}, {"validate"}, {"export", "out"}} {
			r := w.Must(1, append([]string{"k8s", verb[0], "-bundle=" + name}, verb[1:]...)...)
			says(t, r, name, "bundle")
		}
	}
	w.Unchanged()
	if lab.Exists(t, w.Lab.Registry+"/"+w.Namespace+"/web", "1") {
		t.Error("an image was pushed")
	}
	if log, err := os.ReadFile(w.Server.Log); err != nil || bytes.Contains(log, []byte("method=")) {
		t.Errorf("the state server was asked: %s, %v", log, err)
	}
	// A plan that was made with a good one does not push from one that went bad since.
	w.Must(0, "k8s", "plan", "-bundle=good.bundle", "-out=plan")
	must(t, os.WriteFile(filepath.Join(w.Dir, "good.bundle"), flipped, 0o644))
	says(t, w.Must(1, "k8s", "apply", "plan"), "good.bundle", "damaged")
	w.Unchanged()
	says(t, w.Must(1, "k8s", "plan", "-bundle=good.bundle", "-group=group.json"), "-group has no place beside a bundle")
	says(t, w.Must(1, "k8s", "apply", "-bundle=good.bundle", "plan"), "-bundle has no place beside a plan file")
}

// A failed bundle leaves no file, and an old one as it was.
func TestBundleFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	write(t, filepath.Join(w.Dir, "good.tar"), image.Spec{})
	write(t, filepath.Join(w.Dir, "bad.tar"), image.Spec{Files: map[string][]byte{"etc/x": []byte("content")}})
	b, err := os.ReadFile(filepath.Join(w.Dir, "bad.tar"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(w.Dir, "bad.tar"), bytes.Replace(b, []byte("content"), []byte("CONTENT"), 1), 0o644))
	group(w, map[string]map[string]string{"a": {"archive": "good.tar"}, "b": {"archive": "bad.tar"}})
	must(t, os.WriteFile(filepath.Join(w.Dir, "out"), []byte("old"), 0o644))
	says(t, w.Must(1, "k8s", "bundle", "-o", "out"), "image of node b", "bad.tar", "the image is damaged")
	if got, err := os.ReadFile(filepath.Join(w.Dir, "out")); err != nil || string(got) != "old" {
		t.Errorf("the old file is %q, %v", got, err)
	}
	left, err := filepath.Glob(filepath.Join(w.Dir, ".out*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	says(t, w.Must(1, "k8s", "bundle"), "-o is needed")
	says(t, w.Must(1, "k8s", "bundle", "-o", "/dev/full"), "not a regular file")
}

// A plan that is saved, and its apply: each gets the stream.
func TestStreamAndSavedPlan(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	var stream bytes.Buffer
	must(t, image.Write(&stream, image.Spec{Layout: image.StreamLayered, Layers: 2, Gzip: true}))
	group(w, map[string]map[string]string{"web": {"stream": "-"}})
	says(t, piped(t, w, nil, 1, "k8s", "plan", "-out=plan"), "the standard input", "is empty")
	says(t, piped(t, w, stream.Bytes()[:stream.Len()-9], 1, "k8s", "plan", "-out=plan"), "the standard input", "is truncated")
	piped(t, w, stream.Bytes(), 0, "k8s", "plan", "-out=plan")
	w.Unchanged()
	piped(t, w, stream.Bytes(), 0, "k8s", "apply", "plan")
	// There is nothing to do, so nobody reads the stream; but it isn't broken off.
	cmd := w.Command("k8s", "plan", "-detailed-exitcode")
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	for range 64 { // far more than a pipe holds
		if _, err := in.Write(make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errors.Join(in.Close(), cmd.Wait()))
}

// sparse is a docker archive whose layer has so many zero bytes, which take no place on the disk.
func sparse(t *testing.T, name string, zeros int64) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	must(t, errors.Join(image.Write(&holes{f: f}, image.Spec{Zeros: zeros, Layout: image.StreamLayered}), f.Close()))
}

// holes leaves out blocks of zeros.
type holes struct {
	f   *os.File
	pos int64
}

func (h *holes) Write(b []byte) (int, error) {
	defer func() { h.pos += int64(len(b)) }()
	for _, x := range b {
		if x != 0 {
			_, err := h.f.WriteAt(b, h.pos)
			return len(b), err
		}
	}
	return len(b), h.f.Truncate(h.pos + int64(len(b)))
}

// Of a layer of 4 GiB never more is in memory than of any other.
func TestFourGiB(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	sparse(t, filepath.Join(w.Dir, "big.tar"), 4<<30)
	group(w, map[string]map[string]string{"web": {"archive": "big.tar"}})
	for _, args := range [][]string{
		{"k8s", "bundle", "-o", "big.bundle"},
		{"k8s", "apply", "-auto-approve"},
		{"k8s", "plan", "-bundle=big.bundle", "-detailed-exitcode"},
	} {
		cmd := w.Command(args...)
		if r := world.Run(t, cmd); r.Code != 0 {
			t.Fatalf("%v: %v", args, r)
		}
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
		t.Logf("%s: %d MiB, %v CPU", strings.Join(args, " "), peak, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if peak > maxPeak {
			t.Errorf("%v: the peak is %d MiB", args, peak)
		}
	}
}

// maxPeak is in MiB: what yuba takes for any plan, and what a push takes.
const maxPeak = 256
