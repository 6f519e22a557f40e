package kubernetes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/test/freeport"
)

const kubeconfigHead = `apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: op}}]
clusters: [{name: lab, cluster: {server: "SERVER"}}]
`

func writeKubeconfig(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(p, []byte(text), 0o600))
	return p
}

// Each kubeconfig that cannot work is refused when the provider is configured,
// with a sentence that names the variable and the file, and no secret.
func TestBadKubeconfigs(t *testing.T) {
	head := strings.ReplaceAll(kubeconfigHead, "SERVER", "https://127.0.0.1:1")
	tests := map[string]struct {
		path string
		text string
		want []string
	}{
		"unset":              {want: []string{"KUBE_CONFIG_PATH", "set"}},
		"missing":            {path: "/nonexistent/kubeconfig", want: []string{"KUBE_CONFIG_PATH", "/nonexistent/kubeconfig", "no such file"}},
		"directory":          {path: t.TempDir(), want: []string{"KUBE_CONFIG_PATH", "is a directory"}},
		"empty":              {text: "\n", want: []string{"is empty"}},
		"bad yaml":           {text: "token: [s3cret\n  : :", want: []string{"KUBE_CONFIG_PATH", "no valid kubeconfig"}},
		"other yaml":         {text: "a: b\n", want: []string{"current-context"}},
		"no current context": {text: strings.Replace(head, "current-context: lab", "", 1), want: []string{"no current-context"}},
		"unknown context":    {text: strings.Replace(head, "current-context: lab", "current-context: other", 1), want: []string{`no context "other"`}},
		"no server":          {text: strings.Replace(head, `{server: "https://127.0.0.1:1"}`, `{}`, 1), want: []string{"server address"}},
		"exec":               {text: head + "users: [{name: op, user: {token: s3cret, exec: {apiVersion: client.authentication.k8s.io/v1, command: login}}}]\n", want: []string{"exec", "yuba starts no program", `"op"`}},
		"auth provider":      {text: head + "users: [{name: op, user: {auth-provider: {name: gcp}}}]\n", want: []string{"auth-provider", "gcp"}},
		"missing CA":         {text: strings.Replace(head, "server:", "certificate-authority: ca.crt, server:", 1) + "users: [{name: op, user: {}}]\n", want: []string{"ca.crt", "no such file"}},
		"huge":               {text: strings.Repeat("#", 2<<20), want: []string{"larger than"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := tt.path
			if tt.text != "" {
				p = writeKubeconfig(t, tt.text)
			}
			e := &engine{t: t, env: map[string]string{"KUBE_CONFIG_PATH": p}}
			_, diags := e.tryWalk()
			got := errorsOf(diags)
			if got == "" {
				t.Fatal("it was accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("error lacks %q: %s", want, got)
				}
			}
			if p != "" && !strings.Contains(got, p) {
				t.Errorf("error does not name the file: %s", got)
			}
			if strings.Contains(got, "s3cret") {
				t.Errorf("error has the token: %s", got)
			}
		})
	}
}

// config_path goes before the environment.
func TestConfigPathBeforeEnvironment(t *testing.T) {
	good := writeKubeconfig(t, strings.ReplaceAll(kubeconfigHead, "SERVER", "https://127.0.0.1:1")+"users: [{name: op, user: {}}]\n")
	e := &engine{t: t, env: map[string]string{"KUBE_CONFIG_PATH": "/nonexistent"}, config: map[string]any{"config_path": good}}
	e.walk()
}

// An API server that isn't there is named, without the user and password that
// its address may hold, and at the first object.
func TestUnreachableServer(t *testing.T) {
	addr := freeport.Address(t)
	p := writeKubeconfig(t, strings.ReplaceAll(kubeconfigHead, "SERVER", "http://me:s3cret@"+addr)+"users: [{name: op, user: {}}]\n")
	e := &engine{t: t, env: map[string]string{"KUBE_CONFIG_PATH": p}}
	w := e.walk()
	_, s := w.tryPlan(&instance{kind: "kubernetes_object"}, map[string]any{"manifest": configMap("ns", "a", nil)})
	for _, want := range []string{"no answer from the API server http://" + addr, "refused"} {
		if !strings.Contains(s, want) {
			t.Errorf("error lacks %q: %s", want, s)
		}
	}
	if strings.Contains(s, "s3cret") {
		t.Errorf("error has the password: %s", s)
	}
}

// A provider whose kubeconfig is made by the same apply can plan new objects.
func TestUnknownConfigPath(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	w.plan(&instance{kind: "kubernetes_object"}, map[string]any{"manifest": configMap("ns", "a", nil)})
}

