// Package random is the provider of random values that stay the same in the state. Its types have the address,
// schema and state of those of hashicorp/random, so that a state can go from one provider to the other and back.
package random

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/hashicorp/random"

// Option is what Server takes; there are none yet.
type Option func(*randomProvider)

// Server gives a function that makes independent servers of the provider.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	p := randomProvider{version: version}
	for _, o := range opts {
		o(&p)
	}
	return func() tfprotov6.ProviderServer {
		own := p
		return quietServer{providerserver.NewProtocol6(&own)()}
	}
}

type randomProvider struct{ version string }

func (p *randomProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "random", p.version
}

func (p *randomProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{}
}

func (p *randomProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *randomProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return bytesResource{} },
		func() resource.Resource { return idResource{} },
		func() resource.Resource { return integerResource{} },
		func() resource.Resource { return passwordResource{} },
		func() resource.Resource { return petResource{} },
		func() resource.Resource { return shuffleResource{} },
		func() resource.Resource { return stringResource{} },
		func() resource.Resource { return uuidResource{} },
	}
}

func (p *randomProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		func() ephemeral.EphemeralResource { return ephemeralPassword{} },
	}
}

func (p *randomProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }
