package engine

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/opentofu/opentofu/internal/addrs"
	backendlocal "github.com/opentofu/opentofu/internal/backend/local"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/states"
	"github.com/opentofu/opentofu/internal/states/statefile"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/opentofu/opentofu/internal/tofumigrate"
)

// stateMgr is the state that a verb on the state works on: the one in the file
// that -state names, which is then not encrypted, or the configuration's. A
// state in a file gets a backup of its own for each change.
func (e *Engine) stateMgr(ctx context.Context, path, backup string) (statemgr.Full, error) {
	var mgr statemgr.Full
	out := path
	if path != "" {
		mgr = statemgr.NewFilesystem(path, encryption.StateEncryptionDisabled())
	} else {
		var err error
		if mgr, err = e.state.StateMgr(ctx, e.state.workspace); err != nil {
			return nil, err
		}
		if e.state.local != nil {
			_, out, _ = e.state.local.StatePaths(e.state.workspace)
		}
	}
	if file, ok := mgr.(*statemgr.Filesystem); ok {
		if backup == "" || backup == "-" { // the default is "-"
			backup = fmt.Sprintf("%s.%d%s", out, time.Now().UTC().Unix(), backendlocal.DefaultBackupExtension)
		}
		file.SetBackupPath(backup)
	}
	return mgr, nil
}

// lockState locks the state for a verb. The function that it returns unlocks and
// says what went wrong with that.
func (e *Engine) lockState(ctx context.Context, view views.State, mgr statemgr.Full, reason string) (unlock func(), diags tfdiags.Diagnostics) {
	locker := e.locker(view.Backend().StateLocker()).WithContext(ctx)
	if diags := locker.Lock(mgr, reason); diags.HasErrors() {
		return func() {}, diags
	}
	return func() { view.Diagnostics(e.tty.ours(locker.Unlock())) }, nil
}

// stateVerb is what the verbs on the state have in common.
type stateVerb struct {
	e    *Engine
	view views.State
}

// begin prepares a verb; with ok false its code is what to exit with.
func (c *cli) begin(ctx context.Context, s settings, sc scope, diags tfdiags.Diagnostics) (v stateVerb, code int, ok bool) {
	e := c.engine(s)
	v = stateVerb{e, views.NewState(s.view, e.tty.results)}
	if diags.HasErrors() {
		return v, c.misused(e, v.view, diags), false
	}
	code = c.report(e, v.view, diags.Append(c.load(ctx, e, sc)))
	return v, code, code == 0
}

// change lets edit change the state and stores it. It returns the exit code.
func (v stateVerb) change(ctx context.Context, c *cli, reason, what, path, backup string, edit func(*states.State) (done bool, code int)) int {
	fail := func(diags tfdiags.Diagnostics) int { return c.report(v.e, v.view, diags) }
	mgr, err := v.e.stateMgr(ctx, path, backup)
	if err != nil {
		v.view.StateLoadingFailure(err.Error())
		return 1
	}
	unlock, diags := v.e.lockState(ctx, v.view, mgr, reason)
	if diags.HasErrors() {
		return fail(diags)
	}
	defer unlock()
	if err := mgr.RefreshState(ctx); err != nil {
		return fail(diags.Append(sourceless("Failed to refresh "+what, "%s", err)))
	}
	state := mgr.State()
	if state == nil {
		v.view.StateNotFound()
		return 1
	}
	if done, code := edit(state); done {
		return code
	}
	return v.save(ctx, mgr, state)
}

// save stores a state, also when the verb is interrupted meanwhile.
func (v stateVerb) save(ctx context.Context, mgr statemgr.Full, state *states.State) int {
	if err := statemgr.WriteAndPersist(context.WithoutCancel(ctx), mgr, state, nil); err != nil {
		v.view.StateSavingError(err.Error())
		return 1
	}
	return 0
}

func (c *cli) stateList(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStateList(raw)
	defer closer()
	v, code, ok := c.begin(ctx, settings{view: args.ViewOptions}, scope{vars: args.Vars, paths: statePaths{state: args.StatePath}}, diags)
	if !ok {
		return code
	}
	ctx, done := v.e.interruptible(ctx)
	defer done()
	state, code, ok := v.read(ctx, c, "Error refreshing the state", "Failed to load state: ")
	if !ok {
		return code
	}
	list := instances(state)
	if len(args.InstancesRawAddr) > 0 {
		if list, diags = lookup(state, false, args.InstancesRawAddr...); diags.HasErrors() {
			return c.report(v.e, v.view, diags)
		}
	}
	for _, a := range list {
		if is := state.ResourceInstance(a); is != nil && (args.LookupId == "" || args.LookupId == states.LegacyInstanceObjectID(is.Current)) {
			v.view.StateListAddr(a)
		}
	}
	return 0
}

