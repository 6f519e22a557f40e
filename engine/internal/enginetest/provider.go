package enginetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
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
	"github.com/hashicorp/terraform-plugin-log/tflog"
)

// Address is the provider's.
const Address = "registry.opentofu.org/example/lab"

// Lab is the provider. Its resource is lab_thing, its data source lab_echo, its
// ephemeral resource lab_token, and its function upper.
type Lab struct {
	// On, if set, is called at the start of each method that is about an object,
	// with the object's name ("" if the method doesn't know it). It may panic.
	On func(ctx context.Context, method, name string) error

	mu      sync.Mutex
	schemas int
	tokens  []string
}

// Server makes a server of the provider.
func (l *Lab) Server() tfprotov6.ProviderServer {
	return providerserver.NewProtocol6(&labProvider{l})()
}

// Schemas is how often the resource's schema was asked for.
func (l *Lab) Schemas() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.schemas
}

// Tokens are the values of the write-only attribute that the provider was given
// to create and update objects.
func (l *Lab) Tokens() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.tokens...)
}

func (l *Lab) on(ctx context.Context, method string, name types.String) error {
	if l.On == nil {
		return nil
	}
	return l.On(ctx, method, name.ValueString())
}

type labProvider struct{ lab *Lab }

func (*labProvider) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName, r.Version = "lab", "0.1.0"
}

func (*labProvider) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{"region": schema.StringAttribute{Optional: true}}}
}

func (p *labProvider) Configure(ctx context.Context, _ provider.ConfigureRequest, r *provider.ConfigureResponse) {
	if err := p.lab.on(ctx, "Configure", types.StringNull()); err != nil {
		r.Diagnostics.AddError("configure failed", err.Error())
	}
}

func (p *labProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &thing{p.lab} }}
}

func (p *labProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return &echo{p.lab} }}
}

func (p *labProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return &token{p.lab} }}
}

func (p *labProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return &upper{p.lab} }}
}

type thing struct{ lab *Lab }

type thingModel struct {
	ID     types.String  `tfsdk:"id"`
	Name   types.String  `tfsdk:"name"`
	Size   types.Int64   `tfsdk:"size"`
	Secret types.String  `tfsdk:"secret"`
	Token  types.String  `tfsdk:"token"`
	Tags   types.Map     `tfsdk:"tags"`
	Any    types.Dynamic `tfsdk:"any"`
	Spec   *specModel    `tfsdk:"spec"`
}

type specModel struct {
	Image types.String `tfsdk:"image"`
	Ports types.List   `tfsdk:"ports"`
}

func (*thing) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "lab_thing"
}

func (t *thing) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	t.lab.mu.Lock()
	t.lab.schemas++
	t.lab.mu.Unlock()
	r.Schema = rschema.Schema{Attributes: map[string]rschema.Attribute{
		"id":     rschema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
		"name":   rschema.StringAttribute{Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
		"size":   rschema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(1)},
		"secret": rschema.StringAttribute{Optional: true, Sensitive: true},
		"token":  rschema.StringAttribute{Optional: true, WriteOnly: true},
		"tags":   rschema.MapAttribute{Optional: true, ElementType: types.StringType},
		"any":    rschema.DynamicAttribute{Optional: true},
		"spec": rschema.SingleNestedAttribute{Optional: true, Attributes: map[string]rschema.Attribute{
			"image": rschema.StringAttribute{Required: true},
			"ports": rschema.ListAttribute{Optional: true, ElementType: types.Int64Type},
		}},
	}}
}

func (*thing) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, r *resource.IdentitySchemaResponse) {
	r.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"name": identityschema.StringAttribute{RequiredForImport: true},
	}}
}

func (t *thing) ValidateConfig(ctx context.Context, q resource.ValidateConfigRequest, r *resource.ValidateConfigResponse) {
	var name types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	if err := t.lab.on(ctx, "Validate", name); err != nil {
		r.Diagnostics.AddAttributeError(path.Root("name"), "invalid thing", err.Error())
	}
	var size types.Int64
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("size"), &size)...)
	if size.ValueInt64() > 100 {
		r.Diagnostics.AddAttributeWarning(path.Root("size"), "large thing", "Things larger than 100 are slow.")
	}
}

func (t *thing) ModifyPlan(ctx context.Context, q resource.ModifyPlanRequest, r *resource.ModifyPlanResponse) {
	var name types.String
	if !q.Plan.Raw.IsNull() {
		r.Diagnostics.Append(q.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	} else {
		r.Diagnostics.Append(q.State.GetAttribute(ctx, path.Root("name"), &name)...)
	}
	if err := t.lab.on(ctx, "Plan", name); err != nil {
		r.Diagnostics.AddError("plan failed", err.Error())
	}
}

func (t *thing) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m thingModel
	if r.Diagnostics.Append(q.Plan.Get(ctx, &m)...); r.Diagnostics.HasError() {
		return
	}
	tflog.Debug(ctx, "making a thing", map[string]any{"name": m.Name.ValueString()})
	if err := t.lab.on(ctx, "Create", m.Name); err != nil {
		r.Diagnostics.AddError("create failed", err.Error())
		return
	}
	var config thingModel
	r.Diagnostics.Append(q.Config.Get(ctx, &config)...)
	t.lab.note(config.Token)
	m.ID = types.StringValue("thing-" + m.Name.ValueString())
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), m.Name)...)
	r.Diagnostics.Append(r.Private.SetKey(ctx, "made", []byte(`"here"`))...)
}

func (l *Lab) note(token types.String) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = append(l.tokens, token.ValueString())
}

