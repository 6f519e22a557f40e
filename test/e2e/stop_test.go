package e2e

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// waiting starts an apply whose rollout of web never ends by itself, and
// returns when it waits for it.
func waiting(t *testing.T, w *world.World) (*exec.Cmd, *world.Text) {
	t.Helper()
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	good := w.Get("deployment/web", world.ImagePath)
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: "never-ready"}})
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "1h" })
	var out world.Text
	cmd := w.Command("k8s", "apply", "-auto-approve")
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "rollout of the new image", func() bool {
		return w.Get("deployment/web", world.ImagePath) != good && strings.Contains(out.String(), "web: rolling out (")
	})
	return cmd, &out
}

func TestInterruptedRolloutLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	cmd, out := waiting(t, w)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("an interrupted apply ends with %s:\n%s", cmd.ProcessState, out)
	}
	w.Free()
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "two"}})
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}
