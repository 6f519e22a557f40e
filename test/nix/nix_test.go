// Package nix holds the tests of yuba's Nix code (nix/): evaluated and built by
// Debian's Nix, with stand-in/ in place of nixpkgs. Run them by `make nix`.
package nix

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"fediversity.eu/yuba/test/nixstore"
	"fediversity.eu/yuba/test/world"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// house is the folder of the checkout.
func house(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	must(t, err)
	return dir
}

// nixpkgs is the expression of what stands in for nixpkgs. With
// YUBA_TEST_NIXPKGS_LIB, the path of nixpkgs' own lib, only for the rest of it.
func nixpkgs(t testing.TB) string {
	lib := ""
	if dir := os.Getenv("YUBA_TEST_NIXPKGS_LIB"); dir != "" {
		lib = "lib = import " + dir + ";"
	}
	return fmt.Sprintf("(import %s/test/nix/stand-in { %s })", house(t), lib)
}

// in puts an expression where pkgs, lib, yuba and these are known:
//
//	pod CONFIGURATION           a NixOS configuration with the module k8s-pod
//	with' MODULE CONFIGURATION   one with another module of yuba's
//	program SCRIPT              a package that has it for yuba
func in(t testing.TB, expr string) string {
	return fmt.Sprintf(`
		let
			pkgs = %s;
			inherit (pkgs) lib;
			yuba = import %s/nix { inherit pkgs; };
			with' = module: configuration: pkgs.nixos { imports = [ yuba.modules.${module} configuration ]; };
			pod = with' "k8s-pod";
			program = pkgs.writeShellScriptBin "yuba";
		in
		%s`, nixpkgs(t), house(t), expr)
}

// eval evaluates an expression into v.
func eval(t testing.TB, s *nixstore.Store, expr string, v any) {
	t.Helper()
	must(t, json.Unmarshal([]byte(s.Run(t, "nix-instantiate", "--eval", "--strict", "--json", "--expr", in(t, expr))), v))
}

// build builds what an expression says and returns its path.
func build(t testing.TB, s *nixstore.Store, expr string) string {
	t.Helper()
	return s.Run(t, "nix-build", "--no-out-link", "--expr", in(t, expr))
}

func read(t testing.TB, elements ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	must(t, err)
	return string(b)
}

// The way of a user: NixOS configurations become a group file, yuba has Nix
// build their images, pushes them and rolls them out. What did not change is
// not built again.
func TestGroupIsDeployed(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := nixstore.New(t)
	maps.Copy(w.Env, s.Env)
	const group = `yuba.groupFile {
			group = "example";
			rolloutTimeout = "60s";
			storage.size = "1Gi";
			nodes.web = pkgs.nixos { networking.hostName = "www"; };
			nodes.db = pod {
				yuba.pod.storage.size = "2Gi";
				yuba.pod.resources.requests.memory = "128Mi";
				yuba.pod.resources.limits.memory = "1Gi";
				services.openssh.enable = true;
				systemd.services.db.script = "exec db";
			};
		}`
	file := build(t, s, group)
	w.WriteRaw([]byte(read(t, file)))
	var got struct {
		Nodes []struct {
			Name, Tag          string
			Image              map[string]string
			Storage, Resources map[string]any
		}
	}
	must(t, json.Unmarshal([]byte(read(t, file)), &got))
	if len(got.Nodes) != 2 || got.Nodes[0].Name != "db" || got.Nodes[1].Name != "web" {
		t.Fatalf("nodes: %+v", got.Nodes)
	}
	db, web := got.Nodes[0], got.Nodes[1]
	if !strings.HasSuffix(db.Image["derivation"], "-db.tar.drv") || db.Storage["size"] != "2Gi" || web.Storage != nil || web.Resources != nil {
		t.Errorf("nodes: %+v", got.Nodes)
	}
	if out, err := s.Try("nix-store", "--check-validity", s.Run(t, "nix-store", "--query", "--outputs", db.Image["derivation"])); err == nil {
		t.Errorf("the group file has built an image: %s", out)
	}

	w.Must(0, "k8s", "validate")
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	if got := w.Get("pvc/db-state", ".spec.resources.requests.storage"); got != "2Gi" {
		t.Errorf("the volume of db has %s", got)
	}
	isNodeImage(t, s, w.Lab.Registry+"/"+w.Namespace+"/db:"+db.Tag)

	// Evaluated again it is the same file.
	if again := build(t, s, group); again != file {
		t.Errorf("the group file is %s, and then %s", file, again)
	}
	// Another configuration is another image, of that node alone.
	w.WriteRaw([]byte(read(t, build(t, s, strings.Replace(group, "exec db", "exec database", 1)))))
	r := w.Must(2, "k8s", "plan", "-detailed-exitcode", "-no-color")
	if !strings.Contains(r.Stdout, "kubernetes_object.deployment_db") || strings.Contains(r.Stdout, "kubernetes_object.deployment_web will") {
		t.Errorf("the plan is not about db alone:\n%s", r.Stdout)
	}
}

