package e2e

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// house is a configuration with a bit of everything that needs no server.
var house = map[string]string{
	"main.tf": `terraform {
  required_providers {
    random = {
      source = "hashicorp/random"
    }
  }
}

variable "names" {
  type = map(string)
}

variable "secret" {
  type      = string
  sensitive = true
  default   = "hush"
}

variable "extra" {
  type    = number
  default = 1
}

resource "terraform_data" "node" {
  for_each = var.names
  input    = { name = each.key, text = each.value, path = path.module }
}

resource "terraform_data" "count" {
  count            = var.extra
  input            = var.secret
  triggers_replace = [count.index]
}

resource "random_integer" "port" {
  min = 7
  max = 7
}

module "inner" {
  source = "./modules/inner"
  text   = terraform_data.node["a"].output.text
}

check "names" {
  assert {
    condition     = length(var.names) > 0
    error_message = "There should be names."
  }
}

output "texts" {
  value = { for k, n in terraform_data.node : k => n.output.text }
}

output "secret" {
  value     = var.secret
  sensitive = true
}

output "inner" {
  value = module.inner.text
}

output "port" {
  value = random_integer.port.result
}
`,
	"modules/inner/main.tf": `variable "text" {
  type = string
}

module "deep" {
  source = "../deep"
  text   = "${var.text}, deeply"
}

output "text" {
  value = module.deep.text
}
`,
	"modules/deep/main.tf": `variable "text" {
  type = string
}

resource "terraform_data" "text" {
  input = var.text
}

output "text" {
  value = terraform_data.text.output
}
`,
	"terraform.tfvars":      "names = { a = \"alpha\", b = \"beta\" }\n",
	"z.auto.tfvars.json":    `{"extra": 2}`,
	"main_override.tf.json": `{"output": {"port": {"description": "the port"}}}`,
}

// Who runs tofu today runs yuba tomorrow, in the same folder, and sees the
// same.
func TestVerbsPrintWhatStockTofuPrints(t *testing.T) {
	t.Parallel()
	p := newPair(t, house)
	for _, s := range []step{
		do("validate"), do("validate", "-json"), do("fmt", "-check", "-recursive"), {args: []string{"providers"}, unordered: true}, do("graph"), do("graph", "-type=plan-destroy"),
		do("plan"), {args: []string{"plan", "-json"}, unordered: true}, {args: []string{"plan", "-detailed-exitcode"}, code: 2},
		do("plan", "-var", "extra=0", "-target=terraform_data.node", "-compact-warnings"),
		do("plan", "-out=tofu.plan"), do("show", "tofu.plan"), do("show", "-json", "tofu.plan"),
		{args: []string{"state", "list"}, code: 1}, do("output", "-raw", "port"), do("output"), do("show"),
		{args: []string{"apply", "tofu.plan"}, unordered: true},
		do("state", "list"), do("state", "list", "module.inner"), {args: []string{"state", "list", "terraform_data.none"}, code: 1},
		do("output"), do("output", "-json"), do("output", "-raw", "port"), do("output", "secret"), {args: []string{"output", "none"}, code: 1},
	} {
		p.both(s)
	}
	// From here on both have the same state, and their answers are equal to the letter.
	p.share("terraform.tfstate")
	for _, s := range []step{
		do("show"), do("show", "-json"), do("state", "show", `terraform_data.node["a"]`), do("state", "show", "-json", "terraform_data.count[0]"),
		{args: []string{"state", "show", "terraform_data.node"}, code: 1}, do("state", "pull"), {args: []string{"providers"}, unordered: true},
		{args: []string{"plan", "-detailed-exitcode"}, unordered: true}, do("plan", "-refresh=false"),
		{args: []string{"plan", "-var=names={a=\"other\"}"}, unordered: true}, {args: []string{"plan", "-destroy"}, unordered: true},
		{args: []string{"plan", "-replace=terraform_data.count[1]", "-refresh=false", "-concise"}},
		do("taint", "terraform_data.count[0]"), do("plan", "-refresh=false"), do("untaint", "terraform_data.count[0]"),
		{args: []string{"untaint", "terraform_data.count[0]"}, code: 1}, {args: []string{"taint", "terraform_data.none"}, code: 1},
		do("taint", "-allow-missing", "terraform_data.none"),
		do("state", "mv", "-dry-run", "terraform_data.count[0]", "terraform_data.moved"),
		do("state", "mv", "terraform_data.count[0]", "terraform_data.moved"),
		do("state", "mv", "module.inner", "module.outer"),
		{args: []string{"state", "mv", "terraform_data.none", "terraform_data.x"}, code: 1},
		do("state", "rm", "terraform_data.moved"), {args: []string{"state", "rm", "terraform_data.moved"}, code: 1},
		do("state", "replace-provider", "-auto-approve", "hashicorp/random", "hashicorp/random"),
		{args: []string{"state", "replace-provider", "-auto-approve", "hashicorp/none", "hashicorp/random"}},
		{args: []string{"console"}, stdin: "length(var.names)\nvar.names[\n\"a\"]\nvar.secret\nterraform_data.node[\"b\"].output\ntype(var.extra)\n"},
		{args: []string{"console"}, stdin: "var.none\n", code: 1},
		{args: []string{"plan", "-var", "oops"}, code: 1}, {args: []string{"plan", "-var-file=none.tfvars"}, code: 1},
		{args: []string{"plan", "-target=terraform_data.node", "-exclude=terraform_data.count"}, code: 1},
		{args: []string{"force-unlock", "x"}, code: 1}, do("workspace", "list"), do("workspace", "show"),
	} {
		p.both(s)
	}
	p.same("terraform.tfstate")
	for _, s := range []step{
		{args: []string{"refresh"}, unordered: true}, {args: []string{"apply", "-auto-approve"}, unordered: true},
		{args: []string{"destroy", "-auto-approve"}, unordered: true}, do("state", "list"), do("show"),
	} {
		p.both(s)
	}
	if a, b := left(t, p.stock), left(t, p.ours); !slices.Equal(a, b) {
		t.Errorf("stock tofu leaves %q, yuba %q", a, b)
	}
	if _, err := os.Stat(filepath.Join(p.ours, ".terraform")); err == nil {
		t.Error("yuba wrote .terraform")
	}
}

