package random

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// idResource is random_id.
type idResource struct{ stored }

type idModel struct {
	ID         types.String `tfsdk:"id"`
	Keepers    types.Map    `tfsdk:"keepers"`
	ByteLength types.Int64  `tfsdk:"byte_length"`
	Prefix     types.String `tfsdk:"prefix"`
	B64URL     types.String `tfsdk:"b64_url"`
	B64Std     types.String `tfsdk:"b64_std"`
	Hex        types.String `tfsdk:"hex"`
	Dec        types.String `tfsdk:"dec"`
}

func (idResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_id"
}

func (idResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Random bytes that are made once and kept in the state, in several notations.",
		Attributes: map[string]schema.Attribute{
			"keepers": keepers(),
			"byte_length": schema.Int64Attribute{Required: true, MarkdownDescription: "The number of random bytes, at least 1.",
				PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
			"prefix": schema.StringAttribute{Optional: true, MarkdownDescription: "What to put before each notation but `id`, as it is.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
			"b64_url": result("The bytes in base64 of the URL alphabet, without padding."),
			"b64_std": result("The bytes in base64."),
			"hex":     result("The bytes in hexadecimal, two digits each."),
			"dec":     result("The bytes as a decimal number."),
			"id":      result("As `b64_url`, without the prefix."),
		},
	}
}

func (idResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m idModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if n := m.ByteLength; !n.IsNull() && !n.IsUnknown() && (n.ValueInt64() < 1 || n.ValueInt64() > maxLength) {
		resp.Diagnostics.AddAttributeError(path.Root("byte_length"), "Not a length", fmt.Sprintf("byte_length must be from 1 to %d, and is %d.", maxLength, n.ValueInt64()))
	}
}

func (idResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m idModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	n := m.ByteLength.ValueInt64()
	if n < 1 || n > maxLength { // was unknown when it was validated
		resp.Diagnostics.AddAttributeError(path.Root("byte_length"), "Not a length", fmt.Sprintf("byte_length must be from 1 to %d, and is %d.", maxLength, n))
		return
	}
	b := make([]byte, n)
	rand.Read(b) // never fails
	m.set(b)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (m *idModel) set(b []byte) {
	prefix := m.Prefix.ValueString()
	id := base64.RawURLEncoding.EncodeToString(b)
	m.ID = types.StringValue(id)
	m.B64URL = types.StringValue(prefix + id)
	m.B64Std = types.StringValue(prefix + base64.StdEncoding.EncodeToString(b))
	m.Hex = types.StringValue(prefix + hex.EncodeToString(b))
	m.Dec = types.StringValue(prefix + new(big.Int).SetBytes(b).String())
}

// ImportState takes the id, or prefix,id; the prefix may have commas.
func (idResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	m := idModel{Keepers: noKeepers(), Prefix: types.StringNull()}
	id := req.ID
	if cut := strings.LastIndexByte(id, ','); cut >= 0 {
		if cut > 0 {
			m.Prefix = types.StringValue(id[:cut])
		}
		id = id[cut+1:]
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(b) == 0 || len(b) > maxLength {
		resp.Diagnostics.AddError("Import Random ID Error", fmt.Sprintf("%.100q is not an id: want base64 of the URL alphabet without padding, after an optional \"prefix,\".", id))
		return
	}
	m.ByteLength = types.Int64Value(int64(len(b)))
	m.set(b)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
