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
	"strings"
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

// mount has the arguments of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
}

// make mounts; what a bind is mounted on is made first, a file or a folder as
// its source is.
func (m mount) make() error {
	if m.flags == syscall.MS_BIND {
		source, err := os.Stat(m.source)
		if err != nil {
			return err
		}
		folder := m.target
		if !source.IsDir() {
			folder = filepath.Dir(m.target)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if !source.IsDir() {
			if err := os.WriteFile(m.target, nil, 0o755); err != nil {
				return err
			}
		}
	}
	return syscall.Mount(m.source, m.target, m.kind, m.flags, "")
}

// enter makes the room in this process's own mount namespace, which goes with
// it, and becomes yuba in it.
func enter(spec string) error {
	runtime.LockOSThread()
	var r room
	if err := json.Unmarshal([]byte(spec), &r); err != nil {
		return err
	}
	mounts := []mount{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"tmpfs", r.Dir, "tmpfs", 0},
		{r.Program, r.Dir + "/yuba", "", syscall.MS_BIND},
	}
	if r.Inputs != "" {
		mounts = append(mounts,
			mount{r.Inputs, r.Dir + "/in", "", syscall.MS_BIND},
			mount{"none", r.Dir + "/in", "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY})
	}
	if r.DevNull {
		mounts = append(mounts, mount{"/dev/null", r.Dir + "/dev/null", "", syscall.MS_BIND})
	}
	mounts = append(mounts, mount{"none", r.Dir, "", syscall.MS_REMOUNT | syscall.MS_RDONLY})
	for _, m := range mounts {
		if err := m.make(); err != nil {
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
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, envRoom+"=") })
	if r.CloseStdin {
		if err := syscall.Close(0); err != nil {
			return err
		}
	}
	return syscall.Exec("/yuba", append([]string{"yuba"}, os.Args[1:]...), env)
}
