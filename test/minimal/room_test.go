// Package minimal holds the tests that yuba runs where nothing is: on a
// read-only root that has its one file and, in one folder, what it is given; as
// uid 65534, without PATH, HOME, /tmp, /etc, /dev, /proc and a terminal. As root.
package minimal

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// room is where a command runs: a root file system of its own.
type room struct {
	Dir     string // where its root is made
	Program string
	// Inputs is the folder that it has as /in, read-only; "" for none.
	Inputs string
	// DevNull is whether there is a /dev/null, CloseStdin whether the standard
	// input is closed.
	DevNull, CloseStdin bool
}

// envRoom tells this test's program, when it starts itself, which room to make
// and enter.
const envRoom = "YUBA_TEST_ROOM"

func TestMain(m *testing.M) {
	if spec := os.Getenv(envRoom); spec != "" {
		fmt.Fprintln(os.Stderr, "room:", enter(spec)) // it returns with an error only
		os.Exit(99)
	}
	os.Exit(m.Run())
}

// command prepares one run of yuba in the room. env is all that it has.
func (r room) command(t *testing.T, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test makes root file systems: run it as root")
	}
	r.Dir, r.Program = t.TempDir(), world.Program(t)
	spec, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = []string{envRoom + "=" + string(spec)}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdin = nil // of exec: /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// enter makes the room in this process's own mount namespace, which goes with
// it, and becomes yuba in it.
func enter(spec string) error {
	runtime.LockOSThread()
	var r room
	if err := json.Unmarshal([]byte(spec), &r); err != nil {
		return err
	}
	mounts := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"tmpfs", r.Dir, "tmpfs", 0},
		{r.Program, r.Dir + "/yuba", "", syscall.MS_BIND},
		{r.Inputs, r.Dir + "/in", "", syscall.MS_BIND},
		{"none", r.Dir + "/in", "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
		{"/dev/null", r.Dir + "/dev/null", "", syscall.MS_BIND},
		{"none", r.Dir, "", syscall.MS_REMOUNT | syscall.MS_RDONLY},
	}
	for i, m := range mounts {
		if r.Inputs == "" && filepath.Base(m.target) == "in" || !r.DevNull && filepath.Base(m.target) == "null" {
			continue
		}
		if i == 2 || filepath.Base(m.target) == "null" {
			if err := os.MkdirAll(filepath.Dir(m.target), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(m.target, nil, 0o755); err != nil {
				return err
			}
		} else if m.source == r.Inputs {
			if err := os.Mkdir(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	if err := syscall.Chroot(r.Dir); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	const nobody = 65534
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return err
	}
	if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return len(e) > len(envRoom) && e[:len(envRoom)+1] == envRoom+"=" })
	if r.CloseStdin {
		if err := syscall.Close(0); err != nil {
			return err
		}
	}
	return syscall.Exec("/yuba", append([]string{"yuba"}, os.Args[1:]...), env)
}
