package random

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// stringResource is random_string.
type stringResource struct{ stored }

type stringModel struct {
	recipe
	ID      types.String `tfsdk:"id"`
	Keepers types.Map    `tfsdk:"keepers"`
	Number  types.Bool   `tfsdk:"number"`
}

func (stringResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_string"
}

func (stringResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attrs := recipeAttributes()
	attrs["result"] = result("The string.")
	attrs["id"] = result("The string.")
	resp.Schema = schema.Schema{
		Version:             2,
		MarkdownDescription: "A random string that is made once and kept in the state. For secrets use `random_password`.",
		Attributes:          attrs,
	}
}

// recipeAttributes are the settings that random_string and random_password share.
func recipeAttributes() map[string]schema.Attribute {
	use := func(what string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the result can have " + what + ". Default is `true`.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()}}
	}
	number := func(what, deprecation string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, DeprecationMessage: deprecation, MarkdownDescription: what,
			PlanModifiers: []planmodifier.Bool{sameNumber{}, boolplanmodifier.RequiresReplace()}}
	}
	least := func(what string) schema.Int64Attribute {
		return schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(0),
			MarkdownDescription: "The least number of " + what + " in the result. Default is `0`.",
			PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()}}
	}
	return map[string]schema.Attribute{
		"keepers": keepers(),
		"length": schema.Int64Attribute{Required: true,
			MarkdownDescription: "The number of characters, at least 1 and at least `min_upper` + `min_lower` + `min_numeric` + `min_special`.",
			PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
		"special":     use("special characters: `" + specials + "`, or those of `override_special`"),
		"upper":       use("upper case letters"),
		"lower":       use("lower case letters"),
		"number":      number("The old name of `numeric`.", "Use numeric, which is the same."),
		"numeric":     number("Whether the result can have digits. Default is `true`.", ""),
		"min_numeric": least("digits"),
		"min_upper":   least("upper case letters"),
		"min_lower":   least("lower case letters"),
		"min_special": least("special characters"),
		"override_special": schema.StringAttribute{Optional: true,
			MarkdownDescription: "The special characters to use instead of the default ones.",
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplaceIf(overrideChanged,
				"Replaces the resource, unless \"\" becomes null.", "Replaces the resource, unless `\"\"` becomes `null`.")}},
	}
}

// overrideChanged ignores that "" becomes null: release 3.4.2 of hashicorp/random wrote "" for null.
func overrideChanged(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	switch {
	case req.ConfigValue.IsUnknown():
	case req.ConfigValue.IsNull() && !req.StateValue.IsNull() && req.StateValue.ValueString() == "":
	default:
		resp.RequiresReplace = true
	}
}

// sameNumber plans number and numeric, which are one setting: true if the configuration has neither.
type sameNumber struct{}

func (sameNumber) Description(context.Context) string { return "number and numeric are the same." }
func (sameNumber) MarkdownDescription(context.Context) string {
	return "`number` and `numeric` are the same."
}

func (sameNumber) PlanModifyBool(ctx context.Context, req planmodifier.BoolRequest, resp *planmodifier.BoolResponse) {
	if !req.ConfigValue.IsNull() {
		return
	}
	other := path.Root("number")
	if req.Path.Equal(other) {
		other = path.Root("numeric")
	}
	var value types.Bool
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, other, &value)...)
	if value.IsNull() {
		value = types.BoolValue(true)
	}
	resp.PlanValue = value
}

func (stringResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m stringModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...)
}

// check is that of the recipe, and that number isn't another than numeric.
func (m *stringModel) check() diag.Diagnostics {
	known := func(b types.Bool) bool { return !b.IsNull() && !b.IsUnknown() }
	if known(m.Number) && known(m.Numeric) && !m.Number.Equal(m.Numeric) {
		return diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root("number"), "Number and numeric are both configured with different values",
			"number is the old name of numeric; use only numeric.")}
	}
	r := m.recipe
	if r.Numeric.IsNull() {
		r.Numeric = m.Number
	}
	return r.check()
}

