package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/backend"
	backendlocal "github.com/opentofu/opentofu/internal/backend/local"
	"github.com/opentofu/opentofu/internal/backend/remote-state/http"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/lang/marks"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// HTTPState is the configuration of the http backend, with the defaults that
// TF_HTTP_* and OpenTofu give it.
type HTTPState struct {
	Address, UpdateMethod                                       string
	LockAddress, LockMethod, UnlockAddress, UnlockMethod        string
	Username, Password                                          string
	Headers                                                     map[string]string
	SkipCertVerification                                        bool
	CACertificatePEM, ClientCertificatePEM, ClientPrivateKeyPEM string
	RetryMax                                                    int
	RetryWaitMin, RetryWaitMax                                  time.Duration
}

// statePaths are those of -state, -state-out and -backup, which only a state in
// a file heeds.
type statePaths struct{ state, out, backup string }

// currentWorkspace is the workspace that TF_WORKSPACE or, in a directory that
// stock tofu has worked in, its choice there names.
func currentWorkspace() (string, error) {
	name, _ := workspaceOverridden()
	if name != url.PathEscape(name) {
		//lint:ignore ST1005 stock tofu's words
		return "", errors.New("Invalid workspace name set using TF_WORKSPACE")
	}
	return name, nil
}

func workspaceOverridden() (name string, overridden bool) {
	if name := os.Getenv("TF_WORKSPACE"); name != "" {
		return name, true
	}
	b, err := readBounded(filepath.Join(dataDir(), backendlocal.DefaultWorkspaceFile), 4<<10)
	if name = string(bytes.TrimSpace(b)); err != nil || name == "" {
		name = backend.DefaultStateName
	}
	return name, false
}

// dataDir is where stock tofu keeps what it remembers of a working directory.
func dataDir() string {
	if dir := os.Getenv("TF_DATA_DIR"); dir != "" {
		return dir
	}
	return ".terraform"
}

// loadState finds the state that the configuration, or the plan that is to be
// applied, is for.
func (c *cli) loadState(ctx context.Context, e *Engine, root *configs.Module, workspace string, s scope) (diags tfdiags.Diagnostics) {
	if root.CloudConfig != nil {
		return diags.Append(&hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  "No cloud backend",
			Detail:   "The cloud block is not supported: operations run in this process. " + whichBackends,
			Subject:  &root.CloudConfig.DeclRange,
		})
	}
	kind, config := "local", cty.NilVal
	if b := root.Backend; b != nil {
		schema, known := backendSchemas()[b.Type]
		if !known {
			return diags.Append(&hcl.Diagnostic{
				Severity: hcl.DiagError,
				Summary:  "Backend not linked",
				Detail:   fmt.Sprintf("There is no backend %q in this program. %s", b.Type, whichBackends),
				Subject:  &b.TypeRange,
			})
		}
		val, hclDiags := b.Decode(ctx, schema.NoneRequired())
		if diags = diags.Append(hclDiags); hclDiags.HasErrors() {
			return diags
		}
		if marks.Contains(val, marks.Sensitive) || marks.Contains(val, marks.Ephemeral) {
			// Nothing of it is stored: what is secret is cut from plan files.
			val, _ = val.UnmarkDeep()
		}
		kind, config = b.Type, val
	} else if c.StateFromEnv && os.Getenv("TF_HTTP_ADDRESS") != "" && s.paths.state == "" {
		switch {
		case !e.loader.IsConfigDir(configDir):
			kind, config = "http", cty.EmptyObjectVal
		case slices.Contains([]string{"state push", "state lock", "force-unlock"}, c.verb):
			// They'd do nothing that could be seen: another state is stored, another one's lock is looked at.
			diags = diags.Append(tfdiags.Sourceless(tfdiags.Warning, "TF_HTTP_ADDRESS is not used",
				`The configuration in the working directory has no backend, so its state is in a file. For the state at TF_HTTP_ADDRESS, run this in a directory without a configuration.`))
		}
	}
	planned, err := e.plannedBackend(s.plan)
	switch {
	case err != nil:
		return diags.Append(sourceless(fmt.Sprintf("Failed to load %q as a plan file", s.plan), "Error: %s", err))
	case planned == nil:
	case planned.workspace != workspace && os.Getenv("TF_WORKSPACE") != "":
		return diags.Append(sourceless("Plan is for another workspace",
			"The plan was made in workspace %q, but TF_WORKSPACE names %q.", planned.workspace, workspace))
	default:
		workspace = planned.workspace
		if !planned.is(kind, config) {
			kind, config = planned.kind, planned.config
		}
	}
	state, more := c.openState(kind, config, e.opts.Commands, e.enc.State(), workspace)
	if diags = diags.Append(more); more.HasErrors() {
		return diags
	}
	if root.Backend != nil && planned == nil {
		if diags = diags.Append(checkSaved(kind, state.config)); diags.HasErrors() {
			return diags
		}
	}
	if state.local != nil {
		state.local.OverrideStatePath, state.local.OverrideStateOutPath, state.local.OverrideStateBackupPath = s.paths.state, s.paths.out, s.paths.backup
	} else if workspace != backend.DefaultStateName {
		return diags.Append(sourceless("Error selecting workspace", "The http backend has only the workspace %q, not %q: %s.",
			backend.DefaultStateName, workspace, backend.ErrWorkspacesNotSupported))
	}
	e.state = state
	e.tellOfWaits()
	return diags
}

const whichBackends = `The backends are "http", a state on a server, and "local", a state in a file, which is also what a configuration without a backend block has.`

func backendSchemas() map[string]*configschema.Block {
	disabled := encryption.StateEncryptionDisabled()
	return map[string]*configschema.Block{
		"http":  http.New(disabled).ConfigSchema(),
		"local": backendlocal.New(disabled).ConfigSchema(),
	}
}

// planBackend is where the state is that a saved plan is for.
type planBackend struct {
	kind, workspace string
	config          cty.Value
}

// plannedBackend reads it from the plan; path is "" if there is none.
func (e *Engine) plannedBackend(path string) (*planBackend, error) {
	if path == "" {
		return nil, nil
	}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return nil, errors.New("the specified path is a directory, not a plan file; use the global -chdir flag to use this directory as the configuration root")
	}
	reader, err := e.openPlanFile(path)
	if err != nil {
		return nil, err
	}
	plan, err := reader.ReadPlan()
	if err != nil {
		return nil, err
	}
	schema, ok := backendSchemas()[plan.Backend.Type]
	if !ok {
		return nil, fmt.Errorf("it is for a state in the backend %q, which is not in this program. %s", plan.Backend.Type, whichBackends)
	}
	config, err := plan.Backend.Config.Decode(schema.ImpliedType())
	if err != nil {
		return nil, fmt.Errorf("its backend configuration: %w", err)
	}
	return &planBackend{plan.Backend.Type, plan.Backend.Workspace, config}, nil
}

// is tells whether a backend of the configuration is the plan's: then it is
// used, as it has the credentials that a plan hasn't.
func (p *planBackend) is(kind string, config cty.Value) bool {
	if p.kind != kind {
		return false
	}
	if kind != "http" || config == cty.NilVal {
		return kind == "local" && config == cty.NilVal && p.config.GetAttr("path").IsNull()
	}
	address := func(v cty.Value) string {
		if !v.Type().HasAttribute("address") || v.GetAttr("address").IsNull() {
			return ""
		}
		a, _ := withoutUserinfo(v.GetAttr("address").AsString())
		return a
	}
	here := address(config)
	if here == "" {
		here, _ = withoutUserinfo(os.Getenv("TF_HTTP_ADDRESS"))
	}
	there := address(p.config)
	return there == "" || here == there
}

// openState opens a state where a backend with this configuration has it; NilVal
// stands for no backend block.
func (c *cli) openState(kind string, config cty.Value, commands Commands, enc encryption.StateEncryption, workspace string) (*stateBackend, tfdiags.Diagnostics) {
	var diags tfdiags.Diagnostics
	if config == cty.NilVal {
		config = cty.EmptyObjectVal
	}
	schema := backendSchemas()[kind]
	config, err := schema.NoneRequired().CoerceValue(config)
	if err != nil {
		return nil, diags.Append(fmt.Errorf("the configuration of the backend %q: %w", kind, err))
	}
	if kind == "local" {
		local := backendlocal.New(enc)
		prepared, diags := local.PrepareConfig(config)
		if !diags.HasErrors() {
			diags = diags.Append(local.Configure(context.Background(), prepared))
		}
		return &stateBackend{
			kind: kind, workspace: workspace, local: local, client: newStateClient(nil, commands.ForceUnlock),
			enc: enc, schema: schema, config: config,
		}, diags
	}
	h, prepared, diags := c.httpState(config)
	if diags.HasErrors() {
		return nil, diags
	}
	store, err := c.OpenHTTP(h)
	if err != nil {
		return nil, diags.Append(fmt.Errorf("the state of the backend %q: %w", kind, err))
	}
	public, err := publicConfig(config, prepared)
	if err != nil {
		return nil, diags.Append(err)
	}
	return &stateBackend{
		kind: kind, workspace: workspace, client: newStateClient(store, commands.ForceUnlock),
		enc: enc, schema: schema, config: public,
	}, diags
}

