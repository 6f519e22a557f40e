// Package machine holds the test that a node, which runs in namespaces of its
// own, leaves the machine as it was. It runs outside of them, as root.
package machine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/lab"
)

// inside is set for the process that runs beside the node.
const inside = "YUBA_TEST_INSIDE"

func TestMain(m *testing.M) {
	if how := os.Getenv(inside); how != "" {
		if err := besideTheNode(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// besideTheNode starts a pod, so that there are all the mounts, interfaces and
// cgroups of one, and says so. Then it returns, or waits to be killed.
func besideTheNode(how string) error {
	dir := os.Getenv("YUBA_TEST_LAB")
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return err
	}
	var info struct{ Registry string }
	if err := json.Unmarshal(data, &info); err != nil {
		return err
	}
	kubectl := func(stdin string, args ...string) error {
		cmd := exec.Command(os.Getenv("YUBA_TEST_KUBELAB"), append([]string{"kubectl", "--kubeconfig=" + filepath.Join(dir, "kubeconfig")}, args...)...)
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), os.Stderr
		return cmd.Run()
	}
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {
		"runtimeClassName": "systemd", "hostUsers": false, "automountServiceAccountToken": false,
		"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
		"containers": [{"name": "c", "image": "` + info.Registry + `/yuba.test/pause:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}`
	for range 100 { // the service account comes a moment after its namespace
		if err = kubectl(pod, "apply", "-f", "-"); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if err := kubectl("", "wait", "pod/p", "-n", "default", "--for=condition=Ready", "--timeout=300s"); err != nil {
		return err
	}
	// Or the look from outside would prove nothing.
	seen, err := look()
	if err != nil {
		return err
	}
	for _, what := range []string{"interface cni0", "directory /run/containerd", "directory /var/lib/kubelet"} {
		if seen[what] == "" {
			return fmt.Errorf("beside the node there is no %s", what)
		}
	}
	fmt.Println("the pod runs")
	if how == "waits" {
		time.Sleep(time.Hour)
	}
	return nil
}

func TestNodeLeavesTheMachineAsItWas(t *testing.T) {
	before, err := look()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"fails", "waits"} {
		cmd, temp := isolate(t, how)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "the pod runs" {
		}
		group := cgroupOf(t, cmd.Process.Pid)
		begin := time.Now()
		if how == "waits" {
			// With its process group, as a shell or a terminal does it.
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		for lines.Scan() { // until the last process inside has ended
		}
		_ = cmd.Wait()
		if want := map[string]int{"fails": 3, "waits": -1}[how]; cmd.ProcessState.ExitCode() != want {
			t.Fatalf("when the command %s, isolate ends with %v, want %d", how, cmd.ProcessState, want)
		}
		if _, err := os.Stat(group); err == nil && how == "fails" {
			t.Errorf("isolate has ended, and there is still the cgroup %s", group)
		}
		lab.Eventually(t, "the machine to be as before, after the command "+how, func() error {
			if _, err := os.Stat(group); err == nil {
				return fmt.Errorf("there is still the cgroup %s", group)
			}
			left, err := os.ReadDir(temp)
			if err == nil && len(left) > 0 {
				return fmt.Errorf("there are still temporary files: %v", left)
			}
			var after map[string]string
			if err == nil {
				after, err = look()
			}
			if err == nil {
				err = differs(before, after)
			}
			return err
		})
		t.Logf("the command %s: %v until nothing was left", how, time.Since(begin).Round(time.Millisecond))
	}
}

// Somebody who kills all that there is kills what would clean up, too. Then
// the next run does, and says so.
func TestNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	cmd, temp := isolate(t, "")
	group := filepath.Join(cgroupOf(t, os.Getpid()), "kubelab-of-a-test")
	left := filepath.Join(temp, filepath.Base(group), "sub")
	for _, dir := range []string{left, filepath.Join(group, "sub")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(left), group} {
		if _, err := os.Stat(dir); err == nil || !strings.Contains(said.String(), dir) {
			t.Errorf("%s: %v, and it said %q", dir, err, said.String())
		}
	}
}

// isolate prepares a run of a node with a pod, or of nothing. temp is where it
// may keep temporary files.
func isolate(t *testing.T, how string) (_ *exec.Cmd, temp string) {
	t.Helper()
	kubelab, err := lab.Program()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not in the test's own folder, which is too long for a socket.
	if temp, err = os.MkdirTemp("", "yuba-node-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	cmd := exec.Command(kubelab, "isolate", "true")
	if how != "" {
		cmd.Args = []string{kubelab, "isolate", "../../run-tests.sh", self}
	}
	cmd.Env = append(os.Environ(), inside+"="+how, "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, temp
}

// cgroupOf is the directory of a process's cgroup.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/cgroup", pid))) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for line := range strings.Lines(read("/proc/self/mountinfo")) {
			mount, super, _ := strings.Cut(line, " - ")
			if strings.HasPrefix(super, "cgroup2 ") {
				return filepath.Join(strings.Fields(mount)[4], path)
			}
		}
	}
	t.Fatalf("process %d has no cgroup of version 2", pid)
	return ""
}

// look is what could be left behind: mounts, interfaces, kernel settings, and
// where a node keeps things.
func look() (map[string]string, error) {
	seen := map[string]string{}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		seen["mount "+strings.Join(fields[3:], " ")] = "there"
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		seen["interface "+i.Name] = i.Flags.String()
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/run/cni", "/run/cni-conf", "/run/netns", "/etc/cni"} {
		if _, err := os.Stat(dir); err == nil {
			seen["directory "+dir] = "there"
		}
	}
	for _, dir := range []string{"vm", "kernel", "net", "fs/inotify", "fs/nr_open", "fs/file-max", "user"} {
		_ = filepath.WalkDir(filepath.Join("/proc/sys", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || slices.ContainsFunc(volatile, func(v string) bool { return strings.Contains(path, v) }) {
				return nil
			}
			if info, err := d.Info(); err == nil && info.Mode()&0o200 != 0 && info.Mode()&0o400 != 0 {
				if data, err := os.ReadFile(path); err == nil {
					seen["setting "+path] = string(data)
				}
			}
			return nil
		})
	}
	return seen, nil
}

// volatile are files of /proc/sys that are no settings.
var volatile = []string{"/random/", "/ns_last_pid", "_next_id", "/stat_refresh", "/compact_memory", "/drop_caches"}

// differs says what is not as before.
func differs(before, after map[string]string) error {
	var all []string
	for name, value := range after {
		if before[name] != value {
			all = append(all, fmt.Sprintf("%s: %q, was %q", name, value, before[name]))
		}
	}
	for name, value := range before {
		if _, ok := after[name]; !ok {
			all = append(all, fmt.Sprintf("%s is gone, was %q", name, value))
		}
	}
	if all == nil {
		return nil
	}
	return fmt.Errorf("%q", all)
}
