package engine

import "sync"

// actions remembers what is being done to each object: core says it only when
// an action starts.
type actions struct {
	mu     sync.Mutex
	byAddr map[string]string
}

func newActions() *actions { return &actions{byAddr: map[string]string{}} }

func (a *actions) set(addr, action string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byAddr[addr] = action
}

func (a *actions) take(addr string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	action, ok := a.byAddr[addr]
	delete(a.byAddr, addr)
	return action, ok
}