// read reads the state of the configuration, which must be there.
func (v stateVerb) read(ctx context.Context, c *cli, summary, prefix string) (state *states.State, code int, ok bool) {
	mgr, err := v.e.state.StateMgr(ctx, v.e.state.workspace)
	if err != nil {
		v.view.StateLoadingFailure(err.Error())
		return nil, 1, false
	}
	if err := mgr.RefreshState(ctx); err != nil {
		return nil, c.report(v.e, v.view, tfdiags.Diagnostics{}.Append(sourceless(summary, "%s%s", prefix, err))), false
	}
	if state = mgr.State(); state == nil {
		v.view.StateNotFound()
		return nil, 1, false
	}
	return state, 0, true
}

func (c *cli) stateShow(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStateShow(raw)
	defer closer()
	v, code, ok := c.begin(ctx, settings{view: args.ViewOptions, showSensitive: args.ShowSensitive, newline: true},
		scope{vars: args.Vars, config: true, paths: statePaths{state: args.StatePath}}, diags)
	if !ok {
		return code
	}
	ctx, done := v.e.interruptible(ctx)
	defer done()
	addr, diags := addrs.ParseAbsResourceInstanceStr(args.TargetRawAddr)
	if diags.HasErrors() {
		v.view.AddressParsingError(args.TargetRawAddr)
		return 1
	}
	cfg, diags := v.e.loadConfig(ctx)
	if diags.HasErrors() {
		return c.report(v.e, v.view, diags)
	}
	state, code, ok := v.read(ctx, c, "Failed to refresh state", "")
	if !ok {
		return code
	}
	if state, diags = tofumigrate.MigrateStateProviderAddresses(cfg, state); diags.HasErrors() {
		return c.report(v.e, v.view, diags)
	}
	schemas, diags := v.e.schemas(ctx, cfg, state)
	if diags.HasErrors() {
		return c.report(v.e, v.view, diags)
	}
	is := state.ResourceInstance(addr)
	if !is.HasCurrent() {
		v.view.NoInstanceFoundError()
		return 1
	}
	p := state.Resource(addr.ContainingResource()).ProviderConfig
	single := states.NewState()
	single.EnsureModule(addr.Module).SetResourceInstanceCurrent(addr.Resource, is.Current,
		addrs.AbsProviderConfig{Provider: p.Provider, Alias: p.Alias, Module: addrs.RootModule}, addrs.NoKey)
	return v.view.ShowResourceState(ctx, statefile.New(single, "", 0), schemas)
}

func (c *cli) stateRemove(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStateRm(raw)
	defer closer()
	v, code, ok := c.begin(ctx, settings{view: args.ViewOptions, newline: true}.locked(args.Backend.StateLock, args.Backend.StateLockTimeout), scope{vars: args.Vars}, diags)
	if !ok {
		return code
	}
	ctx, done := v.e.interruptible(ctx)
	defer done()
	n := 0
	code = v.change(ctx, c, "state-rm", "state", args.StatePath, args.BackupPath, func(state *states.State) (bool, int) {
		list, diags := lookup(state, true, args.TargetAddrs...)
		if diags.HasErrors() {
			return true, c.report(v.e, v.view, diags)
		}
		s := state.SyncWrapper()
		for _, a := range list {
			n++
			v.view.ResourceRemoveStatus(args.DryRun, a.String())
			if !args.DryRun {
				s.ForgetResourceInstanceAll(a)
				s.RemoveResourceIfEmpty(a.ContainingResource())
			}
		}
		switch {
		case args.DryRun:
			v.view.DryRunRemovedStatus(n)
			return true, 0
		case n == 0:
			return true, c.report(v.e, v.view, diags.Append(sourceless("Invalid target address",
				"No matching objects found. To view the available instances, use \"tofu state list\". Please modify the address to reference a specific instance.")))
		}
		return false, 0
	})
	if code == 0 && n > 0 && !args.DryRun {
		v.view.RemoveFinalStatus(n)
	}
	return code
}

