// Package local is the provider of files on this machine. Its types have the address, schema and state of those of
// hashicorp/local, so that a state can go from one provider to the other and back.
package local

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/hashicorp/local"

// Option is what Server takes; there are none yet.
type Option func(*localProvider)

// Server gives a function that makes independent servers of the provider. Relative paths are those of the process.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	p := localProvider{version: version}
	for _, o := range opts {
		o(&p)
	}
	return func() tfprotov6.ProviderServer {
		own := p
		return providerserver.NewProtocol6(&own)()
	}
}

type localProvider struct{ version string }

func (p *localProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "local", p.version
}

func (p *localProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{}
}

func (p *localProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *localProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return fileResource{} },
		func() resource.Resource { return fileResource{sensitive: true} },
	}
}

func (p *localProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return fileData{} },
		func() datasource.DataSource { return fileData{sensitive: true} },
	}
}

func (p *localProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return dirExists{} }}
}
