package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// MirrorKind is a kind that a Mirror follows.
type MirrorKind struct {
	Kind
	// FieldSelector narrows it.
	FieldSelector string
	// Optional kinds may be forbidden to us: they are then empty.
	Optional bool
	// Key, if set, is what an object can be found by with [Mirror.Keyed], ""
	// for none.
	Key func(Object) string
}

// Mirror is a copy of some kinds of one namespace that follows the cluster: one
// list and one watch per kind, however many look at it. Broken watches, expired
// versions and an API server that is away are its own business: it goes on
// until its context ends.
type Mirror struct {
	kinds []MirrorKind

	mu      sync.Mutex
	parts   []part
	changed chan struct{}
	decoded [decodedAtMost]*mirrored // a ring
	next    int                      // its oldest
}

// decodedAtMost is how many objects of a Mirror are decoded at a time: some for
// each of those that wait, of which there are tens. A decoded object takes several
// times the memory of its JSON, and a large namespace has thousands.
const decodedAtMost = 256

// mirrored is an object as it came from the API server.
type mirrored struct {
	raw     []byte
	key     string
	decoded Object // nil when it was not looked at lately
}

type part struct {
	synced  bool
	objects map[string]*mirrored            // by name
	keyed   map[string]map[string]*mirrored // by key, and name
	key     func(Object) string
	err     error // why it isn't up to date
}

func newPart(key func(Object) string, synced bool) part {
	return part{synced: synced, key: key, objects: map[string]*mirrored{}, keyed: map[string]map[string]*mirrored{}}
}

// keep files an object, and its JSON.
func (m *Mirror) keep(p *part, o Object, raw []byte) {
	meta, _ := o["metadata"].(Object)
	name, ok := meta["name"].(string)
	if !ok {
		return
	}
	p.drop(name)
	e := &mirrored{raw: raw}
	m.hold(e, o)
	p.objects[name] = e
	if p.key == nil {
		return
	}
	if e.key = p.key(o); e.key != "" {
		if p.keyed[e.key] == nil {
			p.keyed[e.key] = map[string]*mirrored{}
		}
		p.keyed[e.key][name] = e
	}
}

func (p *part) drop(name string) {
	e, ok := p.objects[name]
	if !ok {
		return
	}
	delete(p.objects, name)
	if delete(p.keyed[e.key], name); len(p.keyed[e.key]) == 0 {
		delete(p.keyed, e.key)
	}
}

// hold keeps an object decoded, without what nobody looks at, in place of the one
// that has been so for longest.
func (m *Mirror) hold(e *mirrored, o Object) {
	meta, _ := o["metadata"].(Object)
	delete(meta, "managedFields")
	if longest := m.decoded[m.next]; longest != nil {
		longest.decoded = nil
	}
	e.decoded, m.decoded[m.next] = o, e
	m.next = (m.next + 1) % decodedAtMost
}

// object is the object of an entry, nil without one.
func (m *Mirror) object(e *mirrored) Object {
	if e == nil {
		return nil
	}
	if e.decoded == nil {
		var o Object
		if err := kjson.Unmarshal(e.raw, &o); err != nil { // it was decoded before
			return nil
		}
		m.hold(e, o)
	}
	return e.decoded
}

// NewMirror starts a mirror. It ends with ctx.
func (c *Client) NewMirror(ctx context.Context, namespace string, kinds []MirrorKind) *Mirror {
	m := &Mirror{kinds: kinds, parts: make([]part, len(kinds)), changed: make(chan struct{})}
	for i := range kinds {
		m.parts[i] = newPart(kinds[i].Key, false)
		go m.follow(ctx, c, namespace, i)
	}
	return m
}

// Changed is closed when something is another than now. Get it before the
// objects.
func (m *Mirror) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Synced is true when every kind has been read once; err says why one could
// not be read, or is not up to date now.
func (m *Mirror) Synced() (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ok = true
	for i, p := range m.parts {
		ok = ok && p.synced
		if p.err != nil && !(m.kinds[i].Optional && p.synced) {
			err = fmt.Errorf("reading %s: %w", m.kinds[i].Resource, p.err)
		}
	}
	return ok, err
}

// Keyed gives the objects of the i-th kind that have the key, in no order. They
// are shared: don't change them. However many objects there are, it looks at these
// only: with many that wait for their own, each change would else cost all of them
// all objects.
func (m *Mirror) Keyed(i int, key string) []Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := m.parts[i].keyed[key]
	out := make([]Object, 0, len(entries))
	for _, e := range entries {
		out = append(out, m.object(e))
	}
	return out
}

