package e2e

import (
	"testing"
)

// configurations are what stock tofu and yuba are compared on, one language
// feature each. A second version of the files, if there is one, is applied on
// top of the first.
var configurations = map[string]struct {
	files, then map[string]string
	// fails is the exit code of the first plan, where that is not 0.
	fails int
}{
	"moved": {
		files: map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n"},
		then:  map[string]string{"main.tf": "resource \"terraform_data\" \"b\" {\n  input = 1\n}\nmoved {\n  from = terraform_data.a\n  to   = terraform_data.b\n}\n"},
	},
	"removed": {
		files: map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {}\n"},
		then:  map[string]string{"main.tf": "removed {\n  from = terraform_data.a\n  lifecycle {\n    destroy = false\n  }\n}\n"},
	},
	"import block": {
		files: map[string]string{"main.tf": "import {\n  to = terraform_data.a\n  id = \"known\"\n}\nresource \"terraform_data\" \"a\" {}\n"},
	},
	"for_each of modules": {
		files: map[string]string{
			"main.tf":   "module \"m\" {\n  for_each = toset([\"x\", \"y\"])\n  source   = \"./m\"\n  name     = each.key\n}\noutput \"all\" {\n  value = { for k, m in module.m : k => m.name }\n}\n",
			"m/main.tf": "variable \"name\" {}\nresource \"terraform_data\" \"t\" {\n  input = var.name\n}\noutput \"name\" {\n  value = terraform_data.t.output\n}\n",
		},
	},
	"count that shrinks": {
		files: map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  count = 3\n  input = count.index\n}\n"},
		then:  map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  count = 1\n  input = count.index\n}\n"},
	},
	"replacement": {
		files: map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  triggers_replace = 1\n  lifecycle {\n    create_before_destroy = true\n  }\n}\nresource \"terraform_data\" \"b\" {\n  lifecycle {\n    replace_triggered_by = [terraform_data.a]\n  }\n}\n"},
		then:  map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  triggers_replace = 2\n  lifecycle {\n    create_before_destroy = true\n  }\n}\nresource \"terraform_data\" \"b\" {\n  lifecycle {\n    replace_triggered_by = [terraform_data.a]\n  }\n}\n"},
	},
	"a check that fails": {
		files: map[string]string{"main.tf": "resource \"terraform_data\" \"a\" {\n  input = 1\n}\ncheck \"c\" {\n  assert {\n    condition     = terraform_data.a.output == 2\n    error_message = \"It is ${terraform_data.a.output}.\"\n  }\n}\n"},
	},
	"sensitive values": {
		files: map[string]string{"main.tf": "variable \"s\" {\n  sensitive = true\n  default   = \"hush\"\n}\nresource \"terraform_data\" \"a\" {\n  input = { s = var.s, open = nonsensitive(\"x\") }\n}\noutput \"s\" {\n  value     = terraform_data.a.output\n  sensitive = true\n}\n"},
	},
	"functions of a provider": {
		files: map[string]string{"main.tf": "terraform {\n  required_providers {\n    terraform = {\n      source = \"terraform.io/builtin/terraform\"\n    }\n  }\n}\noutput \"v\" {\n  value = provider::terraform::encode_tfvars({ a = 1, b = [\"x\"] })\n}\noutput \"d\" {\n  value = provider::terraform::decode_tfvars(\"a = 1\")\n}\n"},
	},
	"deprecated output of a module": {
		files: map[string]string{
			"main.tf":   "module \"m\" {\n  source = \"./m\"\n}\noutput \"o\" {\n  value = module.m.old\n}\n",
			"m/main.tf": "output \"old\" {\n  value      = 1\n  deprecated = \"Use the new one.\"\n}\n",
		},
	},
	"a resource that is off": {
		files: map[string]string{"main.tf": "variable \"on\" {\n  default = false\n}\nresource \"terraform_data\" \"a\" {\n  lifecycle {\n    enabled = var.on\n  }\n}\n"},
		then:  map[string]string{"terraform.tfvars": "on = true\n"},
	},
}

// What stock tofu makes of a configuration yuba makes of it, too.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range configurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, c.files)
			p.plans(c.fails)
			if c.fails != 0 {
				return
			}
			p.both(step{args: []string{"apply", "-auto-approve"}, unordered: true})
			p.share("terraform.tfstate")
			if c.then != nil {
				p.files(c.then)
				p.plans(0)
				p.both(step{args: []string{"apply", "-auto-approve"}, unordered: true})
				p.share("terraform.tfstate")
			}
			p.both(step{args: []string{"plan", "-detailed-exitcode"}, unordered: true})
			p.both(do("show", "-json"))
			p.both(step{args: []string{"destroy", "-auto-approve"}, unordered: true})
		})
	}
}

// plans compares a plan in all its forms.
func (p *pair) plans(code int) {
	p.t.Helper()
	p.both(step{args: []string{"validate", "-json"}})
	p.both(step{args: []string{"plan", "-json"}, code: code, unordered: true})
	p.both(step{args: []string{"plan", "-out=tofu.plan"}, code: code, unordered: true})
	if code == 0 {
		p.both(do("show", "tofu.plan"))
		p.both(do("show", "-json", "tofu.plan"))
	}
}
