// Package oci is the provider of images in OCI registries: oci_image takes the image of a node from a source,
// pushes it under a tag, and gives the digest that the registry holds.
package oci

import (
	"cmp"
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/oci/internal/auth"
	"fediversity.eu/yuba/providers/oci/internal/push"
	"fediversity.eu/yuba/providers/oci/internal/registry"
	"fediversity.eu/yuba/providers/oci/internal/source"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/fediversity/oci"

// Option changes how a server behaves towards the process that it runs in.
type Option func(*config)

type config struct {
	version  string
	shared   *shared
	progress func(ref string, sent, total int64)
	message  func(ref, message string)
	getenv   func(string) string
	registry registry.Options
}

// WithProgress has f called while a layer is pushed: the image (repository:tag), and how many bytes of the layer in
// the archive, of how many, have been taken. An upload that starts again counts from the beginning. f may be
// called concurrently, and often: about once a MiB and image.
func WithProgress(f func(ref string, sent, total int64)) Option {
	return func(c *config) { c.progress = f }
}

// WithMessages has f called with the image (repository:tag) when something begins that takes long, such as a build, and
// with an empty message when it has ended. f may be called concurrently.
func WithMessages(f func(ref, message string)) Option {
	return func(c *config) { c.message = f }
}

// WithSources has images come from sources that the caller has made. Without it there is no standard input.
func WithSources(s *Sources) Option {
	return func(c *config) { c.shared.sources = s.store }
}

// Server gives a function that makes independent servers of the provider.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	c := config{version: version, shared: &shared{slots: make(chan struct{}, maxPushes)}, getenv: os.Getenv}
	for _, o := range opts {
		o(&c)
	}
	if c.shared.sources == nil {
		c.shared.sources = NewSources(SourceOptions{Environ: os.Environ()}).store
	}
	return func() tfprotov6.ProviderServer {
		return providerserver.NewProtocol6(&ociProvider{config: c})()
	}
}

// maxPushes bounds how many images are pushed at the same time, and so memory and connections. Each push uses all cores.
const maxPushes = 4

// shared is what the servers of one Server call have in common: core makes one for each walk.
type shared struct {
	sources *source.Store
	slots   chan struct{}
	sent    push.Sent
}

type ociProvider struct{ config config }

type providerModel struct {
	AuthFile    types.String `tfsdk:"auth_file"`
	PlainHTTP   types.List   `tfsdk:"plain_http"`
	CAFile      types.String `tfsdk:"ca_file"`
	UploadHosts types.List   `tfsdk:"upload_hosts"`
	Compression types.String `tfsdk:"compression"`
}

// client is what the resources get from the provider.
type client struct {
	*registry.Client
	*shared
	pusher      *push.Pusher
	credentials string // where they come from, for messages
	progress    func(ref string, sent, total int64)
	message     func(ref, message string)
	refreshed   answers
}

func (p *ociProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "oci", p.config.version
}

func (p *ociProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Images in OCI registries.",
		Attributes: map[string]schema.Attribute{
			"auth_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "File with credentials, in the form of containers-auth.json(5). Default: the environment variable " +
					"`REGISTRY_AUTH_FILE`, else the places that containers-auth.json(5) names. Credential helpers are never executed.",
			},
			"plain_http": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Hosts (`name` or `name:port`) that may be spoken to without TLS. Loopback addresses always may.",
			},
			"ca_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "PEM file with CAs to trust beside those of the system.",
			},
			"upload_hosts": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Hosts (`name` or `name:port`) to which a registry may send uploads, beside itself and the hosts below " +
					"its name. The content of images goes there, credentials never do.",
			},
			"compression": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "How layers are compressed that their source does not hold compressed: `gzip` (default), which every " +
					"container runtime reads, or `zstd`. It is part of the digest: change it together with the tags.",
			},
		},
	}
}

func (p *ociProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for name, unknown := range map[string]bool{
		"auth_file": m.AuthFile.IsUnknown(), "plain_http": m.PlainHTTP.IsUnknown(), "ca_file": m.CAFile.IsUnknown(),
		"upload_hosts": m.UploadHosts.IsUnknown(), "compression": m.Compression.IsUnknown(),
	} {
		if unknown {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Value is not known yet",
				"The registry is asked at plan time, so this must not depend on a resource that is still to be made.")
		}
	}
	var plain, uploads []string
	if !m.PlainHTTP.IsUnknown() {
		resp.Diagnostics.Append(m.PlainHTTP.ElementsAs(ctx, &plain, false)...)
	}
	if !m.UploadHosts.IsUnknown() {
		resp.Diagnostics.Append(m.UploadHosts.ElementsAs(ctx, &uploads, false)...)
	}
	compression := cmp.Or(m.Compression.ValueString(), string(push.Gzip))
	if err := push.CheckCompression(compression); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("compression"), "Not a compression", err.Error()+".")
	}
	if resp.Diagnostics.HasError() {
		return
	}
	keychain := auth.New(cmp.Or(m.AuthFile.ValueString(), p.config.getenv("REGISTRY_AUTH_FILE")), p.config.getenv)
	o := p.config.registry
	o.Keychain, o.PlainHTTP, o.CAFile, o.UploadHosts = keychain, plain, m.CAFile.ValueString(), uploads
	o.UserAgent = "yuba/" + p.config.version
	conn := registry.New(o)
	c := &client{Client: conn, pusher: push.New(conn, push.Compression(compression), &p.config.shared.sent), shared: p.config.shared, credentials: keychain.String(), progress: p.config.progress, message: p.config.message}
	resp.ResourceData, resp.EphemeralResourceData = c, c
}

func (p *ociProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &imageResource{} }}
}

// EphemeralResources are those of provider.ProviderWithEphemeralResources.
func (p *ociProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return &manifestsEphemeral{} }}
}

func (p *ociProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }
