// Package release holds the tests of what is published: that it is static,
// can be made again byte for byte, and says truly what is in it; and that the
// source tarball needs nothing but Go.
//
// They build the last commit, in clones of it. The clones share Go's build
// cache, so that the second one of two links only: what that shows is that neither
// the folder nor the environment gets into anything, be it linked or compiled;
// had a path got into a compiled package, the cache could not have had it. That
// the compiler itself gives the same twice is left to Go's own tests.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const version = "1.2.3-test"

// goEnv are Go's folders, which a build with another HOME would not find.
var goEnv = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB").Output()
	if err != nil {
		return nil, err
	}
	var env map[string]string
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, err
	}
	list := []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list, nil
})

// run runs a command to its end, with Go's folders and more of an environment.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	base, err := goEnv()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(base), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// clone is a clone of the checkout's last commit in a folder of this name.
func clone(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	run(t, ".", nil, "git", "clone", "-q", "--no-hardlinks", "../..", dir)
	return dir
}

// contents are the hashes of a folder's files.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return out
}

func TestRelease(t *testing.T) {
	one, two := clone(t, "here"), clone(t, "in-another-folder/of a name that is longer")
	// What lies there from another day: a release candidate, and modules.
	candidate := filepath.Join(two, "dist", "yuba-"+version+"-rc.1-linux-amd64")
	if err := os.MkdirAll(filepath.Dir(candidate), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(candidate, []byte("no program of this version"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, two, nil, "make", "vendor")
	run(t, one, []string{"HOME=" + t.TempDir()}, "make", "release", "VERSION="+version)
	// Another home, time zone, language and umask, and Go settings of a user.
	run(t, two, []string{"HOME=" + t.TempDir(), "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "GOAMD64=v3", "GOFLAGS=-buildvcs=true"},
		"sh", "-c", "umask 077; exec make release VERSION="+version)
	dist := filepath.Join(one, "dist")
	files := contents(t, dist)
	if err := os.Remove(candidate); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, contents(t, filepath.Join(two, "dist"))); diff != "" {
		t.Errorf("built in two folders, they differ:\n%s", diff)
	}

	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	delete(files, "SHA256SUMS")
	if diff := cmp.Diff(files, listed); diff != "" {
		t.Errorf("SHA256SUMS is not what lies beside it:\n%s", diff)
	}

	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		t.Run(arch, func(t *testing.T) {
			name := "yuba-" + version + "-linux-" + arch
			program := filepath.Join(dist, name)
			isStatic(t, program, machine)
			bill := sbom(t, program, program+".cdx.json")
			checkArchive(t, program, bill)
			if data, err := os.ReadFile(program); err != nil || bytes.Contains(data, []byte(one)) {
				t.Errorf("the program has the folder that it was built in (%v)", err)
			}
		})
	}
	// Each says its version, that for another machine in an emulator.
	for arch, emulator := range map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"} {
		command := []string{filepath.Join(dist, "yuba-"+version+"-linux-"+arch), "version"}
		if native := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOHOSTARCH")); arch != native {
			command = append([]string{emulator}, command...)
		}
		if out := run(t, ".", nil, command[0], command[1:]...); !strings.Contains(out, version) {
			t.Errorf("%s: yuba version prints %q", arch, out)
		}
	}
}

// isStatic fails when a program needs a loader or a library, is for another
// machine, or has symbols and debugging data.
func isStatic(t *testing.T, program string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != machine {
		t.Errorf("it is for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: it has a %v", p.Type)
		}
	}
	for _, s := range f.Sections {
		if s.Name == ".symtab" || strings.Contains(s.Name, "debug") {
			t.Errorf("it is not stripped: it has %s", s.Name)
		}
	}
}

// bill is what the tests read of an SBOM.
type bill struct {
	Components []struct {
		Ref      string `json:"bom-ref"`
		Name     string
		Version  string
		Hashes   []struct{ Alg, Content string }
		Licenses []struct{ License struct{ ID string } }
	}
	Dependencies []struct {
		Ref       string
		DependsOn []string
	}
}

