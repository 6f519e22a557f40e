// Package spire is yuba's provider for the SPIRE server node, a machine outside of the cluster: who it is, and the
// hand-off by which it comes to know the nodes of a namespace. It reaches the machine over ssh, in this process.
package spire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/internal/kubeconfig"
	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/providers/spire/internal/cluster"
	"fediversity.eu/yuba/providers/spire/internal/route"
	"fediversity.eu/yuba/providers/spire/internal/ssh"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/reach"
)

// Address is the provider's source address.
const Address = "registry.opentofu.org/fediversity/spire"

const (
	// EnvKeyFile is the environment variable that names the private key.
	EnvKeyFile = "SSH_PRIVATE_KEY_FILE"
	// EnvAPIServer is the environment variable with the address of the cluster's API server as the spire node reaches it.
	EnvAPIServer = "K8S_SPIRE_API_SERVER"
)

// commandTimeout bounds what is run on the spire node, which are moments of work; one hand-off may wait for another.
const commandTimeout = 2 * time.Minute

// Option changes how a server of this provider works.
type Option func(*options)

type options struct {
	getenv func(string) string
	pause  func(context.Context, time.Duration) error
}

// WithEnv replaces the environment.
func WithEnv(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// Server gives a function that makes servers of this provider. version is shown to API servers as part of the user agent.
func Server(version string, opts ...Option) func() tfprotov6.ProviderServer {
	o := options{getenv: os.Getenv, pause: pause}
	for _, opt := range opts {
		opt(&o)
	}
	return func() tfprotov6.ProviderServer {
		return providerserver.NewProtocol6(&spireProvider{version: version, options: o})()
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type spireProvider struct {
	version string
	options options
}

// session is a configured provider. Core makes one for each walk.
type session struct {
	options
	version    string
	configPath string
	node       reach.Node
	hops       []ssh.Hop
	err        error // why there are none
	noCluster  error // why there is no kubeconfig
}

// errUnknown is about a configuration that can be used only in an apply.
var errUnknown = errors.New("the configuration of the spire provider is not known yet: it depends on something that is applied first")

type providerModel struct {
	Host       types.String `tfsdk:"host"`
	Port       types.Int64  `tfsdk:"port"`
	User       types.String `tfsdk:"user"`
	HostKeys   types.List   `tfsdk:"host_keys"`
	Options    types.Map    `tfsdk:"options"`
	Command    types.String `tfsdk:"command"`
	ConfigPath types.String `tfsdk:"config_path"`
}

func (p *spireProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "spire", p.version
}

func (p *spireProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The SPIRE server node, and the hand-off of nodes to it. It is reached over ssh with the private key that " +
			"`" + EnvKeyFile + "` names. `" + route.EnvNodes + "` and `" + route.EnvUser + "` come before what is said here.",
		Attributes: map[string]schema.Attribute{
			"host": schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the spire node in the DNS. Without one there is nothing that can be done."},
			"port": schema.Int64Attribute{Optional: true, MarkdownDescription: "Port of its sshd. Default: 22."},
			"user": schema.StringAttribute{Optional: true, MarkdownDescription: "User to log in as. Default: who runs this."},
			"host_keys": schema.ListAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Its host keys, as its `ssh_host_*_key.pub` have them. Lines that begin with the name of a jump host have that one's, " +
					"as in known_hosts. Without a key of each machine on the way, here or in `" + route.EnvNodes + "`, no connection is made."},
			"options": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Options of ssh_config(5). Known are " + strings.Join(reach.Options(), ", ") + "; another one is refused."},
			"command": schema.StringAttribute{Optional: true, MarkdownDescription: "What runs yuba there, such as `sudo -n yuba`. Default: `" + reach.DefaultCommand + "`."},
			"config_path": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Path of the kubeconfig of the cluster. Default: the environment variable `" + kubeconfig.EnvPath + "`."},
		},
	}
}

func (p *spireProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	s := &session{options: p.options, version: p.version}
	resp.ResourceData, resp.DataSourceData = s, s
	var attributes map[string]tftypes.Value
	if err := req.Config.Raw.As(&attributes); err != nil {
		resp.Diagnostics.AddError("Bad configuration", err.Error())
		return
	}
	for name, v := range attributes {
		switch {
		case v.IsFullyKnown():
		case name == "config_path":
			s.noCluster = errUnknown
		default:
			s.err = errUnknown
		}
	}
	if s.err != nil {
		return
	}
	if m.Host.IsNull() {
		// Core needs the provider for what the state has, also where the configuration has no block of it.
		resp.Diagnostics.AddError("No spire node", "The state has a hand-off, and the configuration names no spire node that it could be taken back from. "+
			"Name the spire node again. To give up the identities, run `yuba spire retire` there and forget the hand-off (`yuba state rm spire_handoff.this spire_namespace.this`) first.")
		return
	}
	s.configPath = cmp.Or(m.ConfigPath.ValueString(), p.options.getenv(kubeconfig.EnvPath))
	s.node = reach.Node{Host: m.Host.ValueString(), Port: int(m.Port.ValueInt64()), User: m.User.ValueString(), Command: cmp.Or(m.Command.ValueString(), reach.DefaultCommand)}
	if !m.HostKeys.IsNull() {
		resp.Diagnostics.Append(m.HostKeys.ElementsAs(ctx, &s.node.HostKeys, false)...)
	}
	if !m.Options.IsNull() {
		resp.Diagnostics.Append(m.Options.ElementsAs(ctx, &s.node.Options, false)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	hops, err := route.Hops(s.node, p.options.getenv)
	if err == nil {
		err = reach.CheckCommand(s.node.Command)
	}
	if err != nil {
		resp.Diagnostics.AddError("No way to the spire node", err.Error())
	}
	s.hops = hops
}

func (p *spireProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &namespaceResource{} }, func() resource.Resource { return &handoffResource{} }}
}

func (p *spireProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return &serverData{} }}
}

