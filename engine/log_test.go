package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TF_LOG is read when the process starts, so each case is a process.
func TestLog(t *testing.T) {
	if os.Getenv("ENGINE_TEST_LOG") != "" {
		b := newBench(t)
		b.ok(b.apply(one))
		return
	}
	for name, c := range map[string]struct {
		env          []string
		core, traced bool
	}{
		"quiet":         {nil, false, false},
		"all":           {[]string{"TF_LOG=trace"}, true, true},
		"info":          {[]string{"TF_LOG=info"}, true, false},
		"core only":     {[]string{"TF_LOG_CORE=trace"}, true, false},
		"provider only": {[]string{"TF_LOG_PROVIDER=trace"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			cmd := exec.Command(os.Args[0], "-test.run=^TestLog$")
			cmd.Env = append(os.Environ(), append(c.env, "ENGINE_TEST_LOG=1", "TF_LOG_PATH="+path)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(log), "backend/local: starting Apply operation"); got != c.core {
				t.Errorf("core logs: %v\n%.2000s", got, log)
			}
			if got := strings.Contains(string(log), "provider.lab: making a thing"); got != c.traced {
				t.Errorf("the provider logs: %v\n%.2000s", got, log)
			}
		})
	}
}
