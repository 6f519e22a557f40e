package rollout

import (
	"strings"
	"testing"
	"time"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

func parse(t testing.TB, s string) Object {
	t.Helper()
	var m Object
	if err := kjson.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return m
}

const template = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"r/web@sha256:2"}]}}`
const oldTemplate = `{"metadata":{"labels":{"app":"web","pod-template-hash":"old"}},"spec":{"containers":[{"name":"web","image":"r/web@sha256:1"}]}}`

// deployment is one at generation 2 with replicas 1; status and spec are added
// to it.
func deployment(t testing.TB, spec, status string) Object {
	d := parse(t, `{"metadata":{"name":"web","uid":"d","generation":2},"spec":{"replicas":1,"strategy":{"type":"Recreate"},"template":`+template+`}}`)
	for k, v := range parse(t, spec) {
		d["spec"].(Object)[k] = v
	}
	d["status"] = parse(t, status)
	return d
}

func replicaSet(t testing.TB, name, tmpl, status string) Object {
	rs := parse(t, `{"metadata":{"name":"`+name+`","uid":"`+name+`","ownerReferences":[{"controller":true,"uid":"d"}]},"spec":{"template":`+tmpl+`}}`)
	rs["status"] = parse(t, status)
	return rs
}

func newSet(t testing.TB) Object {
	return replicaSet(t, "web-new", strings.Replace(template, `"app":"web"`, `"app":"web","pod-template-hash":"new"`, 1), `{}`)
}

func oldSet(t testing.TB) Object { return replicaSet(t, "web-old", oldTemplate, `{}`) }

func pod(t testing.TB, name, set, rest string) Object {
	p := parse(t, `{"metadata":{"name":"`+name+`","uid":"`+name+`","ownerReferences":[{"controller":true,"uid":"`+set+`"}]},"spec":{"nodeName":"n1"}}`)
	for k, v := range parse(t, rest) {
		if k == "metadata" {
			for mk, mv := range v.(Object) {
				p["metadata"].(Object)[mk] = mv
			}
			continue
		}
		p[k] = v
	}
	return p
}

const (
	complete   = `{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}`
	incomplete = `{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"unavailableReplicas":1}`
	readyPod   = `{"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}]}}`
)

// waitingPod has one container in a waiting state.
func waitingPod(state string) string {
	return `{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"False"}],
	 "containerStatuses":[{"name":"web","image":"r/web@sha256:2","ready":false,` + state + `}]}}`
}

func event(t testing.TB, uid, at, reason, message string) Object {
	return parse(t, `{"type":"Warning","involvedObject":{"uid":"`+uid+`"},"lastTimestamp":"`+at+`","reason":"`+reason+`","message":"`+message+`"}`)
}

func TestDeployment(t *testing.T) {
	one := func(p string) func(*Snapshot) {
		return func(s *Snapshot) { s.Pods = append(s.Pods, pod(t, "web-new-1", "web-new", p)) }
	}
	type edit = func(*Snapshot)
	tests := map[string]struct {
		spec, status string
		edits        []edit
		state        State
		message      string
		detail       string
		stuck        bool
	}{
		"done": {
			status: complete, edits: []edit{one(readyPod)}, state: Done, message: "1/1 ready",
		},
		"scaled to nothing": {
			spec: `{"replicas":0}`, status: `{"observedGeneration":2}`, state: Done, message: "0/0 ready",
		},
		"scaled to nothing after it was applied": {
			spec: `{"replicas":0}`, status: `{"observedGeneration":3}`, edits: []edit{func(s *Snapshot) { s.Deployment["metadata"].(Object)["generation"] = int64(3) }},
			message: "0/0 ready: somebody scaled it to 0 pods", detail: "spec.replicas is 0 at generation 3", stuck: true,
		},
		"not yet observed": {
			status: `{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}`, edits: []edit{one(readyPod)},
			message: "waiting for the deployment controller",
		},
		"old pod still runs beside the new one": {
			status: complete, edits: []edit{one(readyPod), func(s *Snapshot) {
				s.Pods = append(s.Pods, pod(t, "web-old-1", "web-old", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":90}}`))
			}},
			message: "1/1 ready: waiting for the end of the old pod web-old-1", detail: "asked to end by 2026-01-01T00:00:00Z (grace 90 s)",
		},
		"old pod that was evicted is no matter": {
			status: complete, edits: []edit{one(readyPod), func(s *Snapshot) {
				s.Pods = append(s.Pods, pod(t, "web-old-1", "web-old", `{"status":{"phase":"Failed","reason":"Evicted"}}`))
			}},
			state: Done, message: "1/1 ready",
		},
		"no pod under Recreate": {
			status: `{"observedGeneration":2}`, edits: []edit{func(s *Snapshot) {
				s.ReplicaSets = []Object{oldSet(t)}
				s.Pods = append(s.Pods, pod(t, "web-old-1", "web-old", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`))
			}},
			message: "0/1 ready: waiting for the end of the old pod web-old-1",
		},
		"only the old pod is ready": {
			status: `{"observedGeneration":2,"replicas":1,"updatedReplicas":0,"readyReplicas":1,"availableReplicas":1}`, edits: []edit{func(s *Snapshot) {
				s.ReplicaSets = []Object{oldSet(t)}
				s.Pods = append(s.Pods, pod(t, "web-old-1", "web-old", readyPod))
			}},
			message: "0/1 ready: waiting for the end of the old pod web-old-1",
		},
		"pulling": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"ContainerCreating"}}`))},
			message: "0/1 ready: ContainerCreating",
		},
		"mount fails": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"ContainerCreating"}}`)), func(s *Snapshot) {
				s.Events = []Object{event(t, "web-new-1", "2026-01-01T00:00:02Z", "FailedMount", "no device"), event(t, "web-new-1", "2026-01-01T00:00:01Z", "Other", "older")}
			}},
			message: "0/1 ready: ContainerCreating: a volume cannot be mounted: FailedMount: no device", detail: "last event of the pod: FailedMount: no device",
		},
		"bad image name": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"InvalidImageName","message":"bad"}}`))},
			message: "0/1 ready: InvalidImageName: bad", stuck: true,
		},
		"config error": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"CreateContainerConfigError","message":"secret \"x\" not found"}}`))},
			message: `0/1 ready: CreateContainerConfigError: secret "x" not found`, stuck: true,
		},
		"registry away": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"ErrImagePull","message":"dial tcp: connection refused"}}`))},
			message: "0/1 ready: ErrImagePull: dial tcp: connection refused", detail: "image r/web@sha256:2",
		},
		"image not there": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"ErrImagePull","message":"r/web@sha256:2: not found"}}`))},
			message: "0/1 ready: ErrImagePull: the registry has no image r/web@sha256:2", stuck: true,
		},
		"image not there, says only the event": {
			status: incomplete, edits: []edit{one(waitingPod(`"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}`)), func(s *Snapshot) {
				s.Events = []Object{event(t, "web-new-1", "2026-01-01T00:00:02Z", "Failed", "Failed to pull image r/web@sha256:2: manifest unknown")}
			}},
			message: "0/1 ready: ImagePullBackOff", stuck: true,
		},
		"first crash": {
			status: incomplete, edits: []edit{one(waitingPod(`"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`))},
			message: "0/1 ready: CrashLoopBackOff: container web ended 2 times, last with exit code 1",
		},
		"crash loop": {
			status: incomplete, edits: []edit{one(waitingPod(`"restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":137,"signal":9,"reason":"OOMKilled"}}`))},
			message: "0/1 ready: CrashLoopBackOff: container web ended 5 times, last by signal 9 (OOMKilled: it took more memory than it may)", stuck: true,
		},
		"degraded": {
			status: incomplete, edits: []edit{one(`{"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"False"}],
			 "containerStatuses":[{"name":"web","ready":false,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`), func(s *Snapshot) {
				s.Events = []Object{event(t, "web-new-1", "2026-01-01T00:00:02Z", "Unhealthy", "Readiness probe failed: degraded")}
			}},
			message: "0/1 ready: running, not ready: Readiness probe failed: degraded", detail: "container web runs since 2026-01-01T00:00:00Z and is not ready",
		},
		"init container": {
			status: incomplete, edits: []edit{one(`{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],
			 "initContainerStatuses":[{"name":"prep","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"more","state":{"waiting":{"reason":"CreateContainerConfigError","message":"x"}}}],
			 "containerStatuses":[{"name":"web","state":{"waiting":{"reason":"PodInitializing"}}}]}}`)},
			message: "0/1 ready: CreateContainerConfigError: x", stuck: true,
		},
		"unschedulable": {
			status: incomplete, edits: []edit{one(`{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}]}}`)},
			message: "0/1 ready: Unschedulable: 0/1 nodes are available", detail: "is not scheduled",
		},
		"quota": {
			status: `{"observedGeneration":2,"unavailableReplicas":1}`, edits: []edit{func(s *Snapshot) {
				s.ReplicaSets[0]["status"] = parse(t, `{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"pods \"x\" is forbidden: exceeded quota: q"}]}`)
			}},
			message: `0/1 ready: the namespace's quota leaves no room for the pod: FailedCreate: pods "x" is forbidden: exceeded quota: q`,
		},
		"pod refused": {
			status: `{"observedGeneration":2,"unavailableReplicas":1}`, edits: []edit{func(s *Snapshot) {
				s.ReplicaSets[0]["status"] = parse(t, `{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"pods \"x\" is forbidden: violates PodSecurity"}]}`)
			}},
			message: "0/1 ready: the pod cannot be made", stuck: true,
		},
		"paused": {
			spec: `{"paused":true}`, status: incomplete, edits: []edit{one(readyPod)}, message: "1/1 ready: the Deployment is paused", stuck: true,
		},
		"progress deadline is not ours": {
			status:  `{"observedGeneration":2,"replicas":1,"updatedReplicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`,
			edits:   []edit{one(waitingPod(`"state":{"waiting":{"reason":"ContainerCreating"}}`))},
			message: "0/1 ready: ContainerCreating",
		},
		"being deleted": {
			status: complete, edits: []edit{func(s *Snapshot) {
				s.Deployment["metadata"].(Object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
			}}, state: Failed, message: "the Deployment is being deleted",
		},
		"gone": {
			status: complete, edits: []edit{func(s *Snapshot) { s.Deployment = nil }}, state: Failed, message: "does not exist any more",
		},
		"made anew": {
			status: complete, edits: []edit{func(s *Snapshot) { s.Deployment["metadata"].(Object)["uid"] = "e" }}, state: Failed, message: "made anew",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.spec == "" {
				tt.spec = "{}"
			}
			s := Snapshot{Deployment: deployment(t, tt.spec, tt.status), ReplicaSets: []Object{newSet(t), oldSet(t)}}
			for _, e := range tt.edits {
				e(&s)
			}
			v := Deployment(s, "d", 2)
			if v.State != tt.state {
				t.Errorf("%v: %s", v.State, v.Why())
			}
			if !strings.Contains(v.Message, tt.message) {
				t.Errorf("message lacks %q: %s", tt.message, v.Message)
			}
			if !strings.Contains(v.Why(), tt.detail) {
				t.Errorf("lacks %q: %s", tt.detail, v.Why())
			}
			if (v.Stuck != "") != tt.stuck {
				t.Errorf("stuck is %q", v.Stuck)
			}
		})
	}
}

// A later generation that we applied is waited for, even when an older copy of
// the Deployment looks complete.
func TestOldCopyIsNotBelieved(t *testing.T) {
	s := Snapshot{Deployment: deployment(t, `{}`, complete), ReplicaSets: []Object{newSet(t)}, Pods: []Object{pod(t, "p", "web-new", readyPod)}}
	if v := Deployment(s, "d", 3); v.State != Waiting {
		t.Error(v.State)
	}
}

func TestPatience(t *testing.T) {
	now := time.Unix(1000, 0)
	p := Patience{Grace: 20 * time.Second}
	stuck, other := Verdict{Stuck: "a"}, Verdict{Stuck: "b"}
	steps := []struct {
		after time.Duration
		v     Verdict
		want  State
	}{
		{0, stuck, Waiting},
		{19 * time.Second, stuck, Waiting},
		{0, Verdict{}, Waiting}, // it healed
		{10 * time.Second, stuck, Waiting},
		{15 * time.Second, other, Waiting}, // another reason begins anew
		{19 * time.Second, other, Waiting},
		{time.Second, other, Failed},
		// Between two crashes the container runs: that neither fails nor heals.
		{0, Verdict{Stuck: "crash"}, Waiting},
		{15 * time.Second, Verdict{Stuck: "crash", Held: true}, Waiting},
		{15 * time.Second, Verdict{Stuck: "crash", Held: true}, Waiting},
		{0, Verdict{Stuck: "crash"}, Failed},
	}
	for i, s := range steps {
		now = now.Add(s.after)
		if got := p.Judge(s.v, now).State; got != s.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// The reason is that of the pod that is there now, and not of one that is on its way
// out, in whatever order they come.
func TestWhoSpeaks(t *testing.T) {
	at := func(second, rest string) string {
		return `{"metadata":{"creationTimestamp":"2026-01-01T00:00:` + second + `Z"` + rest[1:len(rest)-1] + `}`
	}
	ended := pod(t, "web-new-e", "web-new", at("05", `{},"status":{"phase":"Failed","reason":"Evicted"}}`))
	ending := pod(t, "web-new-d", "web-new", at("04", `{,"deletionTimestamp":"2026-01-01T00:01:00Z"},"status":{"phase":"Pending"}}`))
	older := pod(t, "web-new-o", "web-new", at("01", `{},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"older"}]}}`))
	younger := pod(t, "web-new-y", "web-new", at("02", `{},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"younger"}]}}`))
	for _, tt := range []struct {
		pods []Object
		want string
	}{
		{[]Object{ended, ending, older, younger}, "Unschedulable: younger"},
		{[]Object{ended, ending, older}, "Unschedulable: older"},
		{[]Object{ended, ending}, "pod web-new-d is being deleted"},
		{[]Object{ended}, "pod web-new-e ended: Failed Evicted"},
	} {
		for range len(tt.pods) {
			tt.pods = append(tt.pods[1:], tt.pods[0])
			v := Deployment(Snapshot{Deployment: deployment(t, `{}`, incomplete), ReplicaSets: []Object{newSet(t)}, Pods: tt.pods}, "d", 2)
			if v.Message != "0/1 ready: "+tt.want {
				t.Errorf("%s, and not %s", v.Message, tt.want)
			}
		}
	}
}

// What a pod writes does not steer the terminal of who reads the verdict.
func TestVerdictIsPlainText(t *testing.T) {
	for _, hostile := range []string{"\u009b2J", "\u202e", "\x1b]0;x\x07", "\n\x00"} {
		p := pod(t, "web-new-1", "web-new", waitingPod(`"state":{"waiting":{}}`))
		status := p["status"].(Object)["containerStatuses"].([]any)[0].(Object)
		status["state"] = Object{"waiting": Object{"reason": "Odd" + hostile, "message": "a" + hostile + "b"}}
		status["lastState"] = Object{"terminated": Object{"reason": hostile, "message": hostile}}
		warning := event(t, "web-new-1", "2026-01-01T00:00:00Z", "R", "M")
		warning["reason"], warning["message"] = "Unhealthy"+hostile, "probe"+hostile
		v := Deployment(Snapshot{Deployment: deployment(t, `{}`, incomplete), ReplicaSets: []Object{newSet(t)}, Pods: []Object{p}, Events: []Object{warning}}, "d", 2)
		if !strings.Contains(v.Message, "Odd") || strings.ContainsAny(v.Why(), "\u009b\u202e\x1b\x07\x00") || strings.Contains(v.Message, "\n") {
			t.Errorf("%q", v.Why())
		}
	}
}

// A crash loop that doesn't show just now fails as soon as it does, and until then
// there is no moment to wait for.
func TestHeldNeedsNoLook(t *testing.T) {
	p, now := Patience{Grace: time.Second}, time.Unix(0, 0)
	p.Judge(Verdict{Stuck: "crash"}, now)
	if n := p.Next(now); n != time.Second {
		t.Errorf("next after %v", n)
	}
	now = now.Add(2 * time.Second)
	if v := p.Judge(Verdict{Stuck: "crash", Held: true}, now); v.State != Waiting || p.Next(now) != 0 {
		t.Errorf("%v, next after %v", v.State, p.Next(now))
	}
	if v := p.Judge(Verdict{Stuck: "crash"}, now); v.State != Failed {
		t.Errorf("%v", v.State)
	}
}
