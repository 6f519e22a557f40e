// Package e2e holds the tests that run the built program as its users do: on
// a real control plane, a real registry and the program's own state server.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/lab"
)

// program is the yuba that is tested.
func program(t testing.TB) string {
	t.Helper()
	p := os.Getenv("YUBA_TEST_YUBA")
	if p == "" {
		t.Fatal("YUBA_TEST_YUBA does not name the program to test: run 'make test'")
	}
	return p
}

// world is what one test's commands run in: a folder with a group file and
// its images, a namespace and a state of its own.
type world struct {
	t         testing.TB
	lab       *lab.Lab
	dir       string
	namespace string
	state     string            // its address
	server    *stateServer      // behind it
	env       map[string]string // on top of nothing: commands inherit no variable
}

func newWorld(t testing.TB) *world {
	t.Helper()
	l := lab.Start(t)
	w := &world{t: t, lab: l, dir: t.TempDir(), namespace: l.Name(t)}
	w.server = startStateServer(t, filepath.Join(w.dir, "states"))
	w.state = w.server.address + "/" + w.namespace
	w.env = map[string]string{
		"KUBE_CONFIG_PATH": l.Kubeconfig,
		"K8S_REGISTRY":     l.Registry,
		"K8S_NAMESPACE":    w.namespace,
		"TF_HTTP_ADDRESS":  w.state,
		"HOME":             "/nonexistent",
	}
	t.Cleanup(func() { l.Kubectl(t, "delete", "namespace", w.namespace, "--ignore-not-found", "--wait=false") })
	return w
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.code, r.stdout, r.stderr)
}

// command prepares one run of yuba.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program(w.t), args...)
	cmd.Dir = w.dir
	cmd.Env = []string{}
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// yuba runs one command to its end.
func (w *world) yuba(args ...string) result {
	w.t.Helper()
	return runCommand(w.t, w.command(args...))
}

func runCommand(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// must runs a command that has to end with this exit code.
func (w *world) must(code int, args ...string) result {
	w.t.Helper()
	r := w.yuba(args...)
	if r.code != code {
		w.t.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

// node is one entry of the group file.
type node struct {
	name, tag string
	image     lab.Image
	archive   string // instead of an image made here
	more      map[string]any
}

// group writes the group file; each image gets a tag of its content unless
// one is given.
func (w *world) group(nodes ...node) {
	w.t.Helper()
	var list []any
	for _, n := range nodes {
		if n.tag == "" {
			n.tag = strings.Trim(n.image.Behaviour+"-"+n.image.Content, "-")
		}
		if n.archive == "" {
			n.archive = lab.Archive(w.t, n.image)
		}
		entry := map[string]any{"name": n.name, "tag": n.tag, "image": map[string]any{"archive": n.archive}}
		for k, v := range n.more {
			entry[k] = v
		}
		list = append(list, entry)
	}
	w.write(map[string]any{"version": 1, "group": "test", "target": "all", "runtimeClass": "systemd", "rolloutTimeout": "60s",
		"storage": map[string]any{"class": "standard", "size": "1Gi"}, "nodes": list})
}

// write writes any group file.
func (w *world) write(group any) {
	w.t.Helper()
	data, err := json.MarshalIndent(group, "", "  ")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "group.json"), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// edit changes the group file that is there.
func (w *world) edit(change func(map[string]any)) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "group.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var group map[string]any
	if err := json.Unmarshal(data, &group); err != nil {
		w.t.Fatal(err)
	}
	change(group)
	w.write(group)
}

// shorten makes a failing rollout fail soon.
func (w *world) shorten() {
	w.t.Helper()
	w.edit(func(g map[string]any) { g["rolloutTimeout"] = "15s" })
}

// kubectl looks at the cluster.
func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.lab.Kubectl(w.t, args...))
}

// get is a field of an object in the test's namespace.
func (w *world) get(object, path string) string {
	w.t.Helper()
	return w.kubectl("get", object, "-n", w.namespace, "-o", "jsonpath={"+path+"}")
}

const imagePath = ".spec.template.spec.containers[0].image"

// unchanged fails when the cluster has the test's namespace: what was tested
// should have changed nothing.
func (w *world) unchanged() {
	w.t.Helper()
	if got := w.kubectl("get", "namespace", w.namespace, "--ignore-not-found", "-o", "name"); got != "" {
		w.t.Errorf("the cluster has %s", got)
	}
}

// request sends the state server a lock or unlock and returns what is wrong
// with the answer.
func (w *world) request(method, info string) error {
	w.t.Helper()
	req, err := http.NewRequest(method, w.state, strings.NewReader(info))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}

// free fails when the state is locked.
func (w *world) free() {
	w.t.Helper()
	const info = `{"ID":"probe","Operation":"test","Who":"test"}`
	for _, method := range []string{"LOCK", "UNLOCK"} {
		if err := w.request(method, info); err != nil {
			w.t.Fatalf("the state is locked: %v", err)
		}
	}
}

// stateServer is a running `yuba state serve`.
type stateServer struct {
	cmd     *exec.Cmd
	address string
}

// startStateServer runs the program's own state server on a free port until
// the test ends.
func startStateServer(t testing.TB, dir string, args ...string) *stateServer {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"state", "serve", "-dir=" + dir, "-listen=127.0.0.1:0"}, args...)...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "state-server.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the state server said nothing: %v\n%s", err, text)
	}
	go io.Copy(io.Discard, out)
	s := &stateServer{cmd: cmd, address: strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])}
	if !strings.Contains(s.address, "://") {
		s.address = "http://" + s.address
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("state server:\n%s", text)
		}
	})
	return s
}

// eventually waits for what has no moment of its own to wait for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("within a minute, there was no %s", what)
}
