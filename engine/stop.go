package engine

import (
	"errors"
	"sync/atomic"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/zclconf/go-cty/cty"
)

// stopHook keeps core from beginning with another object after an interrupt.
// OpenTofu does the same in an apply, once it has stored the state, but lets the
// plan before it run to its end.
type stopHook struct {
	tofu.NilHook
	stopped atomic.Bool
}

var errHalted = errors.New("execution halted")

func (h *stopHook) stop() { h.stopped.Store(true) }

func (h *stopHook) check() (tofu.HookAction, error) {
	if h.stopped.Load() {
		return tofu.HookActionHalt, errHalted
	}
	return tofu.HookActionContinue, nil
}

func (h *stopHook) PreRefresh(addrs.AbsResourceInstance, states.Generation, cty.Value) (tofu.HookAction, error) {
	return h.check()
}

func (h *stopHook) PreDiff(addrs.AbsResourceInstance, states.Generation, cty.Value, cty.Value) (tofu.HookAction, error) {
	return h.check()
}

func (h *stopHook) PrePlanImport(addrs.AbsResourceInstance, providers.ImportTarget) (tofu.HookAction, error) {
	return h.check()
}

func (h *stopHook) PreApply(addrs.AbsResourceInstance, states.Generation, plans.Action, cty.Value, cty.Value) (tofu.HookAction, error) {
	return h.check()
}

func (h *stopHook) PreOpen(addrs.AbsResourceInstance) (tofu.HookAction, error) { return h.check() }
