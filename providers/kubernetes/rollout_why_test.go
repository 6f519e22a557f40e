package kubernetes_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"fediversity.eu/yuba/test/lab"
)

// push makes an image that a node runs.
func (c *cluster) push(name string, i lab.Image) string {
	c.t.Helper()
	i.Content = c.ns + name
	return c.lab.Push(c.t, c.ns+"/"+name, "1", i)
}

// A node that runs but is not ready tells its failed units, with the last lines
// of their journals, and no terminal is steered by them.
func TestFailedUnitsAreNamed(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "1m")
	good := c.push("good", lab.Image{})
	n.must(good)
	n.timeout = "5s"
	s := n.apply(c.push("bad", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "nginx.service,var-lib-db.mount"}))
	says(t, s, "not complete within 5s", "running, not ready", "systemd in the pod is degraded",
		"failed unit nginx.service: The unit nginx.service", "nginx.service: line 12\n", "nginx.service: line 30\n", "nginx.service: Failed with result 'exit-code'.\n",
		"failed unit var-lib-db.mount", "set back", good, "ready again")
	if strings.Contains(s, "\x1b") || strings.Contains(s, "line 11\n") {
		t.Errorf("more than it should: %q", s)
	}
}

// One that still starts tells for what.
func TestJobsOfAStartThatHangs(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "5s")
	says(t, n.apply(c.push("bad", lab.Image{Behaviour: lab.NeverReady, Jobs: "slow.service"})),
		"systemd in the pod is starting", "job 1 slow.service start running", "last lines of container node:", "Reached target Multi-User System", "first deploy")
}

// What can't be asked costs bounded time and a line, and the log is shown.
func TestNodesThatDoNotAnswer(t *testing.T) {
	c := newCluster(t)
	for exec, want := range map[string]string{"hang": "no answer within 5s", "missing": "executable file not found"} {
		t.Run(exec, func(t *testing.T) {
			t.Parallel()
			n := c.node(exec, "5s")
			says(t, n.apply(c.push(exec, lab.Image{Behaviour: lab.NeverReady, Exec: exec, Log: "the last words"})),
				"not complete within 5s", "systemd in the pod could not be asked: ", want, "the last words", "first deploy")
		})
	}
}

func TestReasonsOutsideOfTheImage(t *testing.T) {
	c := newCluster(t)
	claim := func(class string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "c" + class, "namespace": c.ns},
			"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": class, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}
	}
	c.put(object(), with(claim("nowhere")))
	for name, tt := range map[string]struct {
		image lab.Image
		claim string
		want  []string
	}{
		"class":   {lab.Image{}, "cnowhere", []string{"failed", "Unschedulable: the claim cnowhere asks for the StorageClass nowhere, which the cluster does not have"}},
		"claim":   {lab.Image{}, "cnone", []string{"failed", "Unschedulable: the claim cnone does not exist"}},
		"runtime": {lab.Image{Behaviour: lab.Creating, Warning: `FailedCreatePodSandBox: Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "systemd" is configured`}, "", []string{"failed", `has no runtime handler "systemd"`}},
		"mount":   {lab.Image{Behaviour: lab.Creating, Warning: "FailedMount: MountVolume.MountDevice failed: no device"}, "", []string{"not complete within 8s", "a volume cannot be mounted: FailedMount"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := c.node(name, "8s")
			m := c.deployment(name, c.push(name, tt.image))
			if tt.claim != "" {
				m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["volumes"] =
					[]any{map[string]any{"name": "state", "persistentVolumeClaim": map[string]any{"claimName": tt.claim}}}
			}
			c.put(n.dep, with(m))
			w := c.walk()
			p := w.plan(n.roll, n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation")))
			says(t, w.tryApply(context.Background(), p), tt.want...)
		})
	}
}

// The setting: a reason that does not heal is waited for as long as is said.
func TestPersistence(t *testing.T) {
	c := newCluster(t)
	n := c.node("web", "4s")
	m := c.deployment("web", c.push("bad", lab.Image{Behaviour: lab.ConfigError}))
	c.put(n.dep, with(m))
	w := c.walk()
	conf := n.rolloutConfig(n.dep.attr(t, "uid"), n.dep.attr(t, "generation"))
	conf["persistence"] = "4s"
	says(t, w.tryApply(context.Background(), w.plan(n.roll, conf)), "not complete within 4s", "CreateContainerConfigError")
	conf["persistence"] = "1500ms"
	says(t, w.tryApply(context.Background(), w.plan(n.roll, conf)), "failed", "CreateContainerConfigError", "given up after 1.5s")
}

// permissions are those that docs/k8s.md names for what a rollout does; the
// optional ones are apart.
const (
	permissions = `
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, patch, create, delete]}
- {apiGroups: [apps], resources: [replicasets], verbs: [list, watch]}
- {apiGroups: [apps], resources: [controllerrevisions], verbs: [list, patch, create, delete]}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}`
	niceToHave = `
- {apiGroups: [""], resources: [events], verbs: [list, watch]}
- {apiGroups: [""], resources: [persistentvolumeclaims], verbs: [get]}
- {apiGroups: [""], resources: [pods/exec], verbs: [create, get]}
- {apiGroups: [""], resources: [pods/log], verbs: [get]}`
)

// limited gives the engine a user who may do no more than the rules say.
func (c *cluster) limited(rules string) {
	c.t.Helper()
	c.lab.Apply(c.t, c.ns, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer}
rules:`+rules+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects: [{kind: ServiceAccount, name: deployer, namespace: `+c.ns+`}]`)
	token := strings.TrimSpace(c.lab.Kubectl(c.t, "create", "token", "deployer", "-n", c.ns))
	config, err := clientcmd.LoadFromFile(c.lab.Kubeconfig)
	must(c.t, err)
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": c.lab.Server, "certificate-authority-data": config.Clusters[config.Contexts[config.CurrentContext].Cluster].CertificateAuthorityData}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": token}}},
	})
	must(c.t, err)
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	must(c.t, os.WriteFile(path, data, 0o600))
	c.env["KUBE_CONFIG_PATH"] = path
}

// Whoever may not run commands in pods gets a verdict all the same, and is told
// what is missing.
func TestLeastPermissions(t *testing.T) {
	c := newCluster(t)
	c.limited(permissions)
	n := c.node("web", "1m")
	good := c.push("good", lab.Image{})
	n.must(good)
	n.quiet(good)
	n.timeout = "6s"
	says(t, n.apply(c.push("bad", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "nginx.service"})),
		"not complete within 6s", "running, not ready", "systemd in the pod could not be asked: the kubeconfig's user may not (it needs create and get on pods/exec)",
		"the log of container node could not be read: the kubeconfig's user may not (it needs get on pods/log)", "set back", good, "ready again")
}

func TestOptionalPermissions(t *testing.T) {
	c := newCluster(t)
	c.limited(permissions + niceToHave)
	n := c.node("web", "6s")
	says(t, n.apply(c.push("bad", lab.Image{Behaviour: lab.NeverReady, FailedUnits: "nginx.service"})),
		"running, not ready: Readiness probe failed: degraded", "failed unit nginx.service", "nginx.service: line 30")
}
