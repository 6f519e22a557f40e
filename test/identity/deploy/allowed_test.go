package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
)

// allowed are the rules that docs/k8s.md has for a group with a spire node,
// without what is optional and without what is given on.
const allowed = `
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, patch, create, delete]}
- {apiGroups: ["", networking.k8s.io], resources: [persistentvolumeclaims, networkpolicies], verbs: [get, list, patch, create, delete]}
- {apiGroups: [""], resources: [namespaces], verbs: [get, patch, create, delete]}
- {apiGroups: [node.k8s.io], resources: [runtimeclasses], verbs: [get]}
- {apiGroups: ["", apps], resources: [replicasets, pods], verbs: [list, watch]}
- {apiGroups: [apps], resources: [controllerrevisions], verbs: [list, patch, create, delete]}
- {apiGroups: ["", rbac.authorization.k8s.io], resources: [serviceaccounts, configmaps, roles, rolebindings], verbs: [get, list, patch, create, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, clusterrolebindings], verbs: [get, patch, create, delete]}
- {apiGroups: [""], resources: [secrets], verbs: [get, create]}
`

// What docs/k8s.md says that the kubeconfig's user must be allowed is enough, and
// without what the SPIRE server is given, the doctor says so before an apply fails.
func TestWhatTheUserMustBeAllowed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	user := h.Namespace + "-deployer"
	t.Cleanup(func() {
		h.Kubectl("delete", "clusterrole,clusterrolebinding", user)
		h.Kubectl("delete", "serviceaccount", "-n", "default", user)
	})
	may := func(more string) {
		t.Helper()
		h.Lab.Apply(t, "default", fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:%[2]s%[3]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: default}]
`, user, allowed, more))
	}
	may("")
	kubeconfig := filepath.Join(h.Dir, "deployer.kubeconfig")
	h.must(os.WriteFile(kubeconfig, []byte(h.Lab.TokenKubeconfig(h.Kubectl("create", "token", user, "-n", "default"))), 0o600))
	h.Env["KUBE_CONFIG_PATH"] = kubeconfig

	doctor := h.Must(2, "k8s", "doctor").Stdout
	for _, want := range []string{"must not get pods in namespace " + h.Namespace, "must not get nodes: ", "must not create tokenreviews.authentication.k8s.io: ", "escalate and bind"} {
		if !strings.Contains(doctor, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, doctor)
		}
	}
	if n := strings.Count(doctor, "must not"); n != 3 {
		t.Errorf("the doctor finds %d permissions missing, want 3:\n%s", n, doctor)
	}

	for what, more := range map[string]string{
		"has what it gives": `- {apiGroups: [""], resources: [pods, nodes], verbs: [get]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}`,
		"may give all": `- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles], verbs: [escalate, bind]}`,
	} {
		may(more)
		lab.Eventually(t, "the permissions, "+what, func() error { // the authorizer hears of them later
			if r := h.Yuba("k8s", "doctor"); r.Code != 0 {
				return fmt.Errorf("%v", r)
			}
			return nil
		})
		h.Must(0, "k8s", "apply", "-auto-approve")
		h.plans()
		h.handed("web")
		h.Must(0, "k8s", "destroy", "-auto-approve")
		h.handed()
	}
}
