package main

import (
	"encoding/json"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
)

// The life of a pod on a fake node, told as kwok stages: in which state of the
// pod kwok writes which status next. Together the stages do what a kubelet
// does, in the same order and with the same words, only faster. Which way a
// pod goes is decided by annotations that pods.go sets:
const (
	annotationVerdict    = "yuba.test/verdict"     // a behaviour, or pullFailed
	annotationPullReason = "yuba.test/pull-reason" // why the image isn't there: a reason of a waiting container
	annotationPullError  = "yuba.test/pull-error"  // the same as a sentence
	annotationImageIDs   = "yuba.test/image-ids"   // JSON object: container name to imageID
	annotationReadyAfter = "yuba.test/ready-after" // time from running to ready
	annotationStopAfter  = "yuba.test/stop-after"  // time that the container takes to end
)

// The behaviours; see pods.go for what they mean to a test.
const (
	ready       = "ready"
	neverReady  = "never-ready"
	crashLoop   = "crash-loop"
	configError = "config-error"
	creating    = "creating"    // its container isn't made, and the kubelet keeps no reason in the status
	pullFailed  = "pull-failed" // only as a verdict
)

// stages gives kwok's configuration file.
func stages() ([]byte, error) {
	docs := []string{nodefast.DefaultNodeInit, nodeheartbeat.DefaultNodeHeartbeatWithLease}
	for _, s := range podStages() {
		data, err := json.Marshal(s.manifest())
		if err != nil {
			return nil, err
		}
		docs = append(docs, string(data))
	}
	return []byte(strings.Join(docs, "\n---\n")), nil
}

// stage is one step. No two stages may match a pod at once: kwok would throw
// dice.
type stage struct {
	name      string
	when      []match
	delay     string // default "0s"
	delayFrom string // annotation that overrides delay
	status    string // template of the new status
	delete    bool   // instead: the pod is removed
}

// match is a condition on the pod: a jq query, and the values that its result
// may have. With no values the result must exist; not turns it around.
type match struct {
	query  string
	not    bool
	values []string
}

func (s stage) manifest() any {
	type object = map[string]any
	var expressions []object
	for _, m := range s.when {
		e := object{"key": m.query}
		switch {
		case len(m.values) == 0 && m.not:
			e["operator"] = "DoesNotExist"
		case len(m.values) == 0:
			e["operator"] = "Exists"
		case m.not:
			e["operator"], e["values"] = "NotIn", m.values
		default:
			e["operator"], e["values"] = "In", m.values
		}
		expressions = append(expressions, e)
	}
	next := object{"delete": true}
	if !s.delete {
		next = object{"statusTemplate": s.status}
	}
	spec := object{
		"resourceRef": object{"apiGroup": "v1", "kind": "Pod"},
		"selector":    object{"matchExpressions": expressions},
		"next":        next,
	}
	if s.delay != "" {
		// kwok's fixed delay is a number of milliseconds; a query can give
		// the default and the annotation in one.
		query := `"` + s.delay + `"`
		if s.delayFrom != "" {
			query = `.metadata.annotations["` + s.delayFrom + `"] // ` + query
		}
		spec["delay"] = object{"durationMilliseconds": 0, "durationFrom": object{"expressionFrom": query}}
	}
	return object{
		"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage",
		"metadata": object{"name": s.name}, "spec": spec,
	}
}

// Conditions of stages. Containers of a pod go through their states together,
// so the first one speaks for all.
func alive() match    { return match{query: ".metadata.deletionTimestamp", not: true} }
func doomed() match   { return match{query: ".metadata.deletionTimestamp"} }
func ended() match    { return match{query: ".status.phase", values: []string{"Succeeded", "Failed"}} }
func notEnded() match { m := ended(); m.not = true; return m }
func running() match {
	return match{query: ".status.containerStatuses[0].state.running.startedAt"}
}
func terminated() match {
	return match{query: ".status.containerStatuses[0].state.terminated.finishedAt"}
}
func waiting(reasons ...string) match {
	return match{query: ".status.containerStatuses[0].state.waiting.reason", values: reasons}
}
func verdict(v ...string) match {
	return match{query: `.metadata.annotations["` + annotationVerdict + `"]`, values: v}
}
func isReady() match {
	return match{query: `.status.conditions.[] | select(.type == "Ready") | .status`, values: []string{"True"}}
}
func restarted() match {
	return match{query: ".status.containerStatuses[0].restartCount | select(. > 0)"}
}
func not(m match) match { m.not = true; return m }

// container tells the fields of a container status; the rest stays as it was.
// The expressions are template text.
type container struct {
	ready, started string
	restarts       string // default: as it was
	state, last    string // JSON of ContainerState; last: as it was
	fresh          bool   // there is no status yet
}

