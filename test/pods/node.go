// Package pods holds the tests on a real node: systemd as PID 1 of pods that a
// real kubelet runs with containerd, behind a real network plugin. They run the
// built program as its users do, and kubectl only to look.
package pods

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// The root file systems of test/rootfs, each with another systemd.
const (
	systemd252 = "bookworm"
	systemd257 = "trixie"
)

// brokenUnit is a unit that always fails, as files of a root file system.
var brokenUnit = map[string]string{
	"etc/systemd/system/broken.service": "[Unit]\nDescription=A unit that fails\n" +
		"[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo the database is not there >&2; exit 3'\n",
	"etc/systemd/system/multi-user.target.wants/broken.service": "->/etc/systemd/system/broken.service",
}

// rootfs is the path of the root file system of a suite with more files in it.
// A content of "->TARGET" makes a symbolic link, one of "<-PATH" a program that
// is copied.
func rootfs(t *testing.T, suite string, files map[string]string) string {
	t.Helper()
	dir := os.Getenv("YUBA_TEST_ROOTFS")
	if dir == "" {
		t.Fatal("YUBA_TEST_ROOTFS does not name the directory of the root file systems: run 'make test-pods'")
	}
	base, err := os.Open(filepath.Join(dir, suite+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), suite+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for name, content := range files {
		h := &tar.Header{Name: "./" + name, Mode: 0o644}
		if target, ok := strings.CutPrefix(content, "->"); ok {
			h.Typeflag, h.Linkname, content = tar.TypeSymlink, target, ""
		} else if path, ok := strings.CutPrefix(content, "<-"); ok {
			program, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h.Mode, content = 0o755, string(program)
		}
		h.Size = int64(len(content))
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The base follows and brings the end of the archive.
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, base); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// node is an entry of the group file whose image is a root file system.
func node(name, tag, rootfs string) world.Node {
	return world.Node{Name: name, Tag: tag, More: map[string]any{"image": map[string]any{"rootfs": rootfs}}}
}

// group writes the group file of nodes.
func group(w *world.World, nodes ...world.Node) {
	w.Group(nodes...)
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "300s" }) // systemd boots
}

// in runs a command in the node's pod.
func in(t *testing.T, w *world.World, node string, command ...string) string {
	t.Helper()
	out, err := tryIn(w, w.Namespace, "deployment/"+node, command...)
	if err != nil {
		t.Fatalf("%s in %s: %v", strings.Join(command, " "), node, err)
	}
	return out
}

// tryIn runs a command in a pod of any namespace. An error has its exit code
// and what it wrote to stderr.
func tryIn(w *world.World, namespace, pod string, command ...string) (string, error) {
	cmd := exec.Command(os.Getenv("YUBA_TEST_KUBELAB"), append([]string{"kubectl", "--kubeconfig=" + w.Lab.Kubeconfig,
		"exec", "-n", namespace, pod, "--"}, command...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// pod is the node's pod as the API server has it.
type pod struct {
	Metadata struct{ Name, UID string }
	Spec     map[string]any
	Status   struct {
		PodIP      string
		HostIP     string
		Conditions []struct{ Type, Status string }
	}
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// podOf is the one pod of the node.
func podOf(t *testing.T, w *world.World, node string) pod {
	t.Helper()
	var list struct{ Items []pod }
	out := w.Kubectl("get", "pods", "-n", w.Namespace, "-l", "app.kubernetes.io/name="+node, "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%s has %d pods, not one", node, len(list.Items))
	}
	return list.Items[0]
}

// nodeIdentity is what a node keeps when its pod is replaced.
type nodeIdentity struct{ machine, hostKey, file string }

func identityOf(t *testing.T, w *world.World, node string) nodeIdentity {
	t.Helper()
	return nodeIdentity{
		machine: in(t, w, node, "cat", "/etc/machine-id"),
		hostKey: in(t, w, node, "cat", "/var/lib/ssh/ssh_host_ed25519_key.pub"),
		file:    in(t, w, node, "cat", "/var/lib/kept"),
	}
}

// banner is what the ssh port of an address says to a pod, "" if nothing.
func banner(w *world.World, namespace, pod, address string) string {
	out, _ := tryIn(w, namespace, pod, "timeout", "5", "bash", "-c", "head -c 7 </dev/tcp/"+address+"/22")
	return out
}
