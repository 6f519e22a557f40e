package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// tokenKubeconfig is the kubeconfig of who has a token.
func tokenKubeconfig(l *lab.Lab, token string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority": %q}}],
"users": [{"name": "u", "user": {"token": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, l.Server, l.CA, token)
}

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

	// A service account that may read the namespaces and nothing else.
	ns := w.Lab.Namespace(t)
	w.Lab.Apply(t, ns, `apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
`)
	token := w.Kubectl("create", "token", "reader", "-n", ns)
	kubeconfig := filepath.Join(w.Dir, "reader.kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(tokenKubeconfig(w.Lab, token)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Env["KUBE_CONFIG_PATH"] = kubeconfig
	got = findings(2)
	for _, want := range []string{"must not create namespaces: ", "must not patch deployments.apps in namespace " + w.Namespace} {
		if !strings.Contains(got["permissions"], want) {
			t.Errorf("permissions: %q does not say %q", got["permissions"], want)
		}
	}
	if !strings.HasPrefix(got["user namespaces"], "unknown: ") || !strings.HasPrefix(got["StorageClass"], "unknown: ") {
		t.Errorf("what the user must not list: %q", got)
	}
}
