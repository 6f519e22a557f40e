package rollout

import (
	"fmt"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// claimsOf gives the names of the claims that a pod mounts.
func claimsOf(pod Object) []string {
	var names []string
	for _, v := range field.List(pod, "spec", "volumes") {
		if name := field.String(v, "persistentVolumeClaim", "claimName"); name != "" {
			names = append(names, name)
		} else if field.Map(v, "ephemeral") != nil {
			names = append(names, field.String(pod, "metadata", "name")+"-"+field.String(v, "name"))
		}
	}
	return names
}

// judgeClaim says why a claim of a pod that no node has taken holds it up, ""
// when it doesn't. It reads what the persistent volume controller writes.
func judgeClaim(s Snapshot, name string) (message, stuck string) {
	claim, known := s.Related[Ref{"PersistentVolumeClaim", name}]
	if !known {
		return "", ""
	}
	what := "the claim " + name
	if claim == nil {
		return what + " does not exist", "claim missing " + name
	}
	if field.String(claim, "metadata", "deletionTimestamp") != "" {
		return what + " is being deleted", "claim deleted " + name
	}
	phase := field.String(claim, "status", "phase")
	if phase == "Lost" {
		return what + " has lost its volume " + field.String(claim, "spec", "volumeName"), "claim lost " + name
	}
	if phase == "Bound" {
		return "", ""
	}
	class, named := field.Map(claim, "spec")["storageClassName"].(string)
	switch {
	case !named:
		// The controller adds a default class as soon as there is one.
		return what + " names no StorageClass, and the cluster has no default one", ""
	case class == "":
		return what + " waits for a volume made by hand: it asks for no StorageClass", ""
	}
	sc, known := s.Related[Ref{"StorageClass", class}]
	if known && sc == nil {
		return fmt.Sprintf("%s asks for the StorageClass %s, which the cluster does not have", what, class), "class missing " + class
	}
	_, chosen := field.Map(claim, "metadata", "annotations")["volume.kubernetes.io/selected-node"]
	if (!known || field.String(sc, "volumeBindingMode") == "WaitForFirstConsumer") && !chosen {
		// It waits for the pod as the pod does for it: the scheduler's words say
		// what is wrong, if anything is.
		return "", ""
	}
	message = fmt.Sprintf("%s waits for a volume of the StorageClass %s", what, class)
	if p := field.String(sc, "provisioner"); p != "" {
		message += " (" + p + ")"
	}
	if reason, text := lastWarning(s.Events, field.String(claim, "metadata", "uid")); text != "" {
		message += ": " + reason + note(text)
	}
	return message, ""
}
