package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// Deployment judges whether the Deployment of the given uid runs what its spec
// says, at the given generation or a later one. One that asks for no pod at that
// generation was applied so; one that does so later was scaled by somebody, and
// nothing shows then whether what was applied runs.
//
// progressDeadlineSeconds is not looked at: the operator's own time rules.
func Deployment(s Snapshot, uid string, generation int64) Verdict {
	v := judge(s, uid, generation)
	// Not all that is foreign in it came as a message.
	v.Message = strings.ReplaceAll(text.Plain(v.Message), "\n", " ")
	for i, line := range v.Detail {
		v.Detail[i] = text.Plain(line)
	}
	return v
}

func judge(s Snapshot, uid string, generation int64) Verdict {
	d := s.Deployment
	if d == nil {
		return Verdict{State: Failed, Absent: true, Message: "the Deployment does not exist any more"}
	}
	if got := field.String(d, "metadata", "uid"); got != uid {
		return Verdict{State: Failed, Absent: true, Message: "the Deployment was deleted and made anew by someone: it has uid " + got + " and not " + uid}
	}
	v := Verdict{Generation: field.Int(d, "metadata", "generation")}
	if field.String(d, "metadata", "deletionTimestamp") != "" {
		v.State, v.Message = Failed, "the Deployment is being deleted"
		return v
	}
	if v.Generation < generation || field.Int(d, "status", "observedGeneration") < v.Generation {
		v.Message = "waiting for the deployment controller"
		v.Detail = []string{fmt.Sprintf("the deployment controller has seen generation %d, not yet %d", field.Int(d, "status", "observedGeneration"), max(v.Generation, generation))}
		return v
	}
	desired := Replicas(d)
	sets := ownedBy(s.ReplicaSets, uid)
	current := newReplicaSet(d, sets)

	var old, pods []Object
	for _, rs := range sets {
		mine := ownedBy(s.Pods, field.String(rs, "metadata", "uid"))
		if current != nil && field.String(rs, "metadata", "uid") == field.String(current, "metadata", "uid") {
			pods = mine
			continue
		}
		for _, p := range mine {
			if phase := field.String(p, "status", "phase"); phase != "Failed" && phase != "Succeeded" {
				old = append(old, p)
			}
		}
	}

	ready := int64(0)
	worst := podVerdict{}
	pods = speakers(pods)
	for _, p := range pods {
		pv := judgePod(p, s)
		if pv.ready {
			ready++
			continue
		}
		if life(p) < life(pods[0]) {
			continue // what a pod says that is on its way out is of the past
		}
		if worst.message == "" || worst.stuck == "" && pv.stuck != "" {
			worst = pv
		}
	}
	scaled := desired == 0 && v.Generation > generation
	complete := allReady(d, desired) && !scaled
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
	case field.Bool(d, "spec", "paused"):
		v.Stuck = "paused"
		add("the Deployment is paused", "spec.paused is true: the deployment controller makes no pods; resume it")
	case scaled:
		v.Stuck = "scaled to 0"
		add("somebody scaled it to 0 pods", fmt.Sprintf("spec.replicas is 0 at generation %d, and was not at generation %d, which was applied: scale it to 1, or apply again, which does", v.Generation, generation))
	case worst.message != "":
		v.Stuck, v.Held, v.Pod = worst.stuck, worst.held, worst.name
		add(worst.message, worst.detail...)
	case refused != "":
		v.Stuck = refusedStuck
		add(refused, "ReplicaSet "+field.String(current, "metadata", "name")+": "+refused)
	case len(pods) == 0 && len(old) > 0:
		add(endOf(s, old))
	case current == nil:
		add("waiting for the new ReplicaSet")
		// The controller's own sentence, when it cannot make it.
		if c := condition(d, "Progressing"); field.String(c, "reason") == "ReplicaSetCreateError" {
			add(clean(field.String(c, "message")), "deployment controller: "+clean(field.String(c, "message")))
		}
	case len(pods) == 0 && desired > 0:
		add("waiting for the new pod")
	case ready >= desired && len(old) > 0:
		add(endOf(s, old))
	case ready >= desired && field.Int(d, "spec", "minReadySeconds") > 0:
		add(fmt.Sprintf("ready, waiting for minReadySeconds (%d)", field.Int(d, "spec", "minReadySeconds")))
	default:
		add("waiting for the deployment controller")
	}
	for _, p := range old {
		line := "old pod " + field.String(p, "metadata", "name") + " has not ended"
		if t := field.String(p, "metadata", "deletionTimestamp"); t != "" {
			line += fmt.Sprintf(", asked to end by %s (grace %d s)", t, field.Int(p, "metadata", "deletionGracePeriodSeconds"))
		}
		if held, _ := judgeNode(s, p); held != "" {
			line += "; " + held
		}
		v.Detail = append(v.Detail, line)
	}
	if current != nil {
		v.Detail = append(v.Detail, eventLine(s.Events, field.String(current, "metadata", "uid"), "ReplicaSet "+field.String(current, "metadata", "name"))...)
	}
	return v
}

// life ranks pods: 2 is one that lives, 1 one that is asked to end, and 0 one that
// has ended.
func life(p Object) int {
	switch phase := field.String(p, "status", "phase"); {
	case phase == "Failed" || phase == "Succeeded":
		return 0
	case field.String(p, "metadata", "deletionTimestamp") != "":
		return 1
	}
	return 2
}

// speakers gives pods in the order in which they can say what is so now: those
// that live before those that end, and the younger of two first. It is always the
// same one: the verdict must not flap.
func speakers(pods []Object) []Object {
	return slices.SortedFunc(slices.Values(pods), func(a, b Object) int {
		return cmp.Or(life(b)-life(a),
			cmp.Compare(field.String(b, "metadata", "creationTimestamp"), field.String(a, "metadata", "creationTimestamp")),
			cmp.Compare(field.String(a, "metadata", "name"), field.String(b, "metadata", "name")))
	})
}

// PodsOf gives the pods of a snapshot's Deployment, old and new: those that live
// before those that end, and the younger of two first.
func PodsOf(s Snapshot) []Object {
	var pods []Object
	for _, rs := range ownedBy(s.ReplicaSets, field.String(s.Deployment, "metadata", "uid")) {
		pods = append(pods, ownedBy(s.Pods, field.String(rs, "metadata", "uid"))...)
	}
	return speakers(pods)
}

// Complete says whether a Deployment by itself, its pods not seen, has rolled
// out: every pod that it asks for is ready, and it asks for no other.
func Complete(d Object) bool {
	return field.Int(d, "status", "observedGeneration") >= field.Int(d, "metadata", "generation") && allReady(d, Replicas(d))
}

// Replicas is the number of pods that a Deployment asks for.
func Replicas(d Object) int64 {
	if _, ok := field.Map(d, "spec")["replicas"]; ok {
		return field.Int(d, "spec", "replicas")
	}
	return 1
}

func allReady(d Object, desired int64) bool {
	for _, count := range []string{"updatedReplicas", "replicas", "availableReplicas", "readyReplicas"} {
		if field.Int(d, "status", count) != desired {
			return false
		}
	}
	return true
}

// endOf says which old pods are waited for, and what is known to hold them.
func endOf(s Snapshot, old []Object) string {
	message := "waiting for the end of " + podNames(old)
	for _, p := range old {
		if held, _ := judgeNode(s, p); held != "" {
			return message + ": " + held
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
		names = append(names, field.String(p, "metadata", "name"))
	}
	if len(pods) == 1 {
		return "the old pod " + names[0]
	}
	return "the old pods " + strings.Join(names, ", ")
}
