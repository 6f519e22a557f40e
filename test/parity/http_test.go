package parity

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/stateserver"
)

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
// go to and from stock tofu, without the password.
func TestStateOnAServerIsSharedWithStockTofu(t *testing.T) {
	t.Parallel()
	d := &desk{
		t: t, p: compared(t),
		dir: filepath.Join(t.TempDir(), "work"), env: []string{"HOME=/nonexistent", "PATH=/usr/bin:/bin", "TF_CLI_ARGS=-no-color"},
	}
	passwd := exec.Command(d.p.yuba, "state", "passwd", "ci")
	passwd.Stdin = strings.NewReader("hunter2\n")
	line, err := passwd.Output()
	if err != nil {
		t.Fatal(err)
	}
	d.write(map[string]string{"users": string(line)})
	server := stateserver.Start(t, d.p.yuba, t.TempDir(), "-users="+filepath.Join(d.dir, "users"))
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
	says := func(out string, has ...string) {
		t.Helper()
		text := strings.Join(strings.Fields(out), " ")
		for _, h := range has {
			if !strings.Contains(text, h) {
				t.Errorf("does not say %q: %s", h, out)
			}
		}
	}
	d.write(config("one", block))
	d.must(stock, 0, "init", "-input=false")
	says(d.must(yuba, 0, "apply", "-auto-approve"), "1 added")
	says(d.must(stock, 0, "plan", "-detailed-exitcode"), "No changes.")

	// A plan of one is applied by the other, and has no password in it.
	d.write(config("two", block))
	d.must(yuba, 0, "plan", "-out=two.plan")
	if plan := planned(t, filepath.Join(d.dir, "two.plan")); !strings.Contains(plan, address) || strings.Contains(plan, "hunter2") {
		t.Errorf("the plan names the state, and no password: %q", plan)
	}
	// Stock tofu takes the backend from the plan; the credentials are its own.
	d.env = append(d.env, "TF_HTTP_USERNAME=ci", "TF_HTTP_PASSWORD=hunter2")
	says(d.must(stock, 0, "apply", "two.plan"), "1 changed")
	says(d.must(yuba, 0, "output", "-raw", "x"), "two")
	d.write(config("three", block))
	d.must(stock, 0, "plan", "-out=three.plan")
	says(d.must(yuba, 0, "apply", "three.plan"), "1 changed")
	says(d.must(stock, 0, "output", "-raw", "x"), "three")

	// Only the environment says where.
	d.write(config("four", ""))
	if err := os.RemoveAll(filepath.Join(d.dir, ".terraform")); err != nil {
		t.Fatal(err)
	}
	says(d.must(yuba, 1, "plan"), "TF_HTTP_ADDRESS")
	d.env = append(d.env, "TF_HTTP_ADDRESS="+address, "TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address)
	says(d.must(yuba, 0, "apply", "-auto-approve"), "1 changed")
	elsewhere := *d // without a configuration
	elsewhere.dir = t.TempDir()
	says(elsewhere.must(yuba, 0, "state", "list"), "terraform_data.x")
	says(elsewhere.must(yuba, 0, "-chdir="+d.dir, "output", "-raw", "x"), "four")
	says(elsewhere.must(yuba, 0, "state", "mv", "terraform_data.x", "terraform_data.y"), "Successfully moved 1 object(s).")
	says(d.must(yuba, 2, "plan", "-detailed-exitcode"), "1 to add, 0 to change, 1 to destroy")
	elsewhere.must(yuba, 0, "state", "mv", "terraform_data.y", "terraform_data.x")

	// Another configuration reads the outputs.
	elsewhere.dir = t.TempDir()
	elsewhere.write(map[string]string{"main.tf": `data "terraform_remote_state" "http" {
  backend = "http"
  config = {
    address = "` + address + `"
  }
}

output "x" {
  value = data.terraform_remote_state.http.outputs.x
}
`})
	for _, x := range []tool{stock, yuba} {
		elsewhere.must(x, 0, "apply", "-auto-approve")
		says(elsewhere.must(x, 0, "output", "-raw", "x"), "four")
	}

	// TF_WORKSPACE names what this backend does not have.
	d.env = append(d.env, "TF_WORKSPACE=other")
	says(d.must(yuba, 1, "plan"), "workspaces not supported")
}
