package random

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	ephemeralschema "github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"golang.org/x/crypto/bcrypt"
)

// passwordResource is random_password.
type passwordResource struct{ stored }

type passwordModel struct {
	stringModel
	BcryptHash types.String `tfsdk:"bcrypt_hash"`
}

func (passwordResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_password"
}

func (passwordResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	secret := func(description string) schema.StringAttribute {
		a := result(description)
		a.Sensitive = true
		return a
	}
	attrs := recipeAttributes()
	attrs["result"] = secret("The password.")
	attrs["bcrypt_hash"] = secret("The bcrypt hash of the password's first 72 bytes.")
	attrs["id"] = schema.StringAttribute{Computed: true, MarkdownDescription: "Always `none`.", PlanModifiers: result("").PlanModifiers}
	resp.Schema = schema.Schema{
		Version:             3,
		MarkdownDescription: "A random password that is made once and kept in the state. One that is in no state is the ephemeral `random_password`.",
		Attributes:          attrs,
	}
}

func (passwordResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m passwordModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...)
}

func (passwordResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m passwordModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...) // once more: values may have been unknown
	if resp.Diagnostics.HasError() {
		return
	}
	m.make()
	m.ID = types.StringValue("none")
	m.BcryptHash = bcryptHash(m.Result)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// ImportState takes the password itself.
func (passwordResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	m := passwordModel{stringModel: importedString(req.ID)}
	m.ID = types.StringValue("none")
	m.BcryptHash = bcryptHash(m.Result)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// UpgradeState reads the states of old releases: version 0 had no hash, releases 3.4.0 to 3.4.2 wrote a wrong one.
func (passwordResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	upgrade := resource.StateUpgrader{StateUpgrader: func(ctx context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
		old, hash, ok := oldString(req.RawState, &resp.Diagnostics)
		if !ok {
			return
		}
		if bcrypt.CompareHashAndPassword([]byte(hash.ValueString()), hashed(old.Result)) != nil {
			hash = bcryptHash(old.Result)
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &passwordModel{stringModel: old, BcryptHash: hash})...)
	}}
	return map[int64]resource.StateUpgrader{0: upgrade, 1: upgrade, 2: upgrade}
}

// hashed is the part of the password that bcrypt takes.
func hashed(password types.String) []byte {
	b := []byte(password.ValueString())
	return b[:min(len(b), 72)]
}

func bcryptHash(password types.String) types.String {
	hash, err := bcrypt.GenerateFromPassword(hashed(password), bcrypt.DefaultCost)
	if err != nil {
		panic(err) // only for more than 72 bytes or another cost
	}
	return types.StringValue(string(hash))
}

// ephemeralPassword is the ephemeral random_password: a new one each time, in no plan and no state.
type ephemeralPassword struct{}

type ephemeralPasswordModel struct {
	recipe
	BcryptHash types.String `tfsdk:"bcrypt_hash"`
}

func (ephemeralPassword) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_password"
}

func (ephemeralPassword) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	attrs := map[string]ephemeralschema.Attribute{
		"result":      ephemeralschema.StringAttribute{Computed: true, Sensitive: true},
		"bcrypt_hash": ephemeralschema.StringAttribute{Computed: true, Sensitive: true},
	}
	// The settings are those of the resource; they differ in the package that their Go types are from.
	for name, a := range recipeAttributes() {
		switch {
		case name == "keepers" || name == "number":
			continue
		case a.GetType() == types.BoolType:
			attrs[name] = ephemeralschema.BoolAttribute{Optional: true, Computed: true, MarkdownDescription: a.GetMarkdownDescription()}
		case a.GetType() == types.Int64Type:
			attrs[name] = ephemeralschema.Int64Attribute{Required: a.IsRequired(), Optional: a.IsOptional(), Computed: a.IsComputed(), MarkdownDescription: a.GetMarkdownDescription()}
		default:
			attrs[name] = ephemeralschema.StringAttribute{Optional: true, MarkdownDescription: a.GetMarkdownDescription()}
		}
	}
	resp.Schema = ephemeralschema.Schema{
		MarkdownDescription: "A random password that is in no plan and no state, for write-only attributes.",
		Attributes:          attrs,
	}
}

func (ephemeralPassword) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var m ephemeralPasswordModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...)
}

func (ephemeralPassword) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m ephemeralPasswordModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	m.setDefaults()
	resp.Diagnostics.Append(m.check()...)
	if resp.Diagnostics.HasError() {
		return
	}
	m.make()
	m.BcryptHash = bcryptHash(m.Result)
	resp.Diagnostics.Append(resp.Result.Set(ctx, &m)...)
}
