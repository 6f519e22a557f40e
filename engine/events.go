package engine

import (
	"strings"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/zclconf/go-cty/cty"
)

type hook = tofu.Hook

// Phase is how far an object has come.
type Phase string

// The phases of an [Event].
const (
	Started Phase = "started"
	Done    Phase = "done"
	Failed  Phase = "failed"
)

// Event tells what happens to one object.
type Event struct {
	// Addr is the object's address, such as kubernetes_object.web["a"].
	Addr string
	// Action is refresh, create, update, delete, read, open, renew or close.
	Action string
	// Phase is how far it has come.
	Phase Phase
	// Err is why it failed. The engine prints it as well, at the end.
	Err error
}

// eventHook turns core's hooks into events.
type eventHook struct {
	tofu.NilHook
	send    func(Event)
	actions *actions
}

func (e *Engine) eventHooks() []hook {
	if e.opts.Events == nil {
		return nil
	}
	return []hook{&eventHook{send: e.opts.Events, actions: newActions()}}
}

func (h *eventHook) emit(a addrs.AbsResourceInstance, action string, p Phase, err error) (tofu.HookAction, error) {
	if err != nil {
		p = Failed
	}
	h.send(Event{Addr: a.String(), Action: action, Phase: p, Err: err})
	return tofu.HookActionContinue, nil
}

func (h *eventHook) PreApply(a addrs.AbsResourceInstance, _ states.Generation, action plans.Action, _, _ cty.Value) (tofu.HookAction, error) {
	if action == plans.NoOp {
		return tofu.HookActionContinue, nil
	}
	name := strings.ToLower(action.String())
	h.actions.set(a.String(), name)
	return h.emit(a, name, Started, nil)
}

func (h *eventHook) PostApply(a addrs.AbsResourceInstance, _ states.Generation, _ cty.Value, err error) (tofu.HookAction, error) {
	name, ok := h.actions.take(a.String())
	if !ok {
		return tofu.HookActionContinue, nil
	}
	return h.emit(a, name, Done, err)
}

func (h *eventHook) PreRefresh(a addrs.AbsResourceInstance, _ states.Generation, _ cty.Value) (tofu.HookAction, error) {
	return h.emit(a, "refresh", Started, nil)
}

func (h *eventHook) PostRefresh(a addrs.AbsResourceInstance, _ states.Generation, _, _ cty.Value) (tofu.HookAction, error) {
	return h.emit(a, "refresh", Done, nil)
}

func (h *eventHook) PreOpen(a addrs.AbsResourceInstance) (tofu.HookAction, error) {
	return h.emit(a, "open", Started, nil)
}

func (h *eventHook) PostOpen(a addrs.AbsResourceInstance, err error) (tofu.HookAction, error) {
	return h.emit(a, "open", Done, err)
}

func (h *eventHook) PreRenew(a addrs.AbsResourceInstance) (tofu.HookAction, error) {
	return h.emit(a, "renew", Started, nil)
}

func (h *eventHook) PostRenew(a addrs.AbsResourceInstance, err error) (tofu.HookAction, error) {
	return h.emit(a, "renew", Done, err)
}

func (h *eventHook) PreClose(a addrs.AbsResourceInstance) (tofu.HookAction, error) {
	return h.emit(a, "close", Started, nil)
}

func (h *eventHook) PostClose(a addrs.AbsResourceInstance, err error) (tofu.HookAction, error) {
	return h.emit(a, "close", Done, err)
}