// sbom checks an SBOM against the schema of CycloneDX, and against what Go says
// of the program.
func sbom(t *testing.T, program, file string) bill {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	schemas := filepath.Join(strings.TrimSpace(run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")), "schema")
	c := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.6.schema.json": "", "spdx.schema.json": "", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		if file == "" {
			file = name
		}
		f, err := os.Open(filepath.Join(schemas, file))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(f)
		if err := errors.Join(err, f.Close(), c.AddResource("http://cyclonedx.org/schema/"+name, doc)); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%s: %v", filepath.Base(file), err)
	}

	var b bill
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	refs := map[string]bool{}
	for _, c := range b.Components {
		hash := ""
		for _, h := range c.Hashes {
			hash = h.Alg + " " + h.Content
		}
		got[c.Name+" "+c.Version] = hash
		refs[c.Ref] = true
		if len(c.Licenses) == 0 && !strings.HasPrefix(c.Name, "fediversity.eu/yuba/") {
			t.Errorf("%s has no licence", c.Name)
		}
	}
	if diff := cmp.Diff(linked(t, program), got); diff != "" {
		t.Errorf("the SBOM is not what 'go version -m' says:\n%s", diff)
	}
	if len(b.Dependencies) != len(refs)+1 {
		t.Errorf("%d dependencies for %d components", len(b.Dependencies), len(refs))
	}
	for _, d := range b.Dependencies {
		for _, on := range d.DependsOn {
			if !refs[on] {
				t.Errorf("%s depends on %s, which is not in the SBOM", d.Ref, on)
			}
		}
	}
	return b
}

// linked are the modules that "go version -m" names, with their hashes in the
// SBOM's form. A line of a replacement stands behind that of what it replaces.
func linked(t *testing.T, program string) map[string]string {
	t.Helper()
	out := map[string]string{}
	last := ""
	for line := range strings.Lines(run(t, ".", nil, "go", "version", "-m", program)) {
		words := strings.Fields(line)
		if first, goVersion, ok := strings.Cut(strings.TrimSpace(line), ": go"); ok && first == program {
			out["std "+goVersion] = ""
			continue
		}
		if len(words) < 3 || words[0] != "dep" && words[0] != "=>" {
			continue
		}
		if words[0] == "=>" {
			delete(out, last)
		}
		if strings.HasPrefix(words[1], "./") {
			words = []string{words[0], path.Join("fediversity.eu/yuba", words[1]), version}
		}
		hash := ""
		if len(words) > 3 {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(words[3], "h1:"))
			if err != nil {
				t.Fatal(err)
			}
			hash = "SHA-256 " + hex.EncodeToString(sum)
		}
		last = words[1] + " " + words[2]
		out[last] = hash
	}
	if len(out) < 50 {
		t.Fatalf("go version -m names %d modules: not what the test can read", len(out))
	}
	return out
}

// checkArchive looks for what a user expects in an archive: the same program, and licences
// of all that is in it.
func checkArchive(t *testing.T, program string, b bill) {
	t.Helper()
	top := filepath.Base(program)
	names := map[string]bool{}
	for name, e := range readTar(t, program+".tar.gz") {
		names[name] = true
		if name == top+"/bin/yuba" {
			want, err := os.ReadFile(program)
			if err != nil || !bytes.Equal(e.data, want) || e.Mode != 0o755 {
				t.Errorf("bin/yuba is another program, or has mode %o (%v)", e.Mode, err)
			}
		}
	}
	for _, want := range []string{
		"bin/yuba", "sbom.cdx.json", "share/man/man1/yuba.1", "share/man/man1/yuba-k8s-apply.1", "share/doc/yuba/README.md", "share/doc/yuba/docs/k8s.md", "licenses/std/LICENSE",
		"share/bash-completion/completions/yuba", "share/zsh/site-functions/_yuba", "share/fish/vendor_completions.d/yuba.fish",
	} {
		if !names[top+"/"+want] {
			t.Errorf("the archive has no %s", want)
		}
	}
	for _, c := range b.Components {
		has := strings.HasPrefix(c.Name, "fediversity.eu/yuba/")
		for name := range names {
			has = has || strings.HasPrefix(name, top+"/licenses/"+c.Name+"/")
		}
		// A fork has its licence under the name that it is imported by.
		if !has && !strings.HasPrefix(c.Name, "github.com/opentofu/hcl") {
			t.Errorf("the archive has no licence of %s", c.Name)
		}
	}
}

type tarEntry struct {
	*tar.Header
	data []byte
}

func readTar(t *testing.T, file string) map[string]tarEntry {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tarEntry{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = tarEntry{h, data}
	}
}

