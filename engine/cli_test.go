package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	engine "github.com/opentofu/opentofu/yuba"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
)

// desk is a folder with a configuration, in which command lines run. Its state
// on a server is at any address.
type desk struct {
	t     *testing.T
	store *enginetest.Store
	lab   *enginetest.Lab
	http  engine.HTTPState // the one that was opened last
	stdin string

	interrupts chan struct{}
}

func newDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"TF_WORKSPACE", "TF_HTTP_ADDRESS", "TF_DATA_DIR", "TF_INPUT", "TF_ENCRYPTION", "TF_IN_AUTOMATION"} {
		t.Setenv(name, "")
	}
	d := &desk{t: t, store: &enginetest.Store{}, lab: &enginetest.Lab{}}
	d.write(files)
	return d
}

func (d *desk) write(files map[string]string) {
	d.t.Helper()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}

// run runs a command line and returns its exit code with what it printed.
func (d *desk) run(verb string, args ...string) (int, printed) {
	d.t.Helper()
	dir := d.t.TempDir()
	file := func(name, content string) *os.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			d.t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { f.Close() })
		return f
	}
	code := engine.CLI{
		Providers: []engine.Provider{{Address: enginetest.Address, New: d.lab.Server}},
		OpenHTTP: func(h engine.HTTPState) (engine.StateStore, error) {
			d.http = h
			return d.store, nil
		},
		StateFromEnv: true,
		Interrupts:   d.interrupts,
		Stdin:        file("in", d.stdin), Stdout: file("out", ""), Stderr: file("err", ""),
	}.Run(context.Background(), verb, args)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			d.t.Fatal(err)
		}
		return string(b)
	}
	p := printed{out: read("out"), err: read("err")}
	d.t.Logf("--- %s %q: exit code %d\n--- stdout\n%s--- stderr\n%s", verb, args, code, p.out, p.err)
	return code, p
}

// must runs a command line that has to end with this exit code.
func (d *desk) must(code int, verb string, args ...string) printed {
	d.t.Helper()
	got, p := d.run(verb, args...)
	if got != code {
		d.t.Fatalf("%s %q: exit code %d, want %d", verb, args, got, code)
	}
	return p
}

const values = `
variable "v" {
  default = "default"
}
output "v" {
  value = var.v
}
`