// left are the files in a folder, without those that stock tofu's init makes
// and backups with a time in their names.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch n := e.Name(); {
		case strings.HasPrefix(n, ".terraform"):
		case strings.HasSuffix(n, ".backup") && n != "terraform.tfstate.backup":
		default:
			names = append(names, n)
		}
	}
	return names
}

// Mistakes are explained in the same words.
func TestMistakesAreExplainedAsStockTofuDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		steps []step
	}{
		"a reference to nothing": {map[string]string{"main.tf": "output \"x\" {\n  value = terraform_data.none.id\n}\n"},
			[]step{{args: []string{"plan"}, code: 1}, {args: []string{"validate"}, code: 1}, {args: []string{"validate", "-json"}, code: 1}, {args: []string{"plan", "-json"}, code: 1}}},
		"a variable without a value": {map[string]string{"main.tf": "variable \"x\" {}\n"},
			[]step{{args: []string{"plan", "-input=false"}, code: 1}, do("validate")}},
		"a value of another type": {map[string]string{"main.tf": "variable \"x\" {\n  type = number\n}\n", "x.auto.tfvars": "x = \"one\"\n"},
			[]step{{args: []string{"plan"}, code: 1}}},
		"a failed precondition": {map[string]string{"main.tf": "variable \"n\" {\n  default = 1\n}\n\nresource \"terraform_data\" \"x\" {\n  lifecycle {\n    precondition {\n      condition     = var.n > 2\n      error_message = \"No.\"\n    }\n  }\n}\n"},
			[]step{{args: []string{"plan"}, code: 1}}},
		"no configuration": {map[string]string{"README": ""},
			[]step{{args: []string{"plan"}, code: 1}, {args: []string{"apply"}, code: 1}, do("validate"), {args: []string{"state", "list"}, code: 1}}},
		"not approved": {map[string]string{"main.tf": "resource \"terraform_data\" \"x\" {}\n"},
			[]step{{args: []string{"apply"}, stdin: "no\n", code: 1}}},
		"to be formatted": {map[string]string{"main.tf": "variable \"x\" {\ntype=string\n  default = \"${null}\"\n}\n"},
			[]step{{args: []string{"fmt", "-check", "-diff"}, code: 3}, {args: []string{"fmt", "-"}, stdin: "a=1\n"}, do("fmt"), do("fmt")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, c.files)
			for _, s := range c.steps {
				p.both(s)
			}
		})
	}
}