// httpState reads the configuration of an http backend, and gives it its
// defaults.
func (c *cli) httpState(config cty.Value) (h HTTPState, prepared cty.Value, diags tfdiags.Diagnostics) {
	prepared, diags = http.New(encryption.StateEncryptionDisabled()).PrepareConfig(config)
	if t := prepared.Type(); t.IsObjectType() && t.HasAttribute("address") && prepared.GetAttr("address").IsNull() {
		return h, prepared, tfdiags.Diagnostics{}.Append(sourceless("No address of the state",
			"The http backend needs the URL of the state: as address in its block, or as TF_HTTP_ADDRESS in the environment."))
	}
	if diags.HasErrors() {
		for i, d := range diags { // of which the environment's are without a name
			desc := d.Description()
			desc.Summary, desc.Detail = "Invalid configuration of the http backend", strings.TrimSpace("Its block or the TF_HTTP_* in the environment: "+desc.Summary+" "+desc.Detail)
			diags[i] = reworded{d, desc}
		}
		return h, prepared, diags
	}
	var err error
	get := func(name string, to any) {
		v := prepared.GetAttr(name)
		if v.IsNull() || err != nil {
			return
		}
		if n, ok := to.(*int); ok { // the environment's are strings
			if v, err = convert.Convert(v, cty.Number); err == nil {
				if err = gocty.FromCtyValue(v, n); err == nil && (*n < 0 || *n > 1_000_000) {
					err = errors.New("it must be a whole number from 0 up")
				}
			}
		} else {
			err = gocty.FromCtyValue(v, to)
		}
		if err != nil {
			err = fmt.Errorf("%s of the http backend: %w", name, err)
		}
	}
	var waitMin, waitMax int
	get("address", &h.Address)
	get("update_method", &h.UpdateMethod)
	get("lock_address", &h.LockAddress)
	get("lock_method", &h.LockMethod)
	get("unlock_address", &h.UnlockAddress)
	get("unlock_method", &h.UnlockMethod)
	get("username", &h.Username)
	get("password", &h.Password)
	get("headers", &h.Headers)
	get("skip_cert_verification", &h.SkipCertVerification)
	if v := os.Getenv("TF_HTTP_SKIP_CERT_VERIFICATION"); v != "" && err == nil && (!config.Type().HasAttribute("skip_cert_verification") || config.GetAttr("skip_cert_verification").IsNull()) {
		if h.SkipCertVerification, err = strconv.ParseBool(v); err != nil { // stock tofu has no such variable
			err = fmt.Errorf("TF_HTTP_SKIP_CERT_VERIFICATION is %q: set it to true or false", v)
		}
	}
	get("client_ca_certificate_pem", &h.CACertificatePEM)
	get("client_certificate_pem", &h.ClientCertificatePEM)
	get("client_private_key_pem", &h.ClientPrivateKeyPEM)
	get("retry_max", &h.RetryMax)
	get("retry_wait_min", &waitMin)
	get("retry_wait_max", &waitMax)
	h.RetryWaitMin, h.RetryWaitMax = time.Duration(waitMin)*time.Second, time.Duration(waitMax)*time.Second
	if err != nil {
		diags = diags.Append(err)
	}
	return h, prepared, diags
}

// publicConfig is what a plan file gets to know of an http backend: what its
// block says, without what is secret, and its addresses.
func publicConfig(config, prepared cty.Value) (cty.Value, error) {
	attrs := config.AsValueMap()
	for _, secret := range []string{"username", "password", "headers", "client_certificate_pem", "client_private_key_pem"} {
		attrs[secret] = cty.NullVal(config.Type().AttributeType(secret))
	}
	for _, name := range []string{"address", "lock_address", "unlock_address"} {
		v := prepared.GetAttr(name)
		if v.IsNull() {
			continue
		}
		public, err := withoutUserinfo(v.AsString())
		if err != nil {
			return cty.NilVal, err
		}
		attrs[name] = cty.StringVal(public)
	}
	return cty.ObjectVal(attrs), nil
}

// backends opens states for terraform_remote_state. It must do so while the
// engine is being used only.
func (c *cli) backends(e *Engine) func(kind string, config cty.Value, enc encryption.StateEncryption, open bool) (backend.Backend, tfdiags.Diagnostics) {
	return func(kind string, config cty.Value, enc encryption.StateEncryption, open bool) (backend.Backend, tfdiags.Diagnostics) {
		var diags tfdiags.Diagnostics
		invalid := func(attr, format string, args ...any) (backend.Backend, tfdiags.Diagnostics) {
			return nil, diags.Append(tfdiags.AttributeValue(tfdiags.Error, "Invalid backend configuration", fmt.Sprintf(format, args...), cty.GetAttrPath(attr)))
		}
		if kind == "_local" {
			kind = "local"
		}
		schema, ok := backendSchemas()[kind]
		if !ok {
			return invalid("backend", "There is no backend type named %q in this program. %s", kind, whichBackends)
		}
		config, err := schema.NoneRequired().CoerceValue(config)
		if err != nil {
			return invalid("config", "The given configuration is not valid for backend %q: %s.", kind, tfdiags.FormatError(err))
		}
		if kind == "http" && !open {
			_, _, diags := c.httpState(config)
			return nil, diags
		}
		state, diags := c.openState(kind, config, e.opts.Commands, enc, backend.DefaultStateName)
		if diags.HasErrors() {
			return nil, diags
		}
		return state, diags
	}
}
