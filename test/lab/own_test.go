package lab

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// running says whether a process is there; one that only waits to be reaped
// is not.
func running(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(after, "Z")
}

func gone(t *testing.T, dir string, pids map[string]int) {
	t.Helper()
	if len(pids) < 8 {
		t.Fatalf("a lab has more parts than %v", pids)
	}
	Eventually(t, "the lab to be gone", func() error {
		var err error
		for name, pid := range pids {
			if running(pid) {
				err = errors.Join(err, fmt.Errorf("%s (%d) is running", name, pid))
			}
		}
		if _, e := os.Stat(dir); e == nil {
			err = errors.Join(err, fmt.Errorf("%s is there", dir))
		}
		return err
	})
}

func TestLabDiesWithTheProcessThatStartedIt(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hold+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(line)
	i, err := readInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, dir, i.Pids)
}

func TestPartsDieWithTheirSupervisor(t *testing.T) {
	l, err := start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	pids := l.Pids(t)
	up, err := os.FindProcess(pids["up"])
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Kill(); err != nil {
		t.Fatal(err)
	}
	if l.stop() == nil {
		t.Error("killed, the lab ended without an error")
	}
	// Nobody is left to remove the directory.
	if err := os.RemoveAll(l.Dir); err != nil {
		t.Fatal(err)
	}
	gone(t, l.Dir, pids)
}

func TestTwoLabsAtOnceKnowNothingOfEachOther(t *testing.T) {
	one, two := Start(t), New(t, Options{FakeNodes: 1, NodeCPU: "2"})
	if one.Registry == two.Registry || one.Server == two.Server {
		t.Fatalf("they share addresses: %+v and %+v", one, two)
	}
	ns := one.Namespace(t)
	if got := two.Kubectl(t, "get", "namespace", ns, "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("the other lab has %s", got)
	}
	two.Push(t, "web", "1", Image{})
	if Exists(t, one.Registry+"/web", "1") {
		t.Error("the other lab's registry has the image")
	}
	if got := two.Kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].status.capacity.cpu}"); got != "2" {
		t.Errorf("nodes have CPUs %q, want one with 2", got)
	}
}

func TestAPIServerCanBeKilledAndComesBackWithWhatItHad(t *testing.T) {
	l := New(t, Options{FakeNodes: 1})
	ns := l.Namespace(t)
	before := l.Pids(t)
	l.Kill(t, "kube-apiserver")
	if _, err := l.kubectlRun("get", "namespace", ns, "--request-timeout=5s"); err == nil {
		t.Error("the API server answers")
	}
	l.Restart(t, "kube-apiserver")
	if got := l.Kubectl(t, "get", "namespace", ns, "-o", "name"); strings.TrimSpace(got) != "namespace/"+ns {
		t.Errorf("it has %q", got)
	}
	if after := l.Pids(t); after["kube-apiserver"] == before["kube-apiserver"] || after["etcd"] != before["etcd"] {
		t.Errorf("process ids were %v, are %v", before, after)
	}
	image := l.Push(t, "web", "1", Image{})
	// The controllers and the nodes have come back to it.
	l.Kubectl(t, "create", "deployment", "-n", ns, "web", "--image="+image)
	l.Kubectl(t, "rollout", "status", "-n", ns, "deployment/web", "--timeout=2m")
	l.Stop(t, "registry")
	l.Restart(t, "registry")
	Eventually(t, "the registry to be there again", func() error {
		conn, err := net.Dial("tcp", l.Registry)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	repository, digest, _ := strings.Cut(image, "@")
	if !Exists(t, repository, digest) {
		t.Error("the registry has lost its image")
	}
}

func TestLabThatCannotStartSaysWhy(t *testing.T) {
	_, err := start(Options{FeatureGates: "NoSuchGate=true"})
	if err == nil || !strings.Contains(err.Error(), "NoSuchGate") {
		t.Errorf("error %v", err)
	}
}
