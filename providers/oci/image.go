package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/nix"
	"fediversity.eu/yuba/providers/oci/internal/push"
	"fediversity.eu/yuba/providers/oci/internal/registry"
	"fediversity.eu/yuba/providers/oci/internal/source"
)

// imageResource is oci_image: a tag in a registry, made once from a source and never moved.
type imageResource struct{ client *client }

type imageModel struct {
	Source     types.String `tfsdk:"source"`
	Repository types.String `tfsdk:"repository"`
	Tag        types.String `tfsdk:"tag"`
	Digest     types.String `tfsdk:"digest"`
	ID         types.String `tfsdk:"id"`
	Present    types.Bool   `tfsdk:"present"`
}

func (r *imageResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_image"
}

func (r *imageResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "An image in a registry. It's pushed when the registry doesn't hold the tag; a tag that it holds is never " +
			"moved, so another image needs another tag. A destroy leaves the image in the registry.",
		Attributes: map[string]schema.Attribute{
			"source": schema.StringAttribute{
				Required: true, WriteOnly: true,
				MarkdownDescription: "Where the image comes from: the path of a docker archive, an OCI archive or the directory of an OCI layout; " +
					"`rootfs:[ARCHITECTURE:]PATH`, a root file system as a tar or a directory; `nix:[ARCHITECTURE:]DERIVATION[!OUTPUT]`, a " +
					"derivation to realise, that makes any of these; `stdin:`, an archive on the standard input; `bundle:NODE:PATH`, an image in " +
					"a bundle. Archives may be compressed with gzip or zstd. It may be another source in each run, is read only when there is " +
					"something to push, and is never in the state.",
			},
			"repository": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Where to push, `host[:port]/path`.",
			},
			"tag": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The tag. It must change whenever the image does.",
			},
			"digest": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Digest that the registry gives for the tag, `sha256:...`.",
			},
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "`repository@digest`, the reference by which to run the image.",
			},
			"present": schema.BoolAttribute{
				Computed: true,
				MarkdownDescription: "Whether the registry held the image at the last refresh. One that is gone is pushed again, " +
					"with the same digest.",
			},
		},
	}
}

func (r *imageResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if c, ok := req.ProviderData.(*client); ok {
		r.client = c
	}
}

func (r *imageResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m imageModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if !m.Tag.IsNull() && !m.Tag.IsUnknown() {
		if err := registry.CheckTag(m.Tag.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("tag"), "Not a valid tag", err.Error())
		}
	}
	if !m.Repository.IsNull() && !m.Repository.IsUnknown() {
		if err := registry.CheckRepository(m.Repository.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("repository"), "Not a valid repository", err.Error())
		}
	}
	if !m.Source.IsNull() && !m.Source.IsUnknown() {
		if _, err := source.Parse(m.Source.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("source"), "Not a source of an image", "source: "+err.Error()+".")
		}
	}
}

// ModifyPlan finds out at plan time all that an apply would trip over: a source that is none, a registry that isn't
// there. It asks for the digest, so that what depends on it is known in the plan where it can be.
func (r *imageResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.client == nil {
		return // a destroy needs neither registry nor source
	}
	var config, plan imageModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.Present = types.BoolValue(true)
	plan.Digest, plan.ID = types.StringUnknown(), types.StringUnknown()
	defer func() {
		if !resp.Diagnostics.HasError() {
			resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
		}
	}()
	if plan.Repository.IsUnknown() || plan.Tag.IsUnknown() {
		return
	}

	var state *imageModel
	if !req.State.Raw.IsNull() {
		state = new(imageModel)
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
		if resp.Diagnostics.HasError() {
			return
		}
	}
	// Another tag is another image. It is an update all the same: a replacement
	// would destroy what a destroy leaves in the registry anyway.
	if state != nil && state.Repository.Equal(plan.Repository) && state.Tag.Equal(plan.Tag) {
		plan.Digest, plan.ID = state.Digest, state.ID
		if state.Present.ValueBool() {
			return
		}
	} else {
		state = nil
	}

	tag, ok := r.tag(plan, &resp.Diagnostics)
	if !ok {
		return
	}
	from := config.Source
	if !from.IsUnknown() {
		if err := r.client.sources.Check(ctx, from.ValueString(), false, r.say(tag)); err != nil {
			sourceError(&resp.Diagnostics, tag, from.ValueString(), err)
			return
		}
	}
	if state != nil {
		return // to be pushed again, with the digest that it had
	}
	held, found, err := r.client.Find(ctx, tag.Context(), tag.TagStr())
	switch {
	case err != nil:
		r.registryError(&resp.Diagnostics, tag, "Can't ask the registry for the image", err)
	case found:
		plan.setDigest(held)
	case !from.IsUnknown():
		// Only now is it worth the time to build a derivation, or to decompress an archive. All of them are built and
		// sound when the first is pushed.
		if err := r.client.sources.Check(ctx, from.ValueString(), true, r.say(tag)); err != nil {
			sourceError(&resp.Diagnostics, tag, from.ValueString(), err)
		}
	}
}

