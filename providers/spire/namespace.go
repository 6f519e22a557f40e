package spire

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"fediversity.eu/yuba/spire/handoff"
)

// namespaceResource is spire_namespace: that the spire node may have something of a namespace. It is in the state before
// the first hand-off is given and until all is taken back, whatever becomes of hand-offs: one that is replaced is in no
// state for as long as an apply takes, and for good when that ends early.
type namespaceResource struct{ *session }

type namespaceModel struct {
	Name types.String `tfsdk:"name"`
}

func (r *namespaceResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_namespace"
}

func (r *namespaceResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

func (r *namespaceResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "What the spire node has of a namespace. Making it asks nobody; a destroy takes back there all that was handed over, on the machine that answers then. " +
			"A `spire_handoff` of the namespace must depend on it.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, MarkdownDescription: "The namespace.", PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
		},
	}
}

// ModifyPlan refuses what is no namespace.
func (r *namespaceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var plan namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || plan.Name.IsUnknown() {
		return
	}
	if _, err := (handoff.Retirement{Namespace: plan.Name.ValueString()}).Marshal(); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Bad namespace", err.Error())
	}
}

// Create is for the state alone.
func (r *namespaceResource) Create(_ context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Read leaves the state: nothing there is no error when it is taken back.
func (r *namespaceResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update has nothing to do: another namespace is another resource.
func (r *namespaceResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete takes back what the spire node has of the namespace, and needs no cluster.
func (r *namespaceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state namespaceModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if !resp.Diagnostics.HasError() {
		r.retire(ctx, state.Name.ValueString(), &resp.Diagnostics)
	}
}

// ImportState takes the namespace.
func (r *namespaceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, err := (handoff.Retirement{Namespace: req.ID}).Marshal(); err != nil {
		resp.Diagnostics.AddError("Bad import id", fmt.Sprintf("The id is the namespace: %v.", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &namespaceModel{Name: types.StringValue(req.ID)})...)
}

// retire has the spire node take back a namespace.
func (s *session) retire(ctx context.Context, namespace string, diags *diag.Diagnostics) {
	if err := s.ready(); err != nil {
		diags.AddError("No way to the spire node", err.Error())
		return
	}
	document, err := handoff.Retirement{Namespace: namespace}.Marshal()
	if err != nil {
		diags.AddError("Bad namespace", err.Error())
		return
	}
	if _, err := s.yuba(ctx, "retire", document); err != nil {
		diags.AddError("The spire node has not retired namespace "+namespace, sentences(err, "Run it again: what is retired already does no harm."))
	}
}
