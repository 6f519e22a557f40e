package direct

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/zclconf/go-cty/cty"
)

func (p *provider) ValidateResourceConfig(ctx context.Context, q providers.ValidateResourceConfigRequest) (out providers.ValidateResourceConfigResponse) {
	c, ctx := p.begin(ctx, "ValidateResourceConfig", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{
		TypeName:           q.TypeName,
		Config:             config,
		ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
	})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

func (p *provider) UpgradeResourceState(ctx context.Context, q providers.UpgradeResourceStateRequest) (out providers.UpgradeResourceStateResponse) {
	c, ctx := p.begin(ctx, "UpgradeResourceState", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	out.UpgradedState = cty.NullVal(c.obj.ty)
	r, err := p.server.UpgradeResourceState(ctx, &tfprotov6.UpgradeResourceStateRequest{
		TypeName: q.TypeName,
		Version:  q.Version,
		RawState: &tfprotov6.RawState{JSON: q.RawStateJSON, Flatmap: q.RawStateFlatmap},
	})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
		out.UpgradedState = c.decodeState(r.UpgradedState)
	}
	return out
}

func (p *provider) UpgradeResourceIdentity(ctx context.Context, q providers.UpgradeResourceIdentityRequest) (out providers.UpgradeResourceIdentityResponse) {
	c, ctx := p.begin(ctx, "UpgradeResourceIdentity", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	r, err := p.server.UpgradeResourceIdentity(ctx, &tfprotov6.UpgradeResourceIdentityRequest{
		TypeName:    q.TypeName,
		Version:     q.Version,
		RawIdentity: &tfprotov6.RawState{JSON: q.RawIdentityJSON},
	})
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	if out.UpgradedIdentity = c.decodeIdentity(r.UpgradedIdentity); out.UpgradedIdentity == cty.NilVal && !c.failed() {
		c.fail(errNoIdentity(q.TypeName))
	}
	return out
}

func (p *provider) ReadResource(ctx context.Context, q providers.ReadResourceRequest) (out providers.ReadResourceResponse) {
	c, ctx := p.begin(ctx, "ReadResource", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	req := &tfprotov6.ReadResourceRequest{
		TypeName:           q.TypeName,
		CurrentState:       c.encode(q.PriorState),
		Private:            bytes.Clone(q.Private),
		ProviderMeta:       c.encodeMeta(q.ProviderMeta),
		CurrentIdentity:    c.encodeIdentity(q.PriorIdentity),
		ClientCapabilities: &tfprotov6.ReadResourceClientCapabilities{},
	}
	if c.failed() {
		return out
	}
	r, err := p.server.ReadResource(ctx, req)
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.NewState = c.decodeState(r.NewState, sent{q.PriorState, req.CurrentState})
	out.Private = bytes.Clone(r.Private)
	out.NewIdentity = c.decodeIdentity(r.NewIdentity)
	c.notDeferred(r.Deferred)
	return out
}

func (p *provider) PlanResourceChange(ctx context.Context, q providers.PlanResourceChangeRequest) (out providers.PlanResourceChangeResponse) {
	c, ctx := p.begin(ctx, "PlanResourceChange", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	if q.ProposedNewState.IsNull() && !p.schemas.resp.ServerCapabilities.PlanDestroy {
		out.PlannedState, out.PlannedPrivate = q.ProposedNewState, q.PriorPrivate
		return out
	}
	req := &tfprotov6.PlanResourceChangeRequest{
		TypeName:           q.TypeName,
		PriorState:         c.encode(q.PriorState),
		ProposedNewState:   c.encode(q.ProposedNewState),
		Config:             c.encode(q.Config),
		PriorPrivate:       bytes.Clone(q.PriorPrivate),
		ProviderMeta:       c.encodeMeta(q.ProviderMeta),
		PriorIdentity:      c.encodeIdentity(q.PriorIdentity),
		ClientCapabilities: &tfprotov6.PlanResourceChangeClientCapabilities{},
	}
	if c.failed() {
		return out
	}
	r, err := p.server.PlanResourceChange(ctx, req)
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.PlannedState = c.decodeState(r.PlannedState, sent{q.PriorState, req.PriorState}, sent{q.ProposedNewState, req.ProposedNewState})
	out.PlannedPrivate = bytes.Clone(r.PlannedPrivate)
	out.PlannedIdentity = c.decodeIdentity(r.PlannedIdentity)
	//lint:ignore SA1019 it is part of the protocol, and core must know
	out.LegacyTypeSystem = r.UnsafeToUseLegacyTypeSystem
	for _, a := range r.RequiresReplace {
		out.RequiresReplace = append(out.RequiresReplace, path(a))
	}
	c.notDeferred(r.Deferred)
	return out
}

func (p *provider) ApplyResourceChange(ctx context.Context, q providers.ApplyResourceChangeRequest) (out providers.ApplyResourceChangeResponse) {
	c, ctx := p.begin(ctx, "ApplyResourceChange", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	req := &tfprotov6.ApplyResourceChangeRequest{
		TypeName:        q.TypeName,
		PriorState:      c.encode(q.PriorState),
		PlannedState:    c.encode(q.PlannedState),
		Config:          c.encode(q.Config),
		PlannedPrivate:  bytes.Clone(q.PlannedPrivate),
		ProviderMeta:    c.encodeMeta(q.ProviderMeta),
		PlannedIdentity: c.encodeIdentity(q.PlannedIdentity),
	}
	// Until the provider has answered, the object is as it was. Core would take
	// no answer to a deletion for a success.
	out.NewState, out.Private, out.NewIdentity = q.PriorState, q.PlannedPrivate, q.PlannedIdentity
	if c.failed() {
		return out
	}
	// What ends an apply early is Stop, upon which the provider still answers
	// with what it has done; a context that ends would lose the answer.
	r, err := p.server.ApplyResourceChange(context.WithoutCancel(ctx), req)
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	newState, err := decodeValue(r.NewState, c.obj.ty)
	if err != nil {
		c.fail(err)
		return out
	}
	out.NewState = newState
	if c.obj.writeOnly {
		*c.diags = c.diags.Append(writeOnlyNull(c.obj.schema.Block, newState, c.typeName))
	}
	out.Private = bytes.Clone(r.Private)
	out.NewIdentity = c.decodeIdentity(r.NewIdentity)
	//lint:ignore SA1019 it is part of the protocol, and core must know
	out.LegacyTypeSystem = r.UnsafeToUseLegacyTypeSystem
	return out
}

func (p *provider) ImportResourceState(ctx context.Context, q providers.ImportResourceStateRequest) (out providers.ImportResourceStateResponse) {
	c, ctx := p.begin(ctx, "ImportResourceState", resourceObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	req := &tfprotov6.ImportResourceStateRequest{
		TypeName:           q.TypeName,
		ClientCapabilities: &tfprotov6.ImportResourceStateClientCapabilities{},
	}
	if q.Target.IsIdentityBased() {
		if req.Identity = c.encodeIdentity(q.Target.Identity); req.Identity == nil && !c.failed() {
			c.fail(errNoIdentity(q.TypeName))
		}
	} else {
		req.ID = q.Target.ID
	}
	if c.failed() {
		return out
	}
	r, err := p.server.ImportResourceState(ctx, req)
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	for _, i := range r.ImportedResources {
		imported := providers.ImportedResource{
			TypeName: i.TypeName,
			State:    c.decodeState(i.State),
			Private:  bytes.Clone(i.Private),
			Identity: c.decodeIdentity(i.Identity),
		}
		if c.failed() {
			break
		}
		out.ImportedResources = append(out.ImportedResources, imported)
	}
	c.notDeferred(r.Deferred)
	return out
}

func (p *provider) MoveResourceState(ctx context.Context, q providers.MoveResourceStateRequest) (out providers.MoveResourceStateResponse) {
	c, ctx := p.begin(ctx, "MoveResourceState", resourceObject, q.TargetTypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	r, err := p.server.MoveResourceState(ctx, &tfprotov6.MoveResourceStateRequest{
		SourceProviderAddress: q.SourceProviderAddress,
		SourceTypeName:        q.SourceTypeName,
		SourceSchemaVersion:   int64(q.SourceSchemaVersion),
		SourceState:           &tfprotov6.RawState{JSON: q.SourceStateJSON, Flatmap: q.SourceStateFlatmap},
		SourcePrivate:         bytes.Clone(q.SourcePrivate),
		TargetTypeName:        q.TargetTypeName,
	})
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.TargetState = c.decodeState(r.TargetState)
	out.TargetPrivate = bytes.Clone(r.TargetPrivate)
	return out
}

func errNoIdentity(typeName string) error {
	return fmt.Errorf("resource type %q has no identity that the provider could be asked for", typeName)
}
