package rollout

import (
	"strings"
	"testing"
)

// What clusters have said: reasons and messages as scheduler, kubelet, containerd
// and CRI-O write them.
const (
	resolve    = `failed to pull and unpack image "r.test/web@sha256:2": failed to resolve reference "r.test/web@sha256:2": `
	noNode     = `0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`
	unbound    = `0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.`
	idmapError = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: failed to set MOUNT_ATTR_IDMAP on /var/lib/kubelet/pods/1/volumes/v: invalid argument (maybe the filesystem used doesn't support idmap mounts on this kernel?)`
)

func quoted(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

func waits(reason, message string) string {
	return waitingPod(`"state":{"waiting":{"reason":"` + reason + `","message":"` + quoted(message) + `"}}`)
}

func creating(reason, message string) func(testing.TB, *Snapshot) string {
	return func(t testing.TB, s *Snapshot) string {
		s.Events = append(s.Events, event(t, "p", "2026-01-01T00:00:02Z", reason, quoted(message)))
		return waitingPod(`"state":{"waiting":{"reason":"ContainerCreating"}}`)
	}
}

func pending(claims string, related map[Ref]string) func(testing.TB, *Snapshot) string {
	return func(t testing.TB, s *Snapshot) string {
		for ref, text := range related {
			if text == "" {
				s.Related[ref] = nil
				continue
			}
			s.Related[ref] = parse(t, text)
		}
		return `{"spec":{"volumes":[` + claims + `]},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"` + unbound + `"}]}}`
	}
}

// onNode has a related node "n1" that the pod is on.
func onNode(pod, node string) func(testing.TB, *Snapshot) string {
	return func(t testing.TB, s *Snapshot) string {
		s.Related[Ref{"Node", "n1"}] = nil
		if node != "" {
			s.Related[Ref{"Node", "n1"}] = parse(t, node)
		}
		return pod
	}
}

func plain(s string) func(testing.TB, *Snapshot) string {
	return func(testing.TB, *Snapshot) string { return s }
}

func TestPod(t *testing.T) {
	const volume = `{"name":"state","persistentVolumeClaim":{"claimName":"web-state"}}`
	claim, class := Ref{"PersistentVolumeClaim", "web-state"}, Ref{"StorageClass", "fast"}
	const goodNode = `{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}],"runtimeHandlers":[{"name":"","features":{"userNamespaces":true}}]}}`
	for name, tt := range map[string]struct {
		pod     func(testing.TB, *Snapshot) string
		message string
		stuck   bool
	}{
		"no such host": {plain(waits("ErrImagePull", resolve+`failed to do request: Head "https://r.test/v2/web/manifests/sha256:2": dial tcp: lookup r.test: no such host`)),
			"ErrImagePull: dial tcp: lookup r.test: no such host", false},
		"back-off tells the cause": {plain(waits("ImagePullBackOff", `Back-off pulling image "r.test/web@sha256:2": ErrImagePull: `+resolve+`r.test/web@sha256:2: not found`)),
			"ImagePullBackOff: the registry has no image r/web@sha256:2", true},
		"no credentials": {plain(waits("ErrImagePull", `rpc error: code = Unknown desc = `+resolve+`pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`)),
			"ErrImagePull: the registry refuses the cluster: pull access denied", true},
		"unknown authority": {plain(waits("ErrImagePull", resolve+`failed to do request: Head "https://r.test/v2/web/manifests/sha256:2": tls: failed to verify certificate: x509: certificate signed by unknown authority`)),
			"ErrImagePull: the cluster's nodes do not take the registry for a safe one: tls: failed to verify", true},
		"plain http": {plain(waits("ErrImagePull", resolve+`failed to do request: Head "https://r.test/v2/web/manifests/sha256:2": http: server gave HTTP response to HTTPS client`)),
			"do not take the registry for a safe one: http: server gave HTTP response", true},
		"registry is busy": {plain(waits("ErrImagePull", resolve+`unexpected status from HEAD request to https://r.test/v2/web/manifests/sha256:2: 503 Service Unavailable`)),
			"ErrImagePull: unexpected status from HEAD request", false},
		"idmap":                 {plain(waits("RunContainerError", idmapError)), "RunContainerError: the file system of a volume cannot be idmapped", true},
		"slow runtime":          {plain(waits("CreateContainerError", "context deadline exceeded")), "CreateContainerError: context deadline exceeded", false},
		"no init":               {plain(waits("RunContainerError", `failed to create containerd task: exec: "/sbin/init": stat /sbin/init: no such file or directory`)), "the image has not the program to start", true},
		"crash loop at a start": {plain(waitingPod(`"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":128,"reason":"StartError","message":"` + idmapError + `"}}`)), "container web ended 4 times, last with exit code 128 (StartError): the file system of a volume cannot be idmapped", true},
		"containerd has no such runtime": {creating("FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "systemd" is configured`),
			`ContainerCreating: node n1 has no runtime handler "systemd", which the pod's RuntimeClass systemd needs`, true},
		"CRI-O has no such runtime": {creating("FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler systemd from runtime list map[crun:0xc0]`),
			`node n1 has no runtime handler "systemd"`, true},
		"no user namespaces, says the kubelet": {creating("FailedCreatePodSandBox", "Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler \"systemd\" does not support user namespaces"),
			"node n1 does not support user namespaces: FailedCreatePodSandBox", true},
		"no user namespaces, says the node": {onNode(waits("ContainerCreating", ""), `{"status":{"conditions":[{"type":"Ready","status":"True"}],"runtimeHandlers":[{"name":"","features":{"recursiveReadOnlyMounts":true}}]}}`),
			"ContainerCreating: node n1 has no container runtime with user namespaces", true},
		"network is not there yet": {creating("FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "1": plugin type="flannel" failed (add): open /run/flannel/subnet.env: no such file or directory`),
			"ContainerCreating: FailedCreatePodSandBox: Failed to create pod sandbox", false},
		"config map of a volume": {creating("FailedMount", `MountVolume.SetUp failed for volume "agent" : configmap "spire-agent" not found`),
			`ContainerCreating: a volume cannot be mounted: FailedMount: MountVolume.SetUp failed for volume "agent" : configmap "spire-agent" not found`, true},
		"device":       {creating("FailedMount", `MountVolume.MountDevice failed for volume "pvc-1" : rpc error: code = Internal desc = no device`), "a volume cannot be mounted: FailedMount", false},
		"multi attach": {creating("FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-old-1`), "a volume is still in use by another pod", false},
		"no room":      {plain(`{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"` + noNode + `"}]}}`), "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate,", false},
		"claim missing": {pending(volume, map[Ref]string{claim: ""}),
			"Unschedulable: the claim web-state does not exist", true},
		"claim ends": {pending(volume, map[Ref]string{claim: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Bound"}}`}),
			"Unschedulable: the claim web-state is being deleted", true},
		"claim lost": {pending(volume, map[Ref]string{claim: `{"spec":{"volumeName":"pv-1"},"status":{"phase":"Lost"}}`}),
			"Unschedulable: the claim web-state has lost its volume pv-1", true},
		"class missing": {pending(volume, map[Ref]string{claim: `{"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}`, class: ""}),
			"the claim web-state asks for the StorageClass fast, which the cluster does not have", true},
		"no default class": {pending(volume, map[Ref]string{claim: `{"spec":{},"status":{"phase":"Pending"}}`}),
			"names no StorageClass, and the cluster has no default one", false},
		"volume by hand": {pending(volume, map[Ref]string{claim: `{"spec":{"storageClassName":""},"status":{"phase":"Pending"}}`}),
			"waits for a volume made by hand", false},
		"first consumer": {pending(volume, map[Ref]string{claim: `{"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}`, class: `{"volumeBindingMode":"WaitForFirstConsumer","provisioner":"disks"}`}),
			"Unschedulable: 0/2 nodes are available: pod has unbound", false},
		"provisioner at work": {pending(volume, map[Ref]string{claim: `{"metadata":{"uid":"c","annotations":{"volume.kubernetes.io/selected-node":"n1"}},"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}`, class: `{"volumeBindingMode":"WaitForFirstConsumer","provisioner":"disks"}`}),
			"the claim web-state waits for a volume of the StorageClass fast (disks)", false},
		"provisioner fails": {func(t testing.TB, s *Snapshot) string {
			s.Events = append(s.Events, event(t, "c", "2026-01-01T00:00:02Z", "ProvisioningFailed", "no space left"))
			return pending(volume, map[Ref]string{claim: `{"metadata":{"uid":"c"},"spec":{"storageClassName":"fast"},"status":{"phase":"Pending"}}`, class: `{"volumeBindingMode":"Immediate","provisioner":"disks"}`})(t, s)
		}, "StorageClass fast (disks): ProvisioningFailed: no space left", false},
		"node away": {onNode(waits("ContainerCreating", ""), `{"status":{"conditions":[{"type":"Ready","status":"Unknown","message":"Kubelet stopped posting node status.","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`),
			"ContainerCreating: node n1 is not ready since 2026-01-01T00:00:00Z: Kubelet stopped posting node status.", false},
		"node gone": {onNode(waits("ContainerCreating", ""), ""), "ContainerCreating: node n1 is gone", false},
		"disk full": {onNode(waits("ContainerCreating", ""), `{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"True","message":"kubelet has disk pressure"}]}}`), "node n1 has DiskPressure", false},
		"good node": {onNode(waits("ContainerCreating", ""), goodNode), "ContainerCreating", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Related: map[Ref]Object{}}
			p := pod(t, "p", "web-new", tt.pod(t, &s))
			spec := p["spec"].(Object)
			spec["runtimeClassName"], spec["hostUsers"], spec["nodeName"] = "systemd", false, "n1"
			v := judgePod(p, s)
			if !strings.Contains(v.message, tt.message) {
				t.Errorf("message lacks %q: %s", tt.message, v.message)
			}
			if (v.stuck != "") != tt.stuck {
				t.Errorf("stuck is %q", v.stuck)
			}
			if strings.ContainsAny(v.message, "\n\x1b") || len(v.message) > 2*maxText {
				t.Errorf("message %q", v.message)
			}
		})
	}
}

// The two reasons of a failing pull take turns; the clock goes on meanwhile.
func TestPullFailsByOneReason(t *testing.T) {
	a := judgePod(pod(t, "p", "s", waits("ErrImagePull", resolve+"not found")), Snapshot{})
	b := judgePod(pod(t, "p", "s", waits("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: `+resolve+"not found")), Snapshot{})
	if a.stuck == "" || a.stuck != b.stuck {
		t.Errorf("%q and %q", a.stuck, b.stuck)
	}
}

// Only what is in trouble is asked for more.
func TestNeeds(t *testing.T) {
	s := Snapshot{Deployment: deployment(t, `{}`, complete), ReplicaSets: []Object{newSet(t), oldSet(t)}}
	s.Pods = []Object{pod(t, "web-new-1", "web-new", readyPod), pod(t, "other", "other-set", `{"status":{"phase":"Pending"}}`)}
	if got := Needs(s); len(got) > 0 {
		t.Errorf("ready, it asks for %v", got)
	}
	s.Pods = []Object{pod(t, "web-old-1", "web-old", `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)}
	if got := Needs(s); len(got) != 1 || got[0] != (Ref{"Node", "n1"}) {
		t.Errorf("of an old pod that does not end it asks for %v", got)
	}
	s.Related = map[Ref]Object{{"Node", "n1"}: nil}
	if v := Deployment(s, "d", 2); !strings.Contains(v.Message, "waiting for the end of the old pod web-old-1: node n1 is gone") {
		t.Error(v.Message)
	}
	s.Pods = []Object{pod(t, "web-new-1", "web-new", `{"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"c"}}]},"status":{"conditions":[{"type":"PodScheduled","status":"False"}]}}`)}
	if got := Needs(s); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("of a pod without a node it asks for %v", got)
	}
	s.Related = map[Ref]Object{{"PersistentVolumeClaim", "c"}: parse(t, `{"spec":{"storageClassName":"fast"}}`)}
	if got := Needs(s); len(got) != 2 || got[1] != (Ref{"StorageClass", "fast"}) {
		t.Errorf("with the claim it asks for %v", got)
	}
}
