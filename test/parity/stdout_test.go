package parity

import (
	"os"
	"strings"
	"testing"
)

// Results that don't reach anybody are an error, which stock tofu doesn't
// notice; and the order of lines on one stream is stock tofu's.
func TestResultsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	d := &desk{t: t, p: compared(t), dir: t.TempDir(), env: []string{"HOME=/nonexistent"}}
	d.write(map[string]string{"main.tf": `variable "undeclared" {
  default = 1
}
output "o" {
  value = "text"
}
check "c" {
  assert {
    condition     = var.undeclared == 2
    error_message = "It is not 2."
  }
}
`})
	d.must(yuba, 0, "apply", "-auto-approve", "-no-color")
	for _, args := range [][]string{{"output"}, {"output", "-json"}, {"show", "-json"}, {"state", "pull"}, {"plan"}, {"version"}, {"providers", "schema", "-json"}, {"output", "-h"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		cmd := d.command(yuba, args...)
		cmd.Stdout, cmd.Stderr = full, &told
		_ = cmd.Run() // whose exit code is looked at
		full.Close()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(told.String(), "no space left on device") {
			t.Errorf("%q on a full disk: exit code %d, %s", args, code, told.String())
		}
	}
	if a, b := d.must(stock, 0, "plan", "-no-color"), d.must(yuba, 0, "plan", "-no-color"); a != b {
		t.Errorf("on one stream: -stock tofu +yuba\n%s", difference(strings.Split(a, "\n"), strings.Split(b, "\n")))
	}
}
