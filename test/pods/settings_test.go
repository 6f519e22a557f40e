package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

type object = map[string]any

// A setting of the pod is left out of a copy of a node's pod, and something
// breaks that a user would see. The same must not be seen on the node itself.
func TestEachSettingOfThePodIsNeeded(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	group(w, node("a", "one", rootfs(t, systemd252, unitsInOrder)), node("b", "one", rootfs(t, systemd257, unitsInOrder)))
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Lab.Apply(t, w.Namespace, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}, "spec": {"ports": [{"port": 80}]}}`)
	plain := map[string]string{}
	for _, n := range []string{"a", "b"} {
		plain[n] = withoutConfiguration(t, w.Get("deployment/"+n, world.ImagePath))
	}

	cases := []struct {
		name    string
		nodes   string // a has systemd 252, b 257
		without func(spec, container object, node string)
		broken  func(looked) error
	}{
		{"run", "ab", withoutMount("/run"), crashes("Failed to mount tmpfs")},
		{"run-lock", "a", withoutMount("/run/lock"), crashes("Failed to mount tmpfs")},
		{"run-lock", "b", withoutMount("/run/lock"), degraded("run-lock.mount")},
		{"tmp", "b", withoutMount("/tmp"), degraded("tmp.mount")},
		{"uuid", "ab", withoutEnv("container_uuid"), func(p looked) error {
			uuid := w.Get("deployment/"+p.node, `.spec.template.spec.containers[0].env[?(@.name=="container_uuid")].value`)
			return p.ready(p.in("cat", "/etc/machine-id"), func(id string) bool { return id != "" && id != strings.ReplaceAll(uuid, "-", "") })
		}},
		{"class", "ab", func(spec, _ object, _ string) { delete(spec, "runtimeClassName") },
			crashes("Failed to create /init.scope control group: Read-only file system")},
		{"users", "b", func(spec, _ object, _ string) { delete(spec, "hostUsers") }, func(p looked) error {
			return p.ready(p.in("cat", "/proc/self/uid_map"), func(s string) bool { f := strings.Fields(s); return len(f) > 1 && f[1] == "0" })
		}},
		{"tty", "ab", func(_, c object, _ string) { delete(c, "tty") }, func(p looked) error {
			return p.ready(p.log(), func(s string) bool { return !strings.Contains(s, "Welcome to") })
		}},
		{"token", "b", func(spec, _ object, _ string) { delete(spec, "automountServiceAccountToken") }, func(p looked) error {
			return p.ready(p.in("sh", "-c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token || :"), func(s string) bool { return s != "" })
		}},
		{"links", "b", func(spec, _ object, _ string) { delete(spec, "enableServiceLinks") }, func(p looked) error {
			return p.ready(p.in("cat", "/proc/1/environ"), func(s string) bool { return strings.Contains(s, "OTHER_SERVICE_HOST=") })
		}},
		{"hostname", "b", func(spec, _ object, _ string) { delete(spec, "hostname") }, func(p looked) error {
			return p.ready(p.in("hostname"), func(s string) bool { return s != p.node })
		}},
		{"command", "b", func(_, c object, n string) { delete(c, "command"); c["image"] = plain[n] }, func(p looked) error {
			if got := p.get(".status.containerStatuses[0].state.waiting.message"); !strings.Contains(got, "no command specified") {
				return fmt.Errorf("it waits with %q", got)
			}
			return nil
		}},
		{"path", "b", func(s, c object, n string) { withoutEnv("PATH")(s, c, n); c["image"] = plain[n] }, probeFindsNothing},
		// NixOS has systemctl in the running system's profile only.
		{"nixos", "b", nixos, func(p looked) error {
			return p.ready(p.in("sh", "-c", "test -e /usr/bin/systemctl || echo gone"), func(s string) bool { return s == "gone" })
		}},
		{"nixos-path", "b", func(s, c object, n string) {
			nixos(s, c, n)
			for _, v := range c["env"].([]any) {
				if v := v.(object); v["name"] == "PATH" {
					_, v["value"], _ = strings.Cut(v["value"].(string), ":")
				}
			}
		}, probeFindsNothing},
		// systemd tells it to those who can't look into the environment of PID 1.
		{"container", "b", withoutEnv("container"), func(p looked) error {
			return p.ready(p.in("sh", "-c", "cat /run/systemd/container || :"), func(s string) bool { return s != "oci" })
		}},
		{"sizes", "b", func(spec, _ object, _ string) {
			for _, v := range spec["volumes"].([]any) {
				if memory, ok := v.(object)["emptyDir"].(object); ok {
					delete(memory, "sizeLimit")
				}
			}
		}, func(p looked) error {
			if !p.isReady() {
				return errors.New("it is not ready")
			}
			for path, size := range tooMuch {
				if err := p.fill(path, size); err != nil {
					return err
				}
			}
			return nil
		}},
		// Ready says nothing then: /tmp is left out, too, and systemd is degraded.
		{"probe", "b", func(s, c object, n string) { withoutMount("/tmp")(s, c, n); delete(c, "readinessProbe") }, func(p looked) error {
			return p.ready(p.in("sh", "-c", "systemctl is-system-running || :"), func(s string) bool { return s == "degraded" })
		}},
	}
	nodes, specs := map[string]looked{}, map[string]string{}
	for _, n := range []string{"a", "b"} {
		nodes[n] = looked{w, n, podOf(t, w, n).Metadata.Name}
		specs[n] = w.Get("deployment/"+n, ".spec.template.spec")
	}
	objects, stop, look := stopped(t, w, specs, plain)
	for _, c := range cases {
		for _, n := range strings.Split(c.nodes, "") {
			objects = append(objects, copyOf(t, specs[n], n+"-"+c.name, func(spec, container object) { c.without(spec, container, n) }))
		}
	}
	// All at once, to be looked at one after the other.
	all, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	w.Lab.Apply(t, w.Namespace, string(all))
	stop()
	for _, c := range cases {
		for _, n := range strings.Split(c.nodes, "") {
			p := looked{w, n, n + "-" + c.name}
			lab.Eventually(t, p.name+" to be broken", func() error { return c.broken(p) })
			if c.broken(nodes[n]) == nil {
				t.Errorf("%s with all settings has what %s has", n, p.name)
			}
		}
	}
	// A node can't fill the memory of its host.
	for path, size := range tooMuch {
		if err := nodes["b"].fill(path, size); err == nil || !strings.Contains(err.Error(), "No space left on device") {
			t.Errorf("%s more in %s of a node: %v", size, path, err)
		}
	}
	look()
}

// tooMuch is what the node's memory volumes don't hold.
var tooMuch = map[string]string{"/run": "257M", "/run/lock": "9M", "/tmp": "1025M"}

// nixos makes of the node one whose systemctl is where NixOS has it.
func nixos(_, c object, _ string) {
	c["command"] = []string{"/bin/sh", "-c", "mkdir -p /run/current-system/sw/bin && mv /usr/bin/systemctl /run/current-system/sw/bin/ && exec /sbin/init"}
}

// unitsInOrder write to the volume when they are stopped: the second before the
// first and, where it is asked to, a third before both, which takes its time.
var unitsInOrder = map[string]string{
	"etc/systemd/system/first.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n" +
		"ExecStop=/bin/sh -c 'echo first >>/var/lib/stopped'\n",
	"etc/systemd/system/second.service": "[Unit]\nAfter=first.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n" +
		"ExecStop=/bin/sh -c 'sleep 1; echo second >>/var/lib/stopped'\n",
	"etc/systemd/system/slow.service": "[Unit]\nAfter=second.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n" +
		"ExecStop=/bin/sh -c 'if test -e /var/lib/slow; then sleep 40; echo slow >>/var/lib/stopped; fi'\n",
	"etc/systemd/system/multi-user.target.wants/first.service":  "->/etc/systemd/system/first.service",
	"etc/systemd/system/multi-user.target.wants/second.service": "->/etc/systemd/system/second.service",
	"etc/systemd/system/multi-user.target.wants/slow.service":   "->/etc/systemd/system/slow.service",
}

// stopped gives pods of an image that names no stop signal: with and without
// the hook that stops systemd, and with and without the time for it. stop
// begins to delete them; look waits until they are gone and looks at their
// volumes.
func stopped(t *testing.T, w *world.World, specs, images map[string]string) (objects []any, stop, look func()) {
	t.Helper()
	want := map[string]string{}
	const slow = "slow" // part of the names of pods with a unit that takes longer than Kubernetes gives by default
	add := func(node, name, units string, change func(spec, c object)) {
		name = node + "-" + name
		want[name] = units
		objects = append(objects, object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name},
			"spec": object{"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "standard",
				"resources": object{"requests": object{"storage": "1Gi"}}}},
			copyOf(t, specs[node], name, func(spec, c object) {
				c["image"] = images[node]
				volumes := spec["volumes"].([]any)
				volumes[stateVolume(volumes)] = object{"name": "state", "persistentVolumeClaim": object{"claimName": name}}
				change(spec, c)
			}))
	}
	grace := func(spec, _ object) {
		var own object
		if err := json.Unmarshal([]byte(specs["b"]), &own); err != nil {
			t.Fatal(err)
		}
		spec["terminationGracePeriodSeconds"] = own["terminationGracePeriodSeconds"]
	}
	for _, node := range []string{"a", "b"} {
		add(node, "hook", "second\nfirst\n", grace)
		add(node, "no-hook", "", func(_, c object) { delete(c, "lifecycle") })
	}
	add("b", slow, "slow\nsecond\nfirst\n", grace)
	add("b", slow+"-no-grace", "", func(spec, _ object) { delete(spec, "terminationGracePeriodSeconds") })
	stop = func() {
		t.Helper()
		for pod := range want {
			w.Kubectl("wait", "pod/"+pod, "-n", w.Namespace, "--for=condition=Ready", "--timeout=300s")
			if strings.Contains(pod, slow) {
				if _, err := tryIn(w, w.Namespace, pod, "touch", "/var/lib/slow"); err != nil {
					t.Fatal(err)
				}
			}
			w.Kubectl("delete", "pod", "-n", w.Namespace, "--wait=false", pod)
		}
	}
	return objects, stop, func() {
		t.Helper()
		for pod, want := range want {
			w.Kubectl("wait", "pod/"+pod, "-n", w.Namespace, "--for=delete", "--timeout=300s")
			volume := w.Get("pvc/"+pod, ".spec.volumeName")
			data, err := os.ReadFile(filepath.Join(w.Kubectl("get", "pv", volume, "-o", "jsonpath={.spec.local.path}"), "stopped"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if got := string(data); got != want {
				t.Errorf("the units of %s that were stopped are %q, want %q", pod, got, want)
			}
		}
	}
}

// copyOf is a pod that differs from the node's in what change does, and in its
// volume, which is empty and its own.
func copyOf(t *testing.T, template, name string, change func(spec, container object)) object {
	t.Helper()
	var spec object
	if err := json.Unmarshal([]byte(template), &spec); err != nil {
		t.Fatal(err)
	}
	volumes := spec["volumes"].([]any)
	volumes[stateVolume(volumes)] = object{"name": "state", "emptyDir": object{}}
	spec["terminationGracePeriodSeconds"] = 5
	change(spec, spec["containers"].([]any)[0].(object))
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": spec}
}

func stateVolume(volumes []any) int {
	return slices.IndexFunc(volumes, func(v any) bool { return v.(object)["name"] == "state" })
}

func withoutMount(path string) func(spec, container object, node string) {
	return func(_, c object, _ string) {
		c["volumeMounts"] = slices.DeleteFunc(c["volumeMounts"].([]any), func(v any) bool { return v.(object)["mountPath"] == path })
	}
}

func withoutEnv(name string) func(spec, container object, node string) {
	return func(_, c object, _ string) {
		c["env"] = slices.DeleteFunc(c["env"].([]any), func(v any) bool { return v.(object)["name"] == name })
	}
}

// withoutConfiguration pushes the image once more, as one that names neither a
// command nor a stop signal, and a search path without systemctl.
func withoutConfiguration(t *testing.T, image string) string {
	t.Helper()
	ref, err := name.NewDigest(image)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := file.Config
	config.StopSignal, config.Cmd, config.Entrypoint = "", nil, nil
	config.Env = []string{"PATH=/nowhere"}
	if img, err = mutate.Config(img, config); err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref.Context().Tag("plain"), img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref.Context().Digest(digest.String()).String()
}

// looked is a pod that is looked at: the node's own or a copy of it.
type looked struct {
	w          *world.World
	node, name string
}

func (p looked) get(path string) string { return p.w.Get("pod/"+p.name, path) }

func (p looked) isReady() bool {
	return p.get(`.status.conditions[?(@.type=="Ready")].status`) == "True"
}

// log is what the container wrote since it was started last.
func (p looked) log() func() (string, error) {
	return func() (string, error) { return p.w.Kubectl("logs", p.name, "-n", p.w.Namespace), nil }
}

func (p looked) in(command ...string) func() (string, error) {
	return func() (string, error) { return tryIn(p.w, p.w.Namespace, p.name, command...) }
}

// fill takes space in a directory, and gives it back.
func (p looked) fill(dir, size string) error {
	_, err := p.in("sh", "-c", "fallocate -l "+size+" "+dir+"/filled; status=$?; rm -f "+dir+"/filled; exit $status")()
	return err
}

// ready says no error when the pod is ready and has what is looked for.
func (p looked) ready(see func() (string, error), is func(string) bool) error {
	if !p.isReady() {
		return errors.New("it is not ready")
	}
	got, err := see()
	if err == nil && !is(got) {
		err = fmt.Errorf("it has %q", got)
	}
	return err
}

// crashes is about a pod whose container ends, and says why.
func crashes(why string) func(looked) error {
	return func(p looked) error {
		if p.get(".status.containerStatuses[0].restartCount") == "0" {
			return errors.New("it has not ended")
		}
		if got, _ := p.log()(); !strings.Contains(got, why) {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	}
}

// degraded is about a pod that runs and never gets ready, for a unit's sake.
func degraded(unit string) func(looked) error {
	return func(p looked) error {
		got, err := p.in("sh", "-c", "systemctl is-system-running; systemctl --failed --plain --no-legend")()
		switch {
		case err != nil:
			return err
		case !strings.HasPrefix(got, "degraded\n"+unit+" "):
			return fmt.Errorf("it is %q", got)
		case p.isReady():
			return errors.New("it is ready")
		}
		return nil
	}
}

// probeFindsNothing is about a pod in which the kubelet does not find systemctl.
func probeFindsNothing(p looked) error {
	got := p.w.Kubectl("get", "events", "-n", p.w.Namespace, "--field-selector=reason=Unhealthy,involvedObject.name="+p.name, "-o", "jsonpath={.items[*].message}")
	if !strings.Contains(got, "executable file not found") {
		return fmt.Errorf("its probe says %q", got)
	}
	return nil
}
