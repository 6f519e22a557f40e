// Package depcheck holds the tests that fail when a package gains an import
// that the house's rules forbid: a room knows only the rooms to its right.
package depcheck

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "fediversity.eu/yuba"
	tofu   = "github.com/opentofu/opentofu"
	engine = tofu + "/yuba"
)

// providers are the rooms in the folder of that name.
var providers = []string{"kubernetes", "oci", "random", "null", "local", "external", "spire"}

// others is what a provider must not import, and more.
func others(own string, more ...string) []string {
	forbidden := append([]string{root + "/method", root + "/state", root + "/cmd", tofu, "github.com/spiffe"}, more...)
	for _, p := range providers {
		if p != own {
			forbidden = append(forbidden, root+"/providers/"+p)
		}
	}
	return forbidden
}

// rules say for each room what its packages must not import, themselves or
// through others. A package outside of all rooms has no rule.
var rules = []struct {
	room      string // import path prefix
	forbidden []string
	why       string
}{
	{root + "/providers/kubernetes", others("kubernetes"), "providers know neither each other nor the engine"},
	{root + "/providers/oci", others("oci", "k8s.io"), "providers know neither each other nor the engine"},
	{root + "/providers/spire", others("spire"), "providers know neither each other nor the engine"},
	{root + "/providers/random", others("random", "k8s.io"), "providers know neither each other nor the engine"},
	{root + "/providers/null", others("null", "k8s.io"), "providers know neither each other nor the engine"},
	{root + "/providers/local", others("local", "k8s.io"), "providers know neither each other nor the engine"},
	{root + "/providers/external", others("external", "k8s.io"), "providers know neither each other nor the engine"},
	{root + "/providers/internal", others(""), "what providers share knows none of them"},
	{root + "/method", []string{tofu, "k8s.io/client-go", "github.com/google/go-containerregistry", root + "/providers", root + "/state", root + "/cmd"},
		"the method knows neither OpenTofu nor client-go"},
	{root + "/spire/reach", []string{tofu, "k8s.io", root + "/providers", root + "/state", root + "/method", root + "/cmd"},
		"how the spire node is reached is a few rules, which method and provider share"},
	{root + "/state", []string{tofu, "k8s.io", root + "/providers", root + "/method", root + "/cmd"},
		"the state client knows HTTP and nothing of the other rooms"},
	{root + "/spire/handoff", []string{tofu, "k8s.io", "golang.org/x/crypto", "github.com/spiffe", "google.golang.org/grpc", root + "/cmd", root + "/method", root + "/providers", root + "/state", root + "/spire"},
		"the contract between yuba and the spire node knows neither ssh, OpenTofu, Kubernetes nor SPIRE's API"},
	{root + "/spire", []string{tofu, "k8s.io", root + "/cmd", root + "/method", root + "/providers", root + "/state"},
		"what runs on the spire node knows nothing of deploying"},
	{engine, []string{root, "k8s.io"},
		"the engine runs any configuration, so it knows no provider and no method"},
	{root + "/cmd/yuba/live", []string{tofu, "k8s.io", root + "/providers", root + "/method", root + "/state"},
		"the display shows what it is told"},
}

// never are packages that nothing in the product may reach.
var never = []struct{ path, why string }{
	{tofu + "/internal/backend/init", "it links every backend with its cloud SDK"},
	{tofu + "/internal/plugin6", "it registers the plugin protocol's messages a second time, which panics"},
	{tofu + "/internal/command", "it is stock tofu's command line"},
	{tofu + "/internal/builtin/providers/tf", "it imports backend/init"},
	{"k8s.io/client-go/kubernetes", "typed clients of every API group cost start-up time and size"},
}

// allowed are the parts of forbidden packages that OpenTofu's views and local
// operations use themselves; they hold formats and flags, no commands.
var allowed = map[string][]string{
	tofu + "/internal/command": {"arguments", "clistate", "flags", "format", "jsonchecks", "jsonconfig", "jsonentities",
		"jsonformat", "jsonfunction", "jsonplan", "jsonprovider", "jsonstate", "views", "workdir"},
}

