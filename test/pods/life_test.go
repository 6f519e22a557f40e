package pods

import (
	"fmt"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// The independent tests of user stories 1 and 2 and what follows from them, on
// one group: one node with each systemd.
func TestNodesBootStayAndAreSetBack(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	version := func(v string) map[string]string { return map[string]string{"etc/node-version": v} }
	a1 := node("a", "one", rootfs(t, systemd252, version("one")))
	b1 := node("b", "one", rootfs(t, systemd257, version("one")))
	group(w, a1, b1)
	w.Must(0, "k8s", "apply", "-auto-approve")

	for _, name := range []string{"a", "b"} {
		p := podOf(t, w, name)
		if !p.ready() {
			t.Errorf("%s is not ready", name)
		}
		if got := in(t, w, name, "systemctl", "is-system-running"); got != "running" {
			t.Errorf("systemd of %s is %s", name, got)
		}
		if image := w.Get("deployment/"+name, world.ImagePath); !strings.HasPrefix(image, w.Lab.Registry+"/"+w.Namespace+"/"+name+"@sha256:") {
			t.Errorf("%s runs %s: not the image by its digest", name, image)
		}
		// FR-011: the network plugin's address and routes stay.
		if got := in(t, w, name, "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(got, " "+p.Status.PodIP+"/") {
			t.Errorf("%s has %s on eth0, its pod %s", name, got, p.Status.PodIP)
		}
		if got := in(t, w, name, "ip", "route"); !strings.Contains(got, "default via ") {
			t.Errorf("%s has no default route: %s", name, got)
		}
		// FR-013
		uuid := w.Get("deployment/"+name, `.spec.template.spec.containers[0].env[?(@.name=="container_uuid")].value`)
		if got := in(t, w, name, "cat", "/etc/machine-id"); got != strings.ReplaceAll(uuid, "-", "") || got == "" {
			t.Errorf("the machine ID of %s is %q, its container_uuid %q", name, got, uuid)
		}
		if got := in(t, w, name, "hostname"); got != name {
			t.Errorf("the host name of %s is %s", name, got)
		}
		// FR-012 and FR-004: the volume in the node's own user namespace.
		if got := in(t, w, name, "grep", " /var/lib ", "/proc/self/mountinfo"); !strings.Contains(got, "idmapped") {
			t.Errorf("/var/lib of %s is %s", name, got)
		}
		if got := strings.Fields(in(t, w, name, "cat", "/proc/self/uid_map")); len(got) != 3 || got[0] != "0" || got[1] == "0" {
			t.Errorf("root of %s is %q on the host", name, got)
		}
		in(t, w, name, "sh", "-c", "echo kept-by-"+name+" >/var/lib/kept")
	}
	a, b := identityOf(t, w, "a"), identityOf(t, w, "b")
	if a.machine == b.machine {
		t.Errorf("two nodes have the machine ID %s", a.machine)
	}

	// FR-010
	address := podOf(t, w, "a").Status.PodIP
	if got := banner(w, w.Namespace, "deployment/b", address); got != "SSH-2.0" {
		t.Errorf("a pod of the namespace hears %q on the node's ssh port", got)
	}
	other := w.Lab.Namespace(t)
	w.Lab.Apply(t, other, sleeper(w.Get("deployment/a", world.ImagePath)))
	w.Kubectl("wait", "pod/sleeper", "-n", other, "--for=condition=Ready", "--timeout=300s")
	if got := banner(w, other, "sleeper", address); got != "" {
		t.Errorf("a pod of another namespace hears %q on the node's ssh port", got)
	}
	if _, err := tryIn(w, other, "sleeper", "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/10.96.0.1/443"); err != nil {
		t.Fatalf("the pod of another namespace reaches nothing at all, so it proves nothing: %v", err)
	}

	// SC-002
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
	before := [2]string{podOf(t, w, "a").Metadata.UID, podOf(t, w, "b").Metadata.UID}
	w.Must(0, "k8s", "apply", "-auto-approve")
	if after := [2]string{podOf(t, w, "a").Metadata.UID, podOf(t, w, "b").Metadata.UID}; after != before {
		t.Errorf("an apply of nothing replaced pods: %q, then %q", before, after)
	}

	// A new configuration replaces the pod, and what is in /var/lib stays.
	a2 := node("a", "two", rootfs(t, systemd252, version("two")))
	group(w, a2, b1)
	w.Must(0, "k8s", "apply", "-auto-approve")
	if got := in(t, w, "a", "cat", "/etc/node-version"); got != "two" {
		t.Errorf("a runs version %s", got)
	}
	if got := identityOf(t, w, "a"); got != a {
		t.Errorf("after a rollout a is %+v, want %+v", got, a)
	}
	if got := podOf(t, w, "b").Metadata.UID; got != before[1] {
		t.Errorf("the other node's pod was replaced")
	}
	good := w.Get("deployment/a", world.ImagePath)

	// A failed unit: told of, and set back. Twice.
	group(w, node("a", "three", rootfs(t, systemd252, brokenUnit)), b1)
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "40s" })
	for range 2 {
		r := w.Must(1, "k8s", "apply", "-auto-approve")
		for _, want := range []string{"broken.service", "the database is not there", "set back"} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("the failure does not say %q: %v", want, r)
			}
		}
		if got := w.Get("deployment/a", world.ImagePath); got != good {
			t.Errorf("after the rollback a runs %s, want %s", got, good)
		}
		if got := in(t, w, "a", "cat", "/etc/node-version"); got != "two" {
			t.Errorf("after the rollback a runs version %s", got)
		}
		if got := identityOf(t, w, "a"); got != a {
			t.Errorf("after the rollback a is %+v, want %+v", got, a)
		}
		w.Must(2, "k8s", "plan", "-detailed-exitcode")
	}
	group(w, a2, b1)
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// SC-004: a pod that is deleted comes back as the same node.
	w.Kubectl("delete", "pod", "-n", w.Namespace, podOf(t, w, "b").Metadata.Name, "--wait=true")
	untilReady(t, w, "b")
	if got := identityOf(t, w, "b"); got != b {
		t.Errorf("after its pod was deleted b is %+v, want %+v", got, b)
	}
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// A node leaves with its volume; the rest follows with a destroy.
	group(w, a2)
	w.Must(0, "k8s", "apply", "-auto-approve")
	if got := w.Kubectl("get", "pvc,deployment", "-n", w.Namespace, "-o", "name"); strings.Contains(got, "/b") {
		t.Errorf("after b left there is still %s", got)
	}
	w.Must(0, "k8s", "destroy", "-auto-approve")
	w.Unchanged()
	repository, digest, _ := strings.Cut(good, "@")
	if !lab.Exists(t, repository, digest) {
		t.Error("after the destroy the image is not in the registry any more")
	}
}

// untilReady waits until the node has one pod, which is ready and not ending.
func untilReady(t *testing.T, w *world.World, node string) {
	t.Helper()
	lab.Eventually(t, node+" to have another pod that is ready", func() error {
		out := w.Kubectl("get", "pods", "-n", w.Namespace, "-l", "app.kubernetes.io/name="+node,
			"-o", `jsonpath={range .items[*]}{.metadata.name}{" "}{.metadata.deletionTimestamp}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if fields := strings.Fields(out); len(fields) != 2 || fields[1] != "True" {
			return fmt.Errorf("it has %q", out)
		}
		return nil
	})
}

// sleeper is a pod that does nothing, with the programs of a node.
func sleeper(image string) string {
	return `apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers: [{name: sleeper, image: "` + image + `", command: [sleep, infinity]}]
`
}
