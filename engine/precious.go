package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/zclconf/go-cty/cty"
)

// preciousHook stores the state between the making of what the state alone has
// and the making of what may be made from it. OpenTofu stores it every 20
// seconds: a process that is killed before would leave objects that carry a
// value that nobody has any more.
//
// A type of object that nothing precious goes into doesn't wait: each of the
// thousand images of a large group would else have a state stored for it.
type preciousHook struct {
	tofu.NilHook
	types  map[string][]string // and what is made from them
	rescue *rescue

	mu   sync.Mutex
	made []addrs.AbsResourceInstance // and not stored
}

func (h *preciousHook) PostApply(addr addrs.AbsResourceInstance, _ states.Generation, _ cty.Value, err error) (tofu.HookAction, error) {
	if err == nil && h.types[addr.Resource.Resource.Type] != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.made = append(h.made, addr)
	}
	return tofu.HookActionContinue, nil
}

func (h *preciousHook) PreApply(addr addrs.AbsResourceInstance, _ states.Generation, action plans.Action, _, _ cty.Value) (tofu.HookAction, error) {
	if action == plans.Read {
		return tofu.HookActionContinue, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mgr := h.rescue.state()
	if mgr == nil || !slices.ContainsFunc(h.made, func(a addrs.AbsResourceInstance) bool { return h.carries(addr, a) }) {
		return tofu.HookActionContinue, nil
	}
	later := mgr.missing(h.made)
	if len(later) == len(h.made) {
		return tofu.HookActionContinue, nil
	}
	if err := mgr.PersistState(context.Background(), nil); err != nil {
		return tofu.HookActionHalt, fmt.Errorf("the state could not be saved, so nothing is made that depends on it: %w", err)
	}
	h.made = later
	return tofu.HookActionContinue, nil
}

// carries says whether an object may be made from a precious one.
func (h *preciousHook) carries(addr, precious addrs.AbsResourceInstance) bool {
	return slices.Contains(h.types[precious.Resource.Resource.Type], addr.Resource.Resource.Type)
}
