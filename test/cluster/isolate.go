package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
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
// mounts, network, processes, names and cgroups end with the command, however
// it ends.
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

func isolated(command []string) (int, error) {
	group, err := ownCgroup()
	if err != nil {
		return 0, err
	}
	defer group.leave()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, append([]string{"isolated"}, command...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
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

// cgroup is a directory in the cgroup2 hierarchy and the process's way back.
type cgroup struct{ dir, before string }

// ownCgroup moves this process into a cgroup of its own, which becomes the root
// of its child's cgroup namespace.
func ownCgroup() (*cgroup, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own := ""
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	before := filepath.Join(mount, own)
	// Of runs that were killed: the kernel refuses to remove one in use.
	stale, err := filepath.Glob(filepath.Join(before, "kubelab-*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range stale {
		removeCgroup(dir)
	}
	dir, err := os.MkdirTemp(before, "kubelab-")
	if err != nil {
		return nil, fmt.Errorf("a cgroup: %w", err)
	}
	g := &cgroup{dir, before}
	if err := join(dir); err != nil {
		g.leave()
		return nil, err
	}
	return g, nil
}

func (g *cgroup) leave() {
	_ = join(g.before)
	removeCgroup(g.dir)
}

func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// removeCgroup removes a cgroup and what is in it, if no process is.
func removeCgroup(dir string) {
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for i := range all {
		_ = os.Remove(all[len(all)-1-i])
	}
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