func (r *imageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var config, plan imageModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if !resp.Diagnostics.HasError() && r.ensure(ctx, config.Source.ValueString(), &plan, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	}
}

// Update pushes the image of another tag, or again one that is gone from the
// registry.
func (r *imageResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var config, plan imageModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if !resp.Diagnostics.HasError() && r.ensure(ctx, config.Source.ValueString(), &plan, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	}
}

// ensure has the registry hold the tag, and completes m with what it holds. A digest that m already knows must come
// out again.
func (r *imageResource) ensure(ctx context.Context, from string, m *imageModel, diags *diag.Diagnostics) bool {
	tag, ok := r.tag(*m, diags)
	if !ok {
		return false
	}
	want := m.Digest.ValueString()
	held, found, err := r.client.Find(ctx, tag.Context(), tag.TagStr())
	if err != nil {
		r.registryError(diags, tag, "Can't ask the registry for the image", err)
		return false
	}
	if found && want != "" && held.String() != want {
		diags.AddError("Another image has the tag",
			fmt.Sprintf("The registry holds %s under %s, and the image that was planned is %s. A tag is never moved: "+
				"give the image another tag. Nothing was pushed.", held, tag, want))
		return false
	}
	if !found {
		if held, err = r.push(ctx, from, tag, want); err != nil {
			r.pushError(diags, tag, from, err)
			return false
		}
	}
	m.setDigest(held)
	m.Present = types.BoolValue(true)
	m.Source = types.StringNull()
	return true
}

func (r *imageResource) push(ctx context.Context, from string, tag name.Tag, want string) (v1.Hash, error) {
	select {
	case r.client.slots <- struct{}{}:
		defer func() { <-r.client.slots }()
	case <-ctx.Done():
		return v1.Hash{}, ctx.Err()
	}
	img, err := r.client.sources.Open(ctx, from, r.say(tag))
	if err != nil {
		return v1.Hash{}, &push.SourceError{Err: err}
	}
	defer img.Close()
	p := r.progress(tag, img.Layers)
	out := push.Image{Config: img.Config, Manifest: img.Manifest}
	for i, l := range img.Layers {
		out.Layers = append(out.Layers, push.Layer{DiffID: l.DiffID, Blob: l.Blob,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return l.Open(ctx, func(n int64) { p(i, n) }) },
			Held: func() { p(i, l.Size) },
		})
	}
	return r.client.pusher.Push(ctx, tag, out, want)
}

// say gives messages on an image to WithMessages.
func (r *imageResource) say(tag name.Tag) func(string) {
	return func(message string) {
		if r.client.message != nil {
			r.client.message(tag.Name(), message)
		}
	}
}

// progressStep is how many bytes pass between two reports.
const progressStep = 1 << 20

// progress gives the progress of one push to WithProgress, from how much of each layer has been taken.
func (r *imageResource) progress(tag name.Tag, layers []image.Layer) func(layer int, taken int64) {
	if r.client.progress == nil {
		return func(int, int64) {}
	}
	var total, sent, reported int64
	for _, l := range layers {
		total += l.Size
	}
	taken := make([]int64, len(layers))
	return func(layer int, n int64) {
		sent += n - taken[layer]
		taken[layer] = n
		if sent >= reported+progressStep || sent < reported || sent == total && reported != total {
			reported = sent
			r.client.progress(tag.Name(), sent, total)
		}
	}
}

