package doctor

import (
	"encoding/json"
	"strings"
	"testing"
)

func object(t *testing.T, text string) Object {
	t.Helper()
	var o Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// healthy is a cluster that lacks nothing: Kubernetes 1.37 with containerd 2.4
// and Calico.
func healthy(t *testing.T) Facts {
	return Facts{
		Version: "v1.37.2", RuntimeClassName: "systemd", StorageClassNames: []string{"", "fast"},
		RuntimeClass: object(t, `{"metadata": {"name": "systemd"}, "handler": "systemd"}`),
		Nodes: []Object{object(t, `{"metadata": {"name": "node-1", "labels": {"pool": "a"}}, "status": {
			"nodeInfo": {"containerRuntimeVersion": "containerd://2.4.2", "kernelVersion": "6.18.44", "kubeletVersion": "v1.37.2"},
			"runtimeHandlers": [{"name": "", "features": {"userNamespaces": true}}, {"name": "systemd", "features": {"userNamespaces": true}}]}}`)},
		StorageClasses: []Object{
			object(t, `{"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "example.com/disk"}`),
			object(t, `{"metadata": {"name": "fast"}, "provisioner": "example.com/ssd", "reclaimPolicy": "Retain"}`)},
		DaemonSets: []Object{object(t, `{"metadata": {"name": "calico-node", "namespace": "kube-system"},
			"spec": {"template": {"spec": {"containers": [{"image": "quay.io/calico/node:v3.31.0"}]}}}}`)},
		Permissions: []Permission{{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "fediversity", For: "it is applied", Answered: true, Allowed: true}},
		Refused:     map[Request]Refusal{},
	}
}

func TestHealthyClusterLacksNothing(t *testing.T) {
	findings := Examine(healthy(t))
	for _, f := range findings {
		if f.Verdict != OK || f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
	if len(findings) != 8 {
		t.Errorf("%d findings: %+v", len(findings), findings)
	}
}

// What a node with kubelet 1.37.2, containerd 2.4.2 and runc 1.5.3 told of
// itself: without what the checks could not care about (addresses, conditions,
// images).
const recorded = `{
	"apiVersion": "v1", "kind": "Node",
	"metadata": {"labels": {"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux"}, "name": "node-1"},
	"spec": {"podCIDR": "10.128.0.0/22", "podCIDRs": ["10.128.0.0/22"]},
	"status": {
		"allocatable": {"cpu": "2", "memory": "24684092Ki", "pods": "110"},
		"declaredFeatures": ["ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
			"RestartAllContainersOnContainerExits"],
		"features": {"supplementalGroupsPolicy": true},
		"nodeInfo": {"architecture": "amd64", "containerRuntimeVersion": "containerd://2.4.2", "kernelVersion": "6.18.44-fc-v657",
			"kubeProxyVersion": "", "kubeletVersion": "v1.37.2", "operatingSystem": "linux", "osImage": "Debian GNU/Linux 12 (bookworm)",
			"runningInUserNamespace": false},
		"runtimeHandlers": [
			{"features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}, "name": ""},
			{"features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}, "name": "runc"},
			{"features": {"recursiveReadOnlyMounts": true, "userNamespaces": true}, "name": "systemd"}]}}`

func TestRecordedNodeLacksNothing(t *testing.T) {
	f := healthy(t)
	f.Nodes = []Object{object(t, recorded)}
	for _, finding := range Examine(f) {
		if finding.Verdict != OK {
			t.Errorf("%+v", finding)
		}
	}
	f.RuntimeClass["handler"] = "gvisor"
	for _, finding := range Examine(f) {
		if finding.Check == "container runtime" && finding.Verdict != Missing {
			t.Errorf("with a handler that the node does not have: %+v", finding)
		}
	}
}

// A node that takes no pod of the group may lack what it likes: a control plane,
// or nodes for others.
func TestNodesWithTaints(t *testing.T) {
	for name, c := range map[string]struct {
		taint, tolerations string
		lands              bool
	}{
		"control plane":        {`{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}`, `[]`, false},
		"evicts":               {`{"key": "gpu", "value": "a", "effect": "NoExecute"}`, `[]`, false},
		"preference":           {`{"key": "gpu", "effect": "PreferNoSchedule"}`, `[]`, true},
		"tolerated":            {`{"key": "gpu", "value": "a", "effect": "NoSchedule"}`, `[{"key": "gpu", "value": "a"}]`, true},
		"tolerated by effect":  {`{"key": "gpu", "value": "a", "effect": "NoSchedule"}`, `[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]`, true},
		"another effect":       {`{"key": "gpu", "value": "a", "effect": "NoExecute"}`, `[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]`, false},
		"another value":        {`{"key": "gpu", "value": "a", "effect": "NoSchedule"}`, `[{"key": "gpu", "operator": "Equal", "value": "b"}]`, false},
		"another key":          {`{"key": "gpu", "effect": "NoSchedule"}`, `[{"key": "disk", "operator": "Exists"}]`, false},
		"everything tolerated": {`{"key": "gpu", "value": "a", "effect": "NoSchedule"}`, `[{"operator": "Exists"}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			f.RuntimeClass["scheduling"] = object(t, `{"tolerations": `+c.tolerations+`}`)
			f.Nodes = append(f.Nodes, object(t, `{"metadata": {"name": "node-2"}, "spec": {"taints": [`+c.taint+`]}, "status": {
				"nodeInfo": {"containerRuntimeVersion": "containerd://1.7.0", "kernelVersion": "5.10.0", "kubeletVersion": "v1.37.2"},
				"runtimeHandlers": [{"name": "", "features": {}}]}}`))
			lacks := false
			for _, finding := range Examine(f) {
				lacks = lacks || finding.Verdict != OK
			}
			if lacks != c.lands {
				t.Errorf("%+v", Examine(f))
			}
		})
	}
}

func TestEachThingThatLacksIsSaidWithWhatToDo(t *testing.T) {
	node := func(f *Facts, path string, value any) {
		o, keys := f.Nodes[0], strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			o = o[k].(Object)
		}
		o[keys[len(keys)-1]] = value
	}
	for name, c := range map[string]struct {
		change  func(*Facts)
		check   string
		verdict Verdict
		message string
		advice  string
	}{
		"old server": {func(f *Facts) { f.Version = "v1.32.9+rke2r1" }, "server version", Missing, "v1.32.9", "1.33 or newer"},
		"odd server": {func(f *Facts) { f.Version = "devel" }, "server version", Unknown, "devel", "1.33"},
		"no RuntimeClass": {func(f *Facts) { f.RuntimeClass = nil },
			"RuntimeClass", Missing, "no RuntimeClass systemd", "docs/runtime-class.md"},
		"no node with the handler": {func(f *Facts) { f.RuntimeClass["handler"] = "other" },
			"container runtime", Missing, "no node has the handler other", "configure it"},
		"one node without the handler": {func(f *Facts) {
			f.Nodes = append(f.Nodes, Object{"metadata": Object{"name": "node-2"}, "status": Object{"runtimeHandlers": []any{Object{"name": ""}}}})
		}, "container runtime", Missing, "node-2 without the handler systemd", "scheduling.nodeSelector"},
		"no node that the class selects": {func(f *Facts) { f.RuntimeClass["scheduling"] = Object{"nodeSelector": Object{"pool": "b"}} },
			"container runtime", Missing, "no node can run the pods", "nodeSelector"},
		"old containerd": {func(f *Facts) { node(f, "status.nodeInfo.containerRuntimeVersion", "containerd://2.0.5") },
			"container runtime", Missing, "node-1 (containerd://2.0.5)", "containerd 2.1"},
		"old CRI-O": {func(f *Facts) { node(f, "status.nodeInfo.containerRuntimeVersion", "cri-o://1.29.1") },
			"container runtime", Missing, "cri-o://1.29.1", "CRI-O 1.30"},
		"CRI-O that keeps the cgroup": {func(f *Facts) { node(f, "status.nodeInfo.containerRuntimeVersion", "cri-o://1.35.0") },
			"container runtime", Missing, "cri-o://1.35.0", "besides 1.35.0"},
		"kubelet that tells no handlers": {func(f *Facts) { node(f, "status.runtimeHandlers", nil) },
			"container runtime", Unknown, "node-1 which do not tell", "systemd is configured"},
		"old kernel": {func(f *Facts) { node(f, "status.nodeInfo.kernelVersion", "6.1.0-40-amd64") },
			"user namespaces", Missing, "node-1 (6.1.0-40-amd64)", "6.3"},
		"no user namespaces": {func(f *Facts) {
			node(f, "status.runtimeHandlers", []any{Object{"name": "systemd", "features": Object{}}})
		},
			"user namespaces", Missing, "node-1 whose", "runc 1.2"},
		"user namespaces without the class": {func(f *Facts) { f.RuntimeClass = nil }, "user namespaces", Unknown, "without the RuntimeClass", "first"},
		"no such class": {func(f *Facts) { f.StorageClassNames = []string{"slow"} },
			"StorageClass", Missing, "no StorageClass slow", "standard, fast"},
		"no default class": {func(f *Facts) { f.StorageClasses = f.StorageClasses[1:] },
			"StorageClass", Missing, "no default", "fast"},
		"class without a provisioner": {func(f *Facts) { f.StorageClasses[0]["provisioner"] = "kubernetes.io/no-provisioner" },
			"StorageClass", Unknown, "standard makes no volumes", "PersistentVolume for each node"},
		"nothing enforces policies": {func(f *Facts) { f.DaemonSets = []Object{} }, "NetworkPolicy", Unknown, "nothing is found", "administrator"},
		"k3s":                       {func(f *Facts) { f.DaemonSets, f.Version = nil, "v1.34.1+k3s1" }, "NetworkPolicy", OK, "k3s enforces it", ""},
		"a verb that is refused": {func(f *Facts) { f.Permissions[0].Allowed = false },
			"permissions", Missing, "must not patch deployments.apps in namespace fediversity: it is applied", "docs/k8s.md"},
		"a verb that nobody could judge": {func(f *Facts) { f.Permissions[0].Allowed, f.Permissions[0].Failure = false, "webhook: timeout" },
			"permissions", Unknown, "could not tell whether one may patch deployments.apps in namespace fediversity: it is applied (webhook: timeout)", "again"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			c.change(&f)
			for _, got := range Examine(f) {
				if got.Check == c.check && got.Verdict == c.verdict && strings.Contains(got.Message, c.message) && strings.Contains(got.Advice, c.advice) {
					return
				}
			}
			t.Errorf("no finding %q %s %q %q in %+v", c.check, c.verdict, c.message, c.advice, Examine(f))
		})
	}
}

// A request without an answer says nothing of what it asked for: neither that
// it is there nor that it isn't.
func TestWhatCouldNotBeAskedIsUnknown(t *testing.T) {
	for request, c := range map[Request]struct {
		change func(*Facts)
		checks []string
	}{
		GetVersion:         {func(f *Facts) { f.Version = "" }, []string{"server version"}},
		GetRuntimeClass:    {func(f *Facts) { f.RuntimeClass = nil }, []string{"RuntimeClass", "user namespaces"}},
		ListNodes:          {func(f *Facts) { f.Nodes = nil }, []string{"container runtime", "user namespaces"}},
		ListStorageClasses: {func(f *Facts) { f.StorageClasses = nil }, []string{"StorageClass"}},
		ListDaemonSets:     {func(f *Facts) { f.DaemonSets = nil }, []string{"NetworkPolicy"}},
		ReviewAccess:       {func(f *Facts) { f.Permissions[0] = Permission{} }, []string{"permissions"}},
	} {
		for _, refusal := range []Refusal{{Forbidden: true}, {Message: "etcdserver: no leader"}} {
			f := healthy(t)
			c.change(&f)
			f.Refused[request] = refusal
			want, advice := "no answer ("+string(request)+"): etcdserver: no leader", "again"
			if refusal.Forbidden {
				want, advice = "lacks the permission to ask: "+string(request), "allow "+string(request)+" by a ClusterRole"
			}
			got := map[string]Finding{}
			for _, finding := range Examine(f) {
				got[finding.Check] = finding
				if finding.Verdict == Missing {
					t.Errorf("%s is refused: %+v", request, finding)
				}
			}
			if first := got[c.checks[0]]; !strings.Contains(first.Message, want) || !strings.Contains(first.Advice, advice) {
				t.Errorf("%s is refused: %+v, want %q and %q", request, first, want, advice)
			}
			for _, check := range c.checks {
				if got[check].Verdict != Unknown {
					t.Errorf("%s is refused: %+v", request, got[check])
				}
			}
		}
	}
}

// Whatever an API server answers, the examination ends with findings.
func FuzzExamine(f *testing.F) {
	f.Add(`{"handler": 1, "scheduling": []}`, `{"status": {"runtimeHandlers": [1, {"name": 2}], "nodeInfo": "x"}}`)
	f.Add(`null`, `{"metadata": {"labels": {"a": 1}}}`)
	f.Fuzz(func(t *testing.T, class, other string) {
		var c, o Object
		if json.Unmarshal([]byte(class), &c) != nil || json.Unmarshal([]byte(other), &o) != nil {
			return
		}
		facts := Facts{RuntimeClass: c, StorageClassNames: []string{"", "a"}, Nodes: []Object{o}, StorageClasses: []Object{o}, DaemonSets: []Object{o}}
		if len(Examine(facts)) < 5 {
			t.Errorf("%+v", Examine(facts))
		}
	})
}

// TestWhatIsGivenOn: a deployer gives the SPIRE server what it has itself; one
// that may give on everything needs none of it.
func TestWhatIsGivenOn(t *testing.T) {
	for name, c := range map[string]struct {
		has, escalate, bind bool
		want                Verdict
	}{
		"has it": {has: true, want: OK}, "may give on all": {escalate: true, bind: true, want: OK},
		"may make roles and not bind them": {escalate: true, want: Missing}, "nothing": {want: Missing},
	} {
		f := healthy(t)
		f.Permissions = []Permission{
			{Verb: "get", Resource: "nodes", For: "it is given on", Role: Given, Answered: true, Allowed: c.has},
			{Verb: "escalate", Resource: "clusterroles", Role: Giving, Answered: true, Allowed: c.escalate},
			{Verb: "bind", Resource: "clusterroles", Role: Giving, Answered: true, Allowed: c.bind},
		}
		findings := Examine(f)
		if got := findings[len(findings)-1]; got.Verdict != c.want || got.Verdict == Missing && (got.Message != "must not get nodes: it is given on" || !strings.Contains(got.Advice, "escalate and bind")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
