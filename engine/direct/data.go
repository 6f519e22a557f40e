package direct

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
)

func (p *provider) ValidateDataResourceConfig(ctx context.Context, q providers.ValidateDataResourceConfigRequest) (out providers.ValidateDataResourceConfigResponse) {
	c, ctx := p.begin(ctx, "ValidateDataResourceConfig", dataObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.ValidateDataResourceConfig(ctx, &tfprotov6.ValidateDataResourceConfigRequest{TypeName: q.TypeName, Config: config})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

func (p *provider) ReadDataSource(ctx context.Context, q providers.ReadDataSourceRequest) (out providers.ReadDataSourceResponse) {
	c, ctx := p.begin(ctx, "ReadDataSource", dataObject, q.TypeName, &out.Diagnostics)
	defer c.rescue()
	req := &tfprotov6.ReadDataSourceRequest{
		TypeName:           q.TypeName,
		Config:             c.encode(q.Config),
		ProviderMeta:       c.encodeMeta(q.ProviderMeta),
		ClientCapabilities: &tfprotov6.ReadDataSourceClientCapabilities{},
	}
	if c.failed() {
		return out
	}
	r, err := p.server.ReadDataSource(ctx, req)
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	out.State = c.decode(r.State)
	c.notDeferred(r.Deferred)
	return out
}
