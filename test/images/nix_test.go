package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/nixstore"
	"fediversity.eu/yuba/test/world"
)

func sha256Of(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// use has a world's commands use a store.
func use(s *nixstore.Store, w *world.World) { maps.Copy(w.Env, s.Env) }

// A build that fails is told with its log, and before anything is pushed.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := nixstore.New(t)
	use(s, w)
	write(t, filepath.Join(w.Dir, "good.tar"), image.Spec{})
	group(w, map[string]map[string]string{
		"good": {"archive": "good.tar"},
		"bad":  {"derivation": s.Derivation(t, "bad-image", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo compiling $i; done; echo no rule to make target; exit 3")},
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
	s := nixstore.New(t)
	use(s, w)
	drv := s.Derivation(t, "image.tar", script)
	out := s.Run(t, "nix-store", "--realise", drv)
	cache := "file://" + filepath.Join(w.Dir, "cache")
	s.Run(t, "nix", "copy", "--to", cache, out)
	s.Run(t, "nix-store", "--delete", out)
	must(t, os.Remove(marker))

	group(w, map[string]map[string]string{"web": {"derivation": drv}})
	says(t, w.Must(1, "k8s", "plan"), "exit code 9") // it's built, as long as there is no cache
	w.Env["NIX_CONFIG"] += "substituters = " + cache + "\nrequire-sigs = false\n"
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// With the image in the registry, Nix has nothing to do with it.
	s.Run(t, "nix-store", "--delete", out)
	w.Env["PATH"] = t.TempDir()
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// A build ends when the run is stopped, and the state is free.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	s := nixstore.New(t)
	use(s, w)
	fifo := filepath.Join(w.Dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	group(w, map[string]map[string]string{"web": {"derivation": s.Derivation(t, "image", "echo $$ > "+fifo+"; /bin/sleep 1000")}})
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
