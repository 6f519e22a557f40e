package engine

import (
	"slices"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/remote"
)

// forgetting lets the states of an operation be read without what they say of
// resources that it only forgets. The caller calls done when the operation has
// ended.
func (e *Engine) forgetting(op *backend.Operation, o PlanOptions) (done func()) {
	part := len(op.Targets)+len(op.Excludes) > 0
	if o.Mode == Destroy && !part { // of a target, what was made after it goes, too
		e.state.forgets = o.Forgets
	}
	return func() { e.state.forgets = nil }
}

// forgetfulState is a remote state in which no object depends on some of the
// resources. A state that is written after it was read so no longer tells that
// they did, until the next apply does.
type forgetfulState struct {
	*remoteState
	forgets []string
}

// remoteState has a name that its method State leaves free.
type remoteState = remote.State

func (s forgetfulState) State() *states.State {
	state := s.remoteState.State() // a copy
	if state == nil || len(s.forgets) == 0 {
		return state
	}
	for _, m := range state.Modules {
		for _, r := range m.Resources {
			for _, i := range r.Instances {
				if i.Current != nil {
					s.forget(i.Current)
				}
				for _, o := range i.Deposed {
					s.forget(o)
				}
			}
		}
	}
	return state
}

func (s forgetfulState) forget(o *states.ResourceInstanceObjectSrc) {
	o.Dependencies = slices.DeleteFunc(o.Dependencies, func(d addrs.ConfigResource) bool {
		return d.Module.IsRoot() && slices.Contains(s.forgets, d.Resource.String())
	})
}
