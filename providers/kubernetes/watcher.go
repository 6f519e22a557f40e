package kubernetes

import (
	"context"
	"sync"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/rollout"
)

// watcher shares one mirror per namespace between the rollouts that wait in it.
type watcher struct {
	client *client.Client

	mu      sync.Mutex
	mirrors map[string]*sharedMirror
}

type sharedMirror struct {
	*client.Mirror
	users int
	stop  context.CancelFunc
}

// What a rollout looks at, in the order of rolloutKinds.
const (
	atDeployments = iota
	atReplicaSets
	atPods
	atEvents
)

func rolloutKinds() []client.MirrorKind {
	return []client.MirrorKind{
		atDeployments: {Kind: client.Builtin("apps/v1", "Deployment")},
		atReplicaSets: {Kind: client.Builtin("apps/v1", "ReplicaSet")},
		atPods:        {Kind: client.Builtin("v1", "Pod")},
		atEvents:      {Kind: client.Builtin("v1", "Event"), FieldSelector: "type=Warning", Optional: true},
	}
}

// acquire gives the mirror of a namespace; release ends the use of it. The
// mirror outlives the request that started it: others may use it too.
func (w *watcher) acquire(namespace string) (m *client.Mirror, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mirrors[namespace]
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &sharedMirror{Mirror: w.client.NewMirror(ctx, namespace, rolloutKinds()), stop: stop}
		if w.mirrors == nil {
			w.mirrors = map[string]*sharedMirror{}
		}
		w.mirrors[namespace] = s
	}
	s.users++
	return s.Mirror, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.users--; s.users == 0 {
			s.stop()
			delete(w.mirrors, namespace)
		}
	}
}

// snapshot is what the verdict on one Deployment is made from.
func snapshot(m *client.Mirror, name string) rollout.Snapshot {
	return rollout.Snapshot{
		Deployment:  m.Object(atDeployments, name),
		ReplicaSets: m.Objects(atReplicaSets),
		Pods:        m.Objects(atPods),
		Events:      m.Objects(atEvents),
	}
}