// Object gives one object of the i-th kind, nil when there is none.
func (m *Mirror) Object(i int, name string) Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.object(m.parts[i].objects[name])
}

func (m *Mirror) update(i int, f func(*part)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.parts[i])
	close(m.changed)
	m.changed = make(chan struct{})
}

const (
	// mirrorPause is the wait after a list or watch that failed; also the
	// interval of lists where watching is forbidden.
	mirrorPause = 2 * time.Second
	// watchTime is how long the API server is asked to keep a watch, before
	// jitter.
	watchTime = 4 * time.Minute
	// maxEvent bounds one event of a watch, in bytes: etcd's limit for an
	// object, with room for JSON.
	maxEvent = 16 << 20
)

func (m *Mirror) follow(ctx context.Context, c *Client, namespace string, i int) {
	k := m.kinds[i]
	for ctx.Err() == nil {
		items, version, err := c.List(ctx, k.Kind, namespace, ListOptions{FieldSelector: k.FieldSelector})
		if err == nil {
			err = m.replace(i, items)
		}
		if err == nil {
			err = m.watch(ctx, c, namespace, i, version)
		} else if k.Optional && apierrors.IsForbidden(err) {
			m.update(i, func(p *part) { p.synced, p.err = true, err })
		} else {
			m.update(i, func(p *part) { p.err = err })
		}
		// An expired version is no error: the next list begins anew.
		if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(mirrorPause):
		}
	}
}

// replace puts a list in place of what there is.
func (m *Mirror) replace(i int, items []Object) error {
	raws := make([][]byte, len(items))
	for k, o := range items {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		raws[k] = raw
	}
	m.update(i, func(p *part) {
		*p = newPart(p.key, true)
		for k, o := range items {
			m.keep(p, o, raws[k])
		}
	})
	return nil
}

// watch follows the kind from a resource version on, over as many watches as it
// takes, until one fails. What is known stays known then.
func (m *Mirror) watch(ctx context.Context, c *Client, namespace string, i int, version string) error {
	for ctx.Err() == nil {
		started := time.Now()
		next, err := m.watchOnce(ctx, c, namespace, i, version)
		if err != nil {
			return err
		}
		version = next
		if time.Since(started) < mirrorPause {
			// Something on the way ends watches at once: don't run in circles.
			select {
			case <-ctx.Done():
			case <-time.After(mirrorPause):
			}
		}
	}
	return ctx.Err()
}

func (m *Mirror) watchOnce(ctx context.Context, c *Client, namespace string, i int, version string) (string, error) {
	k := m.kinds[i]
	last := watchTime + rand.N(watchTime/4)
	// A server that forgets the watch is given up on a little later.
	ctx, cancel := context.WithTimeout(ctx, last+30*time.Second)
	defer cancel()
	q := url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(last.Seconds()))},
	}
	setIf(q, "fieldSelector", k.FieldSelector)
	resp, err := c.open(ctx, request{method: http.MethodGet, path: k.path(namespace, ""), query: q})
	if err != nil {
		return version, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return version, err
		}
		return version, statusError(resp, body)
	}
	limited := &io.LimitedReader{R: resp.Body}
	dec := json.NewDecoder(limited)
	for {
		limited.N = maxEvent
		var ev struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := dec.Decode(&ev); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && limited.N > 0 {
				return version, nil // its time is over, or the connection's
			}
			return version, err
		}
		if ev.Type == "ERROR" {
			var s metav1.Status
			if err := json.Unmarshal(ev.Object, &s); err != nil {
				return version, err
			}
			return version, &apierrors.StatusError{ErrStatus: s}
		}
		var o Object
		if err := kjson.Unmarshal(ev.Object, &o); err != nil {
			return version, err
		}
		meta, _ := o["metadata"].(Object)
		if v, ok := meta["resourceVersion"].(string); ok && v != "" {
			version = v
		}
		switch ev.Type {
		case "ADDED", "MODIFIED":
			m.update(i, func(p *part) { m.keep(p, o, ev.Object) })
		case "DELETED":
			if name, ok := meta["name"].(string); ok {
				m.update(i, func(p *part) { p.drop(name) })
			}
		}
	}
}
