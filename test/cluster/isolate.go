package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nodeIP is the address of the real node in its network namespace.
const nodeIP = "10.199.0.2"

// tunables are what the kubelet would set on its host. They belong to no
// namespace, so it finds them set: files in place of the kernel's own.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// isolate runs a command in namespaces of its own, in which a real node can be
// started (kubelab up -runtime) and nothing that it does reaches the machine:
// mounts, network, processes, names, cgroups and the folder for temporary files
// end with the command, however it ends.
func isolate() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubelab isolate COMMAND...   (as root)")
		os.Exit(2)
	}
	runtime.LockOSThread() // the kernel kills the child when this thread ends
	status, err := isolated(os.Args[1:])
	if err != nil {
		fail(err)
	}
	os.Exit(status)
}

func isolated(command []string) (status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	traces, err := leaveTraces(self)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := traces.remove(); err == nil {
			err = e
		}
	}()
	cmd := exec.Command(self, append([]string{"isolated"}, command...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+traces.temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL, // and with PID 1 all of its namespace
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-done:
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code, nil
			}
			return 1, nil
		}
	}
}

// traces are what a run leaves on the machine while it lasts.
type traces struct {
	before string // directory of the cgroup that this process comes from
	cgroup string // directory of its own one, the root of its child's namespace
	temp   string // for temporary files; its name is the cgroup's

	sweeper *exec.Cmd
	alive   io.Closer // the sweeper waits for its end
}

// leaveTraces moves this process into a cgroup of its own and makes a folder for
// temporary files. Another process, which no signal to this one's group reaches,
// removes both when this one is gone.
func leaveTraces(self string) (*traces, error) {
	before, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	// Of runs that were killed with their sweepers, and not of those that run.
	stale, err := filepath.Glob(filepath.Join(before, "kubelab-*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range stale {
		if used, err := populated(dir); err == nil && !used && removeCgroup(dir) == nil {
			temp := filepath.Join(os.TempDir(), filepath.Base(dir))
			fmt.Fprintf(os.Stderr, "kubelab: removed what a killed run has left: %s, %s\n", dir, temp)
			_ = os.RemoveAll(temp)
		}
	}
	t := &traces{before: before}
	if t.cgroup, err = os.MkdirTemp(before, "kubelab-"); err != nil {
		return nil, fmt.Errorf("a cgroup: %w", err)
	}
	t.temp = filepath.Join(os.TempDir(), filepath.Base(t.cgroup))
	err = join(t.cgroup)
	if err == nil {
		err = os.Mkdir(t.temp, 0o700)
	}
	if err == nil {
		err = t.startSweeper(self)
	}
	if err != nil {
		return nil, errors.Join(err, join(before), sweepUp(t.cgroup, t.temp))
	}
	return t, nil
}

func (t *traces) startSweeper(self string) error {
	home, err := os.Open(t.before)
	if err != nil {
		return err
	}
	defer home.Close()
	t.sweeper = exec.Command(self, "sweep", t.cgroup, t.temp)
	t.sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(home.Fd())}
	if t.alive, err = t.sweeper.StdinPipe(); err != nil {
		return err
	}
	return t.sweeper.Start()
}

// remove has the sweeper do its work now.
func (t *traces) remove() error {
	if err := join(t.before); err != nil {
		return err
	}
	t.alive.Close()
	if err := t.sweeper.Wait(); err != nil {
		return fmt.Errorf("what this run leaves could not be removed: %s, %s: %w", t.cgroup, t.temp, err)
	}
	return nil
}

// sweep waits until standard input ends, as it does with the process at its
// other end, and removes what that one leaves.
func sweep() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := sweepUp(os.Args[1], os.Args[2]); err != nil {
		fail(err)
	}
}

