package random

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"math/big"
	mathrand "math/rand"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// integerResource is random_integer.
type integerResource struct{ stored }

type integerModel struct {
	ID      types.String `tfsdk:"id"`
	Keepers types.Map    `tfsdk:"keepers"`
	Min     types.Int64  `tfsdk:"min"`
	Max     types.Int64  `tfsdk:"max"`
	Seed    types.String `tfsdk:"seed"`
	Result  types.Int64  `tfsdk:"result"`
}

func (integerResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_integer"
}

func (integerResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	bound := func(what string) schema.Int64Attribute {
		return schema.Int64Attribute{Required: true, MarkdownDescription: what,
			PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A random integer that is made once and kept in the state.",
		Attributes: map[string]schema.Attribute{
			"keepers": keepers(),
			"min":     bound("The smallest value that can come out."),
			"max":     bound("The greatest value that can come out."),
			"seed": schema.StringAttribute{Optional: true, MarkdownDescription: "The same seed always gives the same value.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
			"result": schema.Int64Attribute{Computed: true, MarkdownDescription: "The integer.",
				PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}},
			"id": result("The integer as a string."),
		},
	}
}

func (integerResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m integerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	n, err := integer(m.Min.ValueInt64(), m.Max.ValueInt64(), m.Seed.ValueString())
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("max"), "Create Random Integer Error", err.Error())
		return
	}
	m.Result, m.ID = types.Int64Value(n), types.StringValue(strconv.FormatInt(n, 10))
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// integer gives one from lowest to highest. With a seed it's the one that hashicorp/random gives.
func integer(lowest, highest int64, seed string) (int64, error) {
	if highest < lowest {
		return 0, fmt.Errorf("max (%d) must not be smaller than min (%d)", highest, lowest)
	}
	size := new(big.Int).Sub(big.NewInt(highest), big.NewInt(lowest))
	size.Add(size, big.NewInt(1))
	if seed == "" {
		n, err := rand.Int(rand.Reader, size)
		if err != nil {
			return 0, err
		}
		return n.Add(n, big.NewInt(lowest)).Int64(), nil
	}
	if !size.IsInt64() {
		return 0, fmt.Errorf("with a seed, there can be at most %d values from min to max", int64(math.MaxInt64))
	}
	return lowest + int64(mathrand.New(source(seed)).Intn(int(size.Int64()))), nil
}

// ImportState takes result,min,max or result,min,max,seed.
func (integerResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	parts := strings.SplitN(req.ID, ",", 4)
	var n [3]int64
	ok := len(parts) >= 3
	for i := range n {
		if ok {
			var err error
			n[i], err = strconv.ParseInt(parts[i], 10, 64)
			ok = err == nil
		}
	}
	if !ok {
		resp.Diagnostics.AddError("Import Random Integer Error", fmt.Sprintf("%.100q: want result,min,max or result,min,max,seed.", req.ID))
		return
	}
	m := integerModel{ID: types.StringValue(strconv.FormatInt(n[0], 10)), Result: types.Int64Value(n[0]), Min: types.Int64Value(n[1]), Max: types.Int64Value(n[2]),
		Keepers: noKeepers(), Seed: types.StringNull()}
	if len(parts) == 4 {
		m.Seed = types.StringValue(parts[3])
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
