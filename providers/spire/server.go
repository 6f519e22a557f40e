package spire

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"fediversity.eu/yuba/spire/handoff"
)

// serverData is the data source spire_server: who the spire node is.
type serverData struct{ *session }

type serverModel struct {
	TrustDomain types.String `tfsdk:"trust_domain"`
	MachineID   types.String `tfsdk:"machine_id"`
	Bundle      types.String `tfsdk:"bundle"`
}

func (d *serverData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_server"
}

func (d *serverData) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.session, _ = req.ProviderData.(*session)
}

func (d *serverData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The spire node, asked once. Where it can't be reached, nothing that needs it can be planned, a destroy neither.",
		Attributes: map[string]schema.Attribute{
			"trust_domain": schema.StringAttribute{Optional: true, Computed: true,
				MarkdownDescription: "Trust domain of the SPIRE server. When given, a server of another one is an error."},
			"machine_id": schema.StringAttribute{Computed: true, MarkdownDescription: "Machine id (machine-id(5)). A machine that was set up again has another one."},
			"bundle":     schema.StringAttribute{Computed: true, MarkdownDescription: "The trust domain's X.509 authorities, in PEM."},
		},
	}
}

func (d *serverData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m serverModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.ready(); err != nil {
		resp.Diagnostics.AddError("No way to the spire node", err.Error())
		return
	}
	out, err := d.yuba(ctx, "show", nil)
	if err != nil {
		resp.Diagnostics.AddError("Cannot ask the spire node", err.Error())
		return
	}
	server, err := handoff.ParseServer(out)
	if err != nil {
		resp.Diagnostics.AddError("Cannot read the answer of the spire node", fmt.Sprintf("%s: %v. Does its login shell print something, or does it run another yuba?", d.node.Host, err))
		return
	}
	if want := m.TrustDomain.ValueString(); want != "" && want != server.TrustDomain {
		resp.Diagnostics.AddError("Another trust domain",
			fmt.Sprintf("The SPIRE server on %s is of the trust domain %s, and the configuration says %s: correct one of them.", d.node.Host, server.TrustDomain, want))
		return
	}
	m.TrustDomain, m.MachineID, m.Bundle = types.StringValue(server.TrustDomain), types.StringValue(server.MachineID), types.StringValue(server.Bundle)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
