// Package parity holds yuba to being stock tofu: for each configuration below
// testdata it runs the same commands with both and compares all that they leave
// behind, byte for byte. normal_test.go lists what is made equal before that,
// differences_test.go what differs on purpose.
//
// A case is a folder:
//
//	*.tf, ...      the configuration
//	then/, then2/  files that are put over it for the next plans; an empty
//	               one takes the file away
//	case.txt       optional lines:
//	                 env NAME=VALUE   for all commands
//	                 plan FLAGS       for all plans, also of destroys
//	                 then FLAGS       instead, for those of the next configurations
//	                 init yes         stock tofu's init comes first
//	                 http yes         the state is on a server, at TF_HTTP_ADDRESS
//	                 vault yes        BAO_ADDR and BAO_TOKEN lead to a server with transit
//	                 run COMMAND      a further command, after the first apply; <FILE at
//	                                  its end is its standard input
//
// Everyday runs take the cases in [daily]; YUBA_TEST_PARITY=all takes all.
package parity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/stateserver"
)

// daily are the cases of the everyday run: the ones that touch most.
var daily = []string{
	"syntax-error", "count", "for_each", "module", "moved", "removed", "import", "checks", "postcondition-fails", "lab-write-only",
	"lab-dynamic", "sensitive", "lab-half-made", "state-commands",
}

func TestYubaIsStockTofu(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("YUBA_TEST_PARITY") == "all"
	p := prepare(t)
	for _, e := range entries {
		if !all && !slices.Contains(daily, e.Name()) {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			run(t, p, readCase(t, e.Name()))
		})
	}
	for name, check := range further {
		if all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, p)
			})
		}
	}
}

// further are the comparisons that are no configurations.
var further = map[string]func(*testing.T, programs){
	"flags of stock tofu":      everyFlag,
	"flags of verbs on groups": everyFlagOfGroups,
	"static keys":              staticKeys,
	"providers as plugins":     plugins,
	"locks":                    locks,
}

// tool is one of the two programs.
type tool int

const (
	stock tool = iota
	yuba
)

func (x tool) String() string { return [...]string{"stock tofu", "yuba"}[x] }

// lane is one run of the script. In a mixed lane, one program plans what the
// other one shows and applies.
type lane struct {
	name           string // of four letters, as it is part of paths that are wrapped
	plans, applies tool
}

var lanes = []lane{
	{"tofu", stock, stock}, // which the others are compared with
	{"yuba", yuba, yuba},
	{"ty--", stock, yuba},
	{"yt--", yuba, stock},
}

// scenario is one case.
type scenario struct {
	name      string
	files     map[string][]byte
	then      []map[string][]byte // the configurations that follow
	env       []string
	plan      []string
	thenPlan  []string
	run       [][]string
	lab, init bool
	http      bool
	vault     bool
}

func readCase(t *testing.T, name string) scenario {
	t.Helper()
	s := scenario{name: name, files: map[string][]byte{}, lab: strings.HasPrefix(name, "lab-")}
	root := filepath.Join("testdata", name)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch m := later.FindStringSubmatch(rel); {
		case m != nil: // in the order of their names
			if stage := m[1]; len(s.then) < len(stage)-len("then")+1 {
				s.then = append(s.then, map[string][]byte{})
			}
			s.then[len(s.then)-1][m[2]] = data
		case rel == "case.txt":
			return s.settings(string(data))
		default:
			s.files[rel] = data
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.thenPlan == nil {
		s.thenPlan = s.plan
	}
	return s
}

var later = regexp.MustCompile(`^(then2?)/(.*)$`)

func (s *scenario) settings(text string) error {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			return fmt.Errorf("%s: case.txt: bad line %q", s.name, line)
		}
		switch rest := words[1:]; words[0] {
		case "env":
			s.env = append(s.env, strings.TrimSpace(strings.TrimPrefix(line, "env ")))
		case "plan":
			s.plan = rest
		case "then":
			s.thenPlan = rest
		case "init":
			s.init = true
		case "http":
			s.http, s.init = true, true
		case "vault":
			s.vault = true
		case "run":
			s.run = append(s.run, rest)
		default:
			return fmt.Errorf("%s: case.txt: bad line %q", s.name, line)
		}
	}
	return nil
}