func (c *cli) stateReplaceProvider(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseReplaceProvider(raw)
	defer closer()
	s := settings{view: args.ViewOptions, newline: true}.locked(args.Backend.StateLock, args.Backend.StateLockTimeout)
	s.view.InputEnabled = true
	v, code, ok := c.begin(ctx, s, scope{vars: args.Vars}, diags)
	if !ok {
		return code
	}
	ctx, done := v.e.interruptible(ctx)
	defer done()
	parse := func(which, raw string) addrs.Provider {
		p, more := addrs.ParseProviderSourceString(raw)
		if more.HasErrors() {
			diags = diags.Append(sourceless(fmt.Sprintf("Invalid %q provider %q", which, raw), "%s", more.Err()))
		}
		return p
	}
	from, to := parse("from", args.RawSrcAddr), parse("to", args.RawDestAddr)
	if diags.HasErrors() {
		return c.report(v.e, v.view, diags)
	}
	replaced := 0
	code = v.change(ctx, c, "state-replace-provider", "source state", args.StatePath, args.BackupPath, func(state *states.State) (bool, int) {
		var which []*states.Resource
		for _, mod := range state.Modules {
			for _, r := range mod.Resources {
				if r.ProviderConfig.Provider.Equals(from) {
					which = append(which, r)
				}
			}
		}
		sort.Slice(which, func(i, j int) bool { return which[i].Addr.Less(which[j].Addr) })
		if len(which) == 0 {
			v.view.NoMatchingResourcesForProviderReplacement()
			return true, 0
		}
		v.view.ReplaceProviderOverview(from, to, which)
		if !args.AutoApprove {
			answer, err := v.e.asker.Input(ctx, &tofu.InputOpts{
				Id: "confirm", Query: "\nDo you want to make these changes?", Description: "Only 'yes' will be accepted to continue.",
			})
			if err != nil {
				return true, c.report(v.e, v.view, diags.Append(sourceless("Error asking for approval", "%s", err)))
			}
			if answer != "yes" {
				v.view.ReplaceProviderCancelled()
				return true, 0
			}
		}
		for _, r := range which {
			r.ProviderConfig.Provider = to
		}
		replaced = len(which)
		return false, 0
	})
	if code == 0 && replaced > 0 {
		v.view.ProviderReplaced(replaced)
	}
	return code
}

func (c *cli) statePull(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStatePull(raw)
	defer closer()
	s := settings{view: args.ViewOptions, newline: true}
	if s.view.ViewType == arguments.ViewNone {
		s.view.ViewType = arguments.ViewHuman
	}
	v, code, ok := c.begin(ctx, s, scope{vars: args.Vars}, diags)
	if !ok {
		return code
	}
	return exit(v.e.StatePull(ctx))
}

func (c *cli) statePush(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStatePush(raw)
	defer closer()
	v, code, ok := c.begin(ctx, settings{view: args.ViewOptions, newline: true}.locked(args.Backend.StateLock, args.Backend.StateLockTimeout), scope{vars: args.Vars}, diags)
	if !ok {
		return code
	}
	return exit(v.e.StatePush(ctx, args.StateSrc, args.Force))
}

