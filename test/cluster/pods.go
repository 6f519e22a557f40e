package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// What a test can say about pods on fake nodes, as a label of the image's
// config or, stronger, as an annotation of the pod (then no image is looked for):
const (
	// yuba.test/behaviour: ready (default), never-ready, crash-loop, config-error or creating.
	keyBehaviour = "yuba.test/behaviour"
	// yuba.test/warning: REASON: MESSAGE of the event that says why a container
	// is creating. See kubelet.go for what a pod answers when it is asked.
	keyWarning = "yuba.test/warning"
	// yuba.test/ready-after and yuba.test/stop-after: Go durations; how long the
	// container runs before it is ready, and how long it takes to stop.
	keyReadyAfter = annotationReadyAfter
	keyStopAfter  = annotationStopAfter
)

// An image that is not in its registry, a registry that doesn't answer, and one
// that is not on loopback give ErrImagePull and ImagePullBackOff; the image is
// looked for again every pullAgain. A fake node keeps no images: each new pod pulls.
const (
	pullAgain  = 2 * time.Second
	probeAgain = 10 * time.Second

	configErrorMessage = `configmap \"yuba-test\" not found`
)

// fakeNode marks the nodes that kwok plays.
const fakeNode = "kwok.x-k8s.io/node"

// pods is the part of a kubelet that kwok has not: it pulls (looks up) images,
// decides what becomes of a pod (stages.go does it), and writes the events.
func pods() {
	fs := flag.NewFlagSet("pods", flag.ExitOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig file (required)")
	address := fs.String("listen", "", "serve the kubelets' API at this `address` (required)")
	cert := fs.String("tls-cert", "", "certificate `file` of that API (required)")
	key := fs.String("tls-key", "", "key `file` of that API (required)")
	klog.InitFlags(fs)
	_ = fs.Parse(os.Args[1:])
	if *kubeconfig == "" || *address == "" || *cert == "" || *key == "" {
		fs.Usage()
		os.Exit(2)
	}
	ctx, client := connect(*kubeconfig)
	factory := informers.NewSharedInformerFactory(client, 0)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	k := &kubelets{
		client:      client,
		pods:        factory.Core().V1().Pods().Informer().GetStore(),
		nodes:       factory.Core().V1().Nodes().Informer().GetStore(),
		broadcaster: broadcaster,
		queue:       workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	k.seen.by, k.seen.probed = map[types.UID]string{}, map[types.UID]time.Time{}
	go func() {
		if err := k.listen(ctx, *address, *cert, *key); err != nil {
			fail(err)
		}
	}()
	if err := k.run(ctx, factory); err != nil {
		fail(err)
	}
}

// kubelets acts for the kubelets of all fake nodes.
type kubelets struct {
	client      kubernetes.Interface
	pods, nodes cache.Store
	broadcaster record.EventBroadcaster
	queue       workqueue.TypedRateLimitingInterface[string]
	seen        seen
}

func (k *kubelets) run(ctx context.Context, factory informers.SharedInformerFactory) error {
	enqueue := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			k.queue.Add(key)
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, o any) { enqueue(o) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if pod, ok := o.(*core.Pod); ok {
				k.seen.forget(pod.UID)
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range 16 {
		go k.work(ctx)
	}
	<-ctx.Done()
	k.queue.ShutDown()
	return nil
}

func (k *kubelets) work(ctx context.Context) {
	for {
		key, over := k.queue.Get()
		if over {
			return
		}
		again, err := k.sync(ctx, key)
		switch {
		case err != nil:
			klog.ErrorS(err, "Pod", "key", key)
			k.queue.AddRateLimited(key)
		default:
			k.queue.Forget(key)
			if again > 0 {
				k.queue.AddAfter(key, again)
			}
		}
		k.queue.Done(key)
	}
}

// sync does what there is to do for one pod, and says when to look again.
func (k *kubelets) sync(ctx context.Context, key string) (time.Duration, error) {
	o, exists, err := k.pods.GetByKey(key)
	if err != nil || !exists {
		return 0, err
	}
	pod := o.(*core.Pod)
	if !k.mine(pod) || pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed {
		return 0, nil
	}
	k.tell(pod)
	if pod.DeletionTimestamp != nil {
		return 0, nil
	}
	old := pod.Annotations[annotationVerdict]
	if _, override := pod.Annotations[keyBehaviour]; !override && old != "" && old != pullFailed {
		// Pulled once, it runs on.
		return k.probe(pod), nil
	}
	want := decide(ctx, pod)
	if err := k.annotate(ctx, pod, want); err != nil {
		return 0, err
	}
	if want[annotationVerdict] == pullFailed {
		return pullAgain, nil
	}
	return k.probe(pod), nil
}

// mine says whether the pod is on a fake node.
func (k *kubelets) mine(pod *core.Pod) bool {
	o, exists, err := k.nodes.GetByKey(pod.Spec.NodeName)
	if err != nil || !exists {
		return false
	}
	return o.(*core.Node).Annotations[fakeNode] == "fake"
}

// annotate writes the decision into the pod.
func (k *kubelets) annotate(ctx context.Context, pod *core.Pod, want map[string]string) error {
	changed := map[string]string{}
	for name, value := range want {
		if pod.Annotations[name] != value {
			changed[name] = value
		}
	}
	if len(changed) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": changed}})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, meta.PatchOptions{FieldManager: "kubelab"})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or another pod of that name
	}
	return err
}

// decide looks at the pod and its images and gives the annotations to set.
func decide(ctx context.Context, pod *core.Pod) map[string]string {
	want := map[string]string{annotationVerdict: ready}
	ids := map[string]string{}
	behaviour, override := pod.Annotations[keyBehaviour]
	for _, c := range append(append([]core.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		if override {
			ids[c.Name] = c.Image
			continue
		}
		image, err := pull(ctx, c.Image)
		if err != nil {
			want[annotationVerdict] = pullFailed
			want[annotationPullReason], want[annotationPullError] = err.reason, err.message
			return want
		}
		ids[c.Name] = image.id
		for _, key := range []string{keyReadyAfter, keyStopAfter, keyWarning, keyFailedUnits, keyJobs, keyLog, keyExec} {
			if value, ok := image.labels[key]; ok && pod.Annotations[key] == "" {
				want[key] = value
			}
		}
		if b := image.labels[keyBehaviour]; b != "" {
			behaviour = b
		}
	}
	switch behaviour {
	case "", ready:
	case neverReady, crashLoop, configError, creating:
		want[annotationVerdict] = behaviour
	default:
		want[annotationVerdict] = pullFailed
		want[annotationPullReason] = "InvalidImageName"
		want[annotationPullError] = fmt.Sprintf("%s: there is no behaviour %q", keyBehaviour, behaviour)
	}
	data, err := json.Marshal(ids)
	if err != nil {
		panic(err) // a map of strings
	}
	want[annotationImageIDs] = string(data)
	return want
}

// probe repeats the event of a failing readiness probe, or of a container that
// can't be made, for as long as it fails.
func (k *kubelets) probe(pod *core.Pod) time.Duration {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	state := pod.Status.ContainerStatuses[0].State
	reason, message := "Unhealthy", "Readiness probe failed: degraded\n"
	switch verdict := pod.Annotations[annotationVerdict]; {
	case verdict == neverReady && state.Running != nil:
	case verdict == creating && state.Waiting != nil && pod.Annotations[keyWarning] != "":
		reason, message, _ = strings.Cut(pod.Annotations[keyWarning], ": ")
	default:
		return 0
	}
	if k.seen.due(pod.UID, probeAgain) {
		for i := range pod.Spec.Containers {
			k.event(pod, &pod.Spec.Containers[i], core.EventTypeWarning, reason, "%s", message)
		}
	}
	return probeAgain
}

// tell writes the events of what happened to the pod since the last look.
func (k *kubelets) tell(pod *core.Pod) {
	if len(pod.Status.ContainerStatuses) != len(pod.Spec.Containers) || !k.seen.news(pod) {
		return
	}
	for i := range pod.Spec.Containers {
		c, status := &pod.Spec.Containers[i], pod.Status.ContainerStatuses[i]
		normal := func(reason, format string, a ...any) { k.event(pod, c, core.EventTypeNormal, reason, format, a...) }
		warning := func(reason, format string, a ...any) { k.event(pod, c, core.EventTypeWarning, reason, format, a...) }
		if pod.DeletionTimestamp != nil {
			if status.State.Running != nil {
				normal("Killing", "Stopping container %s", c.Name)
			}
			continue
		}
		switch {
		case status.State.Running != nil:
			if status.RestartCount > 0 {
				normal("Pulled", "Container image %q already present on machine and can be accessed by the pod", c.Image)
			} else {
				normal("Pulled", "Successfully pulled image %q in 20ms (20ms including waiting). Image size: 1024 bytes.", c.Image)
			}
			normal("Created", "Container created")
			normal("Started", "Container started")
		case status.State.Waiting != nil:
			message := status.State.Waiting.Message
			switch reason := status.State.Waiting.Reason; reason {
			case "ContainerCreating":
				normal("Pulling", "Pulling image %q", c.Image)
			case "ErrImagePull":
				warning("Failed", "Failed to pull image %q: %s", c.Image, message)
				warning("Failed", "Error: %s", reason)
			case "ImagePullBackOff":
				normal("BackOff", "Back-off pulling image %q", c.Image)
				warning("Failed", "Error: %s", reason)
			case "InvalidImageName":
				warning("InspectFailed", "%s", message)
				warning("Failed", "Error: %s", reason)
			case "CreateContainerConfigError":
				normal("Pulled", "Successfully pulled image %q in 20ms (20ms including waiting). Image size: 1024 bytes.", c.Image)
				warning("Failed", "Error: %s", message)
			case "CrashLoopBackOff":
				warning("BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.Name, pod.Name, pod.Namespace, pod.UID)
			}
		}
	}
}

// event writes an event on a container of the pod, as its node's kubelet would.
func (k *kubelets) event(pod *core.Pod, c *core.Container, kind, reason, format string, a ...any) {
	ref, err := reference.GetPartialReference(scheme.Scheme, pod, "spec.containers{"+c.Name+"}")
	if err != nil {
		klog.ErrorS(err, "Event", "pod", klog.KObj(pod))
		return
	}
	source := core.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}
	k.broadcaster.NewRecorder(scheme.Scheme, source).Eventf(ref, kind, reason, format, a...)
}
