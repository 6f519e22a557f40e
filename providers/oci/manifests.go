package oci

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"golang.org/x/sync/errgroup"

	"fediversity.eu/yuba/providers/oci/internal/registry"
)

// manifestsEphemeral is oci_manifests: a look at the registry in each walk, also in the apply of a saved plan, where no
// refresh comes before. It reports what is missing and never fails: what to do about it is for who reads it, which is
// nothing in a plan, where the image may still be to push.
type manifestsEphemeral struct{ client *client }

var _ ephemeral.EphemeralResourceWithConfigure = (*manifestsEphemeral)(nil)

// maxQuestions bounds how many manifests are asked for at a time.
const maxQuestions = 16

func (r *manifestsEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_manifests"
}

func (r *manifestsEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Looks whether a registry holds images, each time that it's opened.",
		Attributes: map[string]schema.Attribute{
			"references": schema.MapAttribute{
				Required: true, ElementType: types.StringType,
				MarkdownDescription: "The images, each `host[:port]/path@digest`, by any key.",
			},
			"missing": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "For each key a sentence that says what is wrong: the registry does not hold the image, or can't be asked. " +
					"Empty for an image that is there.",
			},
		},
	}
}

func (r *manifestsEphemeral) Configure(_ context.Context, req ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	if c, ok := req.ProviderData.(*client); ok {
		r.client = c
	}
}

func (r *manifestsEphemeral) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m struct {
		References map[string]string `tfsdk:"references"`
		Missing    types.Map         `tfsdk:"missing"`
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	var mu sync.Mutex
	missing := make(map[string]string, len(m.References))
	var group errgroup.Group
	group.SetLimit(maxQuestions)
	for key, reference := range m.References {
		group.Go(func() error {
			repository, digest, ok := strings.Cut(reference, "@")
			if !ok {
				return fmt.Errorf("%s: %q is no host[:port]/path@digest", key, reference)
			}
			text, err := r.client.missing(ctx, repository, digest)
			mu.Lock()
			defer mu.Unlock()
			missing[key] = text
			return err
		})
	}
	if err := group.Wait(); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("references"), "Not a reference by digest", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, struct {
		References map[string]string `tfsdk:"references"`
		Missing    map[string]string `tfsdk:"missing"`
	}{m.References, missing})...)
}

// missing says why an image can't be pulled, "" when the registry holds it. err is for a repository that is none.
func (c *client) missing(ctx context.Context, repository, digest string) (string, error) {
	repo, err := c.Repository(repository)
	if err != nil {
		return "", err
	}
	answer, known := c.refreshed.get(repository + "@" + digest)
	if !known {
		_, answer.found, answer.err = c.Find(ctx, repo, digest)
	}
	switch {
	case answer.err != nil:
		what, todo := registry.Explain(answer.err, repo.RegistryStr(), c.credentials)
		return sentences(fmt.Sprintf("Nobody can tell whether the registry holds the image %s@%s: %s.", repository, digest, what), todo), nil
	case !answer.found:
		return fmt.Sprintf("The registry does not hold the image %s@%s any more. Plan and apply again: it's pushed then.", repository, digest), nil
	}
	return "", nil
}

// answers are what refreshes of this walk got from the registry: right after, an ephemeral resource need not ask again. In
// an apply there are none.
type answers struct {
	mu sync.Mutex
	by map[string]answer
}

type answer struct {
	found bool
	err   error
}

func (a *answers) put(reference string, to answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]answer{}
	}
	a.by[reference] = to
}

func (a *answers) get(reference string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, ok := a.by[reference]
	return out, ok
}
