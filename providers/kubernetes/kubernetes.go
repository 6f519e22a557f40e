// Package kubernetes is yuba's provider for Kubernetes: any object by
// server-side apply, and the rollout of a Deployment with its way back.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/internal/kubeconfig"
	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/wire"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/fediversity/kubernetes"

// DefaultFieldManager owns the fields that yuba applies. Changing it for
// objects that exist makes conflicts with the old name.
const DefaultFieldManager = "yuba"

// EnvForceConflicts is the environment variable that lets applies take fields from
// other field managers, for those who don't write the configuration themselves.
const EnvForceConflicts = "KUBE_FORCE_CONFLICTS"

// What rollouts and deletes have when the configuration says nothing. The
// descriptions in the schema name them.
const (
	defaultTimeout     = 10 * time.Minute
	defaultPersistence = 20 * time.Second
)

type options struct {
	progress  func(namespace, name, message string)
	transport func(http.RoundTripper) http.RoundTripper
	getenv    func(string) string
	persist   time.Duration
	timeout   time.Duration // of what has none of its own
	force     bool          // objects that don't say otherwise take fields from others
}

// Option changes how a server of this provider works.
type Option func(*options)

// WithProgress has report called with what a slow rollout or delete waits for,
// whenever that changes. It may be called by several goroutines at once.
func WithProgress(report func(namespace, name, message string)) Option {
	return func(o *options) { o.progress = report }
}

// WithTransport wraps the HTTP transport to the API server, to count or to
// disturb its requests.
func WithTransport(wrap func(http.RoundTripper) http.RoundTripper) Option {
	return func(o *options) { o.transport = wrap }
}

// WithEnv replaces the environment that defaults are read from.
func WithEnv(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// WithPersistence sets how long a reason that cannot heal by itself must last
// until a rollout fails early. The default is 20 seconds.
func WithPersistence(d time.Duration) Option {
	return func(o *options) { o.persist = d }
}

// Server gives a function that makes servers of this provider, each independent
// of the others. version is shown to the API server as part of the user agent.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	o, reader := newOptions(opts), &wire.Reader{}
	return func() tfprotov6.ProviderServer {
		p := &kubernetesProvider{version: version, options: o}
		return &quietServer{ProviderServer: providerserver.NewProtocol6(p)(), provider: p, wire: reader}
	}
}

// session is what a configured provider shares with its resources.
type session struct {
	options
	client *client.Client
	err    error // why there is no client
	watch  watcher
}

// connect gives the client, or adds the reason why there is none.
func (s *session) connect(diags *diag.Diagnostics) *client.Client {
	switch {
	case s == nil:
		diags.AddError("Provider not configured", "the kubernetes provider was used before it was configured")
		return nil
	case s.err != nil:
		diags.AddError("No connection to a Kubernetes cluster", s.err.Error())
		return nil
	}
	return s.client
}

type kubernetesProvider struct {
	version string
	options options
	session *session // nil until configured
}

func (p *kubernetesProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "kubernetes", p.version
}

func (p *kubernetesProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Kubernetes objects by server-side apply, and rollouts of Deployments.",
		Attributes: map[string]schema.Attribute{
			"config_path": schema.StringAttribute{
				Optional:    true,
				Description: "Path of the kubeconfig. Default: the environment variable " + kubeconfig.EnvPath + ". Nothing else is looked at.",
			},
			"after": schema.DynamicAttribute{
				Optional: true,
				Description: "Its value is ignored. A provider block has no depends_on: whatever a reference here names is applied before " +
					"anything of this provider, deletions included.",
			},
			"timeout": schema.StringAttribute{
				Optional:    true,
				Description: "Timeout of objects and rollouts that have none of their own, such as 90s. Default: 10m.",
			},
			"persistence": schema.StringAttribute{
				Optional:    true,
				Description: "Persistence of rollouts that have none of their own. Default: 20s.",
			},
			"field_manager": schema.StringAttribute{
				Optional:    true,
				Description: "Name of the field manager that owns what is applied. Default: " + DefaultFieldManager + ".",
			},
		},
	}
}

func (p *kubernetesProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var cfg struct {
		ConfigPath   types.String  `tfsdk:"config_path"`
		FieldManager types.String  `tfsdk:"field_manager"`
		After        types.Dynamic `tfsdk:"after"`
		Timeout      types.String  `tfsdk:"timeout"`
		Persistence  types.String  `tfsdk:"persistence"`
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &cfg)...)
	if resp.Diagnostics.HasError() {
		return
	}
	options := p.options
	for name, set := range map[string]struct {
		value types.String
		to    *time.Duration
	}{"timeout": {cfg.Timeout, &options.timeout}, "persistence": {cfg.Persistence, &options.persist}} {
		if set.value.IsNull() || set.value.IsUnknown() {
			continue
		}
		d, err := parseTimeout(set.value.ValueString())
		if err != nil {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Bad duration", err.Error())
			return
		}
		*set.to = d
	}
	if text := p.options.getenv(EnvForceConflicts); text != "" {
		force, err := strconv.ParseBool(text)
		if err != nil {
			resp.Diagnostics.AddError("Bad environment variable "+EnvForceConflicts, fmt.Sprintf("%q is neither true nor false", text))
			return
		}
		options.force = force
	}
	s := &session{options: options}
	p.session, resp.ResourceData, resp.DataSourceData = s, s, s

	if cfg.ConfigPath.IsUnknown() || cfg.FieldManager.IsUnknown() {
		// The plan can go on for resources that need no answer.
		s.err = errors.New("the configuration of the kubernetes provider is not known yet: it depends on something that is applied first")
		return
	}
	configPath := cfg.ConfigPath.ValueString()
	if configPath == "" {
		configPath = p.options.getenv(kubeconfig.EnvPath)
	}
	manager := cfg.FieldManager.ValueString()
	if manager == "" {
		manager = DefaultFieldManager
	}
	if len(manager) > 128 {
		resp.Diagnostics.AddAttributeError(path.Root("field_manager"), "Bad field manager", "the API server takes at most 128 characters")
		return
	}
	connected, err := options.dial(configPath, manager, p.version)
	if err != nil {
		resp.Diagnostics.AddError("No connection to a Kubernetes cluster", err.Error())
		return
	}
	p.session, resp.ResourceData, resp.DataSourceData = connected, connected, connected
}

func (p *kubernetesProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &objectResource{} },
		func() resource.Resource { return &rolloutResource{} },
	}
}

func (p *kubernetesProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return &objectData{} },
		func() datasource.DataSource { return &runtimeClassData{} },
	}
}