// The values of variables come from where stock tofu takes them, in its order.
func TestValuesOfVariables(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		env   string
		args  []string
		want  string
	}{
		{name: "default", want: "default"},
		{name: "environment", env: "from env", want: "from env"},
		{name: "tfvars over environment", env: "from env", files: map[string]string{"terraform.tfvars": `v = "tfvars"`}, want: "tfvars"},
		{name: "json over tfvars", files: map[string]string{"terraform.tfvars": `v = "tfvars"`, "terraform.tfvars.json": `{"v": "json"}`}, want: "json"},
		{name: "auto files in order", files: map[string]string{"terraform.tfvars": `v = "tfvars"`, "a.auto.tfvars": `v = "a"`, "b.auto.tfvars.json": `{"v": "b"}`}, want: "b"},
		{name: "-var over files", files: map[string]string{"a.auto.tfvars": `v = "a"`}, args: []string{"-var", "v=arg"}, want: "arg"},
		{name: "-var-file after -var", files: map[string]string{"x.vars": `v = "file"`}, args: []string{"-var", "v=arg", "-var-file", "x.vars"}, want: "file"},
		{name: "-var after -var-file", files: map[string]string{"x.vars": `{"v": "file"}`}, args: []string{"-var-file=x.vars", "-var=v=arg=more"}, want: "arg=more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, map[string]string{"main.tofu": values})
			d.write(c.files)
			if c.env != "" {
				t.Setenv("TF_VAR_v", c.env)
			}
			d.must(0, "apply", append(c.args, "-auto-approve")...)
			if got := d.must(0, "output", "-raw", "v").out; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Files are read as stock tofu reads them: overrides, JSON, and .tofu files in
// the place of .tf files of the same name.
func TestFilesOfAConfiguration(t *testing.T) {
	d := newDesk(t, map[string]string{
		"a.tf":               `output "a" { value = "hidden" }`,
		"a.tofu":             `output "a" { value = "tofu" }`,
		"b.tf.json":          `{"output": {"b": {"value": "json"}}}`,
		"c.tofu.json":        `{"output": {"c": {"value": "json"}}}`,
		"override.tofu":      `output "a" { value = "override" }`,
		".hidden.tf":         `this is not read`,
		"notes.tf~":          `nor is this`,
		"child/child.tf":     `output "dir" { value = basename(path.module) }`,
		"module.tf":          "variable \"which\" {\n  default = \"child\"\n}\nmodule \"m\" {\n  source = \"./${var.which}\"\n}\noutput \"m\" { value = module.m.dir }\n",
		"other/nothing.here": "",
	})
	d.must(0, "apply", "-auto-approve")
	has(t, d.must(0, "output").out, `a = "override"`, `b = "json"`, `c = "json"`, `m = "child"`)
	if _, err := os.Stat(".terraform"); err == nil {
		t.Error(".terraform was written")
	}
}

func TestFilesThatAreTooLarge(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": "#" + strings.Repeat(" ", 17<<20)})
	has(t, d.must(1, "plan").err, `"main.tf" could not be read`)
	d = newDesk(t, map[string]string{"x.auto.tfvars": "#" + strings.Repeat(" ", 17<<20)})
	has(t, d.must(1, "plan").err, "x.auto.tfvars", "larger than")
}

// A mistake in a resource is none of the business of a verb on the state.
func TestStateOfABrokenConfiguration(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": values})
	d.must(0, "apply", "-auto-approve")
	d.write(map[string]string{"broken.tf": "module \"m\" {\n  source = \"./none\"\n}\n"})
	d.must(1, "plan")
	has(t, d.must(0, "output").out, `v = "default"`)
	d.must(0, "state pull")
}

// A state in a file is locked, kept before a change, and found in another place.
func TestStateInAFile(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": values})
	d.must(0, "apply", "-auto-approve", "-state-out=out.tfstate", "-backup=-")
	d.must(0, "apply", "-auto-approve", "-state=out.tfstate", "-var=v=two")
	has(t, d.must(0, "output", "-state=out.tfstate").out, `v = "two"`)
	if b, err := os.ReadFile("out.tfstate.backup"); err != nil || !strings.Contains(string(b), "default") {
		t.Errorf("the state from before is not in the backup: %v: %s", err, b)
	}
	if _, err := os.Stat("terraform.tfstate"); err == nil {
		t.Error("-state-out was not heeded")
	}
	d.write(map[string]string{"backend.tf": "terraform {\n  backend \"local\" {\n    path = \"deep/down.tfstate\"\n  }\n}\n"})
	d.must(0, "apply", "-auto-approve")
	if _, err := os.Stat("deep/down.tfstate"); err != nil {
		t.Error(err)
	}
	has(t, d.must(1, "force-unlock", "x").err, "Local state cannot be unlocked by another process")
}

// TF_WORKSPACE, and the workspace that stock tofu was told to use in this
// folder, have states of their own.
func TestWorkspacesOfAStateInAFile(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": "output \"w\" { value = terraform.workspace }\n"})
	t.Setenv("TF_WORKSPACE", "test")
	d.must(0, "apply", "-auto-approve")
	has(t, d.must(0, "output", "-raw", "w").out, "test")
	has(t, d.must(0, "workspace list").out, "* test", "default")
	t.Setenv("TF_WORKSPACE", "")
	has(t, d.must(0, "output").out, "No outputs found")
	d.write(map[string]string{".terraform/environment": "test"})
	has(t, d.must(0, "output", "-raw", "w").out, "test")
	has(t, d.must(0, "workspace show").out, "test")
	t.Setenv("TF_WORKSPACE", "../up")
	has(t, d.must(1, "plan").err, "Invalid workspace name set using TF_WORKSPACE")
}

const onServer = `terraform {
  backend "http" {
    address       = "https://state.example/block"
    update_method = "PUT"
    retry_max     = 7
    headers       = { X-Team = "blue" }
  }
}
` + values