// sweepUp ends all processes of a cgroup and removes it and a folder.
func sweepUp(cgroup, temp string) error {
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0); err != nil {
		return err
	}
	events, err := os.Open(filepath.Join(cgroup, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	// The kernel tells of each change since the file was read; cgroups(7).
	changes := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
	for {
		data := make([]byte, 4096)
		n, err := events.ReadAt(data, 0)
		if err != nil && err != io.EOF {
			return err
		}
		if !bytes.Contains(data[:n], []byte(hasProcesses)) {
			break
		}
		if _, err := unix.Poll(changes, -1); err != nil && err != unix.EINTR {
			return err
		}
	}
	return errors.Join(os.RemoveAll(temp), removeCgroup(cgroup))
}

// hasProcesses is what cgroup.events says while a process is in the cgroup or below.
const hasProcesses = "populated 1"

func populated(cgroup string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(cgroup, "cgroup.events"))
	return bytes.Contains(data, []byte(hasProcesses)), err
}

// ownCgroup is the directory of this process's cgroup.
func ownCgroup() (string, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(mount, path), nil
		}
	}
	return "", errors.New("this process has no cgroup of version 2")
}

func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// removeCgroup removes a cgroup and what is in it, if no process is.
func removeCgroup(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, d := range slices.Backward(all) {
		err = errors.Join(err, unix.Rmdir(d))
	}
	return err
}

func cgroup2Mount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, super, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); strings.HasPrefix(super, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	return "", errors.New("no cgroup2 file system is mounted")
}

// isolatedInit is PID 1 of the namespaces.
func isolatedInit() {
	if os.Getpid() != 1 {
		fail(errors.New("isolated is started by isolate"))
	}
	if err := errors.Join(isolateMounts(), isolateNetwork(), unix.Sethostname([]byte("node-1"))); err != nil {
		fail(err)
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		fail(err)
	}
	child, err := syscall.ForkExec(path, os.Args[1:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		fail(fmt.Errorf("%s: %w", path, err))
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = syscall.Kill(child, s.(syscall.Signal))
		}
	}()
	for { // orphans, too, are this process's to collect
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			fail(err)
		case pid == child && status.Signaled():
			os.Exit(128 + int(status.Signal()))
		case pid == child:
			os.Exit(status.ExitStatus())
		}
	}
}

// isolateMounts gives the node a /proc, a /run, a /var and a cgroup hierarchy.
// Writes to /var land on a tmpfs.
func isolateMounts() error {
	for _, m := range []struct {
		source, target, fstype string
		flags                  uintptr
		data                   string
	}{
		{target: "/", flags: unix.MS_REC | unix.MS_PRIVATE},
		// The kubelet's mounts must reach the runtime and its pods.
		{target: "/", flags: unix.MS_REC | unix.MS_SHARED},
		{"proc", "/proc", "proc", 0, ""},
		// It covers the machine's tree here, whatever that is.
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""},
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		{"tmpfs", "/mnt", "tmpfs", 0, "mode=755"},
		// A pod with a user namespace may mount its own /proc only where one is
		// visible as a whole (mount_namespaces(7)); tunables cover parts of the other.
		{"proc", "/mnt/proc", "proc", 0, ""},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, dir := range []string{"/run/lock", "/run/netns", "/mnt/upper", "/mnt/work", "/mnt/sys", "/sys/fs/cgroup/init"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", "/var", "overlay", 0, "lowerdir=/var,upperdir=/mnt/upper,workdir=/mnt/work"); err != nil {
		return fmt.Errorf("mount /var: %w", err)
	}
	// Pods mount what is in here with other owners, which overlayfs can't.
	const kubelet = "/var/lib/kubelet"
	if err := os.MkdirAll(kubelet, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", kubelet, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", kubelet, err)
	}
	for name, value := range tunables {
		file := filepath.Join("/mnt/sys", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount /proc/sys/%s: %w", name, err)
		}
	}
	// The root of the hierarchy holds no process, so that it can have children.
	return join("/sys/fs/cgroup/init")
}

// isolateNetwork makes a network without a way out: loopback, and the node's
// address on an interface that drops all that leaves it.
func isolateNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	uplink := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}} // without ports
	if err := netlink.LinkAdd(uplink); err != nil {
		return fmt.Errorf("interface uplink: %w", err)
	}
	address, err := netlink.ParseAddr(nodeIP + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(uplink, address); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(uplink); err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: uplink.Attrs().Index, Gw: net.ParseIP("10.199.0.1")}); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	for name, value := range map[string]string{"ipv4/ip_forward": "1", "bridge/bridge-nf-call-iptables": "1"} {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}
