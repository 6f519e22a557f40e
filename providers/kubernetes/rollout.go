package kubernetes

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
)

type watcher struct{ client *client.Client }

// rolloutResource is kubernetes_rollout: the wait for a Deployment.
type rolloutResource struct{ *session }

func (r *rolloutResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_rollout"
}

func (r *rolloutResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

func (r *rolloutResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		Description: "Waits until a Deployment runs what was applied, and sets it back to what ran before when it does not.",
		Attributes: map[string]schema.Attribute{
			"namespace":  schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "Namespace of the Deployment."},
			"name":       schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "Name of the Deployment."},
			"uid":        schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "The uid of the kubernetes_object of the Deployment."},
			"generation": schema.Int64Attribute{Required: true, Description: "The generation of the kubernetes_object of the Deployment: each new one is a rollout."},
			"timeout": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(DefaultTimeout),
				Description: "How long the pod may take to become ready, such as 10m. progressDeadlineSeconds has no say.",
			},
			"id": schema.StringAttribute{
				Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description: "namespace/name of the Deployment.",
			},
		},
	}
}

func (r *rolloutResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	a, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	live, err := c.Read(ctx, client.Builtin("apps/v1", "Deployment"), a.str("namespace"), a.str("name"))
	if err != nil {
		resp.Diagnostics.AddError("Cannot read Deployment "+a.str("namespace")+"/"+a.str("name"), err.Error())
		return
	}
	if live == nil || metaString(live, "uid") != a.str("uid") {
		resp.State.RemoveResource(ctx)
	}
}

func (r *rolloutResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = r.wait(ctx, req.Plan.Raw, resp)
}

func (r *rolloutResource) wait(_ context.Context, raw tftypes.Value, _ *resource.CreateResponse) tftypes.Value {
	a, _ := attrsOf(raw)
	a["id"] = stringValue(a.str("namespace") + "/" + a.str("name"))
	return tftypes.NewValue(raw.Type(), map[string]tftypes.Value(a))
}

func (r *rolloutResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete has nothing to do: the Deployment is another resource's.
func (r *rolloutResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