func (c *cli) taint(ctx context.Context, raw []string, taint bool) int {
	args, closer, diags := arguments.ParseTaint(taint, raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true}.locked(args.State.Lock, args.State.LockTimeout))
	view := views.NewTaint(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if c.report(e, view, c.load(ctx, e, scope{vars: args.Vars, paths: pathsOf(args.State)})) != 0 {
		return 1
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	fail := func(summary, format string, a ...any) int {
		return c.report(e, view, tfdiags.Diagnostics{}.Append(sourceless(summary, format, a...)))
	}
	mgr, err := e.state.StateMgr(ctx, e.state.workspace)
	if err != nil {
		return fail("Error loading the state", "Failed to load the state: %s", err)
	}
	locker := e.locker(view.Backend().StateLocker()).WithContext(ctx)
	if diags := locker.Lock(mgr, c.verb); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	defer func() { view.Diagnostics(e.tty.ours(locker.Unlock())) }()
	if err := mgr.RefreshState(ctx); err != nil {
		if taint {
			return fail("Error refreshing the state", "Failed to refresh the state: %s", err)
		}
		return fail("Error refreshing the state", "Failed to load state: %s", err)
	}
	addr := args.TargetAddress
	state := mgr.State()
	missing := func(format string, a ...any) int {
		if args.AllowMissing {
			return c.report(e, view, tfdiags.Diagnostics{}.Append(tfdiags.Sourceless(tfdiags.Warning, "No such resource instance",
				fmt.Sprintf("Resource instance %s was not found, but this is not an error because -allow-missing was set.", addr))))
		}
		return fail("No such resource instance", format, a...)
	}
	if state.Empty() {
		return missing("The state currently contains no resource instances whatsoever. This may occur if the configuration has never been applied or if it has recently been destroyed.")
	}
	s := state.SyncWrapper()
	r, is := s.Resource(addr.ContainingResource()), s.ResourceInstance(addr)
	if is == nil {
		return missing("There is no resource instance in the state with the address %s. If the resource configuration has just been added, you must run \"tofu apply\" once to create the corresponding instance(s) before they can be tainted.", addr)
	}
	object := is.Current
	switch {
	case object == nil && len(is.Deposed) != 0:
		return fail("No such resource instance", "Resource instance %s is currently part-way through a create_before_destroy replacement action. Run \"tofu apply\" to complete its replacement before tainting it.", addr)
	case object == nil:
		return fail("No such resource instance", "Resource instance %s does not currently have a remote object associated with it, so it cannot be tainted.", addr)
	case !taint && object.Status != states.ObjectTainted:
		return fail("Resource instance is not tainted", "Resource instance %s is not currently tainted, and so it cannot be untainted.", addr)
	}
	object.Status = states.ObjectReady
	if taint {
		object.Status = states.ObjectTainted
	}
	s.SetResourceInstanceCurrent(addr, object, r.ProviderConfig, is.ProviderKey)
	if err := mgr.WriteState(state); err != nil {
		return fail("Error writing state file", "Failed writing the new state: %s", err)
	}
	if err := mgr.PersistState(context.WithoutCancel(ctx), nil); err != nil {
		return fail("Error writing state file", "Failed to persist the new state: %s", err)
	}
	if taint {
		view.TaintedSuccessfully(addr)
	} else {
		view.UntaintedSuccessfully(addr)
	}
	return 0
}

func (c *cli) forceUnlock(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseUnlock(raw)
	defer closer()
	s := settings{view: args.ViewOptions, newline: true}
	s.view.InputEnabled = s.view.ViewType != arguments.ViewJSON
	e := c.engine(s)
	view := views.NewUnlock(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if c.report(e, view, c.load(ctx, e, scope{vars: args.Vars})) != 0 {
		return 1
	}
	if e.state.local != nil {
		if !args.Force {
			view.CannotUnlockByAnotherProcess()
			return 1
		}
		mgr, err := e.state.StateMgr(ctx, e.state.workspace)
		if err == nil {
			err = mgr.Unlock(ctx, args.LockID)
		}
		if err != nil {
			//lint:ignore ST1005 stock tofu's words
			return c.report(e, view, diags.Append(fmt.Errorf("Failed to unlock state: %w", err)))
		}
		view.ForceUnlockSucceeded()
		return 0
	}
	return exit(e.ForceUnlock(ctx, args.LockID, args.Force))
}

// lookup finds the objects in the state that addresses of objects, resources and
// modules mean.
func lookup(state *states.State, allowMissing bool, raws ...string) (out []addrs.AbsResourceInstance, diags tfdiags.Diagnostics) {
	for _, raw := range raws {
		target, more := addrs.ParseTargetStr(raw)
		if diags = diags.Append(more); more.HasErrors() {
			continue
		}
		var found []addrs.AbsResourceInstance
		known := false
		for _, a := range instances(state) {
			if target.Subject.TargetContains(a) {
				found, known = append(found, a), true
			}
		}
		missing := func(what, of, format string) {
			diags = diags.Append(sourceless("Unknown "+what, format, of))
		}
		switch a := target.Subject.(type) {
		case addrs.ModuleInstance:
			if known = known || state.Module(a) != nil; !known && !allowMissing {
				missing("module", a.String(), `The current state contains no module at %s. If you've just added this module to the configuration, you must run "tofu apply" first to create the module's entry in the state.`)
			}
		case addrs.AbsResource:
			if known = known || state.Resource(a) != nil; !known && !allowMissing {
				missing("resource", a.String(), `The current state contains no resource %s. If you've just added this resource to the configuration, you must run "tofu apply" first to create the resource's entry in the state.`)
			}
		case addrs.AbsResourceInstance:
			if !known && !allowMissing {
				missing("resource instance", a.String(), `The current state contains no resource instance %s. If you've just added its resource to the configuration or have changed the count or for_each arguments, you must run "tofu apply" first to update the resource's entry in the state.`)
			}
		}
		out = append(out, found...)
	}
	return out, diags
}