// graph is who imports whom, of the packages that the pattern names and all
// that these need.
func graph(t *testing.T, patterns ...string) map[string][]string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			t.Fatalf("go list: %v: %s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	return imports
}

// in tells whether a package is the one at path or below it.
func in(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }

// chain is how from reaches a package that bad accepts, nil if it does not.
func chain(imports map[string][]string, from string, bad func(string) bool) []string {
	type step struct {
		pkg  string
		path []string
	}
	seen := map[string]bool{from: true}
	for queue := []step{{from, []string{from}}}; len(queue) > 0; queue = queue[1:] {
		for _, next := range imports[queue[0].pkg] {
			path := append(slices.Clone(queue[0].path), next)
			if bad(next) {
				return path
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, step{next, path})
			}
		}
	}
	return nil
}

func TestRoomsKnowOnlyTheRoomsToTheirRight(t *testing.T) {
	imports := graph(t, "./cmd/...", "./method/...", "./providers/...", "./state/...", "./spire/...", engine+"/...")
	for _, r := range rules {
		found := false
		for pkg := range imports {
			if !in(pkg, r.room) {
				continue
			}
			found = true
			bad := chain(imports, pkg, func(p string) bool {
				return !in(p, r.room) && slices.ContainsFunc(r.forbidden, func(f string) bool { return in(p, f) })
			})
			if bad != nil {
				t.Errorf("%s: %s", r.why, strings.Join(bad, " -> "))
			}
		}
		if !found {
			t.Errorf("no package in %s: the rule guards nothing", r.room)
		}
	}
}

// starters are the packages that may start a process, and why.
var starters = map[string]string{
	root + "/providers/external":         "its data source runs the program that the configuration names, and does nothing else",
	root + "/providers/oci/internal/nix": "it runs nix-store, where the configuration names a derivation",
}

// The one other way to a process is OpenTofu's own local-exec, which isn't of this house.
func TestTheProgramStartsNoProcess(t *testing.T) {
	imports := graph(t, "./cmd/...", "./method/...", "./providers/...", "./state/...", "./spire/...", engine+"/...")
	for pkg, list := range imports {
		if (in(pkg, root) || in(pkg, engine)) && slices.Contains(list, "os/exec") && starters[pkg] == "" {
			t.Errorf("%s imports os/exec: yuba does the work in its own process", pkg)
		}
	}
	for pkg := range starters {
		if !slices.Contains(imports[pkg], "os/exec") {
			t.Errorf("%s starts no process: it needs no exception", pkg)
		}
	}
}

func TestEveryProviderHasARule(t *testing.T) {
	for pkg := range graph(t, "./providers/...") {
		rest, ok := strings.CutPrefix(pkg, root+"/providers/")
		room, _, _ := strings.Cut(rest, "/")
		if ok && room != "internal" && !slices.Contains(providers, room) {
			t.Errorf("%s has no rule: name it in providers and rules", pkg)
		}
	}
}

func TestOnlyTheEngineImportsOpenTofu(t *testing.T) {
	for pkg, list := range graph(t, "./cmd/...", "./method/...", "./providers/...", "./state/...", "./spire/...") {
		if !in(pkg, root) {
			continue
		}
		for _, p := range list {
			if in(p, tofu) && p != engine {
				t.Errorf("%s imports %s: only the engine's own package is for others", pkg, p)
			}
		}
	}
}

func TestTheProgramNeverReaches(t *testing.T) {
	imports := graph(t, "./cmd/yuba")
	for _, n := range never {
		bad := chain(imports, root+"/cmd/yuba", func(p string) bool {
			if !in(p, n.path) {
				return false
			}
			rest := strings.TrimPrefix(strings.TrimPrefix(p, n.path), "/")
			first, _, _ := strings.Cut(rest, "/")
			return !slices.Contains(allowed[n.path], first)
		})
		if bad != nil {
			t.Errorf("%s: %s", n.why, strings.Join(bad, " -> "))
		}
	}
}
