// Package e2e holds the tests that run the built Program as its users do: on
// a real control plane, a real registry and the program's own state server.
package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/stateserver"
)

// Program is the yuba that is tested.
func Program(t testing.TB) string {
	t.Helper()
	p := os.Getenv("YUBA_TEST_YUBA")
	if p == "" {
		t.Fatal("YUBA_TEST_YUBA does not name the program to test: run 'make test'")
	}
	return p
}

// World is what one test's commands run in: a folder with a group file and
// its images, a namespace and a state of its own.
type World struct {
	Lab       *lab.Lab
	Dir       string
	Namespace string
	State     string            // its address
	Server    *StateServer      // behind it
	Env       map[string]string // all that commands have; they inherit nothing

	t testing.TB
}

// New returns a world that is taken down when the test ends.
func New(t testing.TB) *World {
	t.Helper()
	return On(t, lab.Start(t))
}

// On is New on a lab of the test's own.
func On(t testing.TB, l *lab.Lab) *World {
	t.Helper()
	w := &World{t: t, Lab: l, Dir: t.TempDir(), Namespace: l.Name(t)}
	w.Server = StartStateServer(t, filepath.Join(w.Dir, "states"))
	w.State = w.Server.Address + "/" + w.Namespace
	w.Env = map[string]string{
		"KUBE_CONFIG_PATH": l.Kubeconfig,
		"K8S_REGISTRY":     l.Registry,
		"K8S_NAMESPACE":    w.Namespace,
		"TF_HTTP_ADDRESS":  w.State,
		"HOME":             "/nonexistent",
	}
	t.Cleanup(func() { l.Kubectl(t, "delete", "namespace", w.Namespace, "--ignore-not-found", "--wait=false") })
	return w
}

// Result is what a command left behind.
type Result struct {
	Code           int
	Stdout, Stderr string
}

func (r Result) String() string {
	return fmt.Sprintf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.Code, r.Stdout, r.Stderr)
}

// Unwrapped undoes the line breaks of diagnostics, and their margin.
func Unwrapped(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(text)), " ")
}

// Command prepares one run of yuba.
func (w *World) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(Program(w.t), args...)
	cmd.Dir = w.Dir
	cmd.Env = []string{}
	for k, v := range w.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// Yuba runs one command to its end.
func (w *World) Yuba(args ...string) Result {
	w.t.Helper()
	return Run(w.t, w.Command(args...))
}

// Run runs a prepared command to its end.
func Run(t testing.TB, cmd *exec.Cmd) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Text is what a running command has written so far. The zero Text is ready
// to use, by any number of goroutines.
type Text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// Must runs a command that has to end with this exit code.
func (w *World) Must(code int, args ...string) Result {
	w.t.Helper()
	r := w.Yuba(args...)
	if r.Code != code {
		w.t.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

// Node is one entry of the group file.
type Node struct {
	Name, Tag string
	Image     lab.Image
	Archive   string         // instead of an image made here
	More      map[string]any // further keys; with "image", none is made
}

// Group writes the group file; each image gets a tag of its content unless
// one is given.
func (w *World) Group(nodes ...Node) {
	w.t.Helper()
	var list []any
	for _, n := range nodes {
		if n.Tag == "" {
			n.Tag = strings.Trim(n.Image.Behaviour+"-"+n.Image.Content, "-")
		}
		entry := map[string]any{"name": n.Name, "tag": n.Tag}
		if n.More["image"] == nil {
			if n.Archive == "" {
				n.Archive = lab.Archive(w.t, n.Image)
			}
			entry["image"] = map[string]any{"archive": n.Archive}
		}
		for k, v := range n.More {
			entry[k] = v
		}
		list = append(list, entry)
	}
	w.Write(map[string]any{"version": 1, "group": "test", "target": "all", "runtimeClass": "systemd", "rolloutTimeout": "60s",
		"storage": map[string]any{"class": "standard", "size": "1Gi"}, "nodes": list})
}

// Write writes any group file.
func (w *World) Write(group any) {
	w.t.Helper()
	data, err := json.MarshalIndent(group, "", "  ")
	if err != nil {
		w.t.Fatal(err)
	}
	w.WriteRaw(data)
}

// WriteRaw writes the bytes of the group file.
func (w *World) WriteRaw(data []byte) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "group.json"), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Edit changes the group file that is there.
func (w *World) Edit(change func(map[string]any)) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, "group.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var group map[string]any
	if err := json.Unmarshal(data, &group); err != nil {
		w.t.Fatal(err)
	}
	change(group)
	w.Write(group)
}

// Shorten makes a failing rollout fail soon.
func (w *World) Shorten() {
	w.t.Helper()
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "15s" })
}

// Kubectl looks at the cluster.
func (w *World) Kubectl(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.Lab.Kubectl(w.t, args...))
}

// Get is a field of an object in the test's namespace.
func (w *World) Get(object, path string) string {
	w.t.Helper()
	return w.Kubectl("get", object, "-n", w.Namespace, "-o", "jsonpath={"+path+"}")
}

// ImagePath is where a Deployment names its image.
const ImagePath = ".spec.template.spec.containers[0].image"

// Unchanged fails when the cluster has the test's namespace: what was tested
// should have changed nothing.
func (w *World) Unchanged() {
	w.t.Helper()
	if got := w.Kubectl("get", "namespace", w.Namespace, "--ignore-not-found", "-o", "name"); got != "" {
		w.t.Errorf("the cluster has %s", got)
	}
}

// Request sends the state server a lock or unlock and returns what is wrong
// with the answer.
func (w *World) Request(method, info string) error {
	w.t.Helper()
	req, err := http.NewRequest(method, w.State, strings.NewReader(info))
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

var lockID = regexp.MustCompile(`"ID":"([^"]+)"`)

// Holder is the ID of the lock of the state, "" when it is free.
func (w *World) Holder() string {
	w.t.Helper()
	const info = `{"ID":"probe","Operation":"test","Who":"test"}`
	if err := w.Request("LOCK", info); err != nil {
		id := lockID.FindStringSubmatch(err.Error())
		if id == nil {
			w.t.Fatal(err)
		}
		return id[1]
	}
	if err := w.Request("UNLOCK", info); err != nil {
		w.t.Fatal(err)
	}
	return ""
}

// Free fails when the state is locked.
func (w *World) Free() {
	w.t.Helper()
	if id := w.Holder(); id != "" {
		w.t.Fatalf("%s holds the lock of the state", id)
	}
}

// StateServer is a running `yuba state serve`.
type StateServer = stateserver.Server

// StartStateServer runs the program's own state server on a free port until
// the test ends.
func StartStateServer(t testing.TB, dir string, args ...string) *StateServer {
	t.Helper()
	return stateserver.Start(t, Program(t), dir, args...)
}

// Eventually waits for what has no moment of its own to wait for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("within a minute, there was no %s", what)
}
