package parity

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// desk is a folder in which both programs work on one state. Stock tofu has
// what "yuba providers mirror" makes.
type desk struct {
	t   *testing.T
	p   programs
	dir string
	env []string
}

// newDesk writes the files; with http, the state is on a server.
func newDesk(t *testing.T, p programs, http bool, files map[string]string) *desk {
	t.Helper()
	d := &desk{t: t, p: p, dir: t.TempDir()}
	mirror, rc := filepath.Join(d.dir, "mirror"), filepath.Join(d.dir, "tofu.rc")
	if out, err := exec.Command(p.yuba, "providers", "mirror", mirror).CombinedOutput(); err != nil {
		t.Fatalf("providers mirror: %v: %s", err, out)
	}
	d.dir = filepath.Join(d.dir, "work")
	d.env = []string{"TF_CLI_CONFIG_FILE=" + rc, "HOME=/nonexistent", "PATH=/usr/bin:/bin"}
	configure(t, rc, mirror)
	if http {
		address := p.states + "/" + filepath.Base(filepath.Dir(filepath.Dir(d.dir)))
		d.env = append(d.env, "TF_HTTP_ADDRESS="+address, "TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address)
		files["backend.tf"] = "terraform {\n  backend \"http\" {}\n}\n"
	}
	d.write(files)
	d.must(stock, 0, "init", "-input=false")
	return d
}

func (d *desk) write(files map[string]string) {
	d.t.Helper()
	for name, content := range files {
		path := filepath.Join(d.dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *desk) command(x tool, args ...string) *exec.Cmd {
	cmd := exec.Command(map[tool]string{stock: d.p.tofu, yuba: d.p.yuba}[x], args...)
	cmd.Dir, cmd.Env = d.dir, slices.Clone(d.env)
	return cmd
}

// must runs a command that has to end with this exit code, and returns all that
// it printed.
func (d *desk) must(x tool, code int, args ...string) string {
	d.t.Helper()
	cmd := d.command(x, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		d.t.Fatalf("%s %q: exit code %d, want %d\n%s", x, args, got, code, out)
	}
	return string(out)
}

// both are the two backends.
var both = map[string]bool{"local": false, "http": true}

// plugins holds stock tofu with yuba's providers to going on where yuba
// stopped, and back: nothing to do for what the other made, a change of it, its
// end.
func plugins(t *testing.T, p programs) {
	for name, http := range both {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, p, http, map[string]string{"main.tf": everyType, "set.auto.tfvars": `version = "one"`})
			for i, first := range []tool{yuba, stock} {
				second := stock
				if first == stock {
					second = yuba
				}
				d.write(map[string]string{"set.auto.tfvars": fmt.Sprintf("turn = %q\n", fmt.Sprint("one ", i))})
				d.must(first, 0, "apply", "-auto-approve", "-no-color")
				if out := d.must(second, 0, "plan", "-detailed-exitcode", "-no-color"); !strings.Contains(out, "No changes.") {
					t.Errorf("%s finds to do what %s has done: %s", second, first, out)
				}
				d.write(map[string]string{"set.auto.tfvars": fmt.Sprintf("turn = %q\n", fmt.Sprint("two ", i))})
				d.must(first, 2, "plan", "-detailed-exitcode", "-no-color")
				d.must(second, 0, "apply", "-auto-approve", "-no-color")
				d.must(first, 0, "plan", "-detailed-exitcode", "-no-color")
				if a, b := d.must(first, 0, "output", "-json"), d.must(second, 0, "output", "-json"); a != b {
					t.Errorf("outputs of %s and %s differ:\n%s\n%s", first, second, a, b)
				}
				d.must(first, 0, "destroy", "-auto-approve", "-no-color")
				if left := d.must(second, 0, "state", "list"); left != "" {
					t.Errorf("after the destroy by %s, %s has %s", first, second, left)
				}
			}
		})
	}
}

