package builtin

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-uuid"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

const dataType = "terraform_data"

// dataBlock is the schema of terraform_data: output follows input, and a change
// of triggers_replace replaces the object.
func dataBlock() *configschema.Block {
	return &configschema.Block{Attributes: map[string]*configschema.Attribute{
		"id":               {Type: cty.String, Computed: true},
		"input":            {Type: cty.DynamicPseudoType, Optional: true},
		"output":           {Type: cty.DynamicPseudoType, Computed: true},
		"triggers_replace": {Type: cty.DynamicPseudoType, Optional: true},
	}}
}

func (provider) ValidateResourceConfig(_ context.Context, q providers.ValidateResourceConfigRequest) (out providers.ValidateResourceConfigResponse) {
	if q.Config.IsNull() {
		return out
	}
	for _, name := range []string{"id", "output"} {
		if !q.Config.GetAttr(name).IsNull() {
			out.Diagnostics = out.Diagnostics.Append(tfdiags.AttributeValue(tfdiags.Error, "Read-only attribute",
				fmt.Sprintf("%q attribute is read-only", name), cty.GetAttrPath(name)))
		}
	}
	return out
}

func (provider) UpgradeResourceState(_ context.Context, q providers.UpgradeResourceStateRequest) (out providers.UpgradeResourceStateResponse) {
	v, err := ctyjson.Unmarshal(q.RawStateJSON, dataBlock().ImpliedType())
	if err != nil {
		out.Diagnostics = out.Diagnostics.Append(fmt.Errorf("the state of a %s: %w", dataType, err))
		return out
	}
	out.UpgradedState = v
	return out
}

func (provider) ReadResource(_ context.Context, q providers.ReadResourceRequest) providers.ReadResourceResponse {
	return providers.ReadResourceResponse{NewState: q.PriorState, Private: q.Private}
}

func (provider) PlanResourceChange(_ context.Context, q providers.PlanResourceChangeRequest) (out providers.PlanResourceChangeResponse) {
	out.PlannedState = q.ProposedNewState
	if q.ProposedNewState.IsNull() {
		return out
	}
	planned := q.ProposedNewState.AsValueMap()
	input := planned["input"]
	create := q.PriorState.IsNull()
	replace := !create && !q.PriorState.GetAttr("triggers_replace").RawEquals(planned["triggers_replace"])
	update := !create && !q.PriorState.GetAttr("input").RawEquals(input)
	if replace {
		out.RequiresReplace = []cty.Path{cty.GetAttrPath("triggers_replace")}
	}
	if create || replace {
		planned["id"] = cty.UnknownVal(cty.String).RefineNotNull()
	}
	if create || replace || update {
		if planned["output"] = cty.UnknownVal(input.Type()); input.IsNull() {
			planned["output"] = input
		}
	}
	out.PlannedState = cty.ObjectVal(planned)
	return out
}

func (provider) ApplyResourceChange(_ context.Context, q providers.ApplyResourceChangeRequest) (out providers.ApplyResourceChangeResponse) {
	out.NewState = q.PlannedState
	if q.PlannedState.IsNull() {
		return out
	}
	v := q.PlannedState.AsValueMap()
	if !v["output"].IsKnown() {
		v["output"] = v["input"]
	}
	if !v["id"].IsKnown() {
		id, err := uuid.GenerateUUID()
		if err != nil {
			out.NewState = q.PriorState
			out.Diagnostics = out.Diagnostics.Append(tfdiags.AttributeValue(tfdiags.Error, "Error generating id", err.Error(), cty.GetAttrPath("id")))
			return out
		}
		v["id"] = cty.StringVal(id)
	}
	out.NewState = cty.ObjectVal(v)
	return out
}

func (provider) ImportResourceState(_ context.Context, q providers.ImportResourceStateRequest) (out providers.ImportResourceStateResponse) {
	state, err := dataBlock().CoerceValue(cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal(q.Target.ID)}))
	if err != nil {
		out.Diagnostics = out.Diagnostics.Append(err)
		return out
	}
	out.ImportedResources = []providers.ImportedResource{{TypeName: q.TypeName, State: state}}
	return out
}

// MoveResourceState takes a null_resource over.
func (provider) MoveResourceState(_ context.Context, q providers.MoveResourceStateRequest) (out providers.MoveResourceStateResponse) {
	fail := func(err error) providers.MoveResourceStateResponse {
		out.Diagnostics = out.Diagnostics.Append(err)
		return out
	}
	if q.SourceTypeName != "null_resource" || q.TargetTypeName != dataType {
		return fail(fmt.Errorf("unsupported move: %s -> %s; only move from null_resource to %s is supported", q.SourceTypeName, q.TargetTypeName, dataType))
	}
	old, err := ctyjson.Unmarshal(q.SourceStateJSON, cty.Object(map[string]cty.Type{"id": cty.String, "triggers": cty.Map(cty.String)}))
	if err != nil {
		return fail(err)
	}
	attrs := map[string]cty.Value{"id": old.GetAttr("id")}
	if triggers := old.GetAttr("triggers"); !triggers.IsNull() {
		attrs["triggers_replace"] = cty.ObjectVal(triggers.AsValueMap())
	}
	if out.TargetState, err = dataBlock().CoerceValue(cty.ObjectVal(attrs)); err != nil {
		return fail(err)
	}
	out.TargetPrivate = q.SourcePrivate
	return out
}
