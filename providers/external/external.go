// Package external is the provider of data that programs of the user give. Its data source has the address, schema and
// protocol of that of hashicorp/external. It's the one provider that starts processes, and only those that the
// configuration names.
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/hashicorp/external"

// Option is what Server takes; there are none yet.
type Option func(*externalProvider)

// Server gives a function that makes independent servers of the provider. Programs run with the environment and, unless
// the configuration says another, in the directory of the process.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	p := externalProvider{version: version}
	for _, o := range opts {
		o(&p)
	}
	return func() tfprotov6.ProviderServer {
		own := p
		return providerserver.NewProtocol6(&own)()
	}
}

type externalProvider struct{ version string }

func (p *externalProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "external", p.version
}

func (p *externalProvider) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {
}

func (p *externalProvider) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (p *externalProvider) Resources(context.Context) []func() resource.Resource { return nil }

func (p *externalProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return externalData{} }}
}

// externalData is the data source external.
type externalData struct{}

type externalModel struct {
	Program    types.List   `tfsdk:"program"`
	WorkingDir types.String `tfsdk:"working_dir"`
	Query      types.Map    `tfsdk:"query"`
	Result     types.Map    `tfsdk:"result"`
	ID         types.String `tfsdk:"id"`
}

func (externalData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName
}

func (externalData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "What a program of yours answers. The program gets `query` as a JSON object on its standard input, and writes a JSON object " +
			"whose values are strings to its standard output. If it fails, it exits with another status than 0, and says why on its standard error.",
		Attributes: map[string]schema.Attribute{
			"program": schema.ListAttribute{Required: true, ElementType: types.StringType,
				MarkdownDescription: "The program and its arguments; there is no shell. A name without a slash is looked for in PATH."},
			"working_dir": schema.StringAttribute{Optional: true, MarkdownDescription: "The directory to run it in. Default is the current one."},
			"query":       schema.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "What to ask. Null values are left out."},
			"result":      schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What the program answers."},
			"id":          schema.StringAttribute{Computed: true, MarkdownDescription: "Always `-`."},
		},
	}
}

func (externalData) ValidateConfig(ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse) {
	var m externalModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if !m.Program.IsNull() && !m.Program.IsUnknown() && len(m.Program.Elements()) == 0 {
		resp.Diagnostics.AddAttributeError(path.Root("program"), "Invalid Attribute Value", "program must have at least one element, the program.")
	}
}

func (externalData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m externalModel
	var program []types.String
	var query map[string]types.String
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(m.Program.ElementsAs(ctx, &program, false)...)
	resp.Diagnostics.Append(m.Query.ElementsAs(ctx, &query, false)...)
	if resp.Diagnostics.HasError() {
		return
	}
	fail := func(summary, format string, args ...any) {
		resp.Diagnostics.AddAttributeError(path.Root("program"), summary, fmt.Sprintf(format, args...))
	}
	var argv []string
	for _, a := range program {
		if s := a.ValueString(); s != "" { // empty arguments are left out, as hashicorp/external does
			argv = append(argv, s)
		}
	}
	if len(argv) == 0 {
		fail("External Program Missing", "All elements of program are empty. Name a program.")
		return
	}
	asked := map[string]string{}
	for k, v := range query {
		if !v.IsNull() {
			asked[k] = v.ValueString()
		}
	}
	stdin, err := json.Marshal(asked)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("query"), "Query Handling Failed", err.Error())
		return
	}
	// A program that only PATH's current directory has is run too, as hashicorp/external does.
	if _, err := exec.LookPath(argv[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		fail("External Program Lookup Failed", "The program can't be run. Is it installed and executable? If it's a file of the module, name it by "+
			"\"${path.module}/NAME\".\n\nProgram: %s\nError: %s", argv[0], err)
		return
	}
	stdout, stderr, err := run(ctx, argv, m.WorkingDir.ValueString(), stdin)
	if err != nil {
		said := "The program has said nothing on its standard error."
		if stderr != "" {
			said = "Error Message: " + stderr
		}
		fail("External Program Execution Failed", "The program has failed.\n\nProgram: %s\n%s\nState: %s", argv[0], said, err)
		return
	}
	answer, err := decode(stdout)
	if err != nil {
		fail("Unexpected External Program Results", "The program must write a JSON object whose values are strings.\n\nProgram: %s\nResult Error: %s", argv[0], err)
		return
	}
	result, diags := types.MapValueFrom(ctx, types.StringType, answer)
	resp.Diagnostics.Append(diags...)
	m.Result, m.ID = result, types.StringValue("-")
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// decode reads what a program answers. Its errors don't quote values, which may be secrets.
func decode(stdout []byte) (map[string]string, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(stdout, &raw); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, errors.New("the output is JSON, but no object")
		}
		return nil, err
	}
	if raw == nil {
		return nil, nil // null is no result
	}
	answer := make(map[string]string, len(raw))
	for k, v := range raw {
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return nil, fmt.Errorf("the value of %.100q is no string", k)
		}
		answer[k] = s
	}
	return answer, nil
}
