package kubernetes

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
)

// objectData is the data source kubernetes_object: an object that others made.
type objectData struct{ *session }

func (d *objectData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_object"
}

func (d *objectData) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.session, _ = req.ProviderData.(*session)
}

func (d *objectData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "One object as the API server holds it.",
		Attributes: map[string]schema.Attribute{
			"api_version": schema.StringAttribute{Required: true, Description: "apiVersion, such as v1 or apps/v1."},
			"kind":        schema.StringAttribute{Required: true, Description: "Kind, such as ConfigMap."},
			"namespace":   schema.StringAttribute{Optional: true, Description: "Namespace, for kinds that live in one."},
			"name":        schema.StringAttribute{Required: true, Description: "Name of the object."},
			"object":      schema.DynamicAttribute{Computed: true, Description: "The whole object, without its managed fields."},
		},
	}
}

func (d *objectData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	c := d.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	a, err := attrsOf(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad configuration", err.Error())
		return
	}
	id, err := parseID(identity{a.str("api_version"), a.str("kind"), a.str("namespace"), a.str("name")}.String())
	if err != nil {
		resp.Diagnostics.AddError("Bad object", "api_version, kind, namespace or name has characters that no object can have")
		return
	}
	k, err := (&objectResource{d.session}).kind(ctx, c, id)
	if err != nil {
		resp.Diagnostics.AddError("Cannot read "+id.label(), err.Error())
		return
	}
	obj, err := c.Get(ctx, k, id.namespace, id.name)
	if apierrors.IsNotFound(err) {
		resp.Diagnostics.AddError(id.label()+" does not exist", fmt.Sprintf("The API server %s has no such object: make it first, or correct api_version, kind, namespace and name.", c.Server()))
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Cannot read "+id.label(), err.Error())
		return
	}
	delete(metaOf(obj), "managedFields")
	a["object"] = encodeValue(obj, nil)
	resp.State.Raw = tftypes.NewValue(req.Config.Raw.Type(), map[string]tftypes.Value(a))
}

// runtimeClassData is the data source kubernetes_runtime_class.
type runtimeClassData struct{ *session }

func (d *runtimeClassData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_runtime_class"
}

func (d *runtimeClassData) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.session, _ = req.ProviderData.(*session)
}

func (d *runtimeClassData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A RuntimeClass that the cluster must have.",
		Attributes: map[string]schema.Attribute{
			"name":    schema.StringAttribute{Required: true, Description: "Name of the RuntimeClass."},
			"handler": schema.StringAttribute{Computed: true, Description: "The handler of the nodes' container runtime."},
		},
	}
}

func (d *runtimeClassData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	c := d.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	a, err := attrsOf(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad configuration", err.Error())
		return
	}
	name := a.str("name")
	if _, err := parseID((identity{"node.k8s.io/v1", "RuntimeClass", "", name}).String()); err != nil {
		resp.Diagnostics.AddError("Bad RuntimeClass", fmt.Sprintf("%q is no name of a RuntimeClass", name))
		return
	}
	k := client.Builtin("node.k8s.io/v1", "RuntimeClass")
	obj, err := c.Get(ctx, k, "", name)
	if apierrors.IsNotFound(err) {
		resp.Diagnostics.AddError(
			fmt.Sprintf("The cluster has no RuntimeClass %q", name),
			fmt.Sprintf("The API server %s has no RuntimeClass of that name, so no pod could start. Its operator must give the cluster's nodes a handler that runs systemd, and make a RuntimeClass %q that names it; or name one that exists.", c.Server(), name))
		return
	}
	if err != nil {
		resp.Diagnostics.AddError(fmt.Sprintf("Cannot read RuntimeClass %q", name), err.Error())
		return
	}
	handler, _ := obj["handler"].(string)
	a["handler"] = stringValue(handler)
	resp.State.Raw = tftypes.NewValue(req.Config.Raw.Type(), map[string]tftypes.Value(a))
}
