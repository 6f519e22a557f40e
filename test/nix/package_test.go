package nix

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/nixstore"
)

// goEnv reads one of Go's settings.
func goEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// version is the Makefile's.
func version(t testing.TB) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^VERSION[ ?:]*= *(\S+)$`).FindStringSubmatch(read(t, house(t), "Makefile"))[1]
}

// The package is built as buildGoModule does it, with this machine's compiler:
// what the derivation says is enough, and what it installs is what yuba prints.
func TestPackage(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	s.Env["YUBA_TEST_GO"] = filepath.Join(goEnv(t, "GOROOT"), "bin/go")
	s.Env["YUBA_TEST_GOCACHE"] = goEnv(t, "GOCACHE")
	s.Env["YUBA_TEST_GOMODCACHE"] = goEnv(t, "GOMODCACHE")
	out := build(t, s, "yuba.package")

	got, err := exec.Command(filepath.Join(out, "bin/yuba"), "version").Output()
	must(t, err)
	if !strings.HasPrefix(string(got), "yuba "+version(t)) {
		t.Errorf("yuba version: %s, want %s", got, version(t))
	}
	static, err := exec.Command("go", "version", "-m", filepath.Join(out, "bin/yuba")).Output()
	must(t, err)
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath=true"} {
		if !strings.Contains(string(static), want) {
			t.Errorf("it is not built with %s", want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		want, err := exec.Command(filepath.Join(out, "bin/yuba"), "completion", shell).Output()
		must(t, err)
		if got := read(t, out, "share/completions", shell); got != string(want) {
			t.Errorf("the completion of %s is not what yuba prints", shell)
		}
	}
	read(t, out, "share/doc/yuba/docs", "k8s.md")
	for _, page := range []string{"yuba.1", "yuba-k8s-apply.1", "yuba-state-serve.1"} {
		if !strings.HasPrefix(read(t, out, "share/man/man1", page), ".TH ") {
			t.Errorf("%s is no manual page", page)
		}
	}

	// A change of what is no part of the program builds nothing again.
	var source string
	eval(t, s, `"${yuba.package.src}"`, &source)
	for _, name := range []string{"nix", ".git", "bin", "vendor", "dist"} {
		if _, err := os.Lstat(filepath.Join(source, name)); err == nil {
			t.Errorf("%s is part of the package's source", name)
		}
	}
}

// The tests of the package's checkPhase are those that need nothing but a
// compiler and the modules; the nested module's are among them.
func TestCheckedPackages(t *testing.T) {
	t.Parallel()
	var phase string
	eval(t, nixstore.New(t), "yuba.package.checkPhase", &phase)
	cmd := exec.Command("bash", "-euc", "runHook() { :; }\n"+strings.Replace(phase, "go test", "echo", 1))
	cmd.Dir = house(t)
	cmd.Env = append(cmd.Environ(), "NIX_BUILD_CORES=2")
	out, err := cmd.Output()
	must(t, err)
	packages := strings.Fields(string(out))[2:]
	for _, path := range []string{"fediversity.eu/yuba/method/k8s", "fediversity.eu/yuba/state", "github.com/opentofu/opentofu/yuba"} {
		if !slices.Contains(packages, path) {
			t.Errorf("%s is not tested: %q", path, packages)
		}
	}
	// What tests may share: it starts no program.
	harmless := []string{"authority", "freeport", "golden", "image", "providertest", "stateserver", "stateservers", "terminal"}
	list := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}} {{join .TestImports \" \"}} {{join .XTestImports \" \"}}"}, packages...)...)
	list.Dir = house(t)
	out, err = list.Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		for _, path := range words[1:] {
			if name, found := strings.CutPrefix(path, "fediversity.eu/yuba/test/"); found && !slices.Contains(harmless, name) {
				t.Errorf("the tests of %s need %s: leave them out in nix/package.nix, or it is harmless", words[0], path)
			}
		}
	}
}

// The hash of the modules is that of what `go mod download` leaves, which is
// what nixpkgs builds with proxyVendor, and yuba can be built of these alone. The
// modules come from this machine's cache as far as it has them.
func TestVendorHash(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	var phase, want string
	eval(t, s, "yuba.package.modPostBuild", &phase)
	eval(t, s, "yuba.package.vendorHash", &want)
	dir := t.TempDir()
	run := func(program string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = house(t)
		cmd.Env = append(cmd.Environ(), "GOPATH="+dir, "GOMODCACHE=", "GOFLAGS=-modcacherw",
			"GOPROXY=file://"+goEnv(t, "GOMODCACHE")+"/cache/download,"+goEnv(t, "GOPROXY"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		}
	}
	run("go", "mod", "download")
	run("bash", "-euc", phase)
	modules := filepath.Join(dir, "pkg/mod/cache/download")
	must(t, os.RemoveAll(filepath.Join(modules, "sumdb")))
	if got := s.Run(t, "nix", "hash", "path", modules); got != want {
		t.Errorf("the modules have another hash: in nix/package.nix, write\n  vendorHash = %q;", got)
	}

	cmd := exec.Command("go", "list", "-deps", "./cmd/yuba")
	cmd.Dir = house(t)
	cmd.Env = append(cmd.Environ(), "GOPATH="+t.TempDir(), "GOMODCACHE=", "GOFLAGS=-modcacherw", "GOPROXY=file://"+modules, "GOSUMDB=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the program can't be built of the modules: %v\n%s", err, out)
	}
}

// The flake is evaluated as users do it, with what stands in for nixpkgs.
func TestFlake(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	s.Env["YUBA_TEST_GO"], s.Env["YUBA_TEST_GOCACHE"], s.Env["YUBA_TEST_GOMODCACHE"] = "", "", ""
	// A flake is what git knows.
	dir := filepath.Join(s.Dir, "yuba")
	must(t, os.Mkdir(dir, 0o755))
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = house(t)
	files, err := list.Output()
	must(t, err)
	pack := exec.Command("tar", "--create", "--null", "--files-from=-", "--file="+dir+".tar")
	pack.Dir, pack.Stdin = house(t), bytes.NewReader(files)
	must(t, pack.Run())
	must(t, exec.Command("tar", "--extract", "--directory="+dir, "--file="+dir+".tar").Run())
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}, {"-c", "user.name=t", "-c", "user.email=t", "commit", "--quiet", "--message=t"}} {
		s.Run(t, "git", append([]string{"-C", dir}, args...)...)
	}

	flake := func(command, output string, args ...string) string {
		return s.Run(t, "nix", append([]string{command, "git+file://" + dir + "?dir=nix#" + output, "--no-write-lock-file",
			"--override-input", "nixpkgs", "path:" + house(t) + "/test/nix/stand-in"}, args...)...)
	}
	for _, system := range []string{"x86_64-linux", "aarch64-linux"} {
		if drv := flake("eval", "packages."+system+".default.drvPath", "--raw"); !strings.HasSuffix(drv, "-yuba-"+version(t)+".drv") {
			t.Errorf("the package for %s is %s", system, drv)
		}
	}
	if names := flake("eval", "nixosModules", "--apply", "builtins.attrNames", "--json"); names != `["k8s-pod","spire-node","state-server"]` {
		t.Errorf("modules: %s", names)
	}
	if names := flake("eval", "lib.x86_64-linux", "--apply", "builtins.attrNames", "--json"); names != `["deploy","group","groupFile"]` {
		t.Errorf("lib: %s", names)
	}
	// What a machine with nixpkgs and KVM can run is at least without mistakes
	// that Nix sees.
	for _, name := range []string{"k8s", "spire"} {
		if drv := flake("eval", "checks.x86_64-linux."+name+".drvPath", "--raw"); !strings.HasSuffix(drv, "-vm-test-run-yuba-"+name+".drv") {
			t.Errorf("the VM test %s is %s", name, drv)
		}
	}
	if names := flake("eval", "checks.x86_64-linux", "--apply", "builtins.attrNames", "--json"); names != `["k8s","package","spire"]` {
		t.Errorf("checks: %s", names)
	}
}
