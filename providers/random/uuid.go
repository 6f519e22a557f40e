package random

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// uuidResource is random_uuid.
type uuidResource struct{ stored }

type uuidModel struct {
	ID      types.String `tfsdk:"id"`
	Keepers types.Map    `tfsdk:"keepers"`
	Result  types.String `tfsdk:"result"`
}

func (uuidResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_uuid"
}

func (uuidResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A random UUID that is made once and kept in the state.",
		Attributes: map[string]schema.Attribute{
			"keepers": keepers(),
			"result":  result("The UUID."),
			"id":      result("The UUID."),
		},
	}
}

func (uuidResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m uuidModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m.Result = types.StringValue(newUUID())
	m.ID = m.Result
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// ImportState takes the UUID itself.
func (uuidResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	result, err := parseUUID(req.ID)
	if err != nil {
		resp.Diagnostics.AddError("Import Random UUID Error", err.Error())
		return
	}
	m := uuidModel{ID: types.StringValue(result), Result: types.StringValue(result), Keepers: noKeepers()}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// newUUID is a version 4 UUID (RFC 9562).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return formatUUID(b)
}

func formatUUID(b [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// parseUUID takes a UUID of any version, in its canonical form or in upper case, and gives the canonical form.
func parseUUID(s string) (string, error) {
	bad := fmt.Errorf("%.100q is not a UUID: want 8-4-4-4-12 hexadecimal digits", s)
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return "", bad
	}
	raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil {
		return "", bad
	}
	return formatUUID([16]byte(raw)), nil
}
