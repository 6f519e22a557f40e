package rollout

import (
	"fmt"
	"strings"
)

// Deployment judges whether the Deployment of the given uid runs what its spec
// says, at the given generation or a later one.
//
// progressDeadlineSeconds is not looked at: the operator's own time rules.
func Deployment(s Snapshot, uid string, generation int64) Verdict {
	d := s.Deployment
	if d == nil {
		return Verdict{State: Failed, Absent: true, Message: "the Deployment does not exist any more"}
	}
	if got := str(d, "metadata", "uid"); got != uid {
		return Verdict{State: Failed, Absent: true, Message: "the Deployment was deleted and made anew by someone: it has uid " + got + " and not " + uid}
	}
	v := Verdict{Generation: num(d, "metadata", "generation")}
	if str(d, "metadata", "deletionTimestamp") != "" {
		v.State, v.Message = Failed, "the Deployment is being deleted"
		return v
	}
	if v.Generation < generation || num(d, "status", "observedGeneration") < v.Generation {
		v.Message = "waiting for the deployment controller"
		v.Detail = []string{fmt.Sprintf("the deployment controller has seen generation %d, not yet %d", num(d, "status", "observedGeneration"), max(v.Generation, generation))}
		return v
	}
	desired := Replicas(d)
	sets := ownedBy(s.ReplicaSets, uid)
	current := newReplicaSet(d, sets)

	var old, pods []Object
	for _, rs := range sets {
		mine := ownedBy(s.Pods, str(rs, "metadata", "uid"))
		if current != nil && str(rs, "metadata", "uid") == str(current, "metadata", "uid") {
			pods = mine
			continue
		}
		for _, p := range mine {
			if phase := str(p, "status", "phase"); phase != "Failed" && phase != "Succeeded" {
				old = append(old, p)
			}
		}
	}

	ready := int64(0)
	worst := podVerdict{}
	for _, p := range pods {
		pv := judgePod(p, s)
		if pv.ready {
			ready++
			continue
		}
		if worst.message == "" || worst.stuck == "" && pv.stuck != "" {
			worst = pv
		}
	}
	complete := allReady(d, desired)
	if complete && len(old) == 0 && (desired == 0 || current != nil) {
		v.State, v.Message = Done, fmt.Sprintf("%d/%d ready", desired, desired)
		return v
	}

	v.Message = fmt.Sprintf("%d/%d ready", min(ready, desired), desired)
	add := func(message string, detail ...string) {
		if message != "" {
			v.Message += ": " + message
		}
		v.Detail = append(v.Detail, detail...)
	}
	refused, refusedStuck := judgeReplicaSet(current)
	switch {
	case boolean(d, "spec", "paused"):
		v.Stuck = "paused"
		add("the Deployment is paused", "spec.paused is true: the deployment controller makes no pods; resume it")
	case worst.message != "":
		v.Stuck, v.Held, v.Pod = worst.stuck, worst.held, worst.name
		add(worst.message, worst.detail...)
	case refused != "":
		v.Stuck = refusedStuck
		add(refused, "ReplicaSet "+str(current, "metadata", "name")+": "+refused)
	case len(pods) == 0 && len(old) > 0:
		add(endOf(s, old))
	case current == nil:
		add("waiting for the new ReplicaSet")
		// The controller's own sentence, when it cannot make it.
		if c := condition(d, "Progressing"); str(c, "reason") == "ReplicaSetCreateError" {
			add(clean(str(c, "message")), "deployment controller: "+clean(str(c, "message")))
		}
	case len(pods) == 0 && desired > 0:
		add("waiting for the new pod")
	case ready >= desired && len(old) > 0:
		add(endOf(s, old))
	case ready >= desired && num(d, "spec", "minReadySeconds") > 0:
		add(fmt.Sprintf("ready, waiting for minReadySeconds (%d)", num(d, "spec", "minReadySeconds")))
	default:
		add("waiting for the deployment controller")
	}
	for _, p := range old {
		line := "old pod " + str(p, "metadata", "name") + " has not ended"
		if t := str(p, "metadata", "deletionTimestamp"); t != "" {
			line += fmt.Sprintf(", asked to end by %s (grace %d s)", t, num(p, "metadata", "deletionGracePeriodSeconds"))
		}
		if text, _ := judgeNode(s, p); text != "" {
			line += "; " + text
		}
		v.Detail = append(v.Detail, line)
	}
	if current != nil {
		v.Detail = append(v.Detail, eventLine(s.Events, str(current, "metadata", "uid"), "ReplicaSet "+str(current, "metadata", "name"))...)
	}
	return v
}

// PodsOf gives the pods of a snapshot's Deployment, old and new.
func PodsOf(s Snapshot) []Object {
	var pods []Object
	for _, rs := range ownedBy(s.ReplicaSets, str(s.Deployment, "metadata", "uid")) {
		pods = append(pods, ownedBy(s.Pods, str(rs, "metadata", "uid"))...)
	}
	return pods
}

// Complete says whether a Deployment by itself, its pods not seen, has rolled
// out: every pod that it asks for is ready, and it asks for no other.
func Complete(d Object) bool {
	return num(d, "status", "observedGeneration") >= num(d, "metadata", "generation") && allReady(d, Replicas(d))
}

// Replicas is the number of pods that a Deployment asks for.
func Replicas(d Object) int64 {
	if _, ok := obj(d, "spec")["replicas"]; ok {
		return num(d, "spec", "replicas")
	}
	return 1
}

func allReady(d Object, desired int64) bool {
	for _, count := range []string{"updatedReplicas", "replicas", "availableReplicas", "readyReplicas"} {
		if num(d, "status", count) != desired {
			return false
		}
	}
	return true
}

// endOf says which old pods are waited for, and what is known to hold them.
func endOf(s Snapshot, old []Object) string {
	message := "waiting for the end of " + podNames(old)
	for _, p := range old {
		if text, _ := judgeNode(s, p); text != "" {
			return message + ": " + text
		}
	}
	return message
}

func podNames(pods []Object) string {
	var names []string
	for i, p := range pods {
		if i == 3 {
			names = append(names, fmt.Sprintf("%d more", len(pods)-i))
			break
		}
		names = append(names, str(p, "metadata", "name"))
	}
	if len(pods) == 1 {
		return "the old pod " + names[0]
	}
	return "the old pods " + strings.Join(names, ", ")
}
