package spire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"fediversity.eu/yuba/providers/spire/internal/cluster"
	"fediversity.eu/yuba/providers/spire/internal/ssh"
	"fediversity.eu/yuba/spire/handoff"
)

// handoffResource is spire_handoff: the nodes of a namespace, as the spire node knows them. Its state is what was handed
// over but for the token, which is in memory only, and the way to the spire node, which is that of each run. Its end takes
// nothing back: each hand-off comes into the place of the one before it, and the last one ends with its spire_namespace.
type handoffResource struct{ *session }

type handoffModel struct {
	MachineID     types.String `tfsdk:"machine_id"`
	Namespace     types.String `tfsdk:"namespace"`
	Nodes         types.Set    `tfsdk:"nodes"`
	APIServer     types.String `tfsdk:"api_server"`
	CASum         types.String `tfsdk:"ca_sha256"`
	TLSServerName types.String `tfsdk:"tls_server_name"`
}

func (r *handoffResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_handoff"
}

func (r *handoffResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

func (r *handoffResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Gives the spire node the nodes of a namespace, and a kubeconfig with the token of the namespace's service account `" +
			cluster.ServiceAccount + "`, whose Secret `" + cluster.SecretName + "` it makes. It is replaced when one of its attributes changes, and the spire node " +
			"keeps what it has until it has got the new one. The namespace's `spire_namespace`, which must come before it, takes it back; the Secret ends with the service account.",
		Attributes: map[string]schema.Attribute{
			"machine_id": schema.StringAttribute{Required: true, MarkdownDescription: "Machine id of the spire node, from the data source `spire_server`. Another machine refuses the hand-off."},
			"namespace":  schema.StringAttribute{Required: true, MarkdownDescription: "The namespace. It has a service account `" + cluster.ServiceAccount + "`."},
			"nodes":      schema.SetAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "Names of all nodes of the namespace. The pod of node NAME has the service account `node-NAME`."},
			"api_server": schema.StringAttribute{Optional: true, Computed: true,
				MarkdownDescription: "Address of the API server as the spire node reaches it, https://... Default: the environment variable `" + EnvAPIServer + "`, else that of the kubeconfig."},
			"ca_sha256":       schema.StringAttribute{Computed: true, MarkdownDescription: "SHA-256 sum of the authorities of the API server in the kubeconfig; empty when it has none."},
			"tls_server_name": schema.StringAttribute{Computed: true, MarkdownDescription: "Name in the API server's certificate, when the kubeconfig has one."},
		},
	}
}

// registered is the key of the private state of a hand-off that has a spire_namespace, as each that was planned by this
// provider has. One without is older than that resource, or was imported and is not applied yet.
const registered = "registered"

// ModifyPlan completes the plan with what the kubeconfig says, and replaces where the machine, the API server, its
// authorities, the namespace or the nodes are others.
func (r *handoffResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var config, plan handoffModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	unknown := r.session != nil && (r.err != nil || r.noCluster != nil) || config.APIServer.IsUnknown()
	if unknown {
		plan.APIServer, plan.CASum, plan.TLSServerName = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	} else {
		c, ok := r.open(config.APIServer.ValueString(), &resp.Diagnostics)
		if !ok {
			return
		}
		plan.know(c)
		if _, err := r.handoff(ctx, plan, c, "token"); err != nil && plan.known() {
			resp.Diagnostics.AddError("Bad hand-off", err.Error())
			return
		}
	}
	if !config.APIServer.IsNull() {
		plan.APIServer = config.APIServer // as it is written
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)

	resp.Diagnostics.Append(resp.Private.SetKey(ctx, registered, []byte("true"))...)
	if req.State.Raw.IsNull() {
		return
	}
	var state handoffModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for name, v := range map[string]struct{ old, new attr.Value }{
		"machine_id": {state.MachineID, plan.MachineID},
		"namespace":  {state.Namespace, plan.Namespace},
		"nodes":      {state.Nodes, plan.Nodes},
		"api_server": {state.APIServer, plan.APIServer},
		"ca_sha256":  {state.CASum, plan.CASum},
	} {
		// What was imported has nothing to compare with, and what isn't known yet may be the same: a hand-off in place
		// does either good.
		if !v.old.IsNull() && !v.new.IsUnknown() && !v.old.Equal(v.new) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root(name))
		}
	}
}

// know takes over what is known of the cluster.
func (m *handoffModel) know(c *cluster.Cluster) {
	m.APIServer, m.CASum, m.TLSServerName = types.StringValue(c.Server), types.StringValue(c.CASum()), types.StringValue(c.TLSServerName)
}

// known says whether what the configuration gives is known.
func (m handoffModel) known() bool {
	return !m.MachineID.IsUnknown() && !m.Namespace.IsUnknown() && !m.Nodes.IsUnknown() &&
		!slices.ContainsFunc(m.Nodes.Elements(), func(v attr.Value) bool { return v.IsUnknown() })
}