func (c container) template() string {
	if c.restarts == "" {
		c.restarts = `{{ $old.restartCount }}`
	}
	if c.last == "" {
		c.last = `{{ toJson (default (dict) $old.lastState) }}`
	}
	id := `{{ printf "containerd://%s" (printf "%s/%s/%v" $root.metadata.uid $c.name ` + `$restarts | sha256sum) | Quote }}`
	imageID := `{{ index $ids $c.name | default "" | Quote }}`
	pre := `{{ range $i, $c := .spec.containers }}{{ $old := index $root.status.containerStatuses $i }}`
	if c.fresh {
		pre = `{{ range $i, $c := .spec.containers }}{{ $old := dict }}`
		c.restarts, c.last, id, imageID = "0", "{}", `""`, `""`
	}
	if strings.Contains(c.state, `"waiting"`) && !strings.Contains(c.state, "CrashLoopBackOff") {
		id, imageID = `""`, `""` // there is no container yet
	}
	return "containerStatuses:\n" + pre + `{{ $restarts := printf "%v" (` + inner(c.restarts) + `) }}
- name: {{ $c.name | Quote }}
  image: {{ $c.image | Quote }}
  imageID: ` + imageID + `
  containerID: ` + id + `
  ready: ` + c.ready + `
  started: ` + c.started + `
  restartCount: {{ $restarts }}
  state: ` + c.state + `
  lastState: ` + c.last + `
{{ end }}
`
}

// inner takes the braces off a template action.
func inner(action string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(action, "{{"), "}}"))
}

// head begins every template.
const head = `{{ $root := . }}{{ $now := Now }}
{{ $ids := dict }}{{ with .metadata.annotations }}{{ with index . "` + annotationImageIDs + `" }}{{ $ids = fromJson . }}{{ end }}{{ end }}
observedGeneration: {{ default 0 .metadata.generation }}
`

// condition gives one condition of the pod, which changed just now.
func condition(kind, status, reason, message string) string {
	c := `- {type: ` + kind + `, status: "` + status + `", lastProbeTime: null, lastTransitionTime: {{ $now | Quote }}`
	c += `, reason: "` + reason + `", message: ` + message
	return c + ", observedGeneration: {{ default 0 $root.metadata.generation }}}\n"
}

const (
	empty   = `""`
	unready = `'containers with unready status: [{{ range $i, $c := .spec.containers }}{{ if $i }} {{ end }}{{ $c.name }}{{ end }}]'`

	addresses = `
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs: [{{ range . }}{ip: {{ . | Quote }}},{{ end }}]
{{ end }}
`
	// Every call takes a new address; the pod keeps its first.
	podAddresses = `
{{ if not .status.podIP }}{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) (or .metadata.uid "") (or .metadata.name "") (or .metadata.namespace "") }}
podIP: {{ index . 0 | Quote }}
podIPs: [{{ range . }}{ip: {{ . | Quote }}},{{ end }}]
{{ end }}{{ end }}
`
	initDone = `
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ index $ids .name | default "" | Quote }}
  ready: true
  restartCount: 0
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  started: false
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
  {{ end }}
{{ end }}
{{ end }}
`
)

func waitState(reason, message string) string {
	return `{"waiting": {"reason": "` + reason + `", "message": ` + message + `}}`
}

// unreadyConditions are those of a pod none of whose containers is ready.
func unreadyConditions() string {
	return condition("Ready", "False", "ContainersNotReady", unready) +
		condition("ContainersReady", "False", "ContainersNotReady", unready)
}

