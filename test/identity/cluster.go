package identity

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/lab"
)

// Kubeconfig makes what a SPIRE server needs in a namespace, and gives the
// kubeconfig with the token of the account spire-server: what a deployment with
// yuba does.
func Kubeconfig(t testing.TB, l *lab.Lab, namespace string) handoff.Kubeconfig {
	t.Helper()
	clusterRole := "yuba:" + namespace + ":spire-server"
	l.Apply(t, namespace, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: spire-server}
---
apiVersion: v1
kind: Secret
metadata: {name: spire-server-token, annotations: {kubernetes.io/service-account.name: spire-server}}
type: kubernetes.io/service-account-token
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: spire-server}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: spire-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: spire-server}
subjects: [{kind: ServiceAccount, name: spire-server, namespace: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "%[2]s"}
rules:
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [""], resources: [nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "%[2]s"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "%[2]s"}
subjects: [{kind: ServiceAccount, name: spire-server, namespace: %[1]s}]
`, namespace, clusterRole))
	t.Cleanup(func() {
		l.Kubectl(t, "delete", "clusterrole,clusterrolebinding", clusterRole, "--ignore-not-found", "--wait=false")
	})
	var token []byte
	lab.Eventually(t, "the token of spire-server", func() error {
		var err error
		token, err = base64.StdEncoding.DecodeString(l.Kubectl(t, "get", "secret", "spire-server-token", "-n", namespace, "-o", "jsonpath={.data.token}"))
		if err == nil && len(token) == 0 {
			err = fmt.Errorf("the secret has none yet")
		}
		return err
	})
	ca, err := os.ReadFile(l.CA)
	if err != nil {
		t.Fatal(err)
	}
	return handoff.Kubeconfig{Server: l.Server, CA: string(ca), Token: string(token)}
}

// Pod makes the service account of a node and a pod that has it, on a Kubernetes
// node, and gives the path of a file with the pod's projected token.
func Pod(t testing.TB, l *lab.Lab, id handoff.Identity, kubernetesNode string) (token string) {
	t.Helper()
	l.Apply(t, id.Namespace, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  serviceAccountName: %[1]s
  automountServiceAccountToken: false
  nodeName: %[3]s
  containers: [{name: node, image: "%[4]s/none/none"}]
`, id.ServiceAccount(), id.Node, kubernetesNode, l.Registry))
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(Token(t, l, id, id.Node)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Token is a new token as the kubelet projects it into the node's pod of that name.
func Token(t testing.TB, l *lab.Lab, id handoff.Identity, pod string) string {
	t.Helper()
	return strings.TrimSpace(l.Kubectl(t, "create", "token", id.ServiceAccount(), "-n", id.Namespace, "--audience", handoff.Audience,
		"--bound-object-kind", "Pod", "--bound-object-name", pod, "--duration", "1h"))
}

// KubernetesNodes are the names of the cluster's nodes, sorted.
func KubernetesNodes(t testing.TB, l *lab.Lab) []string {
	t.Helper()
	return strings.Fields(l.Kubectl(t, "get", "nodes", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.name}"))
}