// step is one command of the script with what it left behind.
type step struct {
	name string
	code int
	// stdout, stderr and state are normal. state is "" if the command can't
	// change it.
	stdout, stderr, state string
}

func (s step) lines() []string {
	text := fmt.Sprintf("exit code %d\n--- stdout\n%s\n--- stderr\n%s\n--- state\n%s", s.code, s.stdout, s.stderr, s.state)
	return strings.Split(text, "\n")
}

// programs is what all cases share.
type programs struct {
	tofu    string
	yuba    string // the program that users have
	lab     string // the one with the lab provider
	plugins string // a filesystem mirror of the providers, as files of lab
	config  string // stock tofu's CLI configuration
	states  string // the address of a server of states
	vault   *vault
}

// versions of the providers in the mirror.
var versions = map[string]string{
	"example/lab": "0.1.0", "hashicorp/random": "3.7.2", "hashicorp/null": "3.2.4", "hashicorp/local": "2.5.3", "hashicorp/external": "2.3.5",
}

// compared are the two programs, without the rest.
func compared(t *testing.T) programs {
	t.Helper()
	p := programs{tofu: os.Getenv("YUBA_TEST_TOFU"), yuba: os.Getenv("YUBA_TEST_YUBA")}
	if p.tofu == "" || p.yuba == "" {
		t.Fatal("YUBA_TEST_TOFU and YUBA_TEST_YUBA do not name the programs to compare: run 'make test' or 'make parity'")
	}
	return p
}

