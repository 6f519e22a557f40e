package ownership

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

func parse(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := kjson.Unmarshal([]byte(s), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A Deployment as it was sent, and as an API server 1.37 answered: defaulted,
// normalised (memory), and with an image pull policy that nobody asked for.
const sent = `{
 "apiVersion":"apps/v1","kind":"Deployment",
 "metadata":{"name":"web","namespace":"ns","labels":{"app":"web"},"annotations":{"example.com/a":"1"}},
 "spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
  "template":{"metadata":{"labels":{"app":"web"}},
   "spec":{"containers":[{"name":"web","image":"r/web@sha256:1","args":["a","b"],
     "ports":[{"containerPort":80},{"containerPort":53,"protocol":"UDP"}],
     "resources":{"requests":{"memory":"1024Mi"}},
     "volumeMounts":[{"name":"state","mountPath":"/var/lib"}]}],
    "volumes":[{"name":"state","persistentVolumeClaim":{"claimName":"web-state"}},{"name":"run","emptyDir":{}}]}}}}`

const answered = `{
 "apiVersion":"apps/v1","kind":"Deployment",
 "metadata":{"name":"web","namespace":"ns","uid":"u1","generation":1,"labels":{"app":"web"},"annotations":{"example.com/a":"1"},
  "managedFields":[
   {"manager":"yuba","operation":"Apply","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{
    "f:metadata":{"f:annotations":{"f:example.com/a":{}},"f:labels":{"f:app":{}}},
    "f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},
     "f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},
       "f:ports":{"k:{\"containerPort\":53,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},
       "f:resources":{"f:requests":{"f:memory":{}}},
       "f:volumeMounts":{"k:{\"mountPath\":\"/var/lib\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},
      "f:volumes":{"k:{\"name\":\"run\"}":{".":{},"f:emptyDir":{},"f:name":{}},"k:{\"name\":\"state\"}":{".":{},"f:name":{},"f:persistentVolumeClaim":{"f:claimName":{}}}}}}}}},
   {"manager":"kube-controller-manager","operation":"Update","subresource":"status","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:replicas":{}}}}]},
 "spec":{"replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},"strategy":{"type":"RollingUpdate"},
  "template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
   "spec":{"restartPolicy":"Always","containers":[{"name":"web","image":"r/web@sha256:1","args":["a","b"],"imagePullPolicy":"IfNotPresent",
     "ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}],
     "resources":{"requests":{"memory":"1Gi"}},
     "volumeMounts":[{"name":"state","mountPath":"/var/lib"}]}],
    "volumes":[{"name":"state","persistentVolumeClaim":{"claimName":"web-state"}},{"name":"run","emptyDir":{}}]}}},
 "status":{"replicas":1}}`

func learn(t *testing.T) (manifest, live map[string]any, mem *Memory) {
	t.Helper()
	manifest, live = parse(t, sent), parse(t, answered)
	mem = Learn(manifest, live, Owned(live, "yuba"))
	// It must survive the state file.
	data, err := json.Marshal(mem)
	if err != nil {
		t.Fatal(err)
	}
	mem = &Memory{}
	if err := kjson.Unmarshal(data, mem); err != nil {
		t.Fatal(err)
	}
	if len(data) > 700 {
		t.Errorf("the memory takes %d bytes of each state: %s", len(data), data)
	}
	return manifest, live, mem
}

func container(o map[string]any) map[string]any {
	spec := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	return spec["containers"].([]any)[0].(map[string]any)
}

// What the server defaulted, normalised and added is no drift.
func TestOwnApplyIsNoDrift(t *testing.T) {
	manifest, live, mem := learn(t)
	now, drifted := mem.Compare(manifest, live)
	if len(drifted) > 0 {
		t.Errorf("drift: %v", drifted)
	}
	if diff := cmp.Diff(manifest, now); diff != "" {
		t.Error(diff)
	}
}

func TestDrift(t *testing.T) {
	tests := map[string]struct {
		change func(live map[string]any)
		paths  []string
		seen   func(now map[string]any) any
		want   any
	}{
		"image": {
			change: func(o map[string]any) { container(o)["image"] = "other" },
			paths:  []string{`.spec.template.spec.containers[name="web"].image`},
			seen:   func(o map[string]any) any { return container(o)["image"] },
			want:   "other",
		},
		"normalised value changed": {
			change: func(o map[string]any) {
				container(o)["resources"] = map[string]any{"requests": map[string]any{"memory": "2Gi"}}
			},
			paths: []string{`.spec.template.spec.containers[name="web"].resources.requests.memory`},
		},
		"replicas": {
			change: func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = int64(3) },
			paths:  []string{".spec.replicas"},
			seen:   func(o map[string]any) any { return o["spec"].(map[string]any)["replicas"] },
			want:   int64(3),
		},
		"label removed": {
			change: func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") },
			paths:  []string{".metadata.labels.app"},
			seen:   func(o map[string]any) any { return o["metadata"].(map[string]any)["labels"] },
			want:   nil,
		},
		"list order": {
			change: func(o map[string]any) { container(o)["args"] = []any{"b", "a"} },
			paths:  []string{`.spec.template.spec.containers[name="web"].args`},
		},
		"defaulted key": {
			change: func(o map[string]any) {
				container(o)["ports"] = []any{map[string]any{"containerPort": int64(80), "protocol": "SCTP"}, map[string]any{"containerPort": int64(53), "protocol": "UDP"}}
			},
			paths: []string{`.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort`},
		},
		"atomic map": {
			change: func(o map[string]any) {
				o["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"app": "web", "more": "x"}}
			},
			paths: []string{".spec.selector"},
		},
		"container gone": {
			change: func(o map[string]any) {
				o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "run", "emptyDir": map[string]any{}}}
			},
			paths: []string{
				`.spec.template.spec.volumes[name="state"].name`,
				`.spec.template.spec.volumes[name="state"].persistentVolumeClaim.claimName`,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			manifest, live, mem := learn(t)
			tt.change(live)
			now, drifted := mem.Compare(manifest, live)
			if diff := cmp.Diff(tt.paths, drifted); diff != "" {
				t.Error(diff)
			}
			if tt.seen != nil {
				if got := tt.seen(now); !equal(got, tt.want) {
					t.Errorf("the plan would show %v", got)
				}
			}
			if container(now)["resources"].(map[string]any)["requests"].(map[string]any)["memory"] == "1Gi" {
				t.Error("the plan would show what the server normalised as a change")
			}
		})
	}
}

