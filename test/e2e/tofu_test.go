package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

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
		"a verb":                {``, []string{"test"}, []string{"test files are not read"}},
		"to look for versions":  {``, []string{"providers", "lock"}, []string{"nothing to lock"}},
		"init with a provider":  {`resource "aws_instance" "x" {}`, []string{"init"}, []string{"registry.opentofu.org/hashicorp/aws", "These are linked"}},
		"init with a backend":   {"terraform {\n  backend \"s3\" {}\n}", []string{"init"}, []string{`There is no backend "s3" in this program`}},
		"settings of init":      {``, []string{"init", "-backend-config=x=y"}, []string{"TF_HTTP_"}},
		"a choice of workspace": {``, []string{"workspace", "new", "x"}, []string{"TF_WORKSPACE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(world.Program(t), c.args...)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=/nonexistent"}
			if err := os.WriteFile(filepath.Join(cmd.Dir, "main.tf"), []byte(c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := world.Run(t, cmd)
			text := world.Unwrapped(r.Stderr)
			for _, says := range c.says {
				if r.Code != 1 || !strings.Contains(text, says) {
					t.Errorf("does not fail with %q: %v", says, r)
				}
			}
		})
	}
}
