package direct

import (
	"bytes"
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
)

func (p *provider) ValidateEphemeralConfig(ctx context.Context, q providers.ValidateEphemeralConfigRequest) (out providers.ValidateEphemeralConfigResponse) {
	c, ctx := p.begin(ctx, "ValidateEphemeralConfig", ephemeralObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.ValidateEphemeralResourceConfig(ctx, &tfprotov6.ValidateEphemeralResourceConfigRequest{TypeName: q.TypeName, Config: config})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

func (p *provider) OpenEphemeralResource(ctx context.Context, q providers.OpenEphemeralResourceRequest) (out providers.OpenEphemeralResourceResponse) {
	c, ctx := p.begin(ctx, "OpenEphemeralResource", ephemeralObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.OpenEphemeralResource(ctx, &tfprotov6.OpenEphemeralResourceRequest{
		TypeName:           q.TypeName,
		Config:             config,
		ClientCapabilities: &tfprotov6.OpenEphemeralResourceClientCapabilities{},
	})
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.Result = c.decode(r.Result)
	out.Private = bytes.Clone(r.Private)
	out.RenewAt = renewAt(r.RenewAt)
	c.notDeferred(r.Deferred)
	return out
}

func (p *provider) RenewEphemeralResource(ctx context.Context, q providers.RenewEphemeralResourceRequest) (out providers.RenewEphemeralResourceResponse) {
	c, ctx := p.begin(ctx, "RenewEphemeralResource", ephemeralObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	r, err := p.server.RenewEphemeralResource(ctx, &tfprotov6.RenewEphemeralResourceRequest{TypeName: q.TypeName, Private: bytes.Clone(q.Private)})
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.Private = bytes.Clone(r.Private)
	out.RenewAt = renewAt(r.RenewAt)
	return out
}

func (p *provider) CloseEphemeralResource(ctx context.Context, q providers.CloseEphemeralResourceRequest) (out providers.CloseEphemeralResourceResponse) {
	c, ctx := p.begin(ctx, "CloseEphemeralResource", ephemeralObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	if c.failed() {
		return out
	}
	r, err := p.server.CloseEphemeralResource(ctx, &tfprotov6.CloseEphemeralResourceRequest{TypeName: q.TypeName, Private: bytes.Clone(q.Private)})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

// renewAt is nil for what needs no renewal.
func renewAt(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
