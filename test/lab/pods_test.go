package lab_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fediversity.eu/yuba/test/lab"
)

// pod is what tests look at.
type pod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
	}
	Spec struct {
		NodeName string
	}
	Status struct {
		Phase, PodIP string
		Conditions   []struct {
			Type, Status, Reason, Message, LastTransitionTime string
		}
		ContainerStatuses []struct {
			Name, Image, ImageID, ContainerID string
			Ready, Started                    bool
			RestartCount                      int
			State, LastState                  struct {
				Waiting, Running *struct{ Reason, Message, StartedAt string }
				Terminated       *struct {
					Reason   string
					ExitCode int
				}
			}
		}
	}
}

func parse(t *testing.T, u *unstructured.Unstructured) pod {
	t.Helper()
	var p pod
	data, err := json.Marshal(u.Object)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p pod) condition(kind string) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return strings.TrimSpace(c.Status + " " + c.Reason)
		}
	}
	return "none"
}

// waiting is the reason for which the pod's container waits.
func (p pod) waiting() string {
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].State.Waiting.Reason
}

func (p pod) running() bool {
	return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil
}

// deployment is one as the method makes it; more are further lines of the pod's
// spec.
func deployment(image string, more ...string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      runtimeClassName: systemd
      hostUsers: false
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 90
      containers:
      - name: node
        image: %s
        readinessProbe: {exec: {command: [systemctl, is-system-running]}}
%s`, image, strings.Join(more, "\n"))
}

// until waits for the one pod of the deployment.
func until(t *testing.T, l *lab.Lab, ns, what string, done func(pod) bool) pod {
	t.Helper()
	return parse(t, l.UntilPod(t, ns, "app=web", what, func(u *unstructured.Unstructured) bool { return done(parse(t, u)) }))
}

// events waits until the pod has an event with these words.
func events(t *testing.T, l *lab.Lab, ns string, p pod, words ...string) {
	t.Helper()
	lab.Eventually(t, fmt.Sprintf("events with %q", words), func() error {
		got := l.Kubectl(t, "get", "events", "-n", ns, "--field-selector", "involvedObject.uid="+p.Metadata.UID,
			"-o", `jsonpath={range .items[*]}{.type} {.reason}: {.message} ({.source.component}){"\n"}{end}`)
		for _, w := range words {
			if !strings.Contains(got, w) {
				return fmt.Errorf("no %q in:\n%s", w, got)
			}
		}
		return nil
	})
}

func TestReadyPodIsWhatAKubeletReports(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	image := l.Push(t, ns+"/web", "1", lab.Image{})
	l.Apply(t, ns, deployment(image))
	l.Kubectl(t, "rollout", "status", "-n", ns, "deployment/web", "--timeout=60s")
	p := until(t, l, ns, "to be ready", func(p pod) bool { return p.condition("Ready") == "True" })
	for kind, want := range map[string]string{"PodScheduled": "True", "PodReadyToStartContainers": "True", "Initialized": "True", "ContainersReady": "True"} {
		if got := p.condition(kind); got != want {
			t.Errorf("condition %s is %q, want %q", kind, got, want)
		}
	}
	c := p.Status.ContainerStatuses[0]
	if c.ImageID != image || c.Image != image || !c.Ready || !c.Started || !strings.HasPrefix(c.ContainerID, "containerd://") {
		t.Errorf("container status %+v", c)
	}
	if p.Status.Phase != "Running" || p.Status.PodIP == "" {
		t.Errorf("phase %s, address %q", p.Status.Phase, p.Status.PodIP)
	}
	events(t, l, ns, p, "Normal Scheduled", "Normal Pulling: Pulling image", "Normal Pulled: Successfully pulled", "Normal Started: Container started (kubelet)")
}

func TestNeverReadyPodRunsAndSaysWhy(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Behaviour: lab.NeverReady})))
	p := until(t, l, ns, "to run", pod.running)
	if got := p.condition("Ready"); got != "False ContainersNotReady" {
		t.Errorf("Ready is %q", got)
	}
	events(t, l, ns, p, "Warning Unhealthy: Readiness probe failed: degraded")
	if got := l.Kubectl(t, "get", "pods", "-n", ns, "--no-headers"); !strings.Contains(got, "0/1") || !strings.Contains(got, "Running") {
		t.Errorf("kubectl shows %s", got)
	}
}

func TestCrashLoopRestartsAndBacksOff(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Behaviour: lab.CrashLoop})))
	p := until(t, l, ns, "to back off a second time", func(p pod) bool {
		return p.waiting() == "CrashLoopBackOff" && p.Status.ContainerStatuses[0].RestartCount >= 2
	})
	last := p.Status.ContainerStatuses[0].LastState.Terminated
	if last == nil || last.ExitCode != 1 || last.Reason != "Error" {
		t.Errorf("last state %+v", last)
	}
	if got := p.condition("Ready"); got != "False ContainersNotReady" {
		t.Errorf("Ready is %q", got)
	}
	events(t, l, ns, p, "Warning BackOff: Back-off restarting failed container node in pod "+p.Metadata.Name)
	if got := l.Kubectl(t, "get", "pods", "-n", ns, "--no-headers"); !strings.Contains(got, "0/1") {
		t.Errorf("kubectl shows %s", got)
	}
}

func TestConfigErrorNeverStarts(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Behaviour: lab.ConfigError})))
	p := until(t, l, ns, "to fail", func(p pod) bool { return p.waiting() == "CreateContainerConfigError" })
	if p.Status.Phase != "Pending" {
		t.Errorf("phase %s", p.Status.Phase)
	}
	events(t, l, ns, p, `Warning Failed: Error: configmap "yuba-test" not found`)
}

func TestMissingImageIsPulledOnceItIsThere(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Registry+"/"+ns+"/web:1"))
	p := until(t, l, ns, "to back off", func(p pod) bool { return p.waiting() == "ImagePullBackOff" })
	if got := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(got, "Back-off pulling image") || !strings.Contains(got, "not found") {
		t.Errorf("message %q", got)
	}
	events(t, l, ns, p, "Warning Failed: Failed to pull image", "Warning Failed: Error: ErrImagePull", "Warning Failed: Error: ImagePullBackOff", "Normal BackOff: Back-off pulling image")
	l.Push(t, ns+"/web", "1", lab.Image{})
	until(t, l, ns, "to be ready", func(p pod) bool { return p.condition("Ready") == "True" })
}

func TestForeignRegistryIsNeverAsked(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment("registry.example/web:1"))
	p := until(t, l, ns, "to fail", func(p pod) bool { return p.waiting() == "ErrImagePull" })
	if got := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(got, "no such host") {
		t.Errorf("message %q", got)
	}
}

func TestBadImageNameIsRefused(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Registry+"/UPPER:1"))
	until(t, l, ns, "to fail", func(p pod) bool { return p.waiting() == "InvalidImageName" })
}

func TestPodThatFitsNowhereIsUnschedulable(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{}), "        resources: {requests: {cpu: 1000}}"))
	p := until(t, l, ns, "to be refused", func(p pod) bool { return p.condition("PodScheduled") == "False Unschedulable" })
	if p.Spec.NodeName != "" || p.Status.Phase != "Pending" {
		t.Errorf("node %q, phase %s", p.Spec.NodeName, p.Status.Phase)
	}
	events(t, l, ns, p, "Warning FailedScheduling", "Insufficient cpu")
}

func TestRecreateReplacesThePodAfterTheOldOneIsGone(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Content: "one"})))
	first := until(t, l, ns, "to be ready", func(p pod) bool { return p.condition("Ready") == "True" })
	second := l.Push(t, ns+"/web", "2", lab.Image{Content: "two"})
	l.Apply(t, ns, deployment(second))
	stopping := until(t, l, ns, "to be told to stop", func(p pod) bool {
		return p.Metadata.UID == first.Metadata.UID && p.Metadata.DeletionTimestamp != ""
	})
	if got := len(stopping.Status.ContainerStatuses); got != 1 {
		t.Errorf("the pod that stops has %d container statuses", got)
	}
	p := until(t, l, ns, "to be ready with the second image", func(p pod) bool {
		return p.Metadata.UID != first.Metadata.UID && p.condition("Ready") == "True"
	})
	if got := p.Status.ContainerStatuses[0].ImageID; got != second {
		t.Errorf("it runs %s, want %s", got, second)
	}
	if got := l.Kubectl(t, "get", "pods", "-n", ns, "-o", "name"); strings.TrimSpace(got) != "pod/"+p.Metadata.Name {
		t.Errorf("pods are\n%s", got)
	}
	events(t, l, ns, first, "Normal Killing: Stopping container node")
}

func TestSlowPodTakesItsTime(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{ReadyAfter: 3 * time.Second, StopAfter: time.Hour})))
	p := until(t, l, ns, "to be ready", func(p pod) bool { return p.condition("Ready") == "True" })
	started, err := time.Parse(time.RFC3339, p.Status.ContainerStatuses[0].State.Running.StartedAt)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Status.Conditions {
		// The API server keeps whole seconds.
		if at, err := time.Parse(time.RFC3339, c.LastTransitionTime); c.Type == "Ready" && (err != nil || at.Sub(started) < 2*time.Second) {
			t.Errorf("started %v, ready %s", started, c.LastTransitionTime)
		}
	}
	l.Kubectl(t, "delete", "deployment", "-n", ns, "web")
	p = until(t, l, ns, "to be told to stop", func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
	events(t, l, ns, p, "Normal Killing: Stopping container node")
	if p = until(t, l, ns, "to be there", func(pod) bool { return true }); !p.running() {
		t.Errorf("it has ended: %+v", p.Status)
	}
	l.Kubectl(t, "delete", "pod", "-n", ns, p.Metadata.Name, "--force", "--grace-period=0")
}

func TestAnnotationOfThePodOutweighsTheImage(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment("registry.example/none:1"))
	until(t, l, ns, "to fail", func(p pod) bool { return p.waiting() != "" && p.waiting() != "ContainerCreating" })
	for _, behaviour := range []string{lab.NeverReady, lab.Ready, lab.NeverReady, lab.CrashLoop, lab.Ready} {
		name := strings.TrimSpace(l.Kubectl(t, "get", "pods", "-n", ns, "-o", "name"))
		l.Kubectl(t, "annotate", "-n", ns, name, "--overwrite", "yuba.test/behaviour="+behaviour)
		until(t, l, ns, "to be "+behaviour, func(p pod) bool {
			switch behaviour {
			case lab.CrashLoop:
				return p.waiting() == "CrashLoopBackOff"
			case lab.NeverReady:
				return p.running() && p.condition("Ready") == "False ContainersNotReady"
			}
			return p.condition("Ready") == "True"
		})
	}
}

func TestCommandsAndLogsAnswerThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "a.service,b.mount", Log: "one\ntwo\n"})))
	until(t, l, ns, "to run", pod.running)
	if got := l.Kubectl(t, "exec", "-n", ns, "deployment/web", "--", "systemctl", "list-units", "--failed"); !strings.Contains(got, "a.service loaded failed") || !strings.Contains(got, "b.mount") {
		t.Errorf("failed units: %s", got)
	}
	if got := l.Kubectl(t, "exec", "-n", ns, "deployment/web", "--", "journalctl", "-u", "a.service", "-n", "2"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "\x1b[0;1;31ma.service: Failed") {
		t.Errorf("journal: %q", got)
	}
	if got := l.Kubectl(t, "logs", "-n", ns, "deployment/web", "--tail=1"); got != "two\n" {
		t.Errorf("log: %q", got)
	}
}

func TestContainerThatIsNotMadeSaysWhyInAnEvent(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, deployment(l.Push(t, ns+"/web", "1", lab.Image{Behaviour: lab.Creating, Warning: "FailedMount: MountVolume.SetUp failed: no device"})))
	p := until(t, l, ns, "to be made", func(p pod) bool { return p.waiting() == "ContainerCreating" })
	events(t, l, ns, p, "Warning FailedMount: MountVolume.SetUp failed: no device (kubelet)")
}
