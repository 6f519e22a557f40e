package parity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// vault is a server with the transit secrets engine, whose key "yuba" encrypts
// the data keys of states and plans.
type vault struct{ Address, Token string }

// startVault starts one that ends with the test; nil where there is none to
// start, as in everyday runs.
func startVault(t *testing.T) *vault {
	t.Helper()
	program := os.Getenv("YUBA_TEST_VAULT")
	if program == "" {
		return nil
	}
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the vault said nothing: %v", err)
	}
	v := &vault{}
	if err := json.Unmarshal(line, v); err != nil {
		t.Fatalf("the vault said %q: %v", line, err)
	}
	v.post(t, "sys/mounts/transit", `{"type":"transit"}`)
	v.post(t, "transit/keys/yuba", `{}`)
	return v
}

func (v *vault) post(t *testing.T, path, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, v.Address+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", v.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatal(fmt.Errorf("%s of the vault: %s", path, resp.Status))
	}
}

// env is what leads clients to it.
func (v *vault) env(t *testing.T) []string {
	t.Helper()
	if v == nil {
		t.Fatal("YUBA_TEST_VAULT names no server with the transit engine: run 'make parity'")
	}
	return []string{"BAO_ADDR=" + v.Address, "BAO_TOKEN=" + v.Token}
}