// The http backend has what its block says, and what the environment adds.
func TestHTTPBackend(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": onServer})
	t.Setenv("TF_HTTP_ADDRESS", "https://state.example/env")
	t.Setenv("TF_HTTP_USERNAME", "ci")
	t.Setenv("TF_HTTP_PASSWORD", "hunter2")
	t.Setenv("TF_HTTP_RETRY_WAIT_MIN", "3")
	p := d.must(0, "plan", "-out=x.plan")
	h := d.http
	switch {
	case h.Address != "https://state.example/block", h.UpdateMethod != "PUT", h.RetryMax != 7, h.Headers["X-Team"] != "blue",
		h.Username != "ci", h.Password != "hunter2", h.RetryWaitMin.Seconds() != 3, h.LockMethod != "LOCK":
		t.Errorf("got %+v", h)
	}
	lacks(t, p.out+p.err, "hunter2")
	d.must(0, "apply", "x.plan")
	if d.store.State() == "" {
		t.Error("the state is not in the store")
	}
	has(t, d.must(0, "state list").out)
	t.Setenv("TF_HTTP_RETRY_MAX", "many")
	d.write(map[string]string{"main.tf": strings.Replace(onServer, "    retry_max     = 7\n", "", 1)})
	has(t, d.must(1, "plan").err, `setting default for "retry_max": a number is required`)
}

// A plan is applied where it was made for, also without the configuration.
func TestPlanFileBringsItsBackend(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": onServer})
	d.must(0, "plan", "-out=x.plan")
	if err := os.Remove("main.tf"); err != nil {
		t.Fatal(err)
	}
	d.http = engine.HTTPState{}
	d.must(0, "apply", "x.plan")
	if d.http.Address != "https://state.example/block" || d.http.UpdateMethod != "PUT" {
		t.Errorf("the state of the plan was not opened: %+v", d.http)
	}
	has(t, d.must(1, "apply", "x.plan").err, "Saved plan is stale")
	has(t, d.must(1, "destroy", "x.plan").err, "Destroy can't be called with a plan file")
	has(t, d.must(1, "apply", ".").err, "is a directory")
}

// Where there is no configuration, TF_HTTP_ADDRESS says where the state is.
func TestStateFromTheEnvironment(t *testing.T) {
	d := newDesk(t, nil)
	t.Setenv("TF_HTTP_ADDRESS", "https://state.example/env")
	has(t, d.must(1, "state list").err, "No state file was found")
	if d.http.Address != "https://state.example/env" {
		t.Errorf("got %+v", d.http)
	}
	d.http = engine.HTTPState{}
	d.write(map[string]string{"main.tf": values})
	d.must(0, "apply", "-auto-approve")
	if d.http.Address != "" || d.store.State() != "" {
		t.Error("a configuration without a backend has its state in a file")
	}
	// Who pushes a state or looks at a lock thinks of the one on the server.
	for _, c := range []struct {
		verb, arg string
		code      int
	}{{"state push", "terraform.tfstate", 0}, {"state lock", "", 0}, {"force-unlock", "7f0b1f6e-3f0d-4f7c-a0a3-0c9f8d0a7d5e", 1}} {
		p := d.must(c.code, c.verb, strings.Fields(c.arg)...)
		has(t, p.out+p.err, "TF_HTTP_ADDRESS is not used", "in a directory without a configuration")
	}
}