// open reads the kubeconfig.
func (r *handoffResource) open(server string, diags *diag.Diagnostics) (*cluster.Cluster, bool) {
	if err := r.ready(); err != nil {
		diags.AddError("No way to the spire node", err.Error())
		return nil, false
	}
	c, err := r.cluster(server)
	if err != nil {
		diags.AddError("No API server for the spire node", err.Error())
		return nil, false
	}
	return c, true
}

// handoff is the document for the spire node. It is a secret.
func (r *handoffResource) handoff(ctx context.Context, m handoffModel, c *cluster.Cluster, token string) ([]byte, error) {
	config, err := c.Kubeconfig(token)
	if err != nil {
		return nil, err
	}
	h := handoff.Handoff{MachineID: m.MachineID.ValueString(), Namespace: m.Namespace.ValueString(), Kubeconfig: config}
	if m.known() {
		if diags := m.Nodes.ElementsAs(ctx, &h.Nodes, false); diags.HasError() {
			return nil, errors.New("nodes must be names")
		}
	}
	slices.Sort(h.Nodes)
	if h.MachineID == "" {
		return nil, errors.New("machine_id is empty")
	}
	return h.Marshal()
}

// Create hands over.
func (r *handoffResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var config, plan handoffModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, registered, []byte("true"))...) // that of the plan is not given on
	if resp.Diagnostics.HasError() {
		return
	}
	document, token, ok := r.prepare(ctx, config, &plan, &resp.Diagnostics)
	if !ok {
		return
	}
	// What fails now is in the state, tainted, and the next apply makes it again.
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	if !resp.Diagnostics.HasError() {
		r.give(ctx, document, token, &resp.Diagnostics)
	}
}

// Update hands over again what is no other hand-off: one that was imported, or another name in the certificate.
func (r *handoffResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var config, plan handoffModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if document, token, ok := r.prepare(ctx, config, &plan, &resp.Diagnostics); ok && r.give(ctx, document, token, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	}
}

// prepare does what has no effect on the spire node: it completes m, and makes the document.
func (r *handoffResource) prepare(ctx context.Context, config handoffModel, m *handoffModel, diags *diag.Diagnostics) (document []byte, token string, ok bool) {
	c, ok := r.open(config.APIServer.ValueString(), diags)
	if !ok {
		return nil, "", false
	}
	planned := *m
	m.know(c)
	if !config.APIServer.IsNull() {
		m.APIServer = config.APIServer
	}
	for _, v := range []struct{ planned, now types.String }{{planned.APIServer, m.APIServer}, {planned.CASum, m.CASum}, {planned.TLSServerName, m.TLSServerName}} {
		if !v.planned.IsUnknown() && !v.planned.Equal(v.now) {
			diags.AddError("Another API server than in the plan", fmt.Sprintf("The kubeconfig or %s has changed since the plan, and the spire node would get to know another cluster. Nothing was handed over: plan again.", EnvAPIServer))
			return nil, "", false
		}
	}
	token, err := c.Token(ctx, m.Namespace.ValueString())
	if err != nil {
		diags.AddError("No token for the spire node", err.Error()+". Nothing was handed over.")
		return nil, "", false
	}
	document, err = r.handoff(ctx, *m, c, token)
	if err != nil {
		diags.AddError("Bad hand-off", err.Error()+". Nothing was handed over.")
		return nil, "", false
	}
	return document, token, true
}

// give has the spire node receive a document.
func (r *handoffResource) give(ctx context.Context, document []byte, token string, diags *diag.Diagnostics) bool {
	_, err := r.yuba(ctx, "receive", document, token)
	if err != nil {
		diags.AddError("The spire node has not taken the hand-off", sentences(err, "Apply again: what it has of it already does no harm."))
	}
	return err == nil
}

// Read leaves the state: what the spire node holds is for the data source and for its own `yuba spire sync` to see.
func (r *handoffResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Delete leaves the spire node alone, so that the nodes keep their identities while a hand-off is replaced, and when the
// new one fails. It takes back what no spire_namespace does.
func (r *handoffResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state handoffModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	value, diags := req.Private.GetKey(ctx, registered)
	resp.Diagnostics.Append(diags...)
	if value == nil && !resp.Diagnostics.HasError() {
		r.retire(ctx, state.Namespace.ValueString(), &resp.Diagnostics)
	}
}

// ImportState takes the namespace. The next apply hands over again, in place, and completes the state.
func (r *handoffResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, err := (handoff.Retirement{Namespace: req.ID}).Marshal(); err != nil {
		resp.Diagnostics.AddError("Bad import id", fmt.Sprintf("The id of a hand-off is its namespace: %v.", err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &handoffModel{Namespace: types.StringValue(req.ID), Nodes: types.SetNull(types.StringType)})...)
}

// sentences ends an error with what to do, where nobody knows what has been done.
func sentences(err error, todo string) string {
	var failed *ssh.Error
	if errors.As(err, &failed) && failed.Started {
		return err.Error() + ". " + todo
	}
	return err.Error() + "."
}
