package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

func sha256Of(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// store is a Nix store of a test's own, without a daemon.
type store struct {
	dir string
	env map[string]string
}

func newStore(t testing.TB) *store {
	t.Helper()
	dir := t.TempDir()
	s := &store{dir, map[string]string{
		"PATH":          os.Getenv("PATH"),
		"HOME":          dir,
		"NIX_STORE_DIR": dir + "/store", "NIX_STATE_DIR": dir + "/var", "NIX_LOG_DIR": dir + "/log", "NIX_CONF_DIR": dir + "/etc",
		"NIX_REMOTE": "local",
		"NIX_CONFIG": "build-users-group =\nsandbox = false\nsubstituters =\n",
	}}
	// What is in a store can't be written to, also not by the test's end.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	return s
}

// use has a world's commands use the store.
func (s *store) use(w *world.World) {
	for k, v := range s.env {
		w.Env[k] = v
	}
}

func (s *store) run(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	for k, v := range s.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return output(t, cmd)
}

// derivation puts a derivation into the store that runs a shell script; it isn't built.
func (s *store) derivation(t testing.TB, name, script string) string {
	t.Helper()
	expr := fmt.Sprintf(`derivation { name = %q; system = builtins.currentSystem; builder = "/bin/sh"; args = [ "-c" %s ]; }`,
		name, "''"+strings.ReplaceAll(script, "''", "'''")+"''")
	return s.run(t, "nix-instantiate", "--expr", expr)
}

// A build that fails is told with its log, and before anything is pushed.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := newStore(t)
	s.use(w)
	write(t, filepath.Join(w.Dir, "good.tar"), image.Spec{})
	group(w, map[string]map[string]string{
		"good": {"archive": "good.tar"},
		"bad":  {"derivation": s.derivation(t, "bad-image", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo compiling $i; done; echo no rule to make target; exit 3")},
	})
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	says(t, r, "Can't build the image", "nix-store --realise", "compiling 2000", "no rule to make target", "exit code 3")
	if strings.Contains(r.Stderr, "compiling 1000\n") {
		t.Error("the whole log is shown")
	}
	w.Unchanged()
	if lab.Exists(t, w.Lab.Registry+"/"+w.Namespace+"/good", "1") {
		t.Error("the good image was pushed, and the bad one not yet built")
	}
	// Without Nix the error says what else to do.
	w.Env["PATH"] = t.TempDir()
	says(t, w.Must(1, "k8s", "plan"), "no nix-store in PATH")
	// And nobody who doesn't need Nix misses it.
	group(w, map[string]map[string]string{"good": {"archive": "good.tar"}})
	w.Must(0, "k8s", "plan")
}

// What a cache has is not built.
func TestSubstitutes(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	archive, marker := filepath.Join(w.Dir, "image"), filepath.Join(w.Dir, "may-build")
	write(t, archive, image.Spec{})
	must(t, os.WriteFile(marker, nil, 0o644))
	script := fmt.Sprintf("test -e %s || exit 9; /bin/cat %s > $out", marker, archive)

	// Store paths depend on where the store is, so the cache is filled from the store that later lacks the output.
	s := newStore(t)
	s.use(w)
	drv := s.derivation(t, "image.tar", script)
	out := s.run(t, "nix-store", "--realise", drv)
	cache := "file://" + filepath.Join(w.Dir, "cache")
	s.run(t, "nix", "--extra-experimental-features", "nix-command", "copy", "--to", cache, out)
	s.run(t, "nix-store", "--delete", out)
	must(t, os.Remove(marker))

	group(w, map[string]map[string]string{"web": {"derivation": drv}})
	says(t, w.Must(1, "k8s", "plan"), "exit code 9") // it's built, as long as there is no cache
	w.Env["NIX_CONFIG"] += "substituters = " + cache + "\nrequire-sigs = false\n"
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// With the image in the registry, Nix has nothing to do with it.
	s.run(t, "nix-store", "--delete", out)
	w.Env["PATH"] = t.TempDir()
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// A build ends when the run is stopped, and the state is free.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := newStore(t)
	s.use(w)
	fifo := filepath.Join(w.Dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	group(w, map[string]map[string]string{"web": {"derivation": s.derivation(t, "image", "echo $$ > "+fifo+"; /bin/sleep 1000")}})
	cmd := w.Command("k8s", "apply", "-auto-approve")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	pid, err := os.ReadFile(fifo)
	must(t, err)
	must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v\n%s", err, stderr.String())
	}
	w.Free()
	world.Eventually(t, "end of the builder", func() bool {
		b, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}
