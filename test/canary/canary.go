// Package canary tells where secrets get that nobody but their servers should
// see: into arguments and environments of processes, files, and what commands say.
package canary

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/world"
)

// Secrets are the secrets that commands are given, by what they are for.
type Secrets map[string]string

// Found names the secrets that are in data, also inside of base64.
func (c Secrets) Found(data []byte) []string {
	var out []string
	for name, secret := range c {
		for _, form := range forms(secret) {
			if bytes.Contains(data, []byte(form)) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// forms are a text and what every base64 of something that contains it has in
// it: the text may begin at any of three places in a group of three bytes.
func forms(secret string) []string {
	out := []string{secret}
	for before := range 3 {
		code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		code = code[(before*8+5)/6 : len(code)-4] // without what depends on the neighbours
		out = append(out, code, strings.NewReplacer("+", "-", "/", "_").Replace(code))
	}
	return out
}

// Files fails when a secret is in one of the files, or in a part of one that
// is a ZIP archive, as plan files are.
func (c Secrets) Files(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			t.Errorf("%s is empty: nothing was tested", path)
		}
		if found := c.Found(data); found != nil {
			t.Errorf("%s has the %s", path, found)
		}
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		for _, f := range archive.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			part, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if found := c.Found(part); found != nil {
				t.Errorf("%s in %s has the %s", f.Name, path, found)
			}
		}
	}
}

// Look looks at all processes and says what is wrong: the process pid must have no
// child, no other process may have a secret in its environment, and none in its
// arguments. Each process is looked at a few times, as counted in seen: right
// after its start it still is what its parent was.
func (c Secrets) Look(pid int, seen map[int]int) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, e := range entries {
		other, err := strconv.Atoi(e.Name())
		if err != nil || seen[other] == 5 {
			continue
		}
		seen[other]++
		read := func(name string) []byte {
			data, _ := os.ReadFile(filepath.Join("/proc", e.Name(), name)) // it may have ended
			return data
		}
		stat, arguments := read("stat"), read("cmdline")
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			wrong = append(wrong, fmt.Sprintf("yuba has a child: %q", arguments))
		}
		if found := c.Found(arguments); found != nil {
			wrong = append(wrong, fmt.Sprintf("the %s: in the arguments of process %d", found, other))
		}
		if other == pid {
			continue
		}
		if found := c.Found(read("environ")); found != nil {
			wrong = append(wrong, fmt.Sprintf("the %s: in the environment of %q", found, arguments))
		}
	}
	return wrong, nil
}

// watch looks again and again until ctx ends.
func (c Secrets) watch(ctx context.Context, t *testing.T, pid int) {
	seen := map[int]int{}
	for {
		wrong, err := c.Look(pid, seen)
		if err != nil {
			t.Error(err)
			return
		}
		for _, w := range wrong {
			t.Error(w)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Run runs a command of the world under watch, and looks for secrets in what it
// says. during, when given, is called while it runs, with what it has said so far.
func (c Secrets) Run(t *testing.T, w *world.World, code int, during func(*world.Text), args ...string) world.Result {
	t.Helper()
	var stdout, stderr world.Text
	cmd := w.Command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() { c.watch(ctx, t, cmd.Process.Pid) })
	if during != nil {
		during(&stderr)
	}
	cmd.Wait()
	stop()
	watcher.Wait()
	r := world.Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	if found := c.Found([]byte(r.Stdout)); found != nil {
		t.Errorf("yuba %q tells the %s on stdout", args, found)
	}
	if found := c.Found([]byte(r.Stderr)); found != nil {
		t.Errorf("yuba %q (TF_LOG=%s) tells the %s on stderr", args, w.Env["TF_LOG"], found)
	}
	if r.Code != code {
		if w.Env["TF_LOG"] != "" {
			r.Stderr = r.Stderr[max(0, len(r.Stderr)-5000):]
		}
		t.Fatalf("yuba %q: want exit code %d, got %v", args, code, r)
	}
	return r
}