// What others add beside our fields is theirs: sidecars, annotations, items.
func TestOthersFieldsAreNoDrift(t *testing.T) {
	manifest, live, mem := learn(t)
	live["metadata"].(map[string]any)["annotations"].(map[string]any)["sidecar/injected"] = "yes"
	spec := live["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["containers"] = append([]any{map[string]any{"name": "sidecar", "image": "proxy"}}, spec["containers"].([]any)...)
	spec["nodeSelector"] = map[string]any{"zone": "a"}
	if _, drifted := mem.Compare(manifest, live); len(drifted) > 0 {
		t.Errorf("drift: %v", drifted)
	}
}

// The projection is what, applied again, changes nothing.
func TestProjection(t *testing.T) {
	_, live, _ := learn(t)
	part, ok := Project(live, Owned(live, "yuba"))
	if !ok {
		t.Fatal("nothing is owned")
	}
	want := parse(t, sent)
	delete(want, "apiVersion")
	delete(want, "kind")
	delete(want["metadata"].(map[string]any), "name")
	delete(want["metadata"].(map[string]any), "namespace")
	container(want)["resources"].(map[string]any)["requests"].(map[string]any)["memory"] = "1Gi"
	container(want)["ports"].([]any)[0].(map[string]any)["protocol"] = "TCP" // a key
	if diff := cmp.Diff(want, part); diff != "" {
		t.Error(diff)
	}
}

// Conflicts name fields as the paths do, so that ours are known.
func TestPaths(t *testing.T) {
	manifest, _, mem := learn(t)
	paths := mem.Paths(manifest)
	for _, p := range []string{
		".spec.replicas", ".metadata.labels.app", ".metadata.annotations.example.com/a",
		`.spec.template.spec.containers[name="web"].image`,
		`.spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort`,
	} {
		if !paths[p] {
			t.Errorf("lacks %s", p)
		}
	}
	if paths[".metadata.name"] || paths[".spec.paused"] {
		t.Error("has fields that are not ours")
	}
}

// A set, such as finalizers, is owned item by item.
func TestSets(t *testing.T) {
	manifest := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["a/b"]}}`)
	live := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["x/y","a/b"],"managedFields":[
	 {"manager":"yuba","operation":"Apply","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"a/b\"":{}}}}}]}}`)
	mem := Learn(manifest, live, Owned(live, "yuba"))
	if _, drifted := mem.Compare(manifest, live); len(drifted) > 0 {
		t.Errorf("drift: %v", drifted)
	}
	live["metadata"].(map[string]any)["finalizers"] = []any{"x/y"}
	now, drifted := mem.Compare(manifest, live)
	if diff := cmp.Diff([]string{`.metadata.finalizers[="a/b"]`}, drifted); diff != "" {
		t.Error(diff)
	}
	if _, ok := now["metadata"].(map[string]any)["finalizers"]; ok {
		t.Error("the plan would not show it")
	}
}

// A field that the server drops (a Secret's stringData) is no drift ever after.
func TestDroppedFields(t *testing.T) {
	manifest := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"k":"v"}}`)
	live := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"dg=="},"type":"Opaque"}`)
	mem := Learn(manifest, live, nil)
	if _, drifted := mem.Compare(manifest, live); len(drifted) > 0 {
		t.Errorf("drift: %v", drifted)
	}
}

// Whatever a server, or who writes to it, makes of an object: no panic, and
// with no change no drift.
func FuzzCompare(f *testing.F) {
	f.Add(sent, answered)
	f.Add(`{"a":[1,{"b":null}]}`, `{"a":{"b":[]},"metadata":{"managedFields":[{"manager":"yuba","operation":"Apply","fieldsV1":{"f:a":{"k:{}":{},"v:1":{},"i:0":{}}}}]}}`)
	f.Add(`{"metadata":[],"a":[{"x":1},{"x":1}]}`, `{"metadata":{"managedFields":[{"manager":"yuba","operation":"Apply","fieldsV1":{"f:a":{"k:{\"x\":1}":{"f:x":{}}}}}]},"a":[{"x":2}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var manifest, live map[string]any
		if kjson.Unmarshal([]byte(a), &manifest) != nil || kjson.Unmarshal([]byte(b), &live) != nil || manifest == nil {
			return
		}
		tree := Owned(live, "yuba")
		mem := Learn(manifest, live, tree)
		if _, drifted := mem.Compare(manifest, live); len(drifted) > 0 {
			t.Errorf("drift of nothing: %v", drifted)
		}
		mem.Paths(manifest)
		Project(live, tree)
	})
}
