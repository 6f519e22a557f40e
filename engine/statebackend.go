package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/opentofu/opentofu/internal/backend"
	backendlocal "github.com/opentofu/opentofu/internal/backend/local"
	"github.com/opentofu/opentofu/internal/backend/remote-state/http"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/states/remote"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

// stateBackend is where the state is: in a StateStore or, with local set, in a
// file. To plan files, which stock tofu applies too, it looks like OpenTofu's
// own http or local backend.
type stateBackend struct {
	kind      string // "http" or "local"
	workspace string
	client    *stateClient
	rescue    *rescue  // of the operation that is under way, if it has one
	forgets   []string // PlanOptions.Forgets of that operation
	local     *backendlocal.Local
	enc       encryption.StateEncryption
	schema    *configschema.Block
	config    cty.Value // without what is secret
}

var _ backend.Backend = (*stateBackend)(nil)

func newStateBackend(opts Options, enc encryption.StateEncryption) (*stateBackend, error) {
	schema := http.New(encryption.StateEncryptionDisabled()).ConfigSchema()
	attrs := map[string]cty.Value{}
	for name, v := range map[string]string{"address": opts.StateAddress, "lock_address": opts.StateLockAddress, "unlock_address": opts.StateUnlockAddress} {
		if v != "" {
			attrs[name] = cty.StringVal(v)
		}
	}
	if opts.StateAddress == "" { // the schema wants one
		attrs["address"] = cty.StringVal("")
	}
	config, err := schema.CoerceValue(cty.ObjectVal(attrs))
	if err != nil {
		return nil, fmt.Errorf("the state backend's configuration: %w", err)
	}
	return &stateBackend{
		kind:      "http",
		workspace: backend.DefaultStateName,
		client:    newStateClient(opts.State, opts.Commands.ForceUnlock),
		enc:       enc, schema: schema, config: config,
	}, nil
}

func (b *stateBackend) ConfigSchema() *configschema.Block { return b.schema }

func (b *stateBackend) PrepareConfig(v cty.Value) (cty.Value, tfdiags.Diagnostics) { return v, nil }

func (b *stateBackend) Configure(context.Context, cty.Value) tfdiags.Diagnostics { return nil }

func (b *stateBackend) StateMgr(ctx context.Context, workspace string) (statemgr.Full, error) {
	if b.local != nil {
		s, err := b.local.StateMgr(ctx, workspace)
		if file, ok := s.(*statemgr.Filesystem); ok && b.rescue != nil {
			_, path, _ := b.local.StatePaths(workspace)
			return &rescuedFile{file, path, b.rescue}, err
		}
		return s, err
	}
	if workspace != backend.DefaultStateName {
		return nil, backend.ErrWorkspacesNotSupported
	}
	s := forgetfulState{remote.NewState(b.client, b.enc), b.forgets}
	if b.rescue != nil {
		return b.rescue.watch(s), nil
	}
	return s, nil
}

func (b *stateBackend) DeleteWorkspace(context.Context, string, bool) error {
	return backend.ErrWorkspacesNotSupported
}

func (b *stateBackend) Workspaces(ctx context.Context) ([]string, error) {
	if b.local != nil {
		return b.local.Workspaces(ctx)
	}
	return nil, backend.ErrWorkspacesNotSupported
}

// forPlan is what goes into a plan file.
func (b *stateBackend) forPlan() (*plans.Backend, error) {
	return plans.NewBackend(b.kind, b.config, b.schema, b.workspace)
}

// checkPlan refuses a plan that was made for another state. The lineage in the
// plan doesn't tell before the first apply.
func (b *stateBackend) checkPlan(p *plans.Plan) error {
	if b.kind == "local" {
		return nil // the state's own lineage and serial tell
	}
	if p.Backend.Type != b.kind {
		return fmt.Errorf("the plan was made for a state in the %q backend, not for one on a state server", p.Backend.Type)
	}
	v, err := p.Backend.Config.Decode(b.schema.ImpliedType())
	if err != nil {
		return fmt.Errorf("the plan's backend configuration: %w", err)
	}
	address := v.GetAttr("address")
	if address.IsNull() || address.RawEquals(b.config.GetAttr("address")) {
		return nil // null: it was set by the environment
	}
	made, err := withoutUserinfo(address.AsString())
	if err != nil {
		return errors.New("the plan's state address is not a URL")
	}
	if here := b.config.GetAttr("address").AsString(); made != here {
		return fmt.Errorf("the plan was made for the state at %s, not for the one at %s", made, here)
	}
	return nil
}
