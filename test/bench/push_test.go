package bench

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/world"
)

// corpusSize is the size of the layer that is pushed, about.
const corpusSize = 600 << 20

// corpus is a tar of files of this machine's /usr, chosen by the hashes of their names, kept in the cache of test/parts.sh.
func corpus(b *testing.B) string {
	b.Helper()
	cache := os.Getenv("YUBA_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		must(b, err)
		cache = filepath.Join(dir, "yuba-parts")
	}
	name := filepath.Join(cache, "push-corpus-1", "layer.tar")
	if _, err := os.Stat(name); err == nil {
		return name
	}
	type file struct {
		path string
		size int64
		hash [32]byte
	}
	var files []file
	err := filepath.WalkDir("/usr", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // what can't be read is left out
		}
		if info, err := e.Info(); err == nil && info.Size() < corpusSize/10 {
			files = append(files, file{path, info.Size(), sha256.Sum256([]byte(path))})
		}
		return nil
	})
	must(b, err)
	slices.SortFunc(files, func(x, y file) int { return bytes.Compare(x.hash[:], y.hash[:]) })
	left := int64(corpusSize)
	files = slices.DeleteFunc(files, func(f file) bool {
		if f.size > left {
			return true
		}
		left -= f.size
		return false
	})
	if left > corpusSize/100 {
		b.Fatalf("/usr has %d MiB too little for the benchmark", left>>20)
	}
	slices.SortFunc(files, func(x, y file) int { return cmp.Compare(x.path, y.path) })
	must(b, os.MkdirAll(filepath.Dir(name), 0o755))
	out, err := os.CreateTemp(filepath.Dir(name), "tmp.")
	must(b, err)
	defer os.Remove(out.Name())
	w := tar.NewWriter(out)
	for _, f := range files {
		content, err := os.Open(f.path)
		must(b, err)
		must(b, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f.path, "/"), Mode: 0o644, Size: f.size, ModTime: time.Unix(1, 0)}))
		// The memory of this process is the least that its children seem to have had: files are never held in it.
		_, err = io.CopyN(w, content, f.size)
		must(b, err)
		content.Close()
	}
	must(b, errors.Join(w.Close(), out.Close(), os.Rename(out.Name(), name)))
	return name
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// layer is a part of the corpus as the one file of a tar, or the corpus itself.
type layer struct {
	corpus       string
	offset, size int64
	whole        bool
}

func (l layer) open(b *testing.B) io.Reader {
	f, err := os.Open(l.corpus)
	must(b, err)
	b.Cleanup(func() { f.Close() })
	if l.whole {
		return f
	}
	var head bytes.Buffer
	must(b, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: fmt.Sprint("part", l.offset), Mode: 0o644, Size: l.size, ModTime: time.Unix(1, 0)}))
	return io.MultiReader(&head, io.NewSectionReader(f, l.offset, l.size), bytes.NewReader(make([]byte, (512-l.size%512)%512+1024)))
}

// archive writes a docker archive of these layers.
func archive(b *testing.B, name string, layers ...layer) {
	b.Helper()
	f, err := os.Create(name)
	must(b, err)
	w := tar.NewWriter(f)
	var names, diffIDs []string
	for i, l := range layers {
		h := sha256.New()
		size, err := io.Copy(h, l.open(b))
		must(b, err)
		names, diffIDs = append(names, fmt.Sprintf("%d.tar", i)), append(diffIDs, "sha256:"+hex.EncodeToString(h.Sum(nil)))
		must(b, w.WriteHeader(&tar.Header{Name: names[i], Mode: 0o644, Size: size}))
		_, err = io.Copy(w, l.open(b))
		must(b, err)
	}
	for name, content := range map[string]any{
		"config.json": map[string]any{"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": []string{"/sbin/init"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs}},
		"manifest.json": []any{map[string]any{"Config": "config.json", "RepoTags": []string{"node:1"}, "Layers": names}},
	} {
		raw, err := json.Marshal(content)
		must(b, err)
		must(b, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(raw))}))
		_, err = w.Write(raw)
		must(b, err)
	}
	must(b, errors.Join(w.Close(), f.Close()))
}

// registry is Debian's docker-registry, as a process of its own.
type registry struct{ dir, host string }

func startRegistry(b *testing.B) registry {
	b.Helper()
	r := registry{b.TempDir(), freeport.Address(b)}
	config := filepath.Join(b.TempDir(), "config.yml")
	must(b, os.WriteFile(config, fmt.Appendf(nil, "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", r.dir, r.host), 0o600))
	cmd := exec.Command("docker-registry", "serve", config)
	must(b, cmd.Start())
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + r.host + "/v2/")
		if err == nil {
			resp.Body.Close()
			return r
		}
		if time.Now().After(until) {
			b.Fatal("docker-registry does not start: ", err)
		}
	}
}

// wipe makes it forget all that was pushed.
func (r registry) wipe(b *testing.B) { must(b, os.RemoveAll(filepath.Join(r.dir, "docker"))) }

