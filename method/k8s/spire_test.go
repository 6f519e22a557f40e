package k8s

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/spire/reach"
)

// TestSpirePod: the token is for the SPIRE server alone and for root of the
// node alone, and nothing else of the pod is another one than without SPIRE.
func TestSpirePod(t *testing.T) {
	pod := func(data string) map[string]any {
		t.Helper()
		g := mustParse(t, data)
		var deployment struct {
			Spec struct{ Template struct{ Spec map[string]any } }
		}
		evaluate(t, g, mustGraph(t, g)).manifest(t, "deployment_web", &deployment)
		return deployment.Spec.Template.Spec
	}
	want := pod(good)
	want["serviceAccountName"], want["serviceAccount"] = "node-web", "node-web"
	container := want["containers"].([]any)[0].(map[string]any)
	container["volumeMounts"] = append(container["volumeMounts"].([]any), map[string]any{"name": "spire", "mountPath": "/run/yuba/spire", "readOnly": true})
	want["volumes"] = append(want["volumes"].([]any), map[string]any{"name": "spire", "projected": map[string]any{
		"defaultMode": 256.0, // 0400
		"sources": []any{
			map[string]any{"serviceAccountToken": map[string]any{"audience": "spire-server", "expirationSeconds": 3600.0, "path": "token"}},
			map[string]any{"configMap": map[string]any{"name": "spire-agent",
				"items": []any{map[string]any{"key": "bundle.pem", "path": "bundle.pem", "mode": 292.0}}}}, // 0444
			map[string]any{"downwardAPI": map[string]any{
				"items": []any{map[string]any{"path": "namespace", "fieldRef": map[string]any{"fieldPath": "metadata.namespace"}}}}},
		},
	}})
	if d := cmp.Diff(want, pod(withSpire)); d != "" {
		t.Error(d)
	}
	if want["automountServiceAccountToken"] != false {
		t.Error("the pod gets a token for the API server")
	}
}

// TestSpireOrder: the spire node knows a node before its pod starts. A destroy
// goes the other way: pods, what was handed over, what that needs, namespace.
func TestSpireOrder(t *testing.T) {
	g := mustParse(t, withSpire)
	graph := evaluate(t, g, mustGraph(t, g))
	for name, want := range map[string]string{
		"kubernetes_object.deployment_web": "kubernetes_object.network_policy kubernetes_object.claim_web kubernetes_object.account_web spire_handoff.this " +
			"local.digests local.missing local.pod random_uuid.node_web",
		"kubernetes_object.account_web":   "kubernetes_object.namespace",
		"spire_handoff.this":              "data.spire_server.this spire_namespace.this",
		"spire_namespace.this":            "kubernetes_object.spire_binding",
		"kubernetes_object.spire_binding": "kubernetes_object.spire local.spire_bindings each.value",
		"kubernetes_object.spire":         "kubernetes_object.namespace local.spire each.value",
		// Read while planning, thus it waits for nothing.
		"data.spire_server.this": "",
		"provider.spire":         "",
	} {
		refs := map[string]bool{}
		for _, r := range strings.Fields(want) {
			refs[r] = true
		}
		if d := cmp.Diff(refs, graph.refs[name]); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

// TestSpireServerMay: reading what k8s_psat looks at, and nothing else.
func TestSpireServerMay(t *testing.T) {
	g := mustParse(t, withSpire)
	locals := evaluate(t, g, mustGraph(t, g)).values["locals"]
	objects, bindings := locals["spire"].(map[string]any), locals["spire_bindings"].(map[string]any)
	rule := func(group, resource, verb string) map[string]any {
		return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{verb}}
	}
	server := []any{map[string]any{"kind": "ServiceAccount", "name": "spire-server", "namespace": "fediversity-shop"}}
	role := func(kind, name string) map[string]any {
		return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
	}
	const clusterRole = "yuba:fediversity-shop:spire-server"
	for what, c := range map[string]struct{ got, want any }{
		"role":            {objects["role"].(map[string]any)["rules"], []any{rule("", "pods", "get")}},
		"cluster role":    {objects["cluster_role"].(map[string]any)["rules"], []any{rule("authentication.k8s.io", "tokenreviews", "create"), rule("", "nodes", "get")}},
		"bound role":      {bindings["role"].(map[string]any)["roleRef"], role("Role", "spire-server")},
		"bound to":        {bindings["role"].(map[string]any)["subjects"], server},
		"bound cluster":   {bindings["cluster_role"].(map[string]any)["roleRef"], role("ClusterRole", clusterRole)},
		"bound in it to":  {bindings["cluster_role"].(map[string]any)["subjects"], server},
		"bundle":          {objects["agent"].(map[string]any)["data"], map[string]any{"bundle.pem": "bundle-of-spire", "server": "spire.example.org", "trust-domain": "example.org"}},
		"token of server": {objects["account"].(map[string]any)["automountServiceAccountToken"], false},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	for _, o := range []any{objects["cluster_role"], bindings["cluster_role"]} {
		if got := o.(map[string]any)["metadata"].(map[string]any)["name"]; got != clusterRole {
			t.Errorf("the name of an object outside of namespaces is %v", got)
		}
	}
}

// TestSpireWithoutNodes: nothing is handed over, so that what was is taken back.
func TestSpireWithoutNodes(t *testing.T) {
	g := mustParse(t, strings.Replace(withSpire, `"enabled": true`, `"enabled": false`, 1))
	files := mustGraph(t, g)
	checkGraph(t, g, files)
	if strings.Contains(string(files[GraphFile]), `resource "spire_`) {
		t.Error("there is a hand-off of no nodes")
	}
}

// TestAnotherCommentOfAHostKeyIsNoChange: keys are written in one form.
func TestAnotherCommentOfAHostKeyIsNoChange(t *testing.T) {
	one, other := mustParse(t, withSpire), mustParse(t, strings.Replace(withSpire, "root@spire", "somebody", 1))
	if d := cmp.Diff(string(mustGraph(t, one)[GraphFile]), string(mustGraph(t, other)[GraphFile])); d != "" {
		t.Error(d)
	}
}

// TestSchemaHasTheSSHOptions: a schema can't ask the package that has the rules.
func TestSchemaHasTheSSHOptions(t *testing.T) {
	type object struct{ Properties map[string]object }
	var s object
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(s.Properties["spire"].Properties["options"].Properties))
	if d := cmp.Diff(reach.Options(), got); d != "" {
		t.Error(d)
	}
}
