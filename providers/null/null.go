// Package null is the provider of resources that do nothing. Its types have the address, schema and state of those of
// hashicorp/null, so that a state can go from one provider to the other and back.
package null

import (
	"context"
	"math/rand"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/internal/keepers"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/hashicorp/null"

// Option is what Server takes; there are none yet.
type Option func(*nullProvider)

// Server gives a function that makes independent servers of the provider.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	p := nullProvider{version: version}
	for _, o := range opts {
		o(&p)
	}
	return func() tfprotov6.ProviderServer {
		own := p
		return providerserver.NewProtocol6(&own)()
	}
}

type nullProvider struct{ version string }

func (p *nullProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "null", p.version
}

func (p *nullProvider) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (p *nullProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *nullProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return nullResource{} }}
}

func (p *nullProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return nullDataSource{} }}
}

// nullResource is null_resource.
type nullResource struct{}

type nullModel struct {
	ID       types.String `tfsdk:"id"`
	Triggers types.Map    `tfsdk:"triggers"`
}

func (nullResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_resource"
}

func (nullResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A resource that does nothing, to have provisioners. The built-in `terraform_data` is newer and does the same.",
		Attributes: map[string]schema.Attribute{
			"triggers": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Values that, when one changes, replace the resource, so that its provisioners run again.",
				PlanModifiers:       []planmodifier.Map{keepers.RequiresReplace()}},
			"id": schema.StringAttribute{Computed: true, MarkdownDescription: "A random number.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
		},
	}
}

func (nullResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m nullModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m.ID = number()
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// Read has nothing to ask.
func (nullResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update happens when only null values of triggers come or go.
func (nullResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete has nothing to remove.
func (nullResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// number is a random one that is not negative.
func number() types.String { return types.StringValue(strconv.Itoa(rand.Int())) }

// nullDataSource is null_data_source.
type nullDataSource struct{}

type nullData struct {
	Inputs  types.Map    `tfsdk:"inputs"`
	Outputs types.Map    `tfsdk:"outputs"`
	Random  types.String `tfsdk:"random"`
	Default types.String `tfsdk:"has_computed_default"`
	ID      types.String `tfsdk:"id"`
}

func (nullDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_data_source"
}

func (nullDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = dataschema.Schema{
		MarkdownDescription: "A data source that gives back what it's given.",
		DeprecationMessage:  "Use locals or the built-in terraform_data instead of null_data_source.",
		Attributes: map[string]dataschema.Attribute{
			"inputs":  dataschema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Any values."},
			"outputs": dataschema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The same values."},
			"random":  dataschema.StringAttribute{Computed: true, MarkdownDescription: "A random number, a new one at each read."},
			"has_computed_default": dataschema.StringAttribute{Optional: true, Computed: true,
				MarkdownDescription: "Any value. Default is `default`."},
			"id": dataschema.StringAttribute{Computed: true, MarkdownDescription: "Always `static`.",
				DeprecationMessage: "The id says nothing; don't use it."},
		},
	}
}

func (nullDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m nullData
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m.Outputs, m.Random, m.ID = m.Inputs, number(), types.StringValue("static")
	if m.Default.IsNull() {
		m.Default = types.StringValue("default")
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