// planned is the plan in a plan file, without the configuration that lies
// beside it there.
func planned(t *testing.T, path string) string {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	f, err := z.Open("tfplan")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The http backend is configured by its block, the environment, or both; plans
// and states go to and from stock tofu.
func TestStateOnAServerIsSharedWithStockTofu(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	line := exec.Command(world.Program(t), "state", "passwd", "ci")
	line.Stdin = strings.NewReader("hunter2\n")
	b, err := line.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, b, 0o600); err != nil {
		t.Fatal(err)
	}
	server := world.StartStateServer(t, filepath.Join(dir, "states"), "-users="+users)
	address := server.Address + "/shared"
	config := func(input, block string) map[string]string {
		return map[string]string{"main.tf": `terraform {
  backend "http" {
` + block + `
  }
}

resource "terraform_data" "x" {
  input = "` + input + `"
}

output "x" {
  value = terraform_data.x.output
}
`}
	}
	block := `    address        = "` + address + `"
    lock_address   = "` + address + `"
    unlock_address = "` + address + `"
    username       = "ci"
    password       = "hunter2"`
	p := newPair(t, config("one", block))
	must := func(r world.Result, code int, has ...string) world.Result {
		t.Helper()
		text := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(r.Stdout+r.Stderr)), " ")
		for _, h := range has {
			if !strings.Contains(text, h) {
				t.Errorf("does not say %q: %v", h, r)
			}
		}
		if r.Code != code {
			t.Errorf("want exit code %d, got %v", code, r)
		}
		return r
	}
	yuba := func(args ...string) world.Result { return p.run(p.yuba, p.ours, "", args...) }
	tofu := func(args ...string) world.Result { return p.run(p.tofu, p.stock, "", args...) }

	must(tofu("init", "-input=false"), 0)
	must(yuba("apply", "-auto-approve"), 0, "1 added")
	p.initialised = true
	p.both(do("plan", "-detailed-exitcode"))
	p.both(do("state", "pull"))
	p.both(step{args: []string{"workspace", "list"}, code: 1})

	// A plan of one is applied by the other, and has no password in it.
	p.files(config("two", block))
	must(yuba("plan", "-out=two.plan"), 0)
	if plan := planned(t, filepath.Join(p.ours, "two.plan")); !strings.Contains(plan, address) || strings.Contains(plan, "hunter2") {
		t.Errorf("the plan names the state, and no password: %q", plan)
	}
	// Stock tofu takes the backend from the plan; the credentials are its own.
	p.env = append(p.env, "TF_HTTP_USERNAME=ci", "TF_HTTP_PASSWORD=hunter2")
	must(tofu("apply", filepath.Join(p.ours, "two.plan")), 0, "1 changed")
	must(yuba("output", "-raw", "x"), 0, "two")
	p.files(config("three", block))
	must(tofu("plan", "-out=three.plan"), 0)
	must(yuba("apply", filepath.Join(p.stock, "three.plan")), 0, "1 changed")
	must(tofu("output", "-raw", "x"), 0, "three")

	// Only the environment says where.
	p.files(config("four", ""))
	must(yuba("plan"), 1, "TF_HTTP_ADDRESS")
	p.env = append(p.env, "TF_HTTP_ADDRESS="+address, "TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address)
	must(yuba("apply", "-auto-approve"), 0, "1 changed")
	elsewhere := t.TempDir() // without a configuration
	must(p.run(p.yuba, elsewhere, "", "state", "list"), 0, "terraform_data.x")
	must(p.run(p.yuba, elsewhere, "", "-chdir="+p.ours, "output", "-raw", "x"), 0, "four")
	must(p.run(p.yuba, elsewhere, "", "state", "mv", "terraform_data.x", "terraform_data.y"), 0, "Successfully moved 1 object(s).")
	must(yuba("plan", "-detailed-exitcode"), 2, "1 to add, 0 to change, 1 to destroy")
	must(p.run(p.yuba, elsewhere, "", "state", "mv", "terraform_data.y", "terraform_data.x"), 0)

	// Another configuration reads the outputs.
	reader := newPair(t, map[string]string{"main.tf": `data "terraform_remote_state" "http" {
  backend = "http"
  config = {
    address = "` + address + `"
  }
}

data "terraform_remote_state" "file" {
  backend = "local"
  config = {
    path = "${path.module}/other.tfstate"
  }
  defaults = {
    more = "yes"
  }
}

output "all" {
  value = [data.terraform_remote_state.http.outputs, data.terraform_remote_state.file.outputs]
}
`, "other.tfstate": `{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"x","outputs":{"o":{"value":"from a file","type":"string"}},"resources":[],"check_results":null}`})
	reader.env = append(reader.env, "TF_HTTP_USERNAME=ci", "TF_HTTP_PASSWORD=hunter2")
	reader.both(do("validate"))
	reader.both(step{args: []string{"plan"}, unordered: true})
	reader.both(step{args: []string{"apply", "-auto-approve"}, unordered: true})
	reader.both(do("output", "-json"))

	// TF_WORKSPACE names what this backend does not have.
	p.env = append(p.env, "TF_WORKSPACE=other")
	must(yuba("plan"), 1, "workspaces not supported")
}

