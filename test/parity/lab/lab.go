// Package lab is a provider that keeps nothing: what its objects are is in the
// state alone. It has what the well-known small providers don't have, and it
// fails where it is told to.
//
// An object named fail-plan, fail-create, fail-update, fail-read or
// fail-delete fails there; one whose name begins with gone- is found to be
// gone by each read, and one whose name begins with drift- to have grown.
package lab

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	eschema "github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	rschema "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Address is the provider's.
const Address = "registry.opentofu.org/example/lab"

// Server makes a server of the provider.
func Server() tfprotov6.ProviderServer { return providerserver.NewProtocol6(&labProvider{})() }

type labProvider struct{ region string }

func (*labProvider) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName, r.Version = "lab", "0.1.0"
}

func (*labProvider) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"region":   schema.StringAttribute{Optional: true},
		"old":      schema.StringAttribute{Optional: true, DeprecationMessage: "Use region."},
		"password": schema.StringAttribute{Optional: true, Sensitive: true},
	}}
}

func (p *labProvider) Configure(ctx context.Context, q provider.ConfigureRequest, r *provider.ConfigureResponse) {
	var region types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("region"), &region)...)
	if p.region = region.ValueString(); p.region == "nowhere" {
		r.Diagnostics.AddAttributeError(path.Root("region"), "No such region", "There is no region nowhere.")
	}
	if region.IsNull() {
		p.region = "home"
	}
	r.ResourceData, r.DataSourceData = p, p
}

func (*labProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &thing{} }}
}

func (*labProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return &echo{} }}
}

func (*labProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return token{} }}
}

func (*labProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return upper{} }}
}

type thing struct{ region string }

type thingModel struct {
	ID      types.String  `tfsdk:"id"`
	Name    types.String  `tfsdk:"name"`
	Size    types.Int64   `tfsdk:"size"`
	Region  types.String  `tfsdk:"region"`
	Secret  types.String  `tfsdk:"secret"`
	Token   types.String  `tfsdk:"token"`
	Version types.Int64   `tfsdk:"token_version"`
	Tags    types.Map     `tfsdk:"tags"`
	Any     types.Dynamic `tfsdk:"any"`
	Spec    *specModel    `tfsdk:"spec"`
	Later   types.String  `tfsdk:"later"`
	Old     types.String  `tfsdk:"old"`
	Rules   []ruleModel   `tfsdk:"rule"`
	Ports   types.Set     `tfsdk:"port"`
}

type specModel struct {
	Image types.String `tfsdk:"image"`
	Ports types.List   `tfsdk:"ports"`
}

type ruleModel struct {
	From types.String `tfsdk:"from"`
	Key  types.String `tfsdk:"key"`
}

func (*thing) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "lab_thing"
}

func (t *thing) Configure(_ context.Context, q resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if p, ok := q.ProviderData.(*labProvider); ok {
		t.region = p.region
	}
}

func (*thing) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	stays := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	r.Schema = rschema.Schema{
		Version:             1,
		MarkdownDescription: "A thing that is only in the state.",
		Attributes: map[string]rschema.Attribute{
			"id":            rschema.StringAttribute{Computed: true, PlanModifiers: stays},
			"name":          rschema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
			"size":          rschema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(1)},
			"region":        rschema.StringAttribute{Computed: true, PlanModifiers: stays},
			"secret":        rschema.StringAttribute{Optional: true, Sensitive: true},
			"token":         rschema.StringAttribute{Optional: true, WriteOnly: true},
			"token_version": rschema.Int64Attribute{Optional: true},
			"tags":          rschema.MapAttribute{Optional: true, ElementType: types.StringType},
			"any":           rschema.DynamicAttribute{Optional: true},
			"spec": rschema.SingleNestedAttribute{Optional: true, Attributes: map[string]rschema.Attribute{
				"image": rschema.StringAttribute{Required: true},
				"ports": rschema.ListAttribute{Optional: true, ElementType: types.Int64Type},
			}},
			"later": rschema.StringAttribute{Computed: true, Description: "changes with each update"},
			"old":   rschema.StringAttribute{Optional: true, DeprecationMessage: "Use name."},
		},
		Blocks: map[string]rschema.Block{
			"rule": rschema.ListNestedBlock{NestedObject: rschema.NestedBlockObject{Attributes: map[string]rschema.Attribute{
				"from": rschema.StringAttribute{Required: true},
				"key":  rschema.StringAttribute{Optional: true, Sensitive: true},
			}}},
			"port": rschema.SetNestedBlock{NestedObject: rschema.NestedBlockObject{Attributes: map[string]rschema.Attribute{
				"number": rschema.Int64Attribute{Required: true},
			}}},
		},
	}
}