func (t *thing) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var name types.String
	r.Diagnostics.Append(q.State.GetAttribute(ctx, path.Root("name"), &name)...)
	if err := t.lab.on(ctx, "Read", name); err != nil {
		r.Diagnostics.AddError("read failed", err.Error())
		return
	}
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), name)...)
	made, diags := q.Private.GetKey(ctx, "made")
	r.Diagnostics.Append(diags...)
	if string(made) != `"here"` && string(made) != `"imported"` {
		r.Diagnostics.AddError("private state lost", fmt.Sprintf("%s has %q", name.ValueString(), made))
	}
}

func (t *thing) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m, config thingModel
	if r.Diagnostics.Append(q.Plan.Get(ctx, &m)...); r.Diagnostics.HasError() {
		return
	}
	if err := t.lab.on(ctx, "Update", m.Name); err != nil {
		r.Diagnostics.AddError("update failed", err.Error())
		return
	}
	r.Diagnostics.Append(q.Config.Get(ctx, &config)...)
	t.lab.note(config.Token)
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), m.Name)...)
}

func (t *thing) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var name types.String
	r.Diagnostics.Append(q.State.GetAttribute(ctx, path.Root("name"), &name)...)
	if err := t.lab.on(ctx, "Delete", name); err != nil {
		r.Diagnostics.AddError("delete failed", err.Error())
	}
}

func (t *thing) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	id := q.ID
	if id == "" {
		var name types.String
		r.Diagnostics.Append(q.Identity.GetAttribute(ctx, path.Root("name"), &name)...)
		id = name.ValueString()
	}
	if err := t.lab.on(ctx, "Import", types.StringValue(id)); err != nil {
		r.Diagnostics.AddError("import failed", err.Error())
		return
	}
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("id"), "thing-"+id)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("name"), id)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("size"), int64(1))...)
	r.Diagnostics.Append(r.Identity.SetAttribute(ctx, path.Root("name"), id)...)
	r.Diagnostics.Append(r.Private.SetKey(ctx, "made", []byte(`"imported"`))...)
}

type echo struct{ lab *Lab }

func (*echo) Metadata(_ context.Context, _ datasource.MetadataRequest, r *datasource.MetadataResponse) {
	r.TypeName = "lab_echo"
}

func (*echo) Schema(_ context.Context, _ datasource.SchemaRequest, r *datasource.SchemaResponse) {
	r.Schema = dschema.Schema{Attributes: map[string]dschema.Attribute{
		"say":   dschema.StringAttribute{Required: true},
		"heard": dschema.StringAttribute{Computed: true},
	}}
}

func (e *echo) Read(ctx context.Context, q datasource.ReadRequest, r *datasource.ReadResponse) {
	var say types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("say"), &say)...)
	if err := e.lab.on(ctx, "ReadData", say); err != nil {
		r.Diagnostics.AddError("echo failed", err.Error())
		return
	}
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("say"), say)...)
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("heard"), say)...)
}

type token struct{ lab *Lab }

func (*token) Metadata(_ context.Context, _ ephemeral.MetadataRequest, r *ephemeral.MetadataResponse) {
	r.TypeName = "lab_token"
}

func (*token) Schema(_ context.Context, _ ephemeral.SchemaRequest, r *ephemeral.SchemaResponse) {
	r.Schema = eschema.Schema{Attributes: map[string]eschema.Attribute{
		"value": eschema.StringAttribute{Required: true},
		"token": eschema.StringAttribute{Computed: true},
	}}
}

func (t *token) Open(ctx context.Context, q ephemeral.OpenRequest, r *ephemeral.OpenResponse) {
	var value types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("value"), &value)...)
	if err := t.lab.on(ctx, "Open", value); err != nil {
		r.Diagnostics.AddError("open failed", err.Error())
		return
	}
	r.Diagnostics.Append(r.Result.SetAttribute(ctx, path.Root("value"), value)...)
	r.Diagnostics.Append(r.Result.SetAttribute(ctx, path.Root("token"), "t-"+value.ValueString())...)
	r.Diagnostics.Append(r.Private.SetKey(ctx, "open", []byte(`true`))...)
}

func (t *token) Close(ctx context.Context, q ephemeral.CloseRequest, r *ephemeral.CloseResponse) {
	open, diags := q.Private.GetKey(ctx, "open")
	r.Diagnostics.Append(diags...)
	if err := t.lab.on(ctx, "Close", types.StringValue(string(open))); err != nil {
		r.Diagnostics.AddError("close failed", err.Error())
	}
}

type upper struct{ lab *Lab }

func (*upper) Metadata(_ context.Context, _ function.MetadataRequest, r *function.MetadataResponse) {
	r.Name = "upper"
}

func (*upper) Definition(_ context.Context, _ function.DefinitionRequest, r *function.DefinitionResponse) {
	r.Definition = function.Definition{
		Summary:           "letters in upper case",
		Parameters:        []function.Parameter{function.StringParameter{Name: "text"}},
		VariadicParameter: function.StringParameter{Name: "more"},
		Return:            function.StringReturn{},
	}
}

func (u *upper) Run(ctx context.Context, q function.RunRequest, r *function.RunResponse) {
	var text string
	var more []string
	if r.Error = q.Arguments.Get(ctx, &text, &more); r.Error != nil {
		return
	}
	if err := u.lab.on(ctx, "Function", types.StringValue(text)); err != nil {
		r.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	for _, m := range more {
		text += m
	}
	out := []byte(text)
	for i, b := range out {
		if 'a' <= b && b <= 'z' {
			out[i] = b - 32
		}
	}
	r.Error = r.Result.Set(ctx, string(out))
}
