package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// What a cluster lacks is told before a first deploy; a user who may do less
// than a deploy needs hears which verbs are missing.
func TestDoctorTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	findings := func(code int) map[string]string {
		var answer struct {
			Healthy  bool
			Findings []struct{ Check, Verdict, Message string }
		}
		r := w.Must(code, "k8s", "doctor", "-json")
		if err := json.Unmarshal([]byte(r.Stdout), &answer); err != nil || answer.Healthy != (code == 0) {
			t.Fatalf("%v: %v", err, r)
		}
		all := map[string]string{}
		for _, f := range answer.Findings {
			all[f.Check] += f.Verdict + ": " + f.Message + "\n"
		}
		return all
	}

	// The lab's nodes are fake and do not tell what they can.
	got := findings(0)
	for check, want := range map[string]string{"server version": "ok: ", "RuntimeClass": "ok: systemd", "container runtime": "unknown: ",
		"user namespaces": "unknown: ", "StorageClass": "ok: standard", "NetworkPolicy": "unknown: ", "permissions": "ok: "} {
		if !strings.HasPrefix(got[check], want) {
			t.Errorf("%s is %q, want %q", check, got[check], want)
		}
	}
	w.Unchanged()

	w.Edit(func(g map[string]any) {
		g["runtimeClass"] = "none"
		g["storage"] = map[string]any{"size": "1Gi", "class": "none"}
	})
	got = findings(2)
	if !strings.HasPrefix(got["RuntimeClass"], "missing: ") || !strings.HasPrefix(got["StorageClass"], "missing: ") {
		t.Errorf("without RuntimeClass and StorageClass: %q", got)
	}

	// A service account that may do nothing. What it must not see may be there
	// or not.
	ns := w.Lab.Namespace(t)
	w.Lab.Apply(t, ns, `apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
`)
	as := func(kubeconfig string) {
		path := filepath.Join(w.Dir, "other.kubeconfig")
		if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Env["KUBE_CONFIG_PATH"] = path
	}
	has := func(got map[string]string, want map[string]string) {
		t.Helper()
		for check, text := range want {
			if !strings.Contains(got[check], text) {
				t.Errorf("%s: %q does not say %q", check, got[check], text)
			}
		}
	}
	as(w.Lab.TokenKubeconfig(w.Kubectl("create", "token", "reader", "-n", ns)))
	has(findings(2), map[string]string{
		"permissions":     "missing: must not create namespaces: ",
		"RuntimeClass":    "unknown: the kubeconfig's user lacks the permission to ask: get on runtimeclasses.node.k8s.io",
		"StorageClass":    "unknown: the kubeconfig's user lacks the permission to ask: list on storageclasses.storage.k8s.io",
		"user namespaces": "unknown: ",
		"NetworkPolicy":   "unknown: the kubeconfig's user lacks the permission to ask: list on daemonsets.apps",
	})
	has(findings(2), map[string]string{"permissions": "missing: must not patch deployments.apps in namespace " + w.Namespace})

	// With what the advice says to grant.
	w.Kubectl("create", "clusterrole", ns, "--verb=get,list", "--resource=runtimeclasses.node.k8s.io,nodes,storageclasses.storage.k8s.io,daemonsets.apps")
	w.Kubectl("create", "clusterrolebinding", ns, "--clusterrole="+ns, "--serviceaccount="+ns+":reader")
	t.Cleanup(func() { w.Kubectl("delete", "clusterrole,clusterrolebinding", ns) })
	has(findings(2), map[string]string{
		"RuntimeClass":  "missing: there is no RuntimeClass none",
		"StorageClass":  "missing: there is no StorageClass none",
		"NetworkPolicy": "unknown: nothing is found",
	})

	// Without credentials it can't even be asked what one may do.
	as(w.Lab.TokenKubeconfig(""))
	has(findings(0), map[string]string{
		"server version": "ok: ",
		"permissions":    "unknown: the kubeconfig's user lacks the permission to ask: create on selfsubjectaccessreviews.authorization.k8s.io",
		"RuntimeClass":   "unknown: ",
	})
}
