// Package state runs the built program, and stock tofu beside it, on state
// servers as people have them, and breaks these in every place.
package state

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/stateservers"
	"fediversity.eu/yuba/test/world"
)

const configuration = `terraform {
  backend "http" {
  }
}

variable "n" {
  type    = number
  default = 1
}

resource "terraform_data" "thing" {
  input = "thing ${var.n}"
}

resource "terraform_data" "other" {
  input = terraform_data.thing.output
}

output "thing" {
  value = terraform_data.other.output
}
`

// house is a folder with a configuration, and a state server for it.
type house struct {
	t      testing.TB
	dir    string
	server *stateservers.Broken
	url    string
	env    map[string]string
}

// newHouse starts a server of that kind. Attempts follow each other without a
// pause.
func newHouse(t testing.TB, f stateservers.Flavour) *house {
	t.Helper()
	return start(t, f, "the-password", nil)
}

// start is newHouse with a password and, unless it is nil, TLS.
func start(t testing.TB, f stateservers.Flavour, password string, conf *tls.Config) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), server: &stateservers.Broken{Server: f.New(t, f.Login(password))}}
	ts := httptest.NewUnstartedServer(h.server)
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	if ts.TLS = conf; conf != nil {
		ts.StartTLS()
	} else {
		ts.Start()
	}
	t.Cleanup(ts.Close)
	h.url = ts.URL
	h.env = f.Env(ts.URL, f.Login(password))
	h.env["TF_HTTP_RETRY_WAIT_MIN"], h.env["TF_HTTP_RETRY_WAIT_MAX"] = "0", "0"
	h.env["HOME"], h.env["PATH"], h.env["TF_CLI_ARGS"] = "/nonexistent", os.Getenv("PATH"), "-no-color"
	h.write("main.tf", configuration)
	return h
}

func (h *house) write(name, content string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) run(program string, args ...string) world.Result {
	h.t.Helper()
	return world.Run(h.t, h.command(program, args...))
}

func (h *house) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = h.dir
	for k, v := range h.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// yuba runs yuba, which must end with this exit code; any code is right if it
// is -1.
func (h *house) yuba(code int, args ...string) world.Result {
	h.t.Helper()
	r := h.run(world.Program(h.t), args...)
	if r.Code != code && code != -1 {
		h.t.Fatalf("yuba %q: want exit code %d, got %v", args, code, r)
	}
	return r
}

// tofu is the same with stock tofu.
func (h *house) tofu(code int, args ...string) world.Result {
	h.t.Helper()
	program := os.Getenv("YUBA_TEST_TOFU")
	if program == "" {
		h.t.Fatal("YUBA_TEST_TOFU does not name stock tofu: run 'make faults'")
	}
	r := h.run(program, args...)
	if r.Code != code {
		h.t.Fatalf("tofu %q: want exit code %d, got %v", args, code, r)
	}
	return r
}

// holds fails unless the server's state has the thing with this number; 0 is
// none.
func (h *house) holds(n int) {
	h.t.Helper()
	var s struct {
		Outputs   map[string]struct{ Value string }
		Resources []any
	}
	if err := json.Unmarshal(h.server.State(), &s); err != nil {
		h.t.Fatalf("the server's state: %v: %s", err, h.server.State())
	}
	if n == 0 && len(s.Resources) > 0 || n > 0 && s.Outputs["thing"].Value != fmt.Sprint("thing ", n) {
		h.t.Fatalf("the server's state is not the one of thing %d: %s", n, h.server.State())
	}
}

// free fails if somebody holds the lock.
func (h *house) free() {
	h.t.Helper()
	if id := h.server.Holder(); id != "" {
		h.t.Fatalf("%s still holds the lock", id)
	}
}

// lockBy lets somebody else take the lock. It returns the lock's ID.
func (h *house) lockBy(info string) string {
	h.t.Helper()
	method := h.env["TF_HTTP_LOCK_METHOD"]
	if method == "" {
		method = "LOCK"
	}
	r, err := http.NewRequest(method, h.env["TF_HTTP_LOCK_ADDRESS"], strings.NewReader(info))
	if err != nil {
		h.t.Fatal(err)
	}
	r.SetBasicAuth(h.env["TF_HTTP_USERNAME"], h.env["TF_HTTP_PASSWORD"])
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("locking by hand: %s", resp.Status)
	}
	return h.server.Holder()
}

// says fails unless a command's output has all these texts.
func says(t testing.TB, r world.Result, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(world.Unwrapped(r.Stdout+r.Stderr), text) {
			t.Errorf("it does not say %q: %v", text, r)
		}
	}
}

// replaced replaces what must be there.
func replaced(text, old, new string) string {
	if !strings.Contains(text, old) {
		panic(old + " is not in " + text)
	}
	return strings.ReplaceAll(text, old, new)
}

// group is the first fault of a group.
func group(t testing.TB, name string) stateservers.Fault {
	t.Helper()
	for _, g := range stateservers.Groups() {
		if g.Name == name {
			return g.Faults[0]
		}
	}
	t.Fatalf("there is no fault %q", name)
	return stateservers.Fault{}
}
