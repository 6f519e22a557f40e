package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Stock is stock tofu in a folder that holds the world's exported graph, with
// yuba's providers as its plugins.
type Stock struct {
	w            *World
	tofu, config string
	Dir          string // of the graph
}

// Stock exports the group's graph and prepares stock tofu for it.
func (w *World) Stock() *Stock {
	w.t.Helper()
	s := w.stockIn(filepath.Join(w.Dir, "graph"))
	s.Export()
	s.Must(0, "init", "-input=false")
	return s
}

// StockIn prepares stock tofu for any configuration in a folder.
func (w *World) StockIn(dir string) *Stock {
	w.t.Helper()
	s := w.stockIn(dir)
	s.Must(0, "init", "-input=false")
	return s
}

func (w *World) stockIn(dir string) *Stock {
	w.t.Helper()
	s := &Stock{w: w, tofu: stockTofu(w.t), config: filepath.Join(w.Dir, "tofu.rc"), Dir: dir}
	mirror := filepath.Join(w.Dir, "mirror")
	w.Must(0, "providers", "mirror", mirror)
	rc := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if err := os.WriteFile(s.config, []byte(rc), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Export writes the group's graph anew.
func (s *Stock) Export() {
	s.w.t.Helper()
	s.w.Must(0, "k8s", "export", s.Dir)
}

// Command prepares one run of stock tofu.
func (s *Stock) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.tofu, args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{
		"TF_CLI_CONFIG_FILE=" + s.config,
		// Stock tofu locks only where it is told to.
		"TF_HTTP_LOCK_ADDRESS=" + s.w.State, "TF_HTTP_UNLOCK_ADDRESS=" + s.w.State,
	}
	for k, v := range s.w.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// Must runs a command of stock tofu that has to end with this exit code.
func (s *Stock) Must(code int, args ...string) Result {
	s.w.t.Helper()
	r := Run(s.w.t, s.Command(args...))
	if r.Code != code {
		s.w.t.Fatalf("tofu %q: want exit code %d, got %v", args, code, r)
	}
	return r
}

// stockTofu is the stock tofu that the tests compare with.
func stockTofu(t testing.TB) string {
	t.Helper()
	p := os.Getenv("YUBA_TEST_TOFU")
	if p == "" {
		t.Fatal("YUBA_TEST_TOFU does not name stock tofu: run 'make test'")
	}
	return p
}
