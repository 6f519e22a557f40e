package rollout

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// recorded reads what a real control plane had of a Deployment. The files are
// made, and held against a control plane again, by test/faults/rollout.
func recorded(t testing.TB, path string) Snapshot {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := snapshotOf(data)
	if !ok {
		t.Fatalf("%s holds no objects", path)
	}
	return s
}

func snapshotOf(data []byte) (s Snapshot, ok bool) {
	var f Object
	if kjson.Unmarshal(data, &f) != nil {
		return s, false
	}
	s = Snapshot{Deployment: field.Map(f, "deployment"), ReplicaSets: field.List(f, "replicaSets"), Pods: field.List(f, "pods"), Events: field.List(f, "events"), Related: map[Ref]Object{}}
	for ref, o := range field.Map(f, "related") {
		kind, name, _ := strings.Cut(ref, "/")
		s.Related[Ref{kind, name}], _ = o.(Object)
	}
	return s, true
}

var generated = regexp.MustCompile(`(web-)[0-9a-f]{6,10}-([a-z0-9]{5})?|(fake-)\d`)

// Each trouble has its sentence, and cannot heal by itself or can.
func TestRecorded(t *testing.T) {
	tests := map[string]struct {
		state   State
		message string // after "0/1 ready: ", without generated names
		stuck   bool
	}{
		"ready":                {Done, `1/1 ready`, false},
		"recreate":             {Waiting, `waiting for the end of the old pod web-*`, false},
		"longer-than-deadline": {Waiting, `ContainerCreating`, false},
		"paused":               {Waiting, `the Deployment is paused`, true},
		"unschedulable":        {Waiting, `Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.`, false},
		"first-consumer":       {Waiting, `Pending: the claim state waits for a volume of the StorageClass first (example.com/none)`, false},
		"no-volume":            {Waiting, `Unschedulable: the claim state waits for a volume of the StorageClass immediate (example.com/none)`, false},
		"no-class":             {Waiting, `Unschedulable: the claim state asks for the StorageClass nowhere, which the cluster does not have`, true},
		"no-claim":             {Waiting, `Unschedulable: the claim state does not exist`, true},
		"quota":                {Waiting, `the namespace's quota leaves no room for the pod: FailedCreate: pods "web-*" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`, false},
		"quota-of-limits":      {Waiting, `the namespace's quota wants requests or limits that the pod does not have: FailedCreate: pods "web-*" is forbidden: failed quota: q: must specify limits.cpu for: node`, true},
		"no-runtime-class":     {Waiting, `the cluster has not the pod's RuntimeClass: FailedCreate: pods "web-*" is forbidden: pod rejected: RuntimeClass "nope" not found`, true},
		"pod-security":         {Waiting, `the pod cannot be made: FailedCreate: pods "web-*" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "node" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "node" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "node" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "node" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`, true},
		"no-service-account":   {Waiting, `the pod cannot be made: FailedCreate: pods "web-*" is forbidden: error looking up service account recorded-no-service-account/nobody: serviceaccount "nobody" not found`, false},
		"no-image":             {Waiting, `ImagePullBackOff: the registry has no image registry.test/none@sha256:` + strings.Repeat("0", 64), true},
		"no-registry":          {Waiting, `ImagePullBackOff: dial tcp 127.0.0.1:1: connect: connection refused`, false},
		"failed-mount":         {Waiting, `ContainerCreating: a volume cannot be mounted: FailedMount: MountVolume.SetUp failed for volume "agent" : configmap "spire-agent" not found`, true},
		"no-runtime-handler":   {Waiting, `ContainerCreating: node fake-* has no runtime handler "systemd", which the pod's RuntimeClass systemd needs`, true},
		"no-user-namespaces":   {Waiting, "ContainerCreating: node fake-* does not support user namespaces: FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler \"systemd\" does not support user namespaces", true},
		"config-error":         {Waiting, `CreateContainerConfigError: configmap "yuba-test" not found`, true},
		"crash-loop":           {Waiting, `CrashLoopBackOff: container node ended 4 times, last with exit code 1`, true},
		"not-ready":            {Waiting, `running, not ready: Readiness probe failed: degraded`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := recorded(t, filepath.Join("testdata/recorded", name+".json"))
			v := Deployment(s, field.String(s.Deployment, "metadata", "uid"), field.Int(s.Deployment, "metadata", "generation"))
			if v.State != tt.state || generated.ReplaceAllString(strings.TrimPrefix(v.Message, "0/1 ready: "), "$1$3*") != tt.message || (v.Stuck != "") != tt.stuck {
				t.Errorf("%v, stuck %q: %s", v.State, v.Stuck, v.Why())
			}
		})
	}
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) != len(tests) {
		t.Errorf("%d recordings and %d sentences: %v", len(files), len(tests), err)
	}
}

// Whatever is made of real objects: there is a verdict of one line, it comes to
// an end, and soon.
func FuzzRecorded(f *testing.F) {
	files, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, int64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, generation int64) {
		s, ok := snapshotOf(data)
		if !ok {
			return
		}
		started := time.Now()
		v := Deployment(s, field.String(s.Deployment, "metadata", "uid"), generation)
		Needs(s)
		if took := time.Since(started); took > time.Minute {
			t.Errorf("%v for %d bytes", took, len(data))
		}
		if v.Message == "" || strings.Contains(v.Message, "\n") {
			t.Errorf("message %q", v.Message)
		}
		if again := Deployment(s, field.String(s.Deployment, "metadata", "uid"), generation); again.Why() != v.Why() || again.Stuck != v.Stuck {
			t.Errorf("two verdicts on the same objects:\n%s\n%s", v.Why(), again.Why())
		}
		p := Patience{Grace: time.Second}
		now := time.Unix(0, 0)
		if p.Judge(v, now); v.State == Waiting && v.Stuck != "" && !v.Held && p.Judge(v, now.Add(time.Second)).State != Failed {
			t.Error("a reason that lasts is no failure")
		}
	})
}