func (stringResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m stringModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...) // once more: values may have been unknown
	if resp.Diagnostics.HasError() {
		return
	}
	m.make()
	m.ID = m.Result
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// ImportState takes the string itself.
func (stringResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	m := importedString(req.ID)
	m.ID = m.Result
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func importedString(s string) stringModel {
	m := stringModel{Keepers: noKeepers(), recipe: recipe{Result: types.StringValue(s)}}
	m.complete()
	return m
}

// complete gives what isn't in the state of an import or of an old release its default.
func (m *stringModel) complete() {
	if m.Length.IsNull() {
		m.Length = types.Int64Value(int64(utf8.RuneCountInString(m.Result.ValueString())))
	}
	if !m.Number.IsNull() {
		m.Numeric = m.Number
	}
	m.setDefaults()
	m.Number = m.Numeric
}

// UpgradeState reads the states of releases before 3.3, which had no numeric.
func (stringResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	upgrade := resource.StateUpgrader{StateUpgrader: func(ctx context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
		if m, _, ok := oldString(req.RawState, &resp.Diagnostics); ok {
			resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		}
	}}
	return map[int64]resource.StateUpgrader{0: upgrade, 1: upgrade}
}

// oldString reads the state of any old release, with the hash that those of a random_password have.
func oldString(raw *tfprotov6.RawState, diags *diag.Diagnostics) (m stringModel, hash types.String, ok bool) {
	var old struct {
		ID              *string            `json:"id"`
		Keepers         map[string]*string `json:"keepers"`
		Length          *int64             `json:"length"`
		Special         *bool              `json:"special"`
		Upper           *bool              `json:"upper"`
		Lower           *bool              `json:"lower"`
		Number          *bool              `json:"number"`
		Numeric         *bool              `json:"numeric"`
		MinNumeric      *int64             `json:"min_numeric"`
		MinUpper        *int64             `json:"min_upper"`
		MinLower        *int64             `json:"min_lower"`
		MinSpecial      *int64             `json:"min_special"`
		OverrideSpecial *string            `json:"override_special"`
		Result          *string            `json:"result"`
		BcryptHash      *string            `json:"bcrypt_hash"`
	}
	// The error of the decoder isn't shown: it may quote the state.
	if raw == nil || json.Unmarshal(raw.JSON, &old) != nil || old.Result == nil {
		diags.AddError("Unable to Upgrade Resource State",
			"The state isn't one that a release of hashicorp/random wrote. If it was edited, repair it; if it's of Terraform 0.11, apply it with an older release first.")
		return m, hash, false
	}
	m = stringModel{
		ID: types.StringPointerValue(old.ID), Keepers: noKeepers(), Number: types.BoolPointerValue(old.Number),
		recipe: recipe{
			Length: types.Int64PointerValue(old.Length), Special: types.BoolPointerValue(old.Special), Upper: types.BoolPointerValue(old.Upper),
			Lower: types.BoolPointerValue(old.Lower), Numeric: types.BoolPointerValue(old.Numeric), MinNumeric: types.Int64PointerValue(old.MinNumeric),
			MinUpper: types.Int64PointerValue(old.MinUpper), MinLower: types.Int64PointerValue(old.MinLower), MinSpecial: types.Int64PointerValue(old.MinSpecial),
			OverrideSpecial: types.StringPointerValue(old.OverrideSpecial), Result: types.StringPointerValue(old.Result),
		},
	}
	if old.Keepers != nil {
		values := map[string]attr.Value{}
		for k, v := range old.Keepers {
			values[k] = types.StringPointerValue(v)
		}
		m.Keepers = types.MapValueMust(types.StringType, values)
	}
	m.complete()
	return m, types.StringPointerValue(old.BcryptHash), true
}
