package engine

import (
	"context"
	"slices"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

func (c *cli) stateMove(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStateMv(raw)
	defer closer()
	v, code, ok := c.begin(ctx, settings{view: args.ViewOptions, newline: true}.locked(args.Backend.StateLock, args.Backend.StateLockTimeout), scope{vars: args.Vars}, diags)
	if !ok {
		return code
	}
	ctx, done := v.e.interruptible(ctx)
	defer done()
	fail := func(diags tfdiags.Diagnostics) int { return c.report(v.e, v.view, diags) }

	// -backup and -backup-out name files; "-" is their default.
	if args.StatePath == "" && v.e.state.local == nil && (args.BackupPath != "-" || args.BackupPathOut != "-") {
		return fail(diags.Append(sourceless("Invalid command line options: -backup, -backup-out",
			"Command line options -backup and -backup-out are legacy options that operate on a local state file only. You must specify a local state file with the -state option or switch to the local backend.")))
	}
	var toMgr statemgr.Full
	var to *states.State
	moved := 0
	code = v.change(ctx, c, "state-mv", "source state", args.StatePath, args.BackupPath, func(from *states.State) (bool, int) {
		to = from
		if args.StateOutPath != "" {
			var err error
			if toMgr, err = v.e.stateMgr(ctx, args.StateOutPath, args.BackupPathOut); err != nil {
				v.view.StateLoadingFailure(err.Error())
				return true, 1
			}
			unlock, diags := v.e.lockState(ctx, v.view, toMgr, "state-mv")
			if diags.HasErrors() {
				return true, fail(diags)
			}
			defer unlock()
			if err := toMgr.RefreshState(ctx); err != nil {
				return true, fail(diags.Append(sourceless("Failed to refresh destination state", "%s", err)))
			}
			if to = toMgr.State(); to == nil {
				to = states.NewState()
			}
		}
		source, diags := addrs.ParseTargetStr(args.RawSrcAddr)
		dest, more := addrs.ParseTargetStr(args.RawDestAddr)
		if diags = diags.Append(more); diags.HasErrors() {
			return true, fail(diags)
		}
		m := mover{cli: c, v: v, from: from, to: to, dry: args.DryRun, rawDest: args.RawDestAddr}
		if code, ok := m.move(source.Subject, dest.Subject); !ok {
			return true, code
		}
		moved = m.moved
		if args.DryRun {
			v.view.DryRunMovedStatus(moved)
			return true, 0
		}
		if toMgr != nil { // first: what is in neither state is lost
			if code := v.save(ctx, toMgr, to); code != 0 {
				return true, code
			}
		}
		return false, 0
	})
	if code == 0 && !args.DryRun {
		v.view.MoveFinalStatus(moved)
	}
	return code
}

// mover moves objects from one state to another, or within one.
type mover struct {
	*cli
	v        stateVerb
	from, to *states.State
	dry      bool
	rawDest  string
	moved    int
}

// expand finds the objects that an address means: a module has modules in it,
// and what looks like a resource may be its only object.
func (m *mover) expand(source addrs.Targetable) (out []addrs.Targetable) {
	switch a := source.(type) {
	case addrs.ModuleInstance:
		for _, mod := range m.from.Modules {
			if len(mod.Addr) >= len(a) && mod.Addr[:len(a)].Equal(a) {
				out = append(out, mod.Addr)
			}
		}
		slices.SortFunc(out, func(a, b addrs.Targetable) int {
			if a.(addrs.ModuleInstance).Less(b.(addrs.ModuleInstance)) {
				return -1
			}
			return 1
		})
	case addrs.AbsResource:
		r := m.from.Resource(a)
		if r == nil {
			return nil
		}
		if _, single := r.Instances[addrs.NoKey]; single {
			return []addrs.Targetable{a.Instance(addrs.NoKey)}
		}
		return []addrs.Targetable{a}
	default:
		out = append(out, source)
	}
	return out
}

// move moves; with ok false it has said why not, and code is what to exit with.
func (m *mover) move(source, dest addrs.Targetable) (code int, ok bool) {
	list := m.expand(source)
	if len(list) == 0 {
		return m.refuse(m.bad("source", "Cannot move %s: does not match anything in the current state.", source))
	}
	for _, from := range list {
		var ok bool
		switch from := from.(type) {
		case addrs.ModuleInstance:
			code, ok = m.module(source.(addrs.ModuleInstance), from, dest)
		case addrs.AbsResource:
			code, ok = m.resource(from, dest)
		case addrs.AbsResourceInstance:
			code, ok = m.instance(from, dest)
		default:
			code, ok = m.refuse(m.bad("source", "Cannot move %s: OpenTofu doesn't know how to move this object.", from))
		}
		if !ok {
			return code, false
		}
		m.forgetDependencies(from)
	}
	return 0, true
}

func (m *mover) bad(which, format string, args ...any) tfdiags.Diagnostics {
	return tfdiags.Diagnostics{}.Append(sourceless("Invalid "+which+" address", format, args...))
}

func (m *mover) refuse(diags tfdiags.Diagnostics) (int, bool) {
	return m.report(m.v.e, m.v.view, diags), false
}

func (m *mover) module(source, from addrs.ModuleInstance, dest addrs.Targetable) (int, bool) {
	to, ok := dest.(addrs.ModuleInstance)
	if !ok {
		return m.refuse(m.bad("target", "Cannot move %s to %s: the target must also be a module.", from, dest))
	}
	to = slices.Concat(to, from[len(source):])
	if m.to.Module(to) != nil {
		m.v.view.ErrorMovingToAlreadyExistingDst()
		return 1, false
	}
	mod := m.from.Module(from)
	m.moved++
	m.v.view.ResourceMoveStatus(m.dry, from.String(), to.String())
	if !m.dry {
		m.from.SyncWrapper().RemoveModule(from)
		mod.Addr = to
		for _, r := range mod.Resources {
			r.Addr.Module = to
		}
		m.to.Modules[to.String()] = mod
	}
	return 0, true
}

func (m *mover) resource(from addrs.AbsResource, dest addrs.Targetable) (int, bool) {
	to, ok := dest.(addrs.AbsResource)
	if !ok {
		return m.refuse(m.bad("target", "Cannot move %s to %s: the source is a whole resource (not a resource instance) so the target must also be a whole resource.", from, dest))
	}
	diags := movable(from, to)
	if m.to.Resource(to) != nil {
		diags = diags.Append(m.bad("target", "Cannot move to %s: there is already a resource at that address in the current state.", to))
	}
	if diags.HasErrors() {
		return m.refuse(diags)
	}
	r := m.from.Resource(from)
	m.moved++
	m.v.view.ResourceMoveStatus(m.dry, from.String(), to.String())
	if !m.dry {
		m.from.SyncWrapper().RemoveResource(from)
		r.Addr = to
		m.to.EnsureModule(to.Module).Resources[to.Resource.String()] = r
	}
	return 0, true
}

func (m *mover) instance(from addrs.AbsResourceInstance, dest addrs.Targetable) (int, bool) {
	to, ok := dest.(addrs.AbsResourceInstance)
	if !ok {
		r, ok := dest.(addrs.AbsResource)
		if !ok {
			return m.refuse(m.bad("target", "Cannot move %s to %s: the target must also be a resource instance.", from, dest))
		}
		to = r.Instance(addrs.NoKey)
	}
	diags := movable(from.ContainingResource(), to.ContainingResource())
	if m.to.ResourceInstance(to) != nil {
		diags = diags.Append(m.bad("target", "Cannot move to %s: there is already a resource instance at that address in the current state.", to))
	}
	is := m.from.ResourceInstance(from)
	if is == nil {
		diags = diags.Append(m.bad("source", "The current state does not contain %s.", from))
	}
	if diags.HasErrors() {
		return m.refuse(diags)
	}
	m.moved++
	m.v.view.ResourceMoveStatus(m.dry, from.String(), m.rawDest)
	if !m.dry {
		provider := m.from.Resource(from.ContainingResource()).ProviderConfig
		s := m.from.SyncWrapper()
		s.ForgetResourceInstanceAll(from)
		s.RemoveResourceIfEmpty(from.ContainingResource())
		m.to.EnsureModule(to.Module)
		if m.to.Resource(to.ContainingResource()) == nil {
			m.to.SyncWrapper().SetResourceProvider(to.ContainingResource(), provider)
		}
		m.to.Resource(to.ContainingResource()).Instances[to.Resource.Key] = is
	}
	return 0, true
}

// forgetDependencies drops the dependencies of objects that depend on what was
// moved; the next plan finds them anew.
func (m *mover) forgetDependencies(moved addrs.Targetable) {
	for _, mod := range m.to.Modules {
		for _, r := range mod.Resources {
			for _, is := range r.Instances {
				if is.Current != nil && slices.ContainsFunc(is.Current.Dependencies, func(d addrs.ConfigResource) bool {
					return d.TargetContains(moved) || moved.TargetContains(d)
				}) {
					is.Current.Dependencies = nil
				}
			}
		}
	}
}

// movable says whether a resource can become another.
func movable(from, to addrs.AbsResource) (diags tfdiags.Diagnostics) {
	bad := func(format string, args ...any) {
		diags = diags.Append(sourceless("Invalid state move request", format, args...))
	}
	a, b := from.Resource, to.Resource
	switch {
	case a.Mode == addrs.EphemeralResourceMode || b.Mode == addrs.EphemeralResourceMode:
		bad("Ephemeral resources cannot be used as sources or targets for the move action. Just update your configuration accordingly.")
		return diags
	case a.Mode == b.Mode:
	case a.Mode == addrs.ManagedResourceMode:
		bad("Cannot move %s to %s: a managed resource can be moved only to another managed resource address.", from, to)
	default:
		bad("Cannot move %s to %s: a data resource can be moved only to another data resource address.", from, to)
	}
	if a.Type != b.Type {
		bad("Cannot move %s to %s: resource types don't match.", from, to)
	}
	return diags
}