func podStages() []stage {
	const startedNow = `{"running": {"startedAt": {{ $now | Quote }}}}`
	pullError := `{{ index .metadata.annotations "` + annotationPullError + `" | Quote }}`
	pullError = strings.Replace(pullError, ".metadata", "$root.metadata", 1)
	runs := verdict(ready, neverReady, crashLoop)
	// ended says how a running container ended; lastOf keeps it afterwards.
	exited := func(code, reason string) string {
		return `{"terminated": {"exitCode": ` + code + `, "reason": "` + reason + `", "startedAt": {{ $old.state.running.startedAt | Quote }}, "finishedAt": {{ $now | Quote }}, "containerID": {{ $old.containerID | Quote }}}}`
	}
	return []stage{
		{
			// The kubelet has seen the pod.
			name: "pod-create",
			when: []match{alive(), {query: ".status.containerStatuses[0].name", not: true}, notEnded()},
			status: head + `
phase: Pending
startTime: {{ $now | Quote }}
conditions:
` + condition("PodReadyToStartContainers", "False", "", empty) + condition("Initialized", "True", "", empty) + unreadyConditions() +
				addresses + container{fresh: true, ready: "false", started: "false", state: waitState("ContainerCreating", empty)}.template(),
		},
		{
			name: "pod-pull-failed",
			when: []match{alive(), verdict(pullFailed), waiting("ContainerCreating", "CreateContainerConfigError")},
			status: head + podAddresses + `
conditions:
` + condition("PodReadyToStartContainers", "True", "", empty) +
				container{ready: "false", started: "false", state: waitState(`{{ index $root.metadata.annotations "`+annotationPullReason+`" }}`, pullError)}.template(),
		},
		{
			name:  "pod-pull-backoff",
			when:  []match{alive(), verdict(pullFailed), waiting("ErrImagePull")},
			delay: "500ms",
			status: head + container{ready: "false", started: "false", state: waitState("ImagePullBackOff",
				`{{ printf "Back-off pulling image %q: ErrImagePull: %s" $c.image (index $root.metadata.annotations "`+annotationPullError+`") | Quote }}`)}.template(),
		},
		{
			name:   "pod-pull-again",
			when:   []match{alive(), verdict(pullFailed), waiting("ImagePullBackOff")},
			delay:  "5s",
			status: head + container{ready: "false", started: "false", state: waitState("ErrImagePull", pullError)}.template(),
		},
		{
			name: "pod-config-error",
			when: []match{alive(), verdict(configError), waiting("ContainerCreating", "ErrImagePull", "ImagePullBackOff")},
			status: head + podAddresses + `
conditions:
` + condition("PodReadyToStartContainers", "True", "", empty) +
				container{ready: "false", started: "false", state: waitState("CreateContainerConfigError", `"`+configErrorMessage+`"`)}.template(),
		},
		{
			name: "pod-start",
			when: []match{alive(), runs, waiting("ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName")},
			status: head + podAddresses + initDone + `
phase: Running
conditions:
` + condition("PodReadyToStartContainers", "True", "", empty) +
				container{ready: "false", started: "true", state: startedNow}.template(),
		},
		{
			name:      "pod-ready",
			when:      []match{alive(), verdict(ready), running(), not(isReady())},
			delay:     "100ms",
			delayFrom: annotationReadyAfter,
			status: head + `
conditions:
` + condition("Ready", "True", "", empty) + condition("ContainersReady", "True", "", empty) +
				container{ready: "true", started: "true", state: `{{ toJson $old.state }}`}.template(),
		},
		{
			name: "pod-unready",
			when: []match{alive(), verdict(neverReady), running(), isReady()},
			status: head + `
conditions:
` + unreadyConditions() + container{ready: "false", started: "true", state: `{{ toJson $old.state }}`}.template(),
		},
		{
			name:  "pod-crash",
			when:  []match{alive(), verdict(crashLoop), running()},
			delay: "300ms",
			status: head + `
conditions:
` + unreadyConditions() + container{ready: "false", started: "false", state: exited("1", "Error")}.template(),
		},
		{
			// The first time a kubelet does not wait.
			name: "pod-restart-at-once",
			when: []match{alive(), runs, terminated(), not(restarted()), notEnded()},
			status: head + container{ready: "false", started: "true", restarts: `{{ add1 $old.restartCount }}`,
				state: startedNow, last: `{{ toJson $old.state }}`}.template(),
		},
		{
			name:  "pod-crash-backoff",
			when:  []match{alive(), runs, terminated(), restarted(), notEnded()},
			delay: "200ms",
			status: head + container{ready: "false", started: "false", last: `{{ toJson $old.state }}`,
				state: waitState("CrashLoopBackOff", `{{ printf "back-off 10s restarting failed container=%s pod=%s_%s(%s)" $c.name $root.metadata.name $root.metadata.namespace $root.metadata.uid | Quote }}`)}.template(),
		},
		{
			name:  "pod-restart",
			when:  []match{alive(), runs, waiting("CrashLoopBackOff")},
			delay: "3s",
			status: head + container{ready: "false", started: "true", restarts: `{{ add1 $old.restartCount }}`,
				state: startedNow}.template(),
		},
		{
			// The container has got its stop signal and ends.
			name:      "pod-stop",
			when:      []match{doomed(), running(), notEnded()},
			delay:     "100ms",
			delayFrom: annotationStopAfter,
			status: head + `
phase: Succeeded
conditions:
` + condition("Ready", "False", "PodCompleted", empty) + condition("ContainersReady", "False", "PodCompleted", empty) +
				condition("PodReadyToStartContainers", "False", "", empty) +
				container{ready: "false", started: "false", state: exited("0", "Completed")}.template(),
		},
		{
			name:   "pod-delete-ended",
			when:   []match{doomed(), ended()},
			delete: true,
		},
		{
			name:   "pod-delete-not-running",
			when:   []match{doomed(), notEnded(), not(running())},
			delete: true,
		},
	}
}
