package rollout

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
)

var update = flag.Bool("update", false, "write the recorded objects anew")

// recordings is where the verdict's own test finds them.
const recordings = "../../../providers/kubernetes/internal/rollout/testdata/recorded"

// scene is a Deployment "web" in trouble, or not.
type scene struct {
	pod     string   // fields of the pod's spec, as YAML
	notes   []string // annotations of the pod, KEY: VALUE
	spec    string   // fields of the Deployment's spec
	before  string   // other objects of the namespace
	label   string   // of the namespace
	cluster string   // objects outside of it
	then    string   // a strategic merge patch of the Deployment, once it is ready
	until   string   // what the objects have, as JSON, when they are recorded
	related []string // KIND/NAME
}

// The words of a kubelet, which no fake node says by itself. Each is that of
// k8s.io/kubernetes/pkg/kubelet (userns.Manager, volumemanager, kuberuntime).
const (
	noMount   = `FailedMount: MountVolume.SetUp failed for volume "agent" : configmap "spire-agent" not found`
	noHandler = "FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler \"systemd\" does not support user namespaces: the handler \"systemd\" is not known"
	noUsers   = "FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler \"systemd\" does not support user namespaces"
)

const (
	volume  = "volumes: [{name: state, persistentVolumeClaim: {claimName: state}}]"
	systemd = "runtimeClassName: systemd\nhostUsers: false"
)

func claim(class string) string {
	return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: state}, spec: {accessModes: [ReadWriteOnce], storageClassName: " + class + ", resources: {requests: {storage: 1Gi}}}}"
}

func class(name, mode string) string {
	return "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: " + name + "}, provisioner: example.com/none, volumeBindingMode: " + mode + "}"
}

func behaves(as string, more ...string) []string {
	return append([]string{"yuba.test/behaviour: " + as}, more...)
}

func scenes() map[string]scene {
	quota := func(hard string) string {
		return "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: " + hard + "}}"
	}
	fine := behaves("ready")
	warns := func(text string) []string {
		return behaves("creating", "yuba.test/warning: "+quote(text))
	}
	return map[string]scene{
		"ready":                {notes: fine, until: `"readyReplicas":1`},
		"recreate":             {notes: append(fine, "yuba.test/stop-after: 5m"), then: `{"spec":{"template":{"metadata":{"labels":{"new":"yes"}}}}}`, until: `"deletionTimestamp":`},
		"unschedulable":        {notes: fine, pod: "containers: [{name: node, image: r.test/web, resources: {requests: {cpu: 100k}}}]", until: "FailedScheduling"},
		"first-consumer":       {notes: fine, pod: volume, cluster: class("first", "WaitForFirstConsumer"), before: claim("first"), until: "selected-node", related: []string{"PersistentVolumeClaim/state", "StorageClass/first"}},
		"no-volume":            {notes: fine, pod: volume, cluster: class("immediate", "Immediate"), before: claim("immediate"), until: "FailedScheduling", related: []string{"PersistentVolumeClaim/state", "StorageClass/immediate"}},
		"no-class":             {notes: fine, pod: volume, before: claim("nowhere"), until: "ProvisioningFailed", related: []string{"PersistentVolumeClaim/state", "StorageClass/nowhere"}},
		"no-claim":             {notes: fine, pod: volume, until: "FailedScheduling", related: []string{"PersistentVolumeClaim/state"}},
		"quota":                {notes: fine, before: quota("{pods: 0}"), until: "exceeded quota"},
		"quota-of-limits":      {notes: fine, before: quota("{limits.cpu: 1}"), until: "must specify"},
		"no-image":             {pod: image("none"), until: "ImagePullBackOff"},
		"no-registry":          {pod: "containers: [{name: node, image: '127.0.0.1:1/web:1'}]", until: "ImagePullBackOff"},
		"config-error":         {notes: behaves("config-error"), until: "CreateContainerConfigError"},
		"crash-loop":           {notes: behaves("crash-loop"), until: `"restartCount":3,`},
		"not-ready":            {notes: behaves("never-ready"), until: "Unhealthy"},
		"no-runtime-class":     {notes: fine, pod: "runtimeClassName: nope", until: "FailedCreate"},
		"pod-security":         {notes: fine, label: "pod-security.kubernetes.io/enforce=restricted", until: "violates PodSecurity"},
		"no-service-account":   {notes: fine, pod: "serviceAccountName: nobody", until: "error looking up service account"},
		"failed-mount":         {notes: warns(noMount), until: "FailedMount"},
		"no-runtime-handler":   {notes: warns(noHandler), pod: systemd, until: "is not known"},
		"no-user-namespaces":   {notes: warns(noUsers), pod: systemd, until: "does not support user namespaces"},
		"longer-than-deadline": {notes: behaves("creating"), spec: "progressDeadlineSeconds: 1", until: "ProgressDeadlineExceeded"},
		"paused":               {notes: fine, spec: "paused: true", until: "DeploymentPaused"},
	}
}

// registry stands for the lab's.
const registry = "registry.test"

// image is one that nobody has pushed.
func image(name string) string {
	return "containers: [{name: node, image: '" + registry + "/" + name + "@sha256:" + strings.Repeat("0", 64) + "'}]"
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return string(data)
}

