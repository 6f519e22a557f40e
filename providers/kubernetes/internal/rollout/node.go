package rollout

import "strings"

// judgeNode says why a node does not bring a pod up, or down; "" when nothing is
// known against it. It reads what kubelet and node lifecycle controller write.
func judgeNode(s Snapshot, pod Object) (message, stuck string) {
	name := str(pod, "spec", "nodeName")
	node, known := s.Related[Ref{"Node", name}]
	if !known || name == "" {
		return "", ""
	}
	what := "node " + name
	if node == nil {
		return what + " is gone", ""
	}
	if c := condition(node, "Ready"); str(c, "status") != "True" {
		since := str(c, "lastTransitionTime")
		if since != "" {
			since = " since " + since
		}
		return what + " is not ready" + since + note(str(c, "message")), ""
	}
	if on, ok := obj(pod, "spec")["hostUsers"].(bool); ok && !on && !userNamespaces(node) {
		return what + " has no container runtime with user namespaces, and the pod asks for one", "no user namespaces " + name
	}
	for _, c := range list(node, "status", "conditions") {
		if kind := str(c, "type"); strings.HasSuffix(kind, "Pressure") && str(c, "status") == "True" {
			return what + " has " + kind + note(str(c, "message")), ""
		}
	}
	return "", ""
}

// userNamespaces is false when the node says of all its runtimes' handlers that
// they have none. Nodes before Kubernetes 1.30 say nothing.
func userNamespaces(node Object) bool {
	handlers := list(node, "status", "runtimeHandlers")
	for _, h := range handlers {
		if boolean(h, "features", "userNamespaces") {
			return true
		}
	}
	return len(handlers) == 0
}
