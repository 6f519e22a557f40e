package random

import (
	"context"
	"fmt"
	mathrand "math/rand"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// shuffleResource is random_shuffle.
type shuffleResource struct{ stored }

type shuffleModel struct {
	ID          types.String `tfsdk:"id"`
	Keepers     types.Map    `tfsdk:"keepers"`
	Seed        types.String `tfsdk:"seed"`
	Input       types.List   `tfsdk:"input"`
	ResultCount types.Int64  `tfsdk:"result_count"`
	Result      types.List   `tfsdk:"result"`
}

func (shuffleResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_shuffle"
}

func (shuffleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A list in a random order that is made once and kept in the state.",
		Attributes: map[string]schema.Attribute{
			"keepers": keepers(),
			"seed": schema.StringAttribute{Optional: true, MarkdownDescription: "The same seed gives the same order.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
			"input": schema.ListAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "The list.",
				PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()}},
			"result_count": schema.Int64Attribute{Optional: true,
				MarkdownDescription: "The number of elements of the result, by default those of `input`. If it's smaller, elements are left out; if it's greater, they come again, but none once more before all others have.",
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
			"result": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The list in a random order.",
				PlanModifiers: []planmodifier.List{listplanmodifier.UseStateForUnknown()}},
			"id": result("Always `-`."),
		},
	}
}

func (shuffleResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m shuffleModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...)
}

func (m *shuffleModel) check() (diags diag.Diagnostics) {
	if n := m.ResultCount.ValueInt64(); n < 0 || n > maxLength {
		diags.AddAttributeError(path.Root("result_count"), "Invalid Attribute Value", fmt.Sprintf("result_count must be from 0 to %d, and is %d.", maxLength, n))
	}
	return diags
}

func (shuffleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m shuffleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(m.check()...) // once more: it may have been unknown
	if resp.Diagnostics.HasError() {
		return
	}
	input := m.Input.Elements()
	count := len(input)
	if !m.ResultCount.IsNull() {
		count = int(m.ResultCount.ValueInt64())
	}
	out := []attr.Value{}
	for order := permutations(m.Seed.ValueString()); len(input) > 0 && len(out) < count; {
		for _, i := range order(len(input)) {
			if len(out) < count {
				out = append(out, input[i])
			}
		}
	}
	m.Result = types.ListValueMust(types.StringType, out)
	m.ID = types.StringValue("-")
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// permutations gives orders of the numbers from 0 to n-1. With a seed they are those that hashicorp/random gives.
func permutations(seed string) func(n int) []int {
	if seed == "" {
		return mathrand.Perm
	}
	return mathrand.New(source(seed)).Perm
}
