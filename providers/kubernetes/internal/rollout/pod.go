package rollout

import (
	"fmt"
	"regexp"
	"strings"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// podVerdict is what one pod's status says.
type podVerdict struct {
	name    string
	ready   bool
	message string // short, "" when ready
	stuck   string // see Verdict.Stuck
	held    bool   // see Verdict.Held
	detail  []string
}

// judgePod reads a pod's status as scheduler and kubelet write it.
func judgePod(p Object, s Snapshot) podVerdict {
	name, uid := field.String(p, "metadata", "name"), field.String(p, "metadata", "uid")
	what := "pod " + name
	if node := field.String(p, "spec", "nodeName"); node != "" {
		what += " on node " + node
	}
	v := podVerdict{name: name}
	if field.String(p, "metadata", "deletionTimestamp") != "" {
		v.message = "pod " + name + " is being deleted"
		return v
	}
	if phase := field.String(p, "status", "phase"); phase == "Failed" || phase == "Succeeded" {
		// The ReplicaSet makes another one.
		v.message = strings.TrimSpace(fmt.Sprintf("pod %s ended: %s %s", name, phase, field.String(p, "status", "reason")))
		v.detail = append(v.detail, what+": "+v.message+note(field.String(p, "status", "message")))
		return v
	}
	if c := condition(p, "Ready"); field.String(c, "status") == "True" {
		v.ready = true
		return v
	}
	if c := condition(p, "PodScheduled"); field.String(c, "status") == "False" {
		judgeUnscheduled(&v, p, c, s)
		return v
	}
	if binding(p) {
		judgeBinding(&v, p, s)
		return v
	}
	v.message = "ContainerCreating"
	if field.String(p, "status", "phase") == "" || len(field.List(p, "status", "conditions")) == 0 {
		v.message = "Pending"
	}
	for _, statuses := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range field.List(p, "status", statuses) {
			cv := judgeContainer(c, uid, s.Events)
			if cv.ready {
				continue
			}
			// The first init container that isn't done holds all others; else
			// the worst of the containers speaks.
			if (v.stuck == "" || v.held && !cv.held) && (len(v.detail) == 0 || cv.stuck != "") {
				v.message, v.stuck, v.held = cv.message, cv.stuck, cv.held
			}
			v.detail = append(v.detail, what+": "+strings.Join(cv.detail, "\n"))
		}
	}
	if len(v.detail) == 0 {
		v.detail = append(v.detail, what+" is not ready: "+v.message)
	}
	reason, message := lastWarning(s.Events, uid)
	switch {
	case isCreating(v.message) && message != "" && !started(p):
		// The kubelet keeps this reason whatever holds it up: a mount, the
		// sandbox, the network. Only the event says.
		sentence, stuck := creationFailed(p, reason, message)
		v.message += ": " + sentence
		if stuck {
			v.stuck = "cannot be created " + uid
		}
	case reason == "Unhealthy" && (v.stuck == "" || v.held):
		v.message += note(message)
	}
	if text, stuck := judgeNode(s, p); text != "" {
		v.detail = append(v.detail, text)
		if v.stuck == "" && (isCreating(v.message) || v.message == "Pending" || strings.HasPrefix(v.message, "running")) {
			v.message += ": " + text
			v.stuck = stuck
		}
	}
	if message != "" && !strings.Contains(strings.Join(v.detail, "\n"), strings.TrimPrefix(message, "Error: ")) {
		v.detail = append(v.detail, eventLine(s.Events, uid, "the pod")...)
	}
	return v
}

func isCreating(message string) bool {
	return message == "ContainerCreating" || message == "PodInitializing"
}

// started says whether the pod's volumes, sandbox and network are there: warnings
// about them are of the past then, and it is the image that is waited for.
func started(p Object) bool {
	return field.String(condition(p, "PodReadyToStartContainers"), "status") == "True"
}

