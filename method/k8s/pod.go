package k8s

const (
	// searchPath is where the kubelet finds systemctl in the container when it
	// runs the probe and the hook: on NixOS in the running system's profile
	// only, elsewhere in /usr/bin or /bin. systemd does not take it over: PID 1
	// starts its services with a search path of its own.
	searchPath = "/run/current-system/sw/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// gracePeriod is in seconds, and more than the 90 s that systemd gives a
	// unit to stop, so that systemd and not the kubelet ends a unit that hangs.
	gracePeriod = 120

	// stateVolume is the volume of /var/lib, which is a claim's.
	stateVolume = "state"
)

// memoryVolumes are the paths that systemd needs as file systems of their own
// and can't mount itself, because the pod has no capability outside of its
// user namespace. The sizes keep a node from taking all memory of its host.
// Without /tmp Debian 12 (systemd 252) gets on, as its tmp.mount is off;
// Debian 13 (257) is degraded.
var memoryVolumes = []struct{ name, path, size string }{
	{"run", "/run", "256Mi"},
	{"run-lock", "/run/lock", "8Mi"},
	{"tmp", "/tmp", "1Gi"},
}

// podLocal is the name of the local with what the pods of all nodes have in
// common. Core parses, evaluates and keeps it once, and not for each node.
const podLocal = "pod"

// commonPod is that local.
func (g *Group) commonPod() expr {
	mounts := []expr{obj(attr{"name", str(stateVolume)}, attr{"mountPath", str("/var/lib")})}
	var volumes []expr
	for _, v := range memoryVolumes {
		mounts = append(mounts, obj(attr{"name", str(v.name)}, attr{"mountPath", str(v.path)}))
		volumes = append(volumes, obj(
			attr{"name", str(v.name)},
			attr{"emptyDir", obj(attr{"medium", str("Memory")}, attr{"sizeLimit", str(v.size)})},
		))
	}
	if g.Spire != nil {
		mounts = append(mounts, obj(attr{"name", str(spireVolume)}, attr{"mountPath", str(spireDir)}, attr{"readOnly", boolean(true)}))
		volumes = append(volumes, spireSources())
	}
	command := func(words ...string) expr {
		tokens := make([]expr, len(words))
		for i, w := range words {
			tokens[i] = str(w)
		}
		return obj(attr{"command", list(tokens...)})
	}
	return obj(
		// Fails for every state but "running", also for "degraded".
		attr{"readinessProbe", obj(
			attr{"exec", command("systemctl", "is-system-running")},
			attr{"periodSeconds", num(5)},
			attr{"timeoutSeconds", num(5)},
		)},
		// PID 1 takes SIGTERM, the usual stop signal, as an order to start
		// itself anew. The signal that stops it, SIGRTMIN+3, is a matter of the
		// image's configuration: Kubernetes (1.33 to 1.37) drops
		// lifecycle.stopSignal unless an alpha feature gate is on. So the hook
		// does what systemd does on that signal, whatever the image says.
		attr{"lifecycle", obj(attr{"preStop", obj(
			attr{"exec", command("systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "halt.target")},
		)})},
		attr{"volumeMounts", list(mounts...)},
		// Behind the volume of the state, which each node has of its own.
		attr{"volumes", list(volumes...)},
	)
}

// podSpec is the pod of the node: systemd as PID 1 of its one container, with
// no capability added and not privileged.
func (t target) podSpec() expr {
	env := func(name string, value expr) expr { return obj(attr{"name", str(name)}, attr{"value", value}) }
	common := func(key string) expr { return ref("local", podLocal, key) }
	container := []attr{
		{"name", str("node")},
		{"image", t.image()},
		// What a node image is must not depend on the archive's configuration:
		// an archive without a command would run a shell, or nothing.
		{"command", list(str("/sbin/init"))},
		// systemd takes the machine ID from container_uuid, when it knows that
		// it runs in a container. It is told so by container
		// (https://systemd.io/CONTAINER_INTERFACE/). systemd 252 and 257 also
		// find out by the cgroup namespace; NixOS's stage 2 knows by nothing
		// else and would remount / without it, and /run/systemd/container, where
		// systemd tells it to others, would not be there.
		{"env", list(
			env("container", str("oci")),
			env("container_uuid", ref(append(t.uuidAddr(), "result")...)),
			env("PATH", str(searchPath)),
		)},
		// The console of systemd is the log of the container.
		{"tty", boolean(true)},
		{"readinessProbe", common("readinessProbe")},
		{"lifecycle", common("lifecycle")},
		{"volumeMounts", common("volumeMounts")},
	}
	var resources []attr
	if len(t.Resources.Requests) > 0 {
		resources = append(resources, attr{"requests", stringMap(t.Resources.Requests)})
	}
	if len(t.Resources.Limits) > 0 {
		resources = append(resources, attr{"limits", stringMap(t.Resources.Limits)})
	}
	if len(resources) > 0 {
		container = append(container, attr{"resources", obj(resources...)})
	}

	spec := []attr{
		{"runtimeClassName", str(t.group.RuntimeClass)},
		// Root of the node is nobody on the host.
		{"hostUsers", boolean(false)},
		// The node keeps its name when its pod, which has a random one, is replaced.
		{"hostname", str(t.Name)},
	}
	if t.group.Spire != nil {
		// serviceAccount is the former name of the same field. The API server fills it
		// in, and where it is not ours it stays when ours goes, and counts.
		spec = append(spec, attr{"serviceAccountName", str(t.account())}, attr{"serviceAccount", str(t.account())})
	}
	return obj(append(spec,
		// The node has no business with the API server.
		attr{"automountServiceAccountToken", boolean(false)},
		// The environment of PID 1 does not depend on which Services exist.
		attr{"enableServiceLinks", boolean(false)},
		attr{"terminationGracePeriodSeconds", num(gracePeriod)},
		attr{"containers", list(obj(container...))},
		attr{"volumes", call{"concat", []expr{list(obj(
			attr{"name", str(stateVolume)},
			attr{"persistentVolumeClaim", obj(attr{"claimName", str(t.claim())})},
		)), common("volumes")}}},
	)...)
}
