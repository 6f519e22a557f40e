package rollout

import (
	"fmt"
	"strings"
)

// podVerdict is what one pod's status says.
type podVerdict struct {
	ready   bool
	message string // short, "" when ready
	stuck   string // see Verdict.Stuck
	detail  []string
}

// crashes is the number of restarts from which on a crash loop is believed.
// The kubelet doubles its wait with each: at three, 40 seconds have been
// given to the container already.
const crashes = 3

// judgePod reads a pod's status as scheduler and kubelet write it.
func judgePod(p Object, events []Object) podVerdict {
	name, uid := str(p, "metadata", "name"), str(p, "metadata", "uid")
	what := "pod " + name
	if node := str(p, "spec", "nodeName"); node != "" {
		what += " on node " + node
	}
	v := podVerdict{}
	if str(p, "metadata", "deletionTimestamp") != "" {
		v.message = "pod " + name + " is being deleted"
		return v
	}
	if phase := str(p, "status", "phase"); phase == "Failed" || phase == "Succeeded" {
		// The ReplicaSet makes another one.
		v.message = strings.TrimSpace(fmt.Sprintf("pod %s ended: %s %s", name, phase, str(p, "status", "reason")))
		v.detail = append(v.detail, what+": "+v.message+note(str(p, "status", "message")))
		return v
	}
	if c := condition(p, "Ready"); str(c, "status") == "True" {
		v.ready = true
		return v
	}
	if c := condition(p, "PodScheduled"); str(c, "status") == "False" {
		// Nodes and volumes come and go: this can heal until time is up.
		reason := str(c, "reason")
		v.message = reason + note(str(c, "message"))
		v.detail = append(v.detail, what+" is not scheduled: "+clean(str(c, "message")))
		v.detail = append(v.detail, eventLine(events, uid, "the pod")...)
		return v
	}
	v.message = "ContainerCreating"
	if str(p, "status", "phase") == "" || len(list(p, "status", "conditions")) == 0 {
		v.message = "Pending"
	}
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range list(p, "status", field) {
			cv := judgeContainer(c, uid, events)
			if cv.ready {
				continue
			}
			// The first init container that isn't done holds all others; else
			// the worst of the containers speaks.
			if v.stuck == "" && (len(v.detail) == 0 || cv.stuck != "") {
				v.message, v.stuck = cv.message, cv.stuck
			}
			v.detail = append(v.detail, what+": "+strings.Join(cv.detail, "\n"))
		}
	}
	if len(v.detail) == 0 {
		v.detail = append(v.detail, what+" is not ready: "+v.message)
	}
	reason, message := lastWarning(events, uid)
	switch {
	case message == "":
	case v.message == "ContainerCreating" || v.message == "PodInitializing":
		// The kubelet keeps this reason whatever holds it up: a mount, the
		// sandbox, the network. Only the event says.
		v.message += ": " + reason + note(message)
	case reason == "Unhealthy" && v.stuck == "":
		v.message += note(message)
	}
	if !strings.Contains(strings.Join(v.detail, "\n"), strings.TrimPrefix(message, "Error: ")) {
		v.detail = append(v.detail, eventLine(events, uid, "the pod")...)
	}
	return v
}

// judgeContainer reads one container status as the kubelet writes it.
func judgeContainer(c Object, podUID string, events []Object) podVerdict {
	name := str(c, "name")
	v := podVerdict{}
	key := func(reason string) string { return reason + " " + podUID + "/" + name }
	waiting, running, ended := obj(c, "state", "waiting"), obj(c, "state", "running"), obj(c, "state", "terminated")
	restarts := num(c, "restartCount")
	switch {
	case ended != nil && num(ended, "exitCode") == 0 && str(ended, "reason") == "Completed":
		v.ready = true // an init container that did its work
	case waiting != nil:
		raw := str(waiting, "message")
		reason, message := str(waiting, "reason"), clean(raw)
		v.message = reason + note(message)
		v.detail = []string{fmt.Sprintf("container %s is waiting: %s%s", name, reason, note(message))}
		switch reason {
		case "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			v.stuck = key(reason)
		case "ErrImagePull", "ImagePullBackOff", "ImageInspectError":
			// Registries come back; an image that isn't there does not. The
			// two reasons alternate, and before Kubernetes 1.31 the second is
			// without the cause, which is in an event then.
			image := str(c, "image")
			if imageMissing(raw) || pullFailed(events, podUID, image) {
				v.stuck = key("image missing")
				v.message = reason + ": the registry has no image " + image
			} else if image != "" && !strings.Contains(message, image) {
				v.detail = append(v.detail, "image "+image)
			}
		case "CrashLoopBackOff":
			last := obj(c, "lastState", "terminated")
			v.message = fmt.Sprintf("CrashLoopBackOff: container %s ended %d times%s", name, restarts+1, exitNote(last))
			v.detail = []string{fmt.Sprintf("container %s ended %d times%s%s", name, restarts+1, exitNote(last), note(str(last, "message")))}
			if restarts >= crashes {
				v.stuck = key(reason)
			}
		}
	case ended != nil:
		v.message = fmt.Sprintf("container %s ended%s", name, exitNote(ended))
		v.detail = []string{v.message + note(str(ended, "message"))}
	case running != nil:
		if boolean(c, "ready") {
			v.ready = true
			break
		}
		v.message = "running, not ready"
		v.detail = []string{fmt.Sprintf("container %s runs since %s and is not ready", name, str(running, "startedAt"))}
		if restarts > 0 {
			v.message = fmt.Sprintf("running, not ready, %d restarts", restarts)
			v.detail[0] += fmt.Sprintf("; it was restarted %d times%s", restarts, exitNote(obj(c, "lastState", "terminated")))
		}
	default:
		v.message = "ContainerCreating"
		v.detail = []string{fmt.Sprintf("container %s has not started", name)}
	}
	return v
}

// imageMissing knows how registries, through containerd and CRI-O, say that
// there is no such image.
func imageMissing(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "not found") || strings.Contains(m, "manifest unknown") || strings.Contains(m, "name unknown")
}

// pullFailed looks for the kubelet's event of a pull that found no image.
func pullFailed(events []Object, podUID, image string) bool {
	for _, e := range events {
		if str(e, "reason") == "Failed" && str(e, "involvedObject", "uid") == podUID &&
			image != "" && strings.Contains(str(e, "message"), image) && imageMissing(str(e, "message")) {
			return true
		}
	}
	return false
}

func exitNote(terminated Object) string {
	if terminated == nil {
		return ""
	}
	s := fmt.Sprintf(", last with exit code %d", num(terminated, "exitCode"))
	if sig := num(terminated, "signal"); sig != 0 {
		s = fmt.Sprintf(", last by signal %d", sig)
	}
	if r := str(terminated, "reason"); r != "" && r != "Error" {
		s += " (" + r + ")"
	}
	return s
}

// note appends a foreign message, if there is one.
func note(message string) string {
	if message = clean(message); message == "" {
		return ""
	}
	return ": " + message
}