func TestBadManifests(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	meta := func(extra map[string]any) map[string]any {
		m := map[string]any{"name": "a", "namespace": "ns"}
		for k, v := range extra {
			m[k] = v
		}
		return m
	}
	tests := map[string]struct {
		manifest any
		want     string
	}{
		"string":           {"apiVersion: v1", "must be an object"},
		"no kind":          {map[string]any{"apiVersion": "v1", "metadata": meta(nil)}, "kind is missing"},
		"no name":          {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{}}, "metadata.name is missing"},
		"no metadata":      {map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name is missing"},
		"generate name":    {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"generateName": "a-"})}, "generateName"},
		"status":           {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(nil), "status": map[string]any{}}, "status belongs"},
		"uid":              {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"uid": "x"})}, "metadata.uid belongs"},
		"managed fields":   {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"managedFields": []any{}})}, "metadata.managedFields belongs"},
		"resource version": {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"resourceVersion": "1"})}, "metadata.resourceVersion belongs"},
		"number as name":   {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"name": 1})}, "metadata.name is no string"},
		"path in name":     {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(map[string]any{"name": "../secrets"})}, "characters that no object can have"},
		"path in kind":     {map[string]any{"apiVersion": "v1/x/y", "kind": "ConfigMap", "metadata": meta(nil)}, "characters that no object can have"},
		"null in list":     {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(nil), "list": []any{nil}}, "manifest.list[0] is null"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, s := w.tryPlan(&instance{kind: "kubernetes_object"}, map[string]any{"manifest": tt.manifest})
			if !strings.Contains(s, tt.want) {
				t.Errorf("error lacks %q: %q", tt.want, s)
			}
		})
	}
}

func TestBadRollouts(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	good := map[string]any{"namespace": "ns", "name": "web", "uid": "u", "generation": 1}
	for attr, values := range map[string][]any{"namespace": {"", "..", "a/b"}, "name": {"", "..", "a/b", "a%2fb"}, "timeout": {"10", "-1m", "0s", "soon", "100000h"}} {
		for _, v := range values {
			a := map[string]any{attr: v}
			for k, v := range good {
				if _, ok := a[k]; !ok {
					a[k] = v
				}
			}
			if _, s := w.tryPlan(&instance{kind: "kubernetes_rollout"}, a); !strings.Contains(s, "Bad ") {
				t.Errorf("%s = %q: %q", attr, v, s)
			}
		}
	}
	w.plan(&instance{kind: "kubernetes_rollout"}, good)
}

func TestBadImportIDs(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	for _, id := range []string{
		"", "web", "ns/web", "apiVersion=v1,kind=ConfigMap", "kind=ConfigMap,apiVersion=v1,name=a",
		"apiVersion=v1,kind=ConfigMap,namespace=,name=a", "apiVersion=v1,kind=ConfigMap,name=a/b",
		"apiVersion=v1,kind=Config/Map,name=a", "apiVersion=v1,kind=ConfigMap,namespace=../x,name=a", "apiVersion=v1,kind=ConfigMap,name=", "apiVersion=v1,kind=ConfigMap,namespace=a,name=..",
	} {
		if _, s := w.importID("kubernetes_object", id); !strings.Contains(s, "is no object id") {
			t.Errorf("%q: %q", id, s)
		}
	}
}

// What the schema promises to configurations and to other tools.
func TestSchemas(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	want := map[string]string{
		"kubernetes_object":  "force_conflicts? generation= id= manifest! timeout? uid= unless?",
		"kubernetes_rollout": "generation! id= name! namespace! persistence? timeout? uid!",
	}
	for kind, attrs := range want {
		var got []string
		for _, a := range w.schemas.ResourceSchemas[kind].Block.Attributes {
			s := a.Name
			if a.Required {
				s += "!"
			}
			if a.Optional {
				s += "?"
			}
			if a.Computed {
				s += "="
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != attrs {
			t.Errorf("%s: %s", kind, s)
		}
	}
	for _, d := range []map[string]*tfprotov6.Schema{w.schemas.ResourceSchemas, w.schemas.DataSourceSchemas} {
		for kind, s := range d {
			for _, a := range s.Block.Attributes {
				if a.Description == "" {
					t.Errorf("%s.%s has no description", kind, a.Name)
				}
			}
		}
	}
}

// The provider answers quiet resources itself, by a type that must be the
// schema's, and on the condition that no attribute has a default.
func TestQuietConditions(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	w := e.walk()
	for kind, s := range w.schemas.ResourceSchemas {
		for _, a := range s.Block.Attributes {
			if a.Optional && a.Computed {
				t.Errorf("%s.%s has a default", kind, a.Name)
			}
		}
	}
}

// configMap is a manifest.
func configMap(namespace, name string, data map[string]any) map[string]any {
	m := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace}}
	if data != nil {
		m["data"] = data
	}
	return m
}
