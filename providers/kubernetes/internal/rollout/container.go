package rollout

import (
	"fmt"
	"regexp"
	"strings"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// crashes is the number of restarts from which on a crash loop is believed.
// The kubelet doubles its wait with each: at three, 40 seconds have been
// given to the container already.
const crashes = 3

// judgeContainer reads one container status as the kubelet writes it.
func judgeContainer(c Object, podUID string, events []Object) podVerdict {
	name := field.String(c, "name")
	v := podVerdict{}
	key := func(reason string) string { return reason + " " + podUID + "/" + name }
	waiting, running, ended := field.Map(c, "state", "waiting"), field.Map(c, "state", "running"), field.Map(c, "state", "terminated")
	restarts := field.Int(c, "restartCount")
	switch {
	case ended != nil && field.Int(ended, "exitCode") == 0 && field.String(ended, "reason") == "Completed":
		v.ready = true // an init container that did its work
	case waiting != nil:
		reason, message := field.String(waiting, "reason"), clean(field.String(waiting, "message"))
		v.message = reason + note(message)
		v.detail = []string{fmt.Sprintf("container %s is waiting: %s%s", name, reason, note(message))}
		switch reason {
		case "CreateContainerConfigError":
			// A kubelet that has not heard of the pod's objects yet.
			if !strings.Contains(message, "failed to sync") && !strings.Contains(message, "not registered") && !strings.Contains(message, "timed out") {
				v.stuck = key(reason)
			}
		case "InvalidImageName", "ErrImageNeverPull":
			v.stuck = key(reason)
		case "CreateContainerError", "RunContainerError":
			if hint := runtimeHint(message); hint != "" {
				v.message = reason + ": " + hint
			}
			// A runtime that is slow is told again, and may have done it by then.
			if !strings.Contains(message, "context deadline exceeded") && !strings.Contains(message, "is reserved for") {
				v.stuck = key("container not made")
			}
		case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			judgePull(&v, c, podUID, events)
		case "CrashLoopBackOff":
			last := field.Map(c, "lastState", "terminated")
			v.message = fmt.Sprintf("CrashLoopBackOff: container %s ended %d times%s", name, restarts+1, exitNote(last))
			v.detail = []string{fmt.Sprintf("container %s ended %d times%s%s", name, restarts+1, exitNote(last), note(field.String(last, "message")))}
			if hint := runtimeHint(field.String(last, "message")); hint != "" {
				v.message += ": " + hint
			}
			if restarts >= crashes {
				v.stuck = key(reason)
			}
		}
	case ended != nil:
		v.message = fmt.Sprintf("container %s ended%s", name, exitNote(ended))
		v.detail = []string{v.message + note(field.String(ended, "message"))}
		if restarts >= crashes {
			v.stuck = key("CrashLoopBackOff") // the moment before the kubelet calls it so
		}
	case running != nil:
		if field.Bool(c, "ready") {
			v.ready = true
			break
		}
		v.message = "running, not ready"
		v.detail = []string{fmt.Sprintf("container %s runs since %s and is not ready", name, field.String(running, "startedAt"))}
		if restarts > 0 {
			last := exitNote(field.Map(c, "lastState", "terminated"))
			v.message = fmt.Sprintf("running, not ready, %d restarts%s", restarts, last)
			v.detail[0] += fmt.Sprintf("; it was restarted %d times%s", restarts, last)
			if restarts >= crashes {
				v.stuck, v.held = key("CrashLoopBackOff"), true
			}
		}
	default:
		v.message = "ContainerCreating"
		v.detail = []string{fmt.Sprintf("container %s has not started", name)}
	}
	return v
}

// judgePull tells a pull that can still succeed from one that can't: registries
// come back, but an image that isn't there doesn't, nor do credentials. The
// kubelet's two reasons for it alternate, and before Kubernetes 1.31 the second
// is without the cause, which is in an event then.
func judgePull(v *podVerdict, c Object, podUID string, events []Object) {
	waiting, image := field.Map(c, "state", "waiting"), field.String(c, "image")
	reason, message := field.String(waiting, "reason"), field.String(waiting, "message")
	kind := pullKind(message)
	if kind == "" {
		for _, e := range events {
			if field.String(e, "reason") == "Failed" && field.String(e, "involvedObject", "uid") == podUID && image != "" && strings.Contains(field.String(e, "message"), image) {
				if k := pullKind(field.String(e, "message")); k != "" {
					kind, message = k, field.String(e, "message")
				}
			}
		}
	}
	cause := clean(pullPrefix.ReplaceAllString(strings.TrimSpace(message), ""))
	switch kind {
	case "missing":
		v.message = reason + ": the registry has no image " + image
	case "refused":
		v.message = reason + ": the registry refuses the cluster" + note(cause)
	case "untrusted":
		v.message = reason + ": the cluster's nodes do not take the registry for a safe one" + note(cause)
	default:
		v.message = reason + note(cause)
	}
	if kind != "" {
		v.stuck = "image " + kind + " " + podUID + "/" + field.String(c, "name")
	}
	if image != "" && !strings.Contains(strings.Join(v.detail, ""), image) {
		v.detail = append(v.detail, "image "+image)
	}
}

// pullPrefix is what containerd, CRI-O and kubelet put before the cause.
var pullPrefix = regexp.MustCompile(`^(?:rpc error: code = \w+ desc = |[Ff]ailed to pull (?:and unpack )?image "[^"]*": |failed to resolve reference "[^"]*": |` +
	`failed to resolve image: |failed to do request: \w+ "[^"]*": |Back-off pulling image "[^"]*"(?:: )?|ErrImagePull: )+`)

// pullKind knows how registries, through containerd and CRI-O, say that a pull
// will not succeed; "" when it still can.
func pullKind(message string) string {
	m := strings.ToLower(message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(m, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("no such host", "connection refused", "i/o timeout", "context deadline", "toomanyrequests", "too many requests"):
		return ""
	case has("certificate signed by unknown authority", "certificate is not valid for", "certificate is valid for", "server gave http response to https client"):
		return "untrusted"
	case has("authorization failed", "pull access denied", "no basic auth credentials", "unauthorized", "403 forbidden"):
		return "refused"
	case has("not found", "manifest unknown", "name unknown"):
		return "missing"
	}
	return ""
}

// runtimeHint explains what runtimes say in the words of the kernel, "" when
// there is nothing to explain.
func runtimeHint(message string) string {
	m := strings.ToLower(message)
	switch {
	case strings.Contains(m, "idmap"):
		return "the file system of a volume cannot be idmapped, and the pod has a user namespace of its own" + note(message)
	case strings.Contains(m, "unshare") && strings.Contains(m, "user"):
		return "the node gives the pod no user namespace" + note(message)
	case strings.Contains(m, "executable file not found") || strings.Contains(m, "no such file or directory") && strings.Contains(m, "exec:"):
		return "the image has not the program to start" + note(message)
	}
	return ""
}

// exitNote says how a container ended last.
func exitNote(terminated Object) string {
	if terminated == nil {
		return ""
	}
	s := fmt.Sprintf(", last with exit code %d", field.Int(terminated, "exitCode"))
	if sig := field.Int(terminated, "signal"); sig != 0 {
		s = fmt.Sprintf(", last by signal %d", sig)
	}
	switch r := field.String(terminated, "reason"); r {
	case "", "Error", "Completed":
	case "OOMKilled":
		s += " (OOMKilled: it took more memory than it may)"
	default:
		s += " (" + r + ")"
	}
	return s
}
