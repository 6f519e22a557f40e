package builtin

import (
	"context"
	"fmt"
	"strings"

	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/lang/marks"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

// Backends opens the state of another configuration: in a backend of this kind
// with this configuration. Without open it only checks the configuration. Paths
// in its diagnostics are those of terraform_remote_state.
type Backends func(kind string, config cty.Value, enc encryption.StateEncryption, open bool) (backend.Backend, tfdiags.Diagnostics)

const remoteStateType = "terraform_remote_state"

// remoteStateBlock is the schema of terraform_remote_state.
func remoteStateBlock() *configschema.Block {
	text := func(s string) (string, configschema.StringKind) { return s, configschema.StringMarkdown }
	attr := func(a configschema.Attribute, description string) *configschema.Attribute {
		a.Description, a.DescriptionKind = text(description)
		return &a
	}
	return &configschema.Block{Attributes: map[string]*configschema.Attribute{
		"backend": attr(configschema.Attribute{Type: cty.String, Required: true},
			"The remote backend to use, e.g. `remote` or `http`."),
		"config": attr(configschema.Attribute{Type: cty.DynamicPseudoType, Optional: true},
			"The configuration of the remote backend. Although this is optional, most backends require some configuration.\n\n"+
				"The object can use any arguments that would be valid in the equivalent `terraform { backend \"<TYPE>\" { ... } }` block."),
		"defaults": attr(configschema.Attribute{Type: cty.DynamicPseudoType, Optional: true},
			"Default values for outputs, in case the state file is empty or lacks a required output."),
		"outputs": attr(configschema.Attribute{Type: cty.DynamicPseudoType, Computed: true},
			"An object containing every root-level output in the remote state."),
		"workspace": attr(configschema.Attribute{Type: cty.String, Optional: true},
			"The OpenTofu workspace to use, if the backend supports workspaces."),
	}}
}

func (p provider) ValidateDataResourceConfig(_ context.Context, q providers.ValidateDataResourceConfigRequest) (out providers.ValidateDataResourceConfigResponse) {
	if q.TypeName != remoteStateType {
		out.Diagnostics = out.Diagnostics.Append(errNone)
		return out
	}
	config, kind, defaults := q.Config.GetAttr("config"), q.Config.GetAttr("backend"), q.Config.GetAttr("defaults")
	if config.IsWhollyKnown() && kind.IsKnown() && !kind.IsNull() {
		_, diags := p.backend(q.Config, encryption.StateEncryptionDisabled(), false)
		out.Diagnostics = out.Diagnostics.Append(diags)
	} else if !isObject(config) {
		out.Diagnostics = out.Diagnostics.Append(tfdiags.AttributeValue(tfdiags.Error,
			"Invalid backend configuration", "The configuration must be an object value.", cty.GetAttrPath("config")))
	}
	if !isObject(defaults) {
		out.Diagnostics = out.Diagnostics.Append(tfdiags.AttributeValue(tfdiags.Error,
			"Invalid default values", "Defaults must be given in an object value.", cty.GetAttrPath("defaults")))
	}
	return out
}

// isObject says whether v may be an object.
func isObject(v cty.Value) bool {
	t := v.Type()
	return t == cty.DynamicPseudoType || t.IsObjectType() || t.IsMapType()
}

// backend opens what the configuration of a terraform_remote_state names.
func (p provider) backend(config cty.Value, enc encryption.StateEncryption, open bool) (backend.Backend, tfdiags.Diagnostics) {
	c := config.GetAttr("config")
	switch {
	case p.backends == nil:
		return nil, tfdiags.Diagnostics{}.Append(fmt.Errorf("%s is not available here", remoteStateType))
	case c.IsNull():
		c = cty.EmptyObjectVal
	case c.Type().IsMapType():
		c = cty.ObjectVal(c.AsValueMap())
	case !c.Type().IsObjectType():
		return nil, tfdiags.Diagnostics{}.Append(tfdiags.AttributeValue(tfdiags.Error,
			"Invalid backend configuration", "The configuration must be an object value.", cty.GetAttrPath("config")))
	}
	return p.backends(config.GetAttr("backend").AsString(), c, enc, open)
}

func (provider) ReadDataSource(context.Context, providers.ReadDataSourceRequest) (out providers.ReadDataSourceResponse) {
	out.Diagnostics = out.Diagnostics.Append(errNone) // core calls ReadDataSourceEncrypted
	return out
}

// ReadDataSourceEncrypted reads the outputs of another state. Core calls it in
// the place of ReadDataSource when a provider has it.
func (p provider) ReadDataSourceEncrypted(ctx context.Context, q providers.ReadDataSourceRequest, path addrs.AbsResourceInstance, enc encryption.Encryption) (out providers.ReadDataSourceResponse) {
	unreadable := fmt.Errorf("%s: Unable to read remote state", path)
	fail := func(diag any) providers.ReadDataSourceResponse {
		out.Diagnostics = out.Diagnostics.Append(diag)
		return out
	}
	if q.TypeName != remoteStateType {
		return fail(errNone)
	}
	// Encryption settings know it as name, name[0] or mod.name.
	key := strings.TrimPrefix(strings.Replace(path.String(), "data."+remoteStateType+".", "", 1), "module.")
	b, diags := p.backend(q.Config, enc.RemoteState(key), true)
	if out.Diagnostics = out.Diagnostics.Append(diags); diags.HasErrors() {
		return fail(unreadable)
	}
	workspace := backend.DefaultStateName
	if v := q.Config.GetAttr("workspace"); !v.IsNull() {
		workspace = v.AsString()
	}
	mgr, err := b.StateMgr(ctx, workspace)
	if err != nil {
		fail(tfdiags.AttributeValue(tfdiags.Error, "Error loading state error",
			fmt.Sprintf("error loading the remote state: %s", err), cty.GetAttrPath("backend")))
		return fail(unreadable)
	}
	if err := mgr.RefreshState(ctx); err != nil {
		fail(err)
		return fail(unreadable)
	}
	attrs := q.Config.AsValueMap()
	outputs := map[string]cty.Value{}
	if v := attrs["defaults"]; v.IsNull() {
		attrs["defaults"] = cty.NullVal(cty.DynamicPseudoType)
	} else {
		for it := v.ElementIterator(); it.Next(); {
			name, val := it.Element()
			outputs[name.AsString()] = val
		}
	}
	state := mgr.State()
	if state == nil {
		fail(tfdiags.AttributeValue(tfdiags.Error, "Unable to find remote state",
			"No stored state was found for the given workspace in the given backend.", cty.GetAttrPath("workspace")))
		return fail(unreadable)
	}
	for name, o := range state.RootModule().OutputValues {
		outputs[name] = o.Value
		if o.Deprecated != "" {
			outputs[name] = marks.Deprecated(o.Value, marks.DeprecationCause{
				By: fmt.Sprintf("%s.%s", path.Resource.String(), name), Message: o.Deprecated,
			})
		}
	}
	attrs["outputs"] = cty.ObjectVal(outputs)
	out.State = cty.ObjectVal(attrs)
	return out
}
