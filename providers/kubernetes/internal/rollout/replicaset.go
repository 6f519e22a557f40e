package rollout

import (
	"maps"
	"strings"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
)

// newReplicaSet finds the ReplicaSet of the Deployment's current template, nil
// when the controller has not made it. Like the controller it compares the
// templates (deploymentutil.FindNewReplicaSet): the revision annotation lags.
func newReplicaSet(d Object, sets []Object) Object {
	want := field.Map(d, "spec", "template")
	var found Object
	for _, rs := range sets {
		if !sameTemplate(field.Map(rs, "spec", "template"), want) {
			continue
		}
		// Of several the oldest is the controller's choice.
		if found == nil || field.String(rs, "metadata", "creationTimestamp") < field.String(found, "metadata", "creationTimestamp") {
			found = rs
		}
	}
	return found
}

// sameTemplate compares templates without what the controller adds to each
// ReplicaSet's. Each change of a namespace is a look at some of them, so the spec,
// which is most of one, is compared as it is.
func sameTemplate(a, b Object) bool {
	return ownership.Equal(a["spec"], b["spec"]) && ownership.Equal(given(a), given(b))
}

// given is the metadata that a template was given.
func given(template Object) Object {
	meta := maps.Clone(field.Map(template, "metadata"))
	delete(meta, "creationTimestamp")
	if labels, ok := meta["labels"].(Object); ok {
		labels = maps.Clone(labels)
		delete(labels, "pod-template-hash")
		meta["labels"] = labels
	}
	return meta
}

// judgeReplicaSet says why a ReplicaSet cannot make its pods, "" when it can.
func judgeReplicaSet(rs Object) (message, stuck string) {
	c := condition(rs, "ReplicaFailure")
	if field.String(c, "status") != "True" {
		return "", ""
	}
	text := clean(field.String(c, "message"))
	message = "the pod cannot be made: " + field.String(c, "reason") + note(text)
	// Quota frees up, and webhooks and the API server come back. What
	// admission refuses by its rules stays refused.
	switch {
	case strings.Contains(text, "exceeded quota"):
		return "the namespace's quota leaves no room for the pod: " + field.String(c, "reason") + note(text), ""
	case strings.Contains(text, "failed quota") && strings.Contains(text, "must specify"):
		message = "the namespace's quota wants requests or limits that the pod does not have: " + field.String(c, "reason") + note(text)
	case strings.Contains(text, "failed calling webhook"), strings.Contains(text, "timeout"), strings.Contains(text, "etcdserver"):
		return message, ""
	case strings.Contains(text, "error looking up service account"):
		// A new namespace gets its default account a moment later.
		return message, ""
	case strings.Contains(text, "RuntimeClass") && strings.Contains(text, "not found"):
		message = "the cluster has not the pod's RuntimeClass: " + field.String(c, "reason") + note(text)
	case !strings.Contains(text, "forbidden") && !strings.Contains(text, "is invalid") && !strings.Contains(text, "denied") && !strings.Contains(text, "not found"):
		return message, ""
	}
	return message, "pod refused " + field.String(rs, "metadata", "uid")
}