func (*thing) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, r *resource.IdentitySchemaResponse) {
	r.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"name": identityschema.StringAttribute{RequiredForImport: true},
	}}
}

func (*thing) ValidateConfig(ctx context.Context, q resource.ValidateConfigRequest, r *resource.ValidateConfigResponse) {
	var size types.Int64
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("size"), &size)...)
	if size.ValueInt64() > 100 {
		r.Diagnostics.AddAttributeWarning(path.Root("size"), "Large thing", "Things larger than 100 are slow.")
	}
	if size.ValueInt64() < 0 {
		r.Diagnostics.AddAttributeError(path.Root("size"), "Negative thing", "A thing has at least the size 0.")
	}
}

func fail(d *diag.Diagnostics, name types.String, at string) {
	if name.ValueString() == "fail-"+at {
		d.AddError("Failed to "+at, fmt.Sprintf("The thing was told to fail at %s.\n\n  - and to say so\n  - on several lines", at))
	}
}

func (*thing) ModifyPlan(ctx context.Context, q resource.ModifyPlanRequest, r *resource.ModifyPlanResponse) {
	if q.Plan.Raw.IsNull() {
		return
	}
	var name types.String
	r.Diagnostics.Append(q.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	fail(&r.Diagnostics, name, "plan")
}

func (t *thing) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m, config thingModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	r.Diagnostics.Append(q.Config.Get(ctx, &config)...)
	if fail(&r.Diagnostics, m.Name, "create"); r.Diagnostics.HasError() {
		return
	}
	m.ID, m.Region = types.StringValue("thing-"+m.Name.ValueString()), types.StringValue(t.region)
	m.Later = types.StringValue(fmt.Sprintf("made with a token of %d bytes", len(config.Token.ValueString())))
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), m.Name)...)
	r.Diagnostics.Append(r.Private.SetKey(ctx, "made", []byte(`"here"`))...)
	if m.Name.ValueString() == "half" {
		r.Diagnostics.AddError("Half made", "The thing is there, but it is not right.")
	}
}

func (*thing) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var m thingModel
	if r.Diagnostics.Append(q.State.Get(ctx, &m)...); r.Diagnostics.HasError() {
		return
	}
	name := m.Name.ValueString()
	switch fail(&r.Diagnostics, m.Name, "read"); {
	case strings.HasPrefix(name, "gone-"):
		r.State.RemoveResource(ctx)
		return
	case strings.HasPrefix(name, "drift-"):
		r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("size"), m.Size.ValueInt64()+1)...)
	}
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), m.Name)...)
}

func (*thing) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m, config thingModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	r.Diagnostics.Append(q.Config.Get(ctx, &config)...)
	if fail(&r.Diagnostics, m.Name, "update"); r.Diagnostics.HasError() {
		return
	}
	m.Later = types.StringValue(fmt.Sprintf("changed with a token of %d bytes", len(config.Token.ValueString())))
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), m.Name)...)
}

func (*thing) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var name types.String
	r.Diagnostics.Append(q.State.GetAttribute(ctx, path.Root("name"), &name)...)
	fail(&r.Diagnostics, name, "delete")
}

