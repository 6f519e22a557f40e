package client

import (
	"context"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type listKey struct{ apiVersion, kind, namespace, name string }

// Read gives an object for a refresh, nil when there is none. Objects in
// namespaces come from one list per kind and namespace, made when the first is
// asked for and kept for the life of c, which is one walk of the engine; writes
// through c drop it. The object is shared: don't change it. It has no managed
// fields.
func (c *Client) Read(ctx context.Context, k Kind, namespace, name string) (Object, error) {
	if k.Namespaced {
		list, err := c.lists.do(ctx, listKey{k.APIVersion(), k.Kind, namespace, ""}, func() (map[string]Object, error) {
			items, _, err := c.List(ctx, k, namespace, ListOptions{})
			if err != nil {
				return nil, err
			}
			byName := make(map[string]Object, len(items))
			for _, obj := range items {
				meta, _ := obj["metadata"].(Object)
				// Often half of the object, and a refresh needs none of it.
				delete(meta, "managedFields")
				if n, ok := meta["name"].(string); ok {
					byName[n] = obj
				}
			}
			return byName, nil
		})
		if err == nil {
			return list[name], nil
		}
		if apierrors.IsNotFound(err) {
			return nil, nil // the resource itself is no longer served
		}
		if !apierrors.IsForbidden(err) {
			return nil, err
		}
		// Who may not list may still get.
	}
	return c.gets.do(ctx, listKey{k.APIVersion(), k.Kind, namespace, name}, func() (Object, error) {
		obj, err := c.Get(ctx, k, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return obj, err
	})
}

// NamespaceEnding says whether a namespace is being deleted, with all that is in
// it. Who may not read namespaces is told that it isn't.
func (c *Client) NamespaceEnding(ctx context.Context, name string) bool {
	ns, err := c.Read(ctx, Builtin("v1", "Namespace"), "", name)
	return err == nil && ending(ns)
}

// KnownNamespaceEnding is NamespaceEnding without a request; ok is false when
// that would need one.
func (c *Client) KnownNamespaceEnding(name string) (is, ok bool) {
	ns, ok := c.gets.peek(listKey{"v1", "Namespace", "", name})
	return ok && ending(ns), ok
}

func ending(o Object) bool {
	meta, _ := o["metadata"].(Object)
	return meta["deletionTimestamp"] != nil
}

// Listed gives an object as Read would, if that needs no request; ok is
// false when it does, or there is none.
func (c *Client) Listed(k Kind, namespace, name string) (obj Object, ok bool) {
	list, ok := c.lists.peek(listKey{k.APIVersion(), k.Kind, namespace, ""})
	obj = list[name]
	return obj, ok && obj != nil
}

func (c *Client) forget(k Kind, namespace, name string) {
	c.lists.forget(listKey{k.APIVersion(), k.Kind, namespace, ""})
	c.gets.forget(listKey{k.APIVersion(), k.Kind, namespace, name})
}

// memo remembers answers by key. Who asks for the same key at the same time
// waits for the one that asked first. Errors are not remembered, except that a
// refusal stays one: a list that is forbidden is not tried again per object.
type memo[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]*entry[V]
}

type entry[V any] struct {
	sem  chan struct{} // held while asking
	done atomic.Bool   // val and err are there to stay
	val  V
	err  error
}

func (m *memo[K, V]) do(ctx context.Context, key K, ask func() (V, error)) (V, error) {
	m.mu.Lock()
	if m.entries == nil {
		m.entries = map[K]*entry[V]{}
	}
	e := m.entries[key]
	if e == nil {
		e = &entry[V]{sem: make(chan struct{}, 1)}
		m.entries[key] = e
	}
	m.mu.Unlock()
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
	if e.done.Load() {
		return e.val, e.err
	}
	val, err := ask()
	if err == nil || apierrors.IsForbidden(err) {
		e.val, e.err = val, err
		e.done.Store(true)
	}
	return val, err
}

// peek gives an answer that is there.
func (m *memo[K, V]) peek(key K) (val V, ok bool) {
	m.mu.Lock()
	e := m.entries[key]
	m.mu.Unlock()
	if e == nil || !e.done.Load() {
		return val, false
	}
	return e.val, e.err == nil
}

func (m *memo[K, V]) forget(key K) {
	m.mu.Lock()
	delete(m.entries, key)
	m.mu.Unlock()
}