// ready is nil when the session can be used.
func (s *session) ready() error {
	if s == nil {
		return errors.New("the spire provider was used before it was configured")
	}
	return s.err
}

// cluster is what the spire node gets to know of the cluster. server is what the configuration says of its address.
func (s *session) cluster(server string) (*cluster.Cluster, error) {
	if s.noCluster != nil {
		return nil, s.noCluster
	}
	config, err := kubeconfig.Load(s.configPath)
	if err != nil {
		return nil, err
	}
	from := "the kubeconfig"
	if server != "" {
		from = "api_server"
	} else if server = s.getenv(EnvAPIServer); server != "" {
		from = EnvAPIServer
	}
	c, err := cluster.New(config, server, "yuba/"+s.version)
	if err != nil {
		return nil, fmt.Errorf("address by %s: %w", from, err)
	}
	return c, nil
}

// tries is how often a command is started. Each can be started again: what it does for the second time is nothing.
const tries = 3

// yuba runs `yuba spire VERB` on the spire node and gives what it prints. A connection that is cut is made again; the
// command may have had its effect before.
func (s *session) yuba(ctx context.Context, verb string, stdin []byte, secrets ...string) ([]byte, error) {
	file := s.getenv(EnvKeyFile)
	if file == "" {
		return nil, fmt.Errorf("%s is not set: name the private key that opens %s", EnvKeyFile, s.node.Host)
	}
	key, err := ssh.ReadKey(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvKeyFile, err)
	}
	command := ssh.Command{Line: s.node.Command + " spire " + verb, Stdin: stdin, MaxSize: handoff.MaxSize, Timeout: commandTimeout}
	if verb == "show" { // all others print nothing that matters
		command.Whole = json.Valid
	}
	for try := 1; ; try++ {
		out, err := ssh.Run(ctx, s.hops, key, command)
		var failed *ssh.Error
		if errors.As(err, &failed) && failed.Cut && try < tries {
			if err := s.pause(ctx, time.Duration(try*try)*250*time.Millisecond); err != nil {
				return nil, err
			}
			continue
		}
		return out, say(err, command.Line, secrets)
	}
}

// say adds what the other side said to the error of a command.
func say(err error, line string, secrets []string) error {
	var exit *ssh.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	why := "it said nothing"
	if said := strings.TrimSpace(text.Plain(exit.Stderr)); said != "" {
		why = "it said: " + said
	}
	for _, secret := range secrets {
		if shares(exit.Stderr, secret) {
			why = "what it said has a part of what it was given, and isn't shown"
		}
	}
	if exit.Status == 127 {
		why += "; the program must be there, or the command must name it by its path"
	}
	return fmt.Errorf("%w (%s); %s", err, line, why)
}

// window is how much of a secret gives it away, in bytes.
const window = 12

// shares says whether a text has a part of a secret.
func shares(text, secret string) bool {
	for i := 0; i+window <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+window]) {
			return true
		}
	}
	return false
}