// isNodeImage fails unless an image is what the specification calls one: one
// layer with the root file system, and /sbin/init.
func isNodeImage(t testing.TB, s *nixstore.Store, reference string) {
	t.Helper()
	ref, err := name.ParseReference(reference, name.Insecure)
	must(t, err)
	img, err := remote.Image(ref)
	must(t, err)
	config, err := img.ConfigFile()
	must(t, err)
	want := v1.Config{Cmd: []string{"/sbin/init"}, StopSignal: "SIGRTMIN+3"}
	if d := cmp.Diff(want, config.Config); d != "" {
		t.Errorf("configuration of the image (-want +got):\n%s", d)
	}
	layers, err := img.Layers()
	must(t, err)
	if len(layers) != 1 {
		t.Fatalf("the image has %d layers", len(layers))
	}
	layer, err := layers[0].Uncompressed()
	must(t, err)
	defer layer.Close()
	files := map[string]*tar.Header{}
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		name := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		if files[name] != nil {
			t.Errorf("%s is twice in the layer", name)
		}
		files[name] = h
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1 || h.Typeflag == tar.TypeLink {
			t.Errorf("%s: owner %d:%d, time %v, type %c", name, h.Uid, h.Gid, h.ModTime, h.Typeflag)
		}
	}
	init := files["sbin/init"]
	if init == nil || init.Typeflag != tar.TypeSymlink || files[strings.TrimPrefix(init.Linkname, "/")] == nil {
		t.Errorf("/sbin/init is no link into the image: %+v", init)
	} else if h := files[strings.TrimPrefix(init.Linkname, "/")]; h.Mode&0o111 == 0 {
		t.Errorf("init can't be executed: %o", h.Mode)
	}
	if id := files["etc/machine-id"]; id == nil || id.Size != 0 {
		t.Errorf("/etc/machine-id: %+v", id)
	}
	if run := files["var/run"]; run == nil || run.Linkname != "../run" {
		t.Errorf("/var/run: %+v", run)
	}
	if tmp := files["tmp"]; tmp == nil || tmp.Mode != 0o1777 {
		t.Errorf("/tmp: %+v", tmp)
	}
}

// Nix says itself when a second build gives other bytes. The order in which the
// closure is listed, times and hard links of the store are no part of the image.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	const image = `(pod { yuba.pod.name = "web"; }).config.system.build.podImage`
	drv := s.Run(t, "nix-instantiate", "--expr", in(t, image))
	out := s.Run(t, "nix-store", "--realise", drv)
	s.Run(t, "nix-store", "--realise", "--check", drv)
	before := read(t, out)
	s.Run(t, "nix-store", "--delete", out)
	s.Run(t, "nix-store", "--optimise")
	if read(t, s.Run(t, "nix-store", "--realise", drv)) != before {
		t.Error("in a store with hard links it is another image")
	}

	// One that a binary cache has is taken from there: here nothing may be built.
	cache := "file://" + t.TempDir()
	s.Run(t, "nix", "copy", "--to", cache, out)
	s.Run(t, "nix-store", "--delete", out)
	if read(t, s.Run(t, "nix-store", "--realise", drv, "--max-jobs", "0", "--option", "substituters", cache, "--option", "require-sigs", "false")) != before {
		t.Error("out of a binary cache it is another image")
	}
}

// What `nix run .#deploy` hands to yuba. A saved plan and a bundle bring their
// own group file.
func TestDeploy(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	out := build(t, s, `yuba.deploy {
		group = "example";
		nodes.web = pod { };
		package = program ''printf '%s\n' "$*"; command -v nix-store'';
	}`)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"":                            "k8s apply -group=FILE",
		"plan -out=x":                 "k8s plan -group=FILE -out=x",
		"apply -auto-approve":         "k8s apply -group=FILE -auto-approve",
		"apply -auto-approve my.plan": "k8s apply -auto-approve my.plan",
		"apply -bundle=x -concise":    "k8s apply -bundle=x -concise",
		"logs -f web":                 "k8s logs -group=FILE -f web",
		"schema":                      "k8s schema",
		"-h":                          "k8s -h",
	} {
		cmd := exec.Command(filepath.Join(out, "bin/deploy"), strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/bin:/usr/bin"}
		got, err := cmd.Output()
		must(t, err)
		line, nix, _ := strings.Cut(string(got), "\n")
		before, rest, found := strings.Cut(line, "-group=")
		if found {
			file, more, _ := strings.Cut(rest, " ")
			if !strings.Contains(read(t, file), `"group":"example"`) {
				t.Errorf("%s is no group file", file)
			}
			line = strings.TrimSpace(before + "-group=FILE " + more)
		}
		if line != want {
			t.Errorf("deploy %s: %s, want %s", args, line, want)
		}
		if !strings.HasSuffix(strings.TrimSpace(nix), "/nix-store") {
			t.Errorf("deploy %s: no nix-store in PATH", args)
		}
	}
	// The commands that take a group file are those that get it.
	help := func(args ...string) string {
		got, err := exec.Command(world.Program(t), append(append([]string{"k8s"}, args...), "-h")...).Output()
		must(t, err)
		return string(got)
	}
	verbs := regexp.MustCompile(`(?m)^  k8s (\S+)`).FindAllStringSubmatch(help(), -1)
	if len(verbs) < 10 {
		t.Errorf("verbs: %q", verbs)
	}
	for _, verb := range verbs {
		got, err := exec.Command(filepath.Join(out, "bin/deploy"), verb[1]).Output()
		must(t, err)
		if takes, gets := strings.Contains(help(verb[1]), "-group=FILE"), strings.Contains(string(got), "-group="); takes != gets {
			t.Errorf("k8s %s takes a group file: %v; deploy gives it one: %v", verb[1], takes, gets)
		}
	}
	var nodes []map[string]any
	eval(t, s, `(yuba.group { group = "g"; nodes.web = pod { yuba.pod.enabled = false; }; nodes.db = pod { }; }).nodes`, &nodes)
	if _, has := nodes[0]["enabled"]; has || nodes[1]["enabled"] != false {
		t.Errorf("nodes: %v", nodes)
	}
	_, err := s.Try("nix-instantiate", "--expr", in(t, `yuba.groupFile { group = "g"; nodes.web = { }; }`))
	if err == nil || !strings.Contains(err.Error(), "node web of the group is not a NixOS configuration") {
		t.Errorf("a node that is no configuration: %v", err)
	}
}