// configure writes stock tofu's CLI configuration with a filesystem mirror.
func configure(t *testing.T, path, mirror string) {
	t.Helper()
	rc := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(path, []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
}

func prepare(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	p := compared(t)
	p.lab, p.plugins, p.config = filepath.Join(dir, "program"), filepath.Join(dir, "plugins"), filepath.Join(dir, "tofu.rc")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/opentofu/opentofu/version.dev=no", "-o", p.lab, "./program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program with the lab provider: %v\n%s", err, out)
	}
	for name, version := range versions {
		at := filepath.Join(p.plugins, "registry.opentofu.org", name, version, "linux_amd64")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(p.lab, filepath.Join(at, "terraform-provider-"+filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	configure(t, p.config, p.plugins)
	p.states = stateserver.Start(t, p.yuba, filepath.Join(dir, "states")).Address
	p.vault = startVault(t)
	return p
}

func run(t *testing.T, p programs, s scenario) {
	root := t.TempDir()
	var want []step
	modules := "" // as stock tofu has installed them
	for _, l := range lanes {
		planned := func(s step) bool { return s.name == "apply" }
		if l.plans != l.applies && !slices.ContainsFunc(want, planned) {
			continue // there is nothing to hand over
		}
		dir := filepath.Join(root, l.name)
		r := &runner{t: t, p: p, s: s, l: l, dir: dir}
		r.write(s.files)
		if l.plans == stock || l.applies == stock {
			r.install(modules)
			modules = filepath.Join(dir, ".terraform", "modules")
			if s.init {
				if out, err := r.command(stock, "init", "-input=false").CombinedOutput(); err != nil {
					t.Fatalf("tofu init: %v\n%s", err, out)
				}
			}
		}
		got := r.script(l.plans != l.applies)
		if l == lanes[0] {
			want = got
			if t.Failed() {
				return
			}
			continue
		}
		for _, g := range got {
			i := slices.IndexFunc(want, func(w step) bool { return w.name == g.name })
			if i < 0 {
				t.Errorf("%s: %s goes on where stock tofu stops", l.name, g.name)
				continue
			}
			w, g := without(s.name, want[i], g)
			if diff := difference(w.lines(), g.lines()); diff != "" && !known(s.name, g.name) {
				t.Errorf("%s, %s (planned by %s, applied by %s): -stock tofu +yuba\n%s", s.name, g.name, l.plans, l.applies, diff)
			}
		}
		if l.plans == l.applies && len(got) != len(want) {
			t.Errorf("%s: %d steps, stock tofu has %d", l.name, len(got), len(want))
		}
	}
}

// runner runs one lane of one case.
type runner struct {
	t    *testing.T
	p    programs
	s    scenario
	l    lane
	dir  string
	done []step
}

func (r *runner) write(files map[string][]byte) {
	r.t.Helper()
	for name, data := range files {
		path := filepath.Join(r.dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil && len(data) == 0 {
			if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
				err = os.WriteFile(path, nil, 0o600)
			}
		} else if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

var usesProvider = regexp.MustCompile(`\b(random|null|local|external|lab)(_|"|::|\s*=\s*\{)`)

// install does what "tofu init" does, without hashing the providers' files in
// every case anew.
func (r *runner) install(modules string) {
	r.t.Helper()
	var names []string
	calls := false
	for _, files := range append([]map[string][]byte{r.s.files}, r.s.then...) {
		for name, data := range files {
			if strings.HasSuffix(name, ".tfstate") || strings.Contains(name, ".tf") {
				for _, m := range usesProvider.FindAllSubmatch(data, -1) {
					names = append(names, string(m[1]))
				}
			}
			calls = calls || bytes.Contains(data, []byte("module \"")) || bytes.Contains(data, []byte(`"module":`))
		}
	}
	slices.Sort(names)
	var lock strings.Builder
	for _, name := range slices.Compact(names) {
		full := "hashicorp/" + name
		if name == "lab" {
			full = "example/lab"
		}
		version := versions[full]
		fmt.Fprintf(&lock, "provider %q {\n  version = %q\n}\n", "registry.opentofu.org/"+full, version)
		at := filepath.Join(r.dir, ".terraform/providers/registry.opentofu.org", full, version)
		if err := os.MkdirAll(at, 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(r.p.plugins, "registry.opentofu.org", full, version, "linux_amd64"), filepath.Join(at, "linux_amd64")); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, ".terraform.lock.hcl"), []byte(lock.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
	switch manifest := filepath.Join(modules, "modules.json"); {
	case !calls:
	case modules == "":
		r.modules()
	default:
		data, err := os.ReadFile(manifest)
		if err != nil { // this case is about modules that can't be had
			return
		}
		at := filepath.Join(r.dir, ".terraform", "modules")
		if err := os.MkdirAll(at, 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "modules.json"), data, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// modules lets stock tofu note where the modules are.
func (r *runner) modules() {
	r.t.Helper()
	cmd := r.command(stock, "get")
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(r.s.name, "error") {
		r.t.Fatalf("tofu get: %v\n%s", err, out)
	}
}

func (r *runner) command(x tool, args ...string) *exec.Cmd {
	program := r.p.tofu
	if x == yuba {
		program = r.p.yuba
		if r.s.lab {
			program = r.p.lab
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{"TF_CLI_CONFIG_FILE=" + r.p.config, "HOME=/nonexistent", "PATH=/usr/bin:/bin", "GOGC=400"}, r.s.env...)
	if r.s.http {
		cmd.Env = append(cmd.Env, "TF_HTTP_ADDRESS="+r.address(), "TF_HTTP_LOCK_ADDRESS="+r.address(), "TF_HTTP_UNLOCK_ADDRESS="+r.address())
	}
	if r.s.vault {
		cmd.Env = append(cmd.Env, r.p.vault.env(r.t)...)
	}
	return cmd
}

// address is that of the state on a server.
func (r *runner) address() string { return r.p.states + "/" + r.s.name + r.l.name }

// stored is the state on the server, "" if there is none.
func (r *runner) stored() string {
	r.t.Helper()
	resp, err := http.Get(r.address())
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// do runs one command and notes what it left behind. The name of a step says
// what it's about and is the same in all lanes.
func (r *runner) do(name string, x tool, args ...string) step {
	r.t.Helper()
	for n, taken := 2, name; slices.ContainsFunc(r.done, func(s step) bool { return s.name == name }); n++ {
		name = fmt.Sprintf("%s (%d)", taken, n)
	}
	// Stock tofu prints colours also where there is no terminal.
	if !slices.Contains(args, "-no-color") {
		n := 1
		if slices.Contains([]string{"state", "workspace", "providers", "metadata"}, args[0]) && len(args) > 1 {
			n = 2
		}
		args = slices.Insert(slices.Clone(args), n, "-no-color")
	}
	var stdin []byte
	if from, ok := strings.CutPrefix(args[len(args)-1], "<"); ok {
		args, stdin = args[:len(args)-1], r.s.files[from]
	}
	var stdout, stderr bytes.Buffer
	cmd := r.command(x, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			r.t.Fatal(err)
		}
	}
	if os.Getenv("YUBA_TEST_PARITY_SHOW") != "" {
		r.t.Logf("%s: %s: %q: exit code %d\n%s%s", r.l.name, name, args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
	}
	s := step{name: name, code: cmd.ProcessState.ExitCode(), stdout: r.normal(stdout.String()), stderr: r.normal(stderr.String())}
	for _, file := range []string{"terraform.tfstate", "my.tfstate", "terraform.tfstate.backup", "errored.tfstate", "generated.tf", "stream.json"} {
		if data, err := os.ReadFile(filepath.Join(r.dir, file)); err == nil {
			s.state += file + ":\n" + r.normal(string(data))
		}
	}
	if r.s.http {
		s.state += "on the server:\n" + r.normal(r.stored())
	}
	r.done = append(r.done, s)
	return s
}

// script runs all commands of a case. The short one is for mixed lanes: it has
// what one program hands to the other.
func (r *runner) script(short bool) []step {
	r.t.Helper()
	a, b := r.l.plans, r.l.applies
	plan := func(name, out string, flags []string, more ...string) bool {
		args := append(append([]string{"plan", "-input=false", "-out=" + out}, flags...), more...)
		return r.do(name, a, args...).code != 1
	}
	if !short {
		r.do("validate", a, "validate")
		r.do("validate in JSON", a, "validate", "-json")
	}
	if !plan("plan", "tfplan", r.s.plan) {
		plan("plan in JSON", "tfplan", r.s.plan, "-json")
		return r.done
	}
	if !short {
		r.do("show the plan", b, "show", "tfplan")
	}
	r.do("show the plan in JSON", b, "show", "-json", "tfplan")
	r.do("apply", b, "apply", "-input=false", "tfplan")
	for _, args := range r.s.run {
		r.do(strings.Join(args, " "), a, args...)
	}
	if !short {
		r.do("outputs", b, "output")
		r.do("outputs in JSON", b, "output", "-json")
		r.do("show the state", b, "show")
		r.do("show the state in JSON", b, "show", "-json")
		r.do("state list", b, "state", "list")
	}
	r.do("plan again", a, append([]string{"plan", "-input=false", "-detailed-exitcode"}, r.s.plan...)...)
	for i, files := range r.s.then {
		r.write(files)
		if r.l != lanes[1] {
			r.reinstall(files)
		}
		out := fmt.Sprintf("tfplan%d", i+2)
		if plan("plan the change in JSON", out, r.s.thenPlan, "-json") {
			if !short {
				r.do("show the change", b, "show", out)
			}
			r.do("show the change in JSON", b, "show", "-json", out)
			r.do("apply the change in JSON", b, "apply", "-json", "-input=false", out)
			r.do("plan after the change", a, append([]string{"plan", "-input=false", "-detailed-exitcode"}, r.s.thenPlan...)...)
		} else if !short {
			plan("plan the change", out, r.s.thenPlan)
		}
	}
	r.do("destroy", a, append([]string{"destroy", "-auto-approve", "-input=false", "-no-color"}, r.s.thenPlan...)...)
	return r.done
}

// reinstall is init for a further configuration, which may call other modules.
func (r *runner) reinstall(files map[string][]byte) {
	r.t.Helper()
	for _, data := range files {
		if bytes.Contains(data, []byte("module \"")) {
			r.modules()
			return
		}
	}
}
