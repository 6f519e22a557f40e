package k8s

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnvFrom(t *testing.T) {
	for _, c := range []struct {
		name  string
		vars  map[string]string
		needs Needs // all, if none
		want  Env
		wants []string // all in the error
	}{
		{name: "all", vars: map[string]string{"KUBE_CONFIG_PATH": "k", "K8S_REGISTRY": "r.example", "K8S_NAMESPACE": "prod"}, want: Env{"r.example", "prod"}},
		{name: "namespace unset", vars: map[string]string{"KUBE_CONFIG_PATH": "k", "K8S_REGISTRY": "r.example"}, want: Env{"r.example", "fediversity"}},
		{name: "nothing set", wants: []string{"KUBE_CONFIG_PATH is not set", "K8S_REGISTRY is not set"}},
		{name: "cluster not needed", needs: NeedsRegistry, vars: map[string]string{"K8S_REGISTRY": "r.example"}, want: Env{"r.example", "fediversity"}},
		{name: "registry not needed", needs: NeedsCluster, vars: map[string]string{"KUBE_CONFIG_PATH": "k", "K8S_REGISTRY": "https://x"}, want: Env{"", "fediversity"}},
		{name: "empty is unset", vars: map[string]string{"KUBE_CONFIG_PATH": "", "K8S_REGISTRY": "r.example"}, wants: []string{"KUBE_CONFIG_PATH is not set"}},
		{name: "bad namespace", vars: map[string]string{"KUBE_CONFIG_PATH": "k", "K8S_REGISTRY": "r.example", "K8S_NAMESPACE": "a_b"}, wants: []string{`K8S_NAMESPACE: "a_b" is not a DNS label`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := EnvFrom(func(key string) string { return c.vars[key] }, cmp.Or(c.needs, NeedsCluster|NeedsRegistry))
			if (err != nil) != (c.wants != nil) || got != c.want {
				t.Errorf("got %v, %v", got, err)
			}
			for _, w := range c.wants {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want %s", err, w)
				}
			}
		})
	}
}

func TestRegistry(t *testing.T) {
	for _, s := range []string{"registry.example", "registry.example:5000", "registry.example/a/b_c/d.e--f", "localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000", "[2001:db8::1]/x", "registry:443", "Registry.Example"} {
		if err := isRegistry(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for s, want := range map[string]string{
		"https://registry.example/":     `write "registry.example"`,
		"registry.example/":             "bad path",
		"registry.example//a":           "bad path",
		"registry.example/A":            "bad path",
		"registry.example/a:tag":        "bad path",
		"registry.example/${x}":         "bad path",
		"registry.example/../x":         "bad path",
		"registry.example:":             "bad port",
		"registry.example:http":         "bad port",
		"registry.example:0":            "bad port",
		"registry.example:65536":        "bad port",
		"registry":                      `such as "registry:443"`,
		"registry/path":                 "give the host its domain or a port",
		"-registry.example":             "name or address of a host",
		"registry.example\n":            "name or address of a host",
		"registry .example":             "name or address of a host",
		"/path":                         "name or address of a host",
		":5000":                         "name or address of a host",
		"[::1":                          "IPv6",
		"[127.0.0.1]:5000":              "IPv6",
		"[fe80::1%eth0]:5000":           "IPv6",
		"::1":                           "name or address of a host",
		strings.Repeat("a", 300) + ".x": "longer than 255 bytes",
	} {
		if err := isRegistry(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", s, err, want)
		}
	}
}

// TestRegistryPasswordIsNotShown: errors end in the logs of CI jobs.
func TestRegistryPasswordIsNotShown(t *testing.T) {
	for _, s := range []string{"user:hunter2@registry.example", "https://user:hunter2@registry.example"} {
		_, err := EnvFrom(func(key string) string { return map[string]string{"KUBE_CONFIG_PATH": "k", "K8S_REGISTRY": s}[key] }, NeedsRegistry)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "REGISTRY_AUTH_FILE") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNamespace(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, c := range []struct{ base, target, want, wantErr string }{
		{base: "fediversity", target: "all", want: "fediversity"},
		{base: "fediversity", target: "shop", want: "fediversity-shop"},
		{base: long, target: "ab", want: long + "-ab"},
		{base: long, target: "abc", wantErr: "is not a DNS label"},
		{base: "", target: "all", wantErr: "is not a DNS label"},
		{base: "default", target: "all", wantErr: "belongs to Kubernetes itself"},
		{base: "kube", target: "system", wantErr: `"kube-system" belongs to Kubernetes itself`},
	} {
		g := &Group{File: "group.json", Target: c.target}
		got, err := g.Namespace(Env{Namespace: c.base})
		if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s, %s: got %q, %v", c.base, c.target, got, err)
		}
	}
}

func TestGraphRefusesABadEnv(t *testing.T) {
	g := mustParse(t, good)
	for _, env := range []Env{{}, {Registry: "r.example"}, {Namespace: "n"}, {Registry: "r.example/" + strings.Repeat("a", 240), Namespace: "n"}, {Registry: "r.example", Namespace: "${x}"}} {
		if _, err := g.Graph(env); err == nil {
			t.Errorf("%+v makes a graph", env)
		}
	}
}

func TestCheckSubmission(t *testing.T) {
	g := mustParse(t, good) // evaluated with an empty submission
	if err := g.CheckSubmission(nil); err != nil {
		t.Error(err)
	}
	if err := g.CheckSubmission([]byte("another")); err == nil || !strings.Contains(err.Error(), "evaluate the group again") {
		t.Errorf("another submission: %v", err)
	}
	g.Submission = ""
	if err := g.CheckSubmission(nil); err == nil || !strings.Contains(err.Error(), "evaluated without one") {
		t.Errorf("a submission that the group does not know: %v", err)
	}
}

func TestCheckSources(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.tar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "group.json")
	group := func(archives ...string) *Group {
		t.Helper()
		var nodes []string
		for i, a := range archives {
			nodes = append(nodes, `{"name":"n`+string(rune('0'+i))+`","image":{"archive":"`+a+`"},"tag":"t"}`)
		}
		nodes = append(nodes, `{"name":"off","enabled":false,"image":{"archive":"nowhere.tar"},"tag":"t"}`)
		data := `{"version":1,"group":"g","storage":{"size":"1"},"nodes":[` + strings.Join(nodes, ",") + `]}`
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if err := group("a.tar", filepath.Join(dir, "a.tar")).CheckSources(os.Stat); err != nil {
		t.Error(err)
	}
	err := group("a.tar", "b.tar", ".").CheckSources(os.Stat)
	want := file + ": nodes[1].image.archive: missing archive " + dir + "/b.tar: build the image of node n1 first\n" +
		file + ": nodes[2].image.archive: " + dir + " is a directory: the image of node n2 must be a docker archive or an OCI archive; a directory is a layout or a rootfs"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	err = group("a.tar").CheckSources(func(string) (fs.FileInfo, error) { return nil, fs.ErrPermission })
	if err == nil || !strings.Contains(err.Error(), "cannot look at the archive of node n0: permission denied") {
		t.Errorf("got %v", err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "nowhere.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory is a group file")
	}
	t.Chdir(dir)
	if err := os.WriteFile("group.json", []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := Load("group.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Source(g.Nodes[1]); got != filepath.Join(dir, "images/web.tar") {
		t.Errorf("an archive beside the group file is %s", got)
	}
}

// TestExample: the group file that the demo and the docs use is a good one.
func TestExample(t *testing.T) {
	g, err := Load("../../examples/group.json")
	if err != nil {
		t.Fatal(err)
	}
	checkGraph(t, g, mustGraph(t, g))
}
