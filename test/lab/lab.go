// Package lab gives tests a real Kubernetes control plane with a registry.
//
//	l := lab.Start(t)                      // shared by all tests of a run
//	ns := l.Namespace(t)                   // of this test
//	archive := lab.Archive(t, lab.Image{Behaviour: lab.NeverReady})
//	l.Kubectl(t, "get", "pods", "-n", ns)  // to look
//
// The cluster is the program built from test/cluster: etcd, API server,
// controller manager and scheduler are the real ones, and so is the registry.
// Nodes are played by kwok: what their pods do is decided by the pods' images
// (Image). The StorageClass "standard" is the default one and makes volumes;
// the RuntimeClass "systemd" is there.
package lab

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lab is a running cluster.
type Lab struct {
	Dir        string // all its files; DIR/log has a log for each part
	Kubeconfig string // path of the administrator's kubeconfig
	Server     string // URL of the API server
	CA         string // path of the API server's CA certificate
	Registry   string // host:port of the registry: plain HTTP, no password

	admin   string
	kubectl []string
	audit   string
	stop    func() error // nil for a lab that somebody else started
}

// Options are for a lab of one's own. The zero value is a good one.
type Options struct {
	FakeNodes int // default 2
	// NodeCPU and NodeMemory are quantities that each fake node has; by
	// default so much that nothing is unschedulable by chance.
	NodeCPU, NodeMemory string
	// FeatureGates are Kubernetes feature gates that differ from their
	// defaults, as NAME=true,...
	FeatureGates string
}

// shared starts the lab that all tests of this program use. It is not stopped
// by a test: it ends when this process does, however that happens.
var shared = sync.OnceValues(func() (*Lab, error) {
	return start(Options{})
})

// Start returns the lab that tests share: the one whose directory
// YUBA_TEST_LAB names, or one for this test program. A test must not stop its
// parts or depend on what is in other namespaces.
func Start(t testing.TB) *Lab {
	t.Helper()
	var l *Lab
	var err error
	if dir := os.Getenv("YUBA_TEST_LAB"); dir != "" {
		l, err = open(dir)
	} else {
		l, err = shared()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// New starts a lab for this test alone; it is stopped when the test ends.
func New(t testing.TB, o Options) *Lab {
	t.Helper()
	l, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.logs(t)
		}
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// logs shows what the parts wrote last.
func (l *Lab) logs(t testing.TB) {
	paths, _ := filepath.Glob(filepath.Join(l.Dir, "log", "*.log"))
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil {
			t.Logf("%s:\n...%s", path, data[max(0, len(data)-1500):])
		}
	}
}

// Program is the path of kubelab.
func Program() (string, error) {
	if p := os.Getenv("YUBA_TEST_KUBELAB"); p != "" {
		return p, nil
	}
	script, err := find("test/parts.sh")
	if err != nil {
		return "", err
	}
	out, err := exec.Command(script, "path", "kubelab").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("the test cluster: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// find looks for a file of the checkout, from the test's folder upwards.
func find(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no %s above this folder: set YUBA_TEST_KUBELAB, or run the test in the checkout", name)
		}
		dir = parent
	}
}

// start starts a lab that ends with this process, at the latest.
func start(o Options) (*Lab, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	// Not a test's own folder: its path may be too long for a socket.
	dir, err := os.MkdirTemp("", "yuba-lab-")
	if err != nil {
		return nil, err
	}
	args := []string{"up", "-dir", dir, "-stdin", "-remove"}
	if o.FakeNodes != 0 {
		args = append(args, "-fake-nodes", strconv.Itoa(o.FakeNodes))
	}
	for flag, value := range map[string]string{"-node-cpu": o.NodeCPU, "-node-memory": o.NodeMemory, "-feature-gates": o.FeatureGates} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	// Not a pipe and not this process's own output: "go test" would wait for
	// the lab to let go of it.
	log, err := os.CreateTemp("", "yuba-lab-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	defer os.Remove(log.Name())
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for up := false; !up; {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the test cluster did not start (%v), it said:\n%s", err, said)
		case <-tick.C:
			_, err := os.Stat(filepath.Join(dir, "kubeconfig"))
			up = err == nil
		}
	}
	l, err := open(dir)
	if err != nil {
		return nil, err
	}
	// This also keeps stdin: the garbage collector would close it.
	l.stop = func() error {
		stdin.Close()
		return <-ended
	}
	return l, nil
}

// info is what DIR/lab.json says.
type info struct {
	Kubeconfig, Server, CA, Registry, AuditLog, Admin string

	Kubectl []string
	Pids    map[string]int
}

func readInfo(dir string) (info, error) {
	var i info
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return i, err
	}
	return i, json.Unmarshal(data, &i)
}

// open uses a lab that runs.
func open(dir string) (*Lab, error) {
	i, err := readInfo(dir)
	if err != nil {
		return nil, fmt.Errorf("no test cluster runs in %s: %w", dir, err)
	}
	return &Lab{
		Dir: dir, Kubeconfig: i.Kubeconfig, Server: i.Server, CA: i.CA, Registry: i.Registry,
		admin: i.Admin, kubectl: i.Kubectl, audit: i.AuditLog,
	}, nil
}

// Pids are the process ids of the lab's parts that run, by name; "up" is the one
// whose end is everyone's.
func (l *Lab) Pids(t testing.TB) map[string]int {
	t.Helper()
	i, err := readInfo(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return i.Pids
}

// Stop ends a part ("kube-apiserver", "registry", ...) and waits for its end.
func (l *Lab) Stop(t testing.TB, part string) { t.Helper(); l.tell(t, part, "stop") }

// Kill is Stop with SIGKILL.
func (l *Lab) Kill(t testing.TB, part string) { t.Helper(); l.tell(t, part, "kill") }

// Restart starts a part that was stopped, at its old address. For the API
// server it waits until that is ready.
func (l *Lab) Restart(t testing.TB, part string) {
	t.Helper()
	l.tell(t, part, "start")
	if part == "kube-apiserver" {
		Eventually(t, "the API server to be ready again", func() error {
			_, err := l.kubectlRun("get", "--raw", "/readyz")
			return err
		})
	}
}

func (l *Lab) tell(t testing.TB, part, verb string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.admin)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://lab/parts/"+part+"/"+verb, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", verb, part, body)
	}
}

// Name gives a name that nothing in the cluster has, good for a namespace.
func (l *Lab) Name(t testing.TB) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, t.Name())
	base = strings.Trim(base[:min(len(base), 40)], "-")
	return base + "-" + strings.ToLower(rand.Text()[:8])
}
