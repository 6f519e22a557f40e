// Package nixstore gives a test a Nix store of its own. It needs Debian's
// nix-bin and root, and neither a daemon nor a network.
package nixstore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Store is a Nix store that ends with its test.
type Store struct {
	// Dir holds all of it; Env leads Nix, and what starts Nix, to it.
	Dir string
	Env map[string]string
}

// New makes a store. Nothing is substituted, and nothing built in a sandbox.
func New(t testing.TB) *Store {
	t.Helper()
	dir := t.TempDir()
	s := &Store{dir, map[string]string{
		"PATH":          os.Getenv("PATH"),
		"HOME":          dir,
		"NIX_STORE_DIR": dir + "/store", "NIX_STATE_DIR": dir + "/var", "NIX_LOG_DIR": dir + "/log", "NIX_CONF_DIR": dir + "/etc",
		"NIX_REMOTE": "local",
		"NIX_CONFIG": "build-users-group =\nsandbox = false\nsubstituters =\nextra-experimental-features = nix-command flakes\n",
	}}
	// What is in a store can't be written to, also not by the test's end.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	return s
}

// Run runs a command of Nix on the store to its end and returns what it printed.
func (s *Store) Run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := s.Try(program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Try is Run for a command that may fail; the error has what it said.
func (s *Store) Try(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	for k, v := range s.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// Derivation puts a derivation into the store that runs a shell script, and
// returns its path; it isn't built.
func (s *Store) Derivation(t testing.TB, name, script string) string {
	t.Helper()
	expr := fmt.Sprintf(`derivation { name = %q; system = builtins.currentSystem; builder = "/bin/sh"; args = [ "-c" %s ]; }`,
		name, "''"+strings.ReplaceAll(script, "''", "'''")+"''")
	return s.Run(t, "nix-instantiate", "--expr", expr)
}