// What is asked is asked on the standard output, as stock tofu does; an answer
// is kept for the whole run.
func TestMissingVariableIsAskedForOnce(t *testing.T) {
	d := newDesk(t, map[string]string{
		"main.tf":    "variable \"which\" {}\nmodule \"m\" {\n  source = \"./${var.which}\"\n}\noutput \"o\" { value = var.which }\n",
		"child/x.tf": "",
	})
	d.stdin = "child\n"
	p := d.must(0, "plan")
	if n := strings.Count(p.out, "Enter a value"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	d.stdin = ""
	has(t, d.must(1, "plan", "-input=false").err, "No value for required variable")
	for _, off := range []string{"0", "F", "False"} { // as stock tofu reads it
		t.Setenv("TF_INPUT", off)
		d.stdin = "child\n"
		if p := d.must(1, "plan"); strings.Contains(p.out, "Enter a value") {
			t.Errorf("TF_INPUT=%s: it asks", off)
		}
	}
}

func TestStateMoveToAnotherFile(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": "resource \"terraform_data\" \"x\" {\n  count = 2\n}\n"})
	d.must(0, "apply", "-auto-approve")
	d.must(0, "state mv", "-state-out=other.tfstate", "terraform_data.x[0]", "terraform_data.y")
	has(t, d.must(0, "state list", "-state=other.tfstate").out+"in the file", "in the file")
	b, err := os.ReadFile("other.tfstate")
	if err != nil || !strings.Contains(string(b), `"name": "y"`) {
		t.Errorf("the object is not in the other file: %v: %s", err, b)
	}
	if got := d.must(0, "state list").out; got != "terraform_data.x[1]\n" {
		t.Errorf("left are %q", got)
	}
}

func TestReplaceProviderAsks(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": lab + "resource \"lab_thing\" \"x\" {\n  name = \"x\"\n}\n"})
	d.must(0, "apply", "-auto-approve")
	d.stdin = "no\n"
	has(t, d.must(0, "state replace-provider", "example/lab", "example.org/a/lab").out, "Cancelled replacing providers.")
	d.stdin = "yes\n"
	has(t, d.must(0, "state replace-provider", "example/lab", "example.org/a/lab").out, "Successfully replaced provider for 1 resources.")
	has(t, d.must(0, "state pull").out, "example.org/a/lab")
}

func TestConsoleTakesExpressionsOfSeveralLines(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": values})
	d.stdin = "[\n1,\n2\n]\n\"${var.v}!\"\n1 + \\\n2\nexit\nnever.read\n"
	has(t, d.must(0, "console").out, "[ 1, 2, ]", `"default!"`, "3")
}

func TestRemoteStateOfAFile(t *testing.T) {
	config := func(kind string) string {
		return "data \"terraform_remote_state\" \"x\" {\n  backend = \"" + kind + "\"\n  config = {\n    path = \"other.tfstate\"\n  }\n}\noutput \"o\" {\n  value = data.terraform_remote_state.x.outputs.o\n}\n"
	}
	d := newDesk(t, map[string]string{"main.tf": config("local")})
	has(t, d.must(1, "plan").err, "Unable to find remote state", "data.terraform_remote_state.x: Unable to read remote state")
	d.write(map[string]string{"other.tfstate": `{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"x","outputs":{"o":{"value":"there","type":"string"}},"resources":[]}`})
	d.must(0, "apply", "-auto-approve")
	has(t, d.must(0, "output").out, `o = "there"`)
	d.write(map[string]string{"main.tf": config("s3")})
	has(t, d.must(1, "validate").err, `no backend type named "s3"`, `"http"`)
}

// What can't be parsed is told by each verb that reads the configuration, beside
// what else is wrong.
func TestSyntaxErrors(t *testing.T) {
	d := newDesk(t, map[string]string{"a.tf": "resource \"terraform_data\" \"a\" {\n", "b.tf": values})
	for _, c := range []struct {
		verb string
		args []string
	}{{"validate", nil}, {"get", nil}, {"init", []string{"-backend=false"}}, {"init", nil}, {"plan", nil}} {
		has(t, d.must(1, c.verb, c.args...).err, "Unclosed configuration block", "a.tf line 1")
	}
	d.write(map[string]string{"b.tf": values + values})
	for _, verb := range []string{"validate", "get"} {
		has(t, d.must(1, verb).err, "Unclosed configuration block", "a.tf line 1", "Duplicate variable declaration")
	}
}

func TestLocalExec(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": "resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n    command = \"echo it ran > ran\"\n  }\n}\n"})
	d.must(0, "plan")
	if _, err := os.Stat("ran"); err == nil {
		t.Error("it ran in a plan")
	}
	d.must(0, "apply", "-auto-approve")
	if b, err := os.ReadFile("ran"); err != nil || string(b) != "it ran\n" {
		t.Errorf("it did not run: %v", err)
	}
}

