package random

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// bytesResource is random_bytes.
type bytesResource struct{ stored }

type bytesModel struct {
	Keepers types.Map    `tfsdk:"keepers"`
	Length  types.Int64  `tfsdk:"length"`
	Base64  types.String `tfsdk:"base64"`
	Hex     types.String `tfsdk:"hex"`
}

func (bytesResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_bytes"
}

func (bytesResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	secret := func(description string) schema.StringAttribute {
		a := result(description)
		a.Sensitive = true
		return a
	}
	// Of all the types only this one is replaced for keepers with null values too.
	k := keepers()
	k.PlanModifiers = []planmodifier.Map{mapplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Random bytes for a secret or key, made once and kept in the state.",
		Attributes: map[string]schema.Attribute{
			"keepers": k,
			"length": schema.Int64Attribute{Required: true, MarkdownDescription: "The number of bytes, at least 1.",
				PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
			"base64": secret("The bytes in base64."),
			"hex":    secret("The bytes in hexadecimal, two lower case digits each."),
		},
	}
}

func (bytesResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m bytesModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...)
}

func (m *bytesModel) check() (diags diag.Diagnostics) {
	if n := m.Length; !n.IsNull() && !n.IsUnknown() && (n.ValueInt64() < 1 || n.ValueInt64() > maxLength) {
		diags.AddAttributeError(path.Root("length"), "Invalid Attribute Value", fmt.Sprintf("length must be from 1 to %d, and is %d.", maxLength, n.ValueInt64()))
	}
	return diags
}

func (bytesResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m bytesModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...) // once more: it may have been unknown
	if resp.Diagnostics.HasError() {
		return
	}
	b := make([]byte, m.Length.ValueInt64())
	rand.Read(b) // never fails
	m.set(b)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (m *bytesModel) set(b []byte) {
	m.Base64 = types.StringValue(base64.StdEncoding.EncodeToString(b))
	m.Hex = types.StringValue(hex.EncodeToString(b))
}

// ImportState takes the bytes in base64.
func (bytesResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	b, err := base64.StdEncoding.DecodeString(req.ID)
	if err != nil || len(b) == 0 || len(b) > maxLength {
		// The id is the secret, so it isn't in the message.
		resp.Diagnostics.AddError("Import Random bytes Error", fmt.Sprintf("The id must be the bytes in base64 with padding, from 1 to %d of them.", maxLength))
		return
	}
	m := bytesModel{Keepers: noKeepers(), Length: types.Int64Value(int64(len(b)))}
	m.set(b)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