func (*thing) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	name := q.ID
	if name == "" {
		var s types.String
		r.Diagnostics.Append(q.Identity.GetAttribute(ctx, path.Root("name"), &s)...)
		name = s.ValueString()
	}
	if fail(&r.Diagnostics, types.StringValue(name), "import"); r.Diagnostics.HasError() {
		return
	}
	for attribute, value := range map[string]any{"id": "thing-" + name, "name": name, "size": int64(1), "region": "home", "later": "imported"} {
		r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root(attribute), value)...)
	}
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), name)...)
}

type echo struct{ region string }

func (*echo) Metadata(_ context.Context, _ datasource.MetadataRequest, r *datasource.MetadataResponse) {
	r.TypeName = "lab_echo"
}

func (e *echo) Configure(_ context.Context, q datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if p, ok := q.ProviderData.(*labProvider); ok {
		e.region = p.region
	}
}

func (*echo) Schema(_ context.Context, _ datasource.SchemaRequest, r *datasource.SchemaResponse) {
	r.Schema = dschema.Schema{Attributes: map[string]dschema.Attribute{
		"say":    dschema.StringAttribute{Required: true},
		"heard":  dschema.StringAttribute{Computed: true},
		"region": dschema.StringAttribute{Computed: true},
	}}
}

func (e *echo) Read(ctx context.Context, q datasource.ReadRequest, r *datasource.ReadResponse) {
	var say types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("say"), &say)...)
	if say.ValueString() == "fail" {
		r.Diagnostics.AddAttributeError(path.Root("say"), "No echo", "There is no echo here.")
		return
	}
	if say.ValueString() == "warn" {
		r.Diagnostics.AddWarning("Faint echo", "One can hardly hear it.")
	}
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("say"), say)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("heard"), say)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("region"), e.region)...)
}

type token struct{}

func (token) Metadata(_ context.Context, _ ephemeral.MetadataRequest, r *ephemeral.MetadataResponse) {
	r.TypeName = "lab_token"
}

func (token) Schema(_ context.Context, _ ephemeral.SchemaRequest, r *ephemeral.SchemaResponse) {
	r.Schema = eschema.Schema{Attributes: map[string]eschema.Attribute{
		"value": eschema.StringAttribute{Required: true},
		"token": eschema.StringAttribute{Computed: true},
	}}
}

func (token) Open(ctx context.Context, q ephemeral.OpenRequest, r *ephemeral.OpenResponse) {
	var value types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("value"), &value)...)
	if fail(&r.Diagnostics, value, "open"); r.Diagnostics.HasError() {
		return
	}
	r.Diagnostics.Append(r.Result.SetAttribute(ctx, path.Root("value"), value)...)
	r.Diagnostics.Append(r.Result.SetAttribute(ctx, path.Root("token"), "token of "+value.ValueString())...)
}

type upper struct{}

func (upper) Metadata(_ context.Context, _ function.MetadataRequest, r *function.MetadataResponse) {
	r.Name = "upper"
}

func (upper) Definition(_ context.Context, _ function.DefinitionRequest, r *function.DefinitionResponse) {
	r.Definition = function.Definition{
		Summary:           "letters in upper case",
		Parameters:        []function.Parameter{function.StringParameter{Name: "text"}},
		VariadicParameter: function.StringParameter{Name: "more"},
		Return:            function.StringReturn{},
	}
}

func (upper) Run(ctx context.Context, q function.RunRequest, r *function.RunResponse) {
	var text string
	var more []string
	if r.Error = q.Arguments.Get(ctx, &text, &more); r.Error != nil {
		return
	}
	if text == "" {
		r.Error = function.NewArgumentFuncError(0, "there is nothing to write in upper case")
		return
	}
	r.Error = r.Result.Set(ctx, strings.ToUpper(text+strings.Join(more, "")))
}