// everyType has each type of the providers that need no server.
const everyType = `
variable "turn" {
  type = string
}

resource "random_bytes" "x" {
  length  = 4
  keepers = { turn = var.turn }
}
resource "random_id" "x" {
  byte_length = 4
  prefix      = "id-"
  keepers     = { turn = var.turn }
}
resource "random_integer" "x" {
  min     = 1
  max     = 9
  keepers = { turn = var.turn }
}
resource "random_password" "x" {
  length  = 9
  keepers = { turn = var.turn }
}
resource "random_pet" "x" {
  length  = 3
  keepers = { turn = var.turn }
}
resource "random_shuffle" "x" {
  input   = ["a", "b", "c"]
  keepers = { turn = var.turn }
}
resource "random_string" "x" {
  length    = 9
  min_upper = 2
  keepers   = { turn = var.turn }
}
resource "random_uuid" "x" {
  keepers = { turn = var.turn }
}
resource "null_resource" "x" {
  triggers = { turn = var.turn }
  provisioner "local-exec" {
    command = "true"
  }
}
resource "local_file" "x" {
  filename = "file.txt"
  content  = "${random_pet.x.id} ${var.turn}"
}
resource "local_sensitive_file" "x" {
  filename        = "secret.txt"
  content_base64  = base64encode(random_password.x.result)
  file_permission = "0600"
}
resource "terraform_data" "x" {
  input            = { list = [random_bytes.x.hex], id = random_id.x.hex }
  triggers_replace = [random_uuid.x.result]
}
data "local_file" "x" {
  filename = local_file.x.filename
}
data "local_sensitive_file" "x" {
  filename = local_sensitive_file.x.filename
}
data "null_data_source" "x" {
  inputs = { turn = var.turn }
}
data "external" "x" {
  program = ["sh", "-c", "cat"]
  query   = { turn = var.turn }
}
output "all" {
  sensitive = true
  value = [random_bytes.x, random_id.x, random_integer.x, random_password.x, random_pet.x, random_shuffle.x, random_string.x, random_uuid.x,
    null_resource.x, local_file.x, local_sensitive_file.x, terraform_data.x,
  data.local_file.x, data.local_sensitive_file.x, data.null_data_source.x.outputs, data.external.x.result]
}
`

// locks holds each program to keeping away from a state that the other one
// works on, and to telling who does.
func locks(t *testing.T, p programs) {
	for name, http := range both {
		for _, holder := range []tool{stock, yuba} {
			t.Run(name+" held by "+holder.String(), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t, p, http, map[string]string{"main.tf": `resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = "echo it holds; cat fifo"
  }
}
`})
				fifo := filepath.Join(d.dir, "fifo")
				if err := syscall.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := d.command(holder, "apply", "-auto-approve", "-no-color")
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				var told bytes.Buffer
				cmd.Stderr = &told
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				for lines.Scan() && !strings.HasSuffix(lines.Text(), ": it holds") {
				}
				if lines.Err() != nil || !strings.HasSuffix(lines.Text(), ": it holds") {
					t.Fatalf("the apply ends before it begins: %s", told.String())
				}
				other := yuba
				if holder == yuba {
					other = stock
				}
				refused := d.must(other, 1, "plan", "-no-color")
				for _, says := range []string{"Error acquiring the state lock", "OperationTypeApply"} {
					if !strings.Contains(refused, says) {
						t.Errorf("%s doesn't say %q: %s", other, says, refused)
					}
				}
				w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				w.Close()
				for lines.Scan() {
				}
				if err := cmd.Wait(); err != nil {
					t.Fatalf("the apply of %s: %v: %s", holder, err, told.String())
				}
				d.must(other, 0, "plan", "-detailed-exitcode", "-no-color")
			})
		}
	}
}

// staticKeys holds yuba to a way out of the key provider that stock tofu doesn't
// have: a program that gives the same key.
func staticKeys(t *testing.T, p programs) {
	const shared = `
    method "aes_gcm" "m" {
      keys = key_provider.%[1]s.k
    }
    state {
      method   = method.aes_gcm.m
      enforced = true
    }
  }
}
resource "terraform_data" "x" {
  input = "one"
}
`
	const static = `terraform {
  encryption {
    key_provider "static" "k" {
      key                      = "6f6f706830656967686f6834616872756f3751756165686565796f6f72653169"
      encrypted_metadata_alias = "way-out"
    }` + shared
	const external = `terraform {
  encryption {
    key_provider "external" "k" {
      command                  = ["sh", "key.sh"]
      encrypted_metadata_alias = "way-out"
    }` + shared
	const key = `cat >/dev/null
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
k=b29waDBlaWdob2g0YWhydW83UXVhZWhlZXlvb3JlMWk=
echo '{"keys":{"encryption_key":"'$k'","decryption_key":"'$k'"},"meta":{"external_data":{}}}'
`
	d := newDesk(t, p, false, map[string]string{"other/main.tf": "", "key.sh": key})
	d.write(map[string]string{"main.tf": fmt.Sprintf(static, "static")})
	d.must(yuba, 0, "apply", "-auto-approve", "-no-color")
	state, err := os.ReadFile(filepath.Join(d.dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(state, []byte("encrypted_data")) || bytes.Contains(state, []byte("terraform_data")) {
		t.Errorf("the state isn't encrypted: %s", state)
	}
	d.write(map[string]string{"main.tf": fmt.Sprintf(external, "external")})
	d.must(stock, 0, "plan", "-detailed-exitcode", "-no-color")
	d.must(stock, 0, "apply", "-auto-approve", "-no-color", "-replace=terraform_data.x")
	d.must(yuba, 0, "plan", "-detailed-exitcode", "-no-color")
}
