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
type preciousHook struct {
	tofu.NilHook
	types  []string
	rescue *rescue

	mu   sync.Mutex
	made []addrs.AbsResourceInstance // and not stored
}

func (h *preciousHook) PostApply(addr addrs.AbsResourceInstance, _ states.Generation, _ cty.Value, err error) (tofu.HookAction, error) {
	if err == nil && slices.Contains(h.types, addr.Resource.Resource.Type) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.made = append(h.made, addr)
	}
	return tofu.HookActionContinue, nil
}

func (h *preciousHook) PreApply(addr addrs.AbsResourceInstance, _ states.Generation, action plans.Action, _, _ cty.Value) (tofu.HookAction, error) {
	if action == plans.Read || slices.Contains(h.types, addr.Resource.Resource.Type) {
		return tofu.HookActionContinue, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mgr := h.rescue.state()
	if len(h.made) == 0 || mgr == nil {
		return tofu.HookActionContinue, nil
	}
	// One that is not in the state yet is nothing that this object waited for.
	state := mgr.State()
	later := slices.DeleteFunc(slices.Clone(h.made), func(a addrs.AbsResourceInstance) bool { return state.ResourceInstance(a) != nil })
	if len(later) == len(h.made) {
		return tofu.HookActionContinue, nil
	}
	if err := mgr.PersistState(context.Background(), nil); err != nil {
		return tofu.HookActionHalt, fmt.Errorf("the state could not be saved, so nothing is made that depends on it: %w", err)
	}
	h.made = later
	return tofu.HookActionContinue, nil
}