func TestJSONInto(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": values})
	has(t, d.must(0, "plan", "-json-into=plan.json").out, "Changes to Outputs")
	b, err := os.ReadFile("plan.json")
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(b), `"type":"version"`, `"type":"change_summary"`)
}

func TestFormat(t *testing.T) {
	ugly := "variable \"x\" {\ntype = \"list\"\n  default=[\"a\"]\n}\nlocals {\n  a = \"${var.x}\"\n  bcd = \"${join(\n    \",\", var.x)}\"\n  e = \"${var.x[0]} more\"\n}\n"
	pretty := "variable \"x\" {\n  type    = list(string)\n  default = [\"a\"]\n}\nlocals {\n  a = var.x\n  bcd = (join(\n  \",\", var.x))\n  e = \"${var.x[0]} more\"\n}\n"
	d := newDesk(t, map[string]string{"main.tf": ugly, "sub/x.tfvars": "a=1\n", "sub/notes.md": "a=1\n"})
	if got := d.must(3, "fmt", "-check", "-recursive").out; got != "main.tf\nsub/x.tfvars\n" {
		t.Errorf("lists %q", got)
	}
	d.must(0, "fmt")
	b, err := os.ReadFile("main.tf")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != pretty {
		t.Errorf("got\n%s\nwant\n%s", b, pretty)
	}
	d.must(0, "fmt", "-check")
	has(t, d.must(2, "fmt", "none").err, "No file or directory at none")
}

// What stock tofu was told in the same folder, and keeps to itself, is not
// silently another state here.
func TestStateThatStockTofuWasToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		block, saved, env, says string
	}{
		"another file":     {`backend "local" {}`, `{"type":"local","config":{"path":"there.tfstate"}}`, "", `path of the backend "local" is "there.tfstate"; here it is not set`},
		"the default":      {`backend "local" {}`, `{"type":"local","config":{"path":"terraform.tfstate"}}`, "", ""},
		"the same file":    {"backend \"local\" {\n    path = \"there.tfstate\"\n  }", `{"type":"local","config":{"path":"there.tfstate"}}`, "", ""},
		"another address":  {`backend "http" {}`, `{"type":"http","config":{"address":"https://u:p@there.example/x"}}`, "https://here.example/x", `is "https://there.example/x"; here it is "https://here.example/x"`},
		"the same address": {`backend "http" {}`, `{"type":"http","config":{"address":"https://here.example/x"}}`, "https://u:p@here.example/x", ""},
		"not said":         {`backend "http" {}`, `{"type":"http","config":{"address":null}}`, "https://here.example/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, map[string]string{
				"main.tf":                      "terraform {\n  " + c.block + "\n}\n" + values,
				".terraform/terraform.tfstate": `{"version":3,"backend":` + c.saved + `}`,
			})
			t.Setenv("TF_HTTP_ADDRESS", c.env)
			if c.says == "" {
				d.must(0, "plan")
				return
			}
			p := d.must(1, "plan")
			has(t, p.err, c.says)
			lacks(t, p.err, "u:p")
		})
	}
}

// What a plan or a state that can't be stored is written to is for its owner
// only, whatever the umask.
func TestFilesOfSecretsArePrivate(t *testing.T) {
	d := newDesk(t, map[string]string{"main.tf": one})
	private := func(name string) {
		t.Helper()
		if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() == 0 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	d.must(0, "plan", "-out=p")
	private("p")
	has(t, d.must(1, "plan", "-out=nowhere/p").err, "Failed to write plan file", "nowhere/p")
	if err := os.Mkdir("no-file", 0o700); err != nil {
		t.Fatal(err)
	}
	p := d.must(1, "apply", "-auto-approve", "-lock=false", "-state-out=no-file")
	has(t, p.err, "Failed to save state", "errored.tfstate")
	private("errored.tfstate")
	content, err := os.ReadFile("errored.tfstate")
	if err != nil || len(objectsIn(t, string(content))) != 1 {
		t.Errorf("%v: errored.tfstate is %.80q", err, content)
	}
}