// pusher is a folder with a configuration that pushes archives.
type pusher struct {
	program, dir string
}

func newPusher(b *testing.B, r registry, archives ...string) pusher {
	b.Helper()
	p := pusher{world.Program(b), b.TempDir()}
	images, err := json.Marshal(archives)
	must(b, err)
	must(b, os.WriteFile(filepath.Join(p.dir, "main.tf"), fmt.Appendf(nil, `terraform {
  required_providers {
    oci = { source = "fediversity/oci" }
  }
}
resource "oci_image" "node" {
  count      = length(%[1]s)
  source     = %[1]s[count.index]
  repository = "%[2]s/ns/node${count.index}"
  tag        = "1"
}
`, images, r.host), 0o600))
	return p
}

// push is a first apply: it has no state, so it asks the registry.
func (p pusher) push(b *testing.B) *exec.Cmd {
	b.Helper()
	must(b, os.RemoveAll(filepath.Join(p.dir, "terraform.tfstate")))
	cmd := exec.Command(p.program, "apply", "-auto-approve", "-input=false")
	cmd.Dir, cmd.Env = p.dir, []string{"HOME=" + p.dir}
	return cmd
}

// spread is what a user wants to know of several ratios.
func spread(b *testing.B, name string, ours, theirs []cost, figure func(cost) time.Duration) {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, figure(ours[i]).Seconds()/figure(theirs[i]).Seconds())
	}
	slices.Sort(ratios)
	b.Logf("%s, yuba / skopeo, pair by pair: min %.3f, median %.3f, max %.3f", name, ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1])
	b.ReportMetric(ratios[len(ratios)/2], name+"-ratio")
}

// One large layer, against skopeo in turns, to the same registry.
func BenchmarkPush(b *testing.B) {
	r := startRegistry(b)
	name := filepath.Join(b.TempDir(), "node.tar")
	archive(b, name, layer{corpus: corpus(b), whole: true})
	p := newPusher(b, r, name)
	skopeo := func() *exec.Cmd {
		// Also without what it remembers of former pushes, which it keeps elsewhere for root.
		cmd := exec.Command("skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", "docker-archive:"+name, "docker://"+r.host+"/ns/skopeo:1")
		cmd.Env = append(os.Environ(), "HOME="+b.TempDir(), "XDG_DATA_HOME="+b.TempDir())
		return cmd
	}
	once := func(cmd *exec.Cmd) cost {
		r.wipe(b)
		return measure(b, cmd)
	}
	once(p.push(b))
	once(skopeo())
	for b.Loop() {
		var yuba, theirs, again []cost
		for range 5 {
			theirs = append(theirs, once(skopeo()))
			yuba = append(yuba, once(p.push(b)))
			again = append(again, measure(b, p.push(b)))
		}
		b.ReportMetric(0, "ns/op")
		spread(b, "cpu", yuba, theirs, cpu)
		spread(b, "wall", yuba, theirs, wall)
		b.ReportMetric(median(yuba, cpu).Seconds(), "yuba-cpu-s")
		b.ReportMetric(median(theirs, cpu).Seconds(), "skopeo-cpu-s")
		b.ReportMetric(median(yuba, wall).Seconds(), "yuba-wall-s")
		b.ReportMetric(median(theirs, wall).Seconds(), "skopeo-wall-s")
		b.ReportMetric(float64(median(yuba, rss))/(1<<20), "yuba-MiB")
		b.ReportMetric(float64(median(theirs, rss))/(1<<20), "skopeo-MiB")
		b.ReportMetric(median(again, cpu).Seconds(), "again-cpu-s")
	}
}

// Ten nodes whose images have nine of their ten layers in common, against one such node.
func BenchmarkPushShared(b *testing.B) {
	const nodes, layers, size = 10, 10, 15 << 20
	r := startRegistry(b)
	from := corpus(b)
	var names []string
	for i := range nodes {
		var all []layer
		for j := range layers - 1 {
			all = append(all, layer{corpus: from, offset: int64(j) * size, size: size})
		}
		all = append(all, layer{corpus: from, offset: int64(layers+i) * size, size: size})
		names = append(names, filepath.Join(b.TempDir(), "node.tar"))
		archive(b, names[i], all...)
	}
	one, ten := newPusher(b, r, names[0]), newPusher(b, r, names...)
	once := func(p pusher) cost {
		r.wipe(b)
		return measure(b, p.push(b))
	}
	once(one)
	for b.Loop() {
		var single, group []cost
		for range 5 {
			single = append(single, once(one))
			group = append(group, once(ten))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(single, cpu).Seconds(), "one-cpu-s")
		b.ReportMetric(median(group, cpu).Seconds(), "ten-cpu-s")
		b.ReportMetric(median(group, cpu).Seconds()/median(single, cpu).Seconds(), "cpu-ratio")
		b.ReportMetric(median(group, wall).Seconds()/median(single, wall).Seconds(), "wall-ratio")
		b.ReportMetric(float64(median(group, rss))/(1<<20), "ten-MiB")
	}
}
