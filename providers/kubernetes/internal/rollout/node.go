package rollout

import (
	"strings"

	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// judgeNode says why a node does not bring a pod up, or down; "" when nothing is
// known against it. It reads what kubelet and node lifecycle controller write.
func judgeNode(s Snapshot, pod Object) (message, stuck string) {
	name := field.String(pod, "spec", "nodeName")
	node, known := s.Related[Ref{"Node", name}]
	if !known || name == "" {
		return "", ""
	}
	what := "node " + name
	if node == nil {
		return what + " is gone", ""
	}
	if c := condition(node, "Ready"); field.String(c, "status") != "True" {
		since := field.String(c, "lastTransitionTime")
		if since != "" {
			since = " since " + since
		}
		return what + " is not ready" + since + note(field.String(c, "message")), ""
	}
	if on, ok := field.Map(pod, "spec")["hostUsers"].(bool); ok && !on && !userNamespaces(node) {
		return what + " has no container runtime with user namespaces, and the pod asks for one", "no user namespaces " + name
	}
	for _, c := range field.List(node, "status", "conditions") {
		if kind := field.String(c, "type"); strings.HasSuffix(kind, "Pressure") && field.String(c, "status") == "True" {
			return what + " has " + kind + note(field.String(c, "message")), ""
		}
	}
	return "", ""
}

// userNamespaces is false when the node says of all its runtimes' handlers that
// they have none. Nodes before Kubernetes 1.30 say nothing.
func userNamespaces(node Object) bool {
	handlers := field.List(node, "status", "runtimeHandlers")
	for _, h := range handlers {
		if field.Bool(h, "features", "userNamespaces") {
			return true
		}
	}
	return len(handlers) == 0
}