// The verdict is tested on objects as a control plane has them. Here they are
// made again: what controllers, scheduler and admission say must still be what
// was recorded. With -update they are recorded anew.
func TestRecordedObjects(t *testing.T) {
	l := cluster{lab.New(t, lab.Options{})}
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "recorded-" + name
			l.Kubectl(t, "create", "namespace", ns)
			if s.label != "" {
				l.Kubectl(t, "label", "namespace", ns, s.label)
			}
			for _, objects := range []string{s.cluster, s.before} {
				if objects != "" {
					l.Apply(t, ns, objects)
				}
			}
			l.Apply(t, ns, strings.ReplaceAll(s.deployment(), registry, l.Registry))
			if s.then != "" {
				l.Kubectl(t, "rollout", "status", "-n", ns, "deployment/web")
				l.Kubectl(t, "patch", "deployment", "web", "-n", ns, "-p", s.then)
			}
			path := filepath.Join(recordings, name+".json")
			if *update {
				l.update(t, path, ns, s)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var then map[string]any
			if err := json.Unmarshal(data, &then); err != nil {
				t.Fatal(err)
			}
			// What is said now may be more than then, not less. A container that
			// crashes says one thing and the other in turn.
			have := map[string]bool{}
			lab.Eventually(t, "the objects to say what was recorded", func() error {
				for _, w := range words(l.record(t, ns, s.related)) {
					have[w] = true
				}
				for _, w := range words(then) {
					if !have[w] {
						return fmt.Errorf("not said any more: %s\nnow it is\n  %s", w, strings.Join(slices.Sorted(maps.Keys(have)), "\n  "))
					}
				}
				return nil
			})
		})
	}
}

// update records a scene anew.
func (l cluster) update(t *testing.T, path, ns string, s scene) {
	t.Helper()
	var record map[string]any
	lab.Eventually(t, "the objects to have "+s.until, func() error {
		record = l.record(t, ns, s.related)
		if !strings.Contains(text(t, record), s.until) {
			return errors.New(text(t, record))
		}
		return nil
	})
	data, err := json.MarshalIndent(record, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deployment is the scene's Deployment as YAML.
func (s scene) deployment() string {
	pod := s.pod
	if !strings.Contains(pod, "containers:") {
		pod += "\ncontainers: [{name: node, image: r.test/web}]"
	}
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n" + indent(2, s.spec) + `
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
` + indent(8, strings.Join(append(s.notes, "recorded: 'yes'"), "\n")) + "    spec:\n      terminationGracePeriodSeconds: 120\n" + indent(6, pod)
}

func indent(by int, s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.Repeat(" ", by) + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

func text(t *testing.T, o any) string {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// cluster is a lab whose objects are recorded.
type cluster struct{ *lab.Lab }

func (c cluster) items(t *testing.T, args ...string) []any {
	t.Helper()
	var list struct{ Items []any }
	if err := json.Unmarshal([]byte(c.Kubectl(t, append([]string{"get", "-o", "json"}, args...)...)), &list); err != nil {
		t.Fatal(err)
	}
	for _, it := range list.Items {
		delete(it.(map[string]any)["metadata"].(map[string]any), "managedFields")
	}
	return list.Items
}

// record is what a verdict is made from.
func (c cluster) record(t *testing.T, ns string, related []string) map[string]any {
	t.Helper()
	out := map[string]any{
		"replicaSets": c.items(t, "replicasets", "-n", ns), "pods": c.items(t, "pods", "-n", ns),
		"events": c.items(t, "events", "-n", ns, "--field-selector=type=Warning"), "related": map[string]any{},
	}
	for _, d := range c.items(t, "deployments", "-n", ns) {
		out["deployment"] = d
	}
	for _, ref := range related {
		kind, name, _ := strings.Cut(ref, "/")
		// A class that is not there is known not to be.
		out["related"].(map[string]any)[ref] = nil
		for _, o := range c.items(t, kind, "-n", ns, "--field-selector=metadata.name="+name) {
			out["related"].(map[string]any)[ref] = o
		}
	}
	var record map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text(t, out), c.Registry, registry)), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// generated are the parts of names and moments that differ each time.
var generated = regexp.MustCompile(`web-[0-9a-f]{5,10}(-[a-z0-9]{5})?|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b\d+(\.\d+)?(µs|ms|s|m)\b|fake-\d|127\.0\.0\.1:\d+`)

// words are the reasons and messages in a record, by kind of place.
func words(record map[string]any) []string {
	var out []string
	add := func(kind string, o map[string]any) {
		reason, _ := o["reason"].(string)
		message, _ := o["message"].(string)
		// Of many events that are alike one is kept, and its text may be cut.
		message = strings.TrimPrefix(message, "(combined from similar events): ")
		message = message[:min(len(message), 300)]
		if reason+message != "" {
			out = append(out, fmt.Sprintf("%s: %s: %s", kind, reason, generated.ReplaceAllString(message, "*")))
		}
	}
	var walk func(kind string, v any)
	walk = func(kind string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if typ, ok := v["type"].(string); ok && v["status"] != nil {
				add(kind+" condition "+typ, v)
			} else {
				add(kind, v)
			}
			for key, sub := range v {
				if key == "waiting" || key == "terminated" {
					walk(kind+" "+key, sub)
				} else {
					walk(kind, sub)
				}
			}
		case []any:
			for _, sub := range v {
				walk(kind, sub)
			}
		}
	}
	for kind, part := range record {
		if kind != "related" { // and of the Deployment what the controllers count
			walk(kind, part)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