// What yuba doesn't do it refuses with a sentence that says what it does.
func TestWhatIsNotLinkedIsRefusedInASentence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		args   []string
		says   []string
	}{
		"a backend": {`terraform {
  backend "s3" {}
}`, []string{"plan"}, []string{`There is no backend "s3" in this program`, `"http"`, `"local"`}},
		"a cloud": {`terraform {
  cloud {}
}`, []string{"plan"}, []string{"The cloud block is not supported"}},
		"a module elsewhere": {`module "x" {
  source = "example/x/y"
}`, []string{"plan"}, []string{"registry.opentofu.org/example/x/y", "none is downloaded"}},
		"a module in git": {`module "x" {
  source = "git::https://git.example/x.git"
}`, []string{"validate"}, []string{"go-getter is not linked", "never downloaded"}},
		"a module that isn't there": {`module "x" {
  source = "./none"
}`, []string{"plan"}, []string{"The directory none could not be read"}},
		"a provider":              {`resource "aws_instance" "x" {}`, []string{"plan"}, []string{"registry.opentofu.org/hashicorp/aws", "These are linked", "registry.opentofu.org/hashicorp/random"}},
		"a provider, to validate": {`resource "aws_instance" "x" {}`, []string{"validate"}, []string{"registry.opentofu.org/hashicorp/aws", "These are linked"}},
		"a provider, to look at":  {`resource "aws_instance" "x" {}`, []string{"console"}, []string{"registry.opentofu.org/hashicorp/aws", "These are linked"}},
		"another version of a provider": {`terraform {
  required_providers {
    random = {
      source  = "hashicorp/random"
      version = "~> 99.0"
    }
  }
}`, []string{"plan"}, []string{"registry.opentofu.org/hashicorp/random", "is linked, not ~> 99.0"}},
		"settings of init":      {``, []string{"init", "-backend-config=x=y"}, []string{"TF_HTTP_"}},
		"a choice of workspace": {``, []string{"workspace", "new", "x"}, []string{"TF_WORKSPACE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, map[string]string{"main.tf": c.config + "\n"})
			r := p.run(p.yuba, p.ours, "", c.args...)
			text := strings.Join(strings.Fields(r.Stderr), " ")
			for _, says := range c.says {
				if r.Code != 1 || !strings.Contains(text, says) {
					t.Errorf("does not fail with %q: %v", says, r)
				}
			}
		})
	}
}