// There is no Docker here to build it with; test/minimal runs the program on the
// same root file system.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	want := []string{
		"FROM scratch", "ARG VERSION", "ARG TARGETARCH", "COPY --chmod=0755 dist/yuba-${VERSION}-linux-${TARGETARCH} /yuba",
		"USER 65534:65534", `ENTRYPOINT ["/yuba"]`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the Dockerfile is another one:\n%s", diff)
	}
}

// The tarball is the same wherever it is made, and is built where there is
// neither a network nor a module cache.
func TestSourceTarball(t *testing.T) {
	one, two := clone(t, "here"), clone(t, "in-another-folder")
	run(t, one, nil, "make", "dist", "VERSION="+version)
	run(t, two, []string{"HOME=" + t.TempDir(), "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8"}, "sh", "-c", "umask 077; exec make dist VERSION="+version)
	if diff := cmp.Diff(contents(t, filepath.Join(one, "dist")), contents(t, filepath.Join(two, "dist"))); diff != "" {
		t.Errorf("made in two folders, it differs:\n%s", diff)
	}
	name := "yuba-" + version + "-src"
	tarball := filepath.Join(one, "dist", name+".tar.gz")
	entries := readTar(t, tarball)
	hidden := regexp.MustCompile(`/\.git/|/dist/|/bin/`)
	for n, e := range entries {
		if !strings.HasPrefix(n, name+"/") || hidden.MatchString(strings.TrimPrefix(n, name)) && !strings.Contains(n, "/vendor/") {
			t.Errorf("the tarball has %s", n)
		}
		if e.Uid != 0 || e.Gid != 0 || e.Mode&0o022 != 0 {
			t.Errorf("%s has owner %d:%d and mode %o", n, e.Uid, e.Gid, e.Mode)
		}
	}
	// Each module that gives a package has its licence.
	modules, ok := entries[name+"/vendor/modules.txt"]
	if !ok {
		t.Fatal("the tarball has no vendor/modules.txt")
	}
	count := 0
	for part := range strings.SplitSeq("\n"+string(modules.data), "\n# ") {
		module, rest, _ := strings.Cut(part, " ")
		if !strings.Contains(rest, "\n") || !hasPackage(rest) || strings.Contains(rest, "=> ./") {
			continue
		}
		count++
		licensed := false
		for n := range entries {
			file, ok := strings.CutPrefix(n, name+"/vendor/"+module+"/")
			licensed = licensed || ok && !strings.Contains(file, "/") && (strings.HasPrefix(file, "LICEN") || strings.HasPrefix(file, "COPYING"))
		}
		if !licensed {
			t.Errorf("the vendored module %s has no licence", module)
		}
	}
	if count < 50 {
		t.Fatalf("modules.txt has %d modules: not what the test can read", count)
	}

	dir := t.TempDir()
	run(t, dir, nil, "tar", "xf", tarball)
	dir = filepath.Join(dir, name)
	alone := func(name string, args ...string) string {
		t.Helper()
		base, err := goEnv()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		// Of Go's folders it has the cache of compiled packages only. An entry
		// there is found by the content of all files that it is made of, so they
		// have been read in vendor/.
		for _, e := range base {
			if strings.HasPrefix(e, "PATH=") || strings.HasPrefix(e, "GOCACHE=") {
				cmd.Env = append(cmd.Env, e)
			}
		}
		cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "GOMODCACHE="+t.TempDir(), "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=vendor")
		// A network of its own, where even loopback is down.
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("in a network of its own, %s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := alone("cat", "/proc/net/route"); strings.Count(got, "\n") > 1 {
		t.Fatalf("there are routes:\n%s", got)
	}
	alone("make", "build")
	if got := run(t, dir, nil, "bin/yuba", "version"); !strings.Contains(got, version) {
		t.Errorf("what was built of the tarball is version %q", got)
	}
	isStatic(t, filepath.Join(dir, "bin/yuba"), hostMachine(t))
	// Go compares vendor/modules.txt with go.mod before it builds, and here once more
	// each vendored package that any of yuba's packages needs is looked up.
	alone("go", "list", "-deps", "./cmd/...", "./method/...", "./providers/...", "./state/...", "./release", "github.com/opentofu/opentofu/yuba/...")
}

func hasPackage(lines string) bool {
	for line := range strings.Lines(lines) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "v") && !strings.HasPrefix(line, "=>") {
			return true
		}
	}
	return false
}

func hostMachine(t *testing.T) elf.Machine {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Machine
}
