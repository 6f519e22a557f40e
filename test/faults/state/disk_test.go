package state

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/world"
)

// disk is a small file system on which a state server runs, which starts again
// when it is killed. Both are in namespaces of their own.
type disk struct {
	t       *testing.T
	address string
	root    string // where this process sees it
	cmd     *exec.Cmd
}

// page is what a file takes at least, in bytes.
const page = 4096

func newDisk(t *testing.T, options, limits string) *disk {
	t.Helper()
	dir, listen := t.TempDir(), freeport.Address(t)
	script := `mount -t tmpfs -o ` + options + ` none "$1" || exit
` + limits + `
while :; do "$2" state serve -dir="$1" -listen="$3"; done`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dir, world.Program(t), listen)
	var said world.Text
	cmd.Stdout, cmd.Stderr, cmd.Env = &said, &said, []string{"PATH=" + os.Getenv("PATH")}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// The end of the shell is the end of all.
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: ids, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("state server:\n%s", said.String())
		}
	})
	d := &disk{t: t, address: "http://" + listen, root: fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, dir), cmd: cmd}
	d.up()
	return d
}

// up waits until the server answers.
func (d *disk) up() {
	d.t.Helper()
	world.Eventually(d.t, "state server", func() bool {
		resp, err := http.Get(d.address + "/-/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// restart kills the server.
func (d *disk) restart() {
	d.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(children), &pid); err != nil {
		d.t.Fatalf("the server's process: %q, %v", children, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		d.t.Fatal(err)
	}
	world.Eventually(d.t, "end of the state server", func() bool { return syscall.Kill(pid, 0) != nil })
	d.up()
}

// fill leaves room for so many pages.
func (d *disk) fill(pages int) {
	d.t.Helper()
	path := filepath.Join(d.root, "ballast")
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for err == nil {
		var n int
		n, err = f.Write(make([]byte, page))
		size += int64(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
	if err := f.Truncate(max(0, size-int64(pages)*page)); err != nil {
		d.t.Fatal(err)
	}
}

// crowd leaves room for so many files.
func (d *disk) crowd(files int) {
	d.t.Helper()
	var made []string
	for {
		path := filepath.Join(d.root, fmt.Sprintf("crowd-%d", len(made)))
		f, err := os.Create(path)
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			d.t.Fatal(err)
		}
		f.Close()
		made = append(made, path)
	}
	for _, path := range made[:files] {
		if err := os.Remove(path); err != nil {
			d.t.Fatal(err)
		}
	}
}

// empty makes room again.
func (d *disk) empty() {
	d.t.Helper()
	for _, pattern := range []string{"ballast", "crowd-*"} {
		paths, err := filepath.Glob(filepath.Join(d.root, pattern))
		if err != nil {
			d.t.Fatal(err)
		}
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

// A state server whose disk is full, however full, says so and goes on: what it
// has stays as it is, also when it is killed then, and what the client made is
// in its errored.tfstate.
func TestDiskOfTheStateServerIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		full    func(d *disk, room int)
		rooms   int
	}{
		"no pages": {"size=1m", (*disk).fill, 12},
		"no files": {"size=1m,nr_inodes=40", (*disk).crowd, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, c.options, "")
			o := newOwn(t, d.address)
			o.yuba(0, "apply", "-auto-approve")
			refused, lost := 0, 0
			for room := range c.rooms {
				n := room + 2
				long := strings.Repeat("x", 16<<10)
				o.write("main.tf", replaced(configuration, `"thing ${var.n}"`, `"thing ${var.n} `+long+`"`))
				before := o.stored()
				c.full(d, room)
				r := o.yuba(-1, "apply", "-auto-approve", fmt.Sprintf("-var=n=%d", n))
				if r.Code == 1 {
					refused++
					says(t, r, "507", "disk is full")
					if _, err := os.Stat(filepath.Join(o.dir, "errored.tfstate")); err == nil {
						lost++
					}
				}
				now := o.stored()
				if r.Code == 1 && now != before {
					t.Fatalf("with room for %d, the state was refused, and is another: %v", room, r)
				}
				d.restart()
				if again := o.stored(); again != now {
					t.Fatalf("with room for %d, the state is another after a restart:\n%s\nbefore it was\n%s", room, again, now)
				}
				o.judged(r, n, before, d.empty)
			}
			if refused == 0 || lost == 0 && name != "no files" {
				t.Errorf("of %d applies %d were refused, %d had something to save", c.rooms, refused, lost)
			}
			left, err := filepath.Glob(filepath.Join(d.root, "states", "*", ".tmp-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left over: %v %v", left, err)
			}
		})
	}
}

// A server that may not write so large a file says so, and keeps what it has.
func TestFileSizeLimitOfTheStateServer(t *testing.T) {
	t.Parallel()
	d := newDisk(t, "size=1m", "ulimit -f 20") // 10 KiB
	o := newOwn(t, d.address)
	o.yuba(0, "apply", "-auto-approve")
	before := o.stored()
	o.write("main.tf", replaced(configuration, `"thing ${var.n}"`, `"thing ${var.n} `+strings.Repeat("x", 16<<10)+`"`))
	says(t, o.yuba(1, "apply", "-auto-approve", "-var=n=2"), "507", "is not saved", "yuba state push errored.tfstate")
	if now := o.stored(); now != before {
		t.Errorf("the state was refused, and is another:\n%s\nbefore it was\n%s", now, before)
	}
	if id := o.holder(); id != "" {
		t.Errorf("%s still holds the lock", id)
	}
}
