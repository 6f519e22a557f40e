package kubernetes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	related related
	users   int
	stop    context.CancelFunc
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
		atReplicaSets: {Kind: client.Builtin("apps/v1", "ReplicaSet"), Key: rollout.Controller},
		atPods:        {Kind: client.Builtin("v1", "Pod"), Key: rollout.Controller},
		atEvents:      {Kind: client.Builtin("v1", "Event"), Key: rollout.About, FieldSelector: "type=Warning", Optional: true},
	}
}

// acquire gives the mirror of a namespace; release ends the use of it. The
// mirror outlives the request that started it: others may use it too.
func (w *watcher) acquire(namespace string) (m *sharedMirror, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.mirrors[namespace]
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &sharedMirror{related: related{client: w.client, namespace: namespace}, Mirror: w.client.NewMirror(ctx, namespace, rolloutKinds()), stop: stop}
		if w.mirrors == nil {
			w.mirrors = map[string]*sharedMirror{}
		}
		w.mirrors[namespace] = s
	}
	s.users++
	return s, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.users--; s.users == 0 {
			s.stop()
			delete(w.mirrors, namespace)
		}
	}
}

// related keeps what was read of objects that only a rollout in trouble needs:
// they are asked for, and not followed.
type related struct {
	client    *client.Client
	namespace string

	mu    sync.Mutex
	known map[rollout.Ref]lookup
}

// lookup is one answer: the object, nil when there is none.
type lookup struct {
	object client.Object
	err    error // there was no answer
	at     time.Time
}

const (
	// lookAgain is the age from which on an object is read anew.
	lookAgain = 5 * time.Second
	// refusedAgain is the same after a refusal: rights come rarely.
	refusedAgain = time.Minute
	// relatedTime bounds one read: the verdict must not wait for it.
	relatedTime = 5 * time.Second
)

// explain adds to a snapshot the objects that it needs. What can't be read, or
// is forbidden to us, is left out.
func (r *related) explain(ctx context.Context, s rollout.Snapshot) rollout.Snapshot {
	s.Related = map[rollout.Ref]client.Object{}
	for range 2 { // a claim leads to its class
		for _, ref := range rollout.Needs(s) {
			if l := r.read(ctx, ref); l.err == nil {
				s.Related[ref] = l.object
			}
		}
	}
	return s
}

func (r *related) read(ctx context.Context, ref rollout.Ref) lookup {
	r.mu.Lock()
	l, ok := r.known[ref]
	r.mu.Unlock()
	age := lookAgain
	if apierrors.IsForbidden(l.err) {
		age = refusedAgain
	}
	if ok && time.Since(l.at) < age {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, relatedTime)
	defer cancel()
	api := map[string]string{"StorageClass": "storage.k8s.io/v1"}[ref.Kind]
	l.object, l.err = r.client.Get(ctx, client.Builtin(cmp.Or(api, "v1"), ref.Kind), r.namespace, ref.Name)
	if apierrors.IsNotFound(l.err) {
		l.object, l.err = nil, nil
	}
	l.at = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[rollout.Ref]lookup{}
	}
	r.known[ref] = l
	return l
}

// snapshot is what belongs to one Deployment: with its warnings, the verdict is made from
// it. A group's other nodes are many, and each looks at each change.
func snapshot(m *sharedMirror, name string) rollout.Snapshot {
	s := rollout.Snapshot{Deployment: m.Object(atDeployments, name)}
	if s.Deployment == nil {
		return s
	}
	s.ReplicaSets = m.Keyed(atReplicaSets, metaString(s.Deployment, "uid"))
	for _, set := range s.ReplicaSets {
		s.Pods = append(s.Pods, m.Keyed(atPods, metaString(set, "uid"))...)
	}
	return s
}

// warned adds to a snapshot the warnings about what is in it.
func warned(m *sharedMirror, s rollout.Snapshot) rollout.Snapshot {
	for _, o := range slices.Concat(s.ReplicaSets, s.Pods, slices.Collect(maps.Values(s.Related))) {
		s.Events = append(s.Events, m.Keyed(atEvents, metaString(o, "uid"))...)
	}
	return s
}
