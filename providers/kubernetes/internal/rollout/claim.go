package rollout

import "fmt"

// claimsOf gives the names of the claims that a pod mounts.
func claimsOf(pod Object) []string {
	var names []string
	for _, v := range list(pod, "spec", "volumes") {
		if name := str(v, "persistentVolumeClaim", "claimName"); name != "" {
			names = append(names, name)
		} else if obj(v, "ephemeral") != nil {
			names = append(names, str(pod, "metadata", "name")+"-"+str(v, "name"))
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
	if str(claim, "metadata", "deletionTimestamp") != "" {
		return what + " is being deleted", "claim deleted " + name
	}
	phase := str(claim, "status", "phase")
	if phase == "Lost" {
		return what + " has lost its volume " + str(claim, "spec", "volumeName"), "claim lost " + name
	}
	if phase == "Bound" {
		return "", ""
	}
	class, named := obj(claim, "spec")["storageClassName"].(string)
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
	_, chosen := obj(claim, "metadata", "annotations")["volume.kubernetes.io/selected-node"]
	if (!known || str(sc, "volumeBindingMode") == "WaitForFirstConsumer") && !chosen {
		// It waits for the pod as the pod does for it: the scheduler's words say
		// what is wrong, if anything is.
		return "", ""
	}
	message = fmt.Sprintf("%s waits for a volume of the StorageClass %s", what, class)
	if p := str(sc, "provisioner"); p != "" {
		message += " (" + p + ")"
	}
	if reason, text := lastWarning(s.Events, str(claim, "metadata", "uid")); text != "" {
		message += ": " + reason + note(text)
	}
	return message, ""
}