// binding says whether the scheduler has yet to speak of a pod. It does so at once,
// but when it has chosen a node and waits for the pod's volumes there.
func binding(p Object) bool {
	return field.String(p, "spec", "nodeName") == "" && condition(p, "PodScheduled") == nil
}

// judgeBinding says what a pod waits for that has neither node nor refusal.
func judgeBinding(v *podVerdict, p Object, s Snapshot) {
	v.message = "Pending"
	v.detail = append(v.detail, "pod "+v.name+" is not scheduled yet")
	judgeClaims(v, p, s)
}

// judgeClaims adds what the claims of a pod without a node have against it.
func judgeClaims(v *podVerdict, p Object, s Snapshot) {
	reason, _, _ := strings.Cut(v.message, ":")
	first := true
	for _, claim := range claimsOf(p) {
		text, stuck := judgeClaim(s, claim)
		if text == "" {
			continue
		}
		if first || stuck != "" && v.stuck == "" {
			v.message, v.stuck = reason+": "+text, stuck
		}
		first = false
		v.detail = append(v.detail, text)
	}
}

// judgeUnscheduled says why no node has taken a pod. Nodes and volumes come and
// go, so that most of it can heal.
func judgeUnscheduled(v *podVerdict, p, c Object, s Snapshot) {
	reason, message := field.String(c, "reason"), clean(field.String(c, "message"))
	// What preemption has to say is never the reason.
	short, _, _ := strings.Cut(message, " preemption:")
	v.message = reason + note(short)
	v.detail = append(v.detail, "pod "+v.name+" is not scheduled: "+message)
	judgeClaims(v, p, s)
	if _, said := lastWarning(s.Events, field.String(p, "metadata", "uid")); said != message {
		v.detail = append(v.detail, eventLine(s.Events, field.String(p, "metadata", "uid"), "the pod")...)
	}
}

// The words of containerd, CRI-O and, for pods with a user namespace, the kubelet
// (Kubelet.HandlerSupportsUserNamespaces) for a handler that the node's runtime
// is not configured with.
var noHandler = regexp.MustCompile(`no runtime for "([^"]*)" is configured|failed to find runtime handler (\S+)|[Uu]nknown runtime handler "?([^"\s]+)|RuntimeHandler "([^"]*)" not supported|the handler "([^"]*)" is not known`)

// noObject is how the kubelet says that a volume's source is missing.
var noObject = regexp.MustCompile(`(configmap|secret) "[^"]*" not found|references non-existent`)

// creationFailed says why a node cannot make a pod's containers, from the
// kubelet's event, and whether that is so for good.
func creationFailed(p Object, reason, message string) (sentence string, stuck bool) {
	node := "node " + field.String(p, "spec", "nodeName")
	if m := noHandler.FindStringSubmatch(message); m != nil {
		handler := strings.Join(m[1:], "")
		needs := "the pod"
		if class := field.String(p, "spec", "runtimeClassName"); class != "" {
			needs = "the pod's RuntimeClass " + class
		}
		return fmt.Sprintf("%s has no runtime handler %q, which %s needs", node, handler, needs), true
	}
	lower := strings.ToLower(message)
	switch {
	case strings.Contains(lower, "support user namespaces") || strings.Contains(lower, "user namespaces is not supported") || strings.Contains(lower, "userns is not supported"):
		return node + " does not support user namespaces: " + reason + note(message), true
	case reason == "FailedMount" && noObject.MatchString(message):
		return "a volume cannot be mounted: " + reason + note(message), true
	case strings.Contains(message, "Multi-Attach"):
		return "a volume is still in use by another pod: " + reason + note(message), false
	case reason == "FailedMount" || reason == "FailedAttachVolume" || reason == "FailedMapVolume":
		return "a volume cannot be mounted: " + reason + note(message), false
	}
	return reason + note(message), false
}

// note appends a foreign message, if there is one.
func note(message string) string {
	if message = clean(message); message == "" {
		return ""
	}
	return ": " + message
}
