package random

import (
	"context"
	"fmt"

	petname "github.com/dustinkirkland/golang-petname"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// maxWords bounds a name.
const maxWords = 1 << 10

// petResource is random_pet.
type petResource struct{ stored }

type petModel struct {
	ID        types.String `tfsdk:"id"`
	Keepers   types.Map    `tfsdk:"keepers"`
	Length    types.Int64  `tfsdk:"length"`
	Prefix    types.String `tfsdk:"prefix"`
	Separator types.String `tfsdk:"separator"`
}

func (petResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_pet"
}

func (petResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A random name, such as `alert-otter`, that is made once and kept in the state.",
		Attributes: map[string]schema.Attribute{
			"keepers": keepers(),
			"length": schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(2),
				MarkdownDescription: "The number of words. Default is 2.", PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
			"prefix": schema.StringAttribute{Optional: true, MarkdownDescription: "What comes before the name and a separator.", PlanModifiers: replace},
			"separator": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("-"),
				MarkdownDescription: "What is between the words. Default is `-`.", PlanModifiers: replace},
			"id": result("The name."),
		},
	}
}

func (petResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m petModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if n := m.Length.ValueInt64(); n > maxWords {
		resp.Diagnostics.AddAttributeError(path.Root("length"), "Invalid Attribute Value", fmt.Sprintf("length must be at most %d, and is %d.", maxWords, n))
	}
	if resp.Diagnostics.HasError() {
		return
	}
	name := petname.Generate(int(m.Length.ValueInt64()), m.Separator.ValueString())
	if prefix := m.Prefix.ValueString(); prefix != "" {
		name = prefix + m.Separator.ValueString() + name
	}
	m.ID = types.StringValue(name)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