// Read asks the registry by digest. One that can't be reached is no reason to fail: the state is the best that is
// known, and a destroy doesn't need the registry.
func (r *imageResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m imageModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	tag, ok := r.tag(m, &resp.Diagnostics)
	if !ok {
		return
	}
	_, found, err := r.client.Find(ctx, tag.Context(), m.Digest.ValueString())
	r.client.refreshed.put(m.ID.ValueString(), answer{found, err})
	if err != nil {
		if ctx.Err() != nil {
			resp.Diagnostics.AddError("Cancelled", "The registry was not asked for "+m.ID.ValueString()+".")
			return
		}
		what, todo := registry.Explain(err, tag.RegistryStr(), r.client.credentials)
		resp.Diagnostics.AddWarning("Can't ask the registry for the image",
			sentences(m.ID.ValueString()+": "+what+".", "What was known of the image is kept.", todo))
		return
	}
	m.Present = types.BoolValue(found)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// Delete leaves the image: others may run it, and an earlier generation may go back to it.
func (r *imageResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// ImportState takes repository:tag of an image that the registry holds.
func (r *imageResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	cut := strings.LastIndexByte(req.ID, ':')
	if cut < 0 || strings.Contains(req.ID[cut:], "/") || strings.Contains(req.ID, "@") {
		resp.Diagnostics.AddError("Not the name of an image", fmt.Sprintf("%q: want repository:tag, as in registry.example:5000/ns/node:1.", req.ID))
		return
	}
	m := imageModel{Repository: types.StringValue(req.ID[:cut]), Tag: types.StringValue(req.ID[cut+1:]), Present: types.BoolValue(true)}
	tag, ok := r.tag(m, &resp.Diagnostics)
	if !ok {
		return
	}
	held, found, err := r.client.Find(ctx, tag.Context(), tag.TagStr())
	if err != nil {
		r.registryError(&resp.Diagnostics, tag, "Can't ask the registry for the image", err)
		return
	}
	if !found {
		resp.Diagnostics.AddError("No such image", fmt.Sprintf("The registry does not hold %s. Apply without an import to push it.", tag))
		return
	}
	m.setDigest(held)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (m *imageModel) setDigest(d v1.Hash) {
	m.Digest = types.StringValue(d.String())
	m.ID = types.StringValue(m.Repository.ValueString() + "@" + d.String())
}

func (r *imageResource) tag(m imageModel, diags *diag.Diagnostics) (name.Tag, bool) {
	repo, err := r.client.Repository(m.Repository.ValueString())
	if err != nil {
		diags.AddAttributeError(path.Root("repository"), "Not a valid repository", err.Error())
		return name.Tag{}, false
	}
	if err := registry.CheckTag(m.Tag.ValueString()); err != nil {
		diags.AddAttributeError(path.Root("tag"), "Not a valid tag", err.Error())
		return name.Tag{}, false
	}
	return repo.Tag(m.Tag.ValueString()), true
}

// sourceError names the source's path: who runs yuba must find the file. Diagnostics are not kept in plan or state.
func sourceError(diags *diag.Diagnostics, tag name.Tag, from string, err error) {
	if errors.Is(err, context.Canceled) {
		diags.AddError("Cancelled", fmt.Sprintf("The image of %s was not read to its end.", tag))
		return
	}
	if build := (*nix.BuildError)(nil); errors.As(err, &build) {
		diags.AddAttributeError(path.Root("source"), "Can't build the image", fmt.Sprintf("For %s: %s", tag, err))
		return
	}
	diags.AddAttributeError(path.Root("source"), "Can't use the source of the image",
		fmt.Sprintf("%s, for %s: %s.", source.Place(from), tag, err))
}

// registryError is for questions: nothing has changed yet.
func (r *imageResource) registryError(diags *diag.Diagnostics, tag name.Tag, summary string, err error) {
	what, todo := registry.Explain(err, tag.RegistryStr(), r.client.credentials)
	diags.AddError(summary, sentences(tag.Name()+": "+what+".", todo, "Nothing has changed."))
}

func (r *imageResource) pushError(diags *diag.Diagnostics, tag name.Tag, from string, err error) {
	if failed := (*push.SourceError)(nil); errors.As(err, &failed) {
		sourceError(diags, tag, from, failed.Err)
		return
	}
	if other := (*push.DigestError)(nil); errors.As(err, &other) {
		diags.AddError("The image is not the one that was planned",
			fmt.Sprintf("%s: the digest must be %s, and is %s. The archive, the compressor of this yuba, or the image under this tag has "+
				"changed: give the image another tag.", tag, other.Want, other.Got))
		return
	}
	what, todo := registry.Explain(err, tag.RegistryStr(), r.client.credentials)
	diags.AddError("Can't push the image", sentences(tag.Name()+": "+what+".", "The tag was not made.", todo))
}

// sentences joins those that are there.
func sentences(s ...string) string {
	return strings.Join(slices.DeleteFunc(s, func(s string) bool { return s == "" }), " ")
}
