package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/configs/configload"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/encryption/config"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider"
	externalkeys "github.com/opentofu/opentofu/internal/encryption/keyprovider/external"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/openbao"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/pbkdf2"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/static"
	"github.com/opentofu/opentofu/internal/encryption/method"
	"github.com/opentofu/opentofu/internal/encryption/method/aesgcm"
	externalmethod "github.com/opentofu/opentofu/internal/encryption/method/external"
	"github.com/opentofu/opentofu/internal/encryption/method/unencrypted"
	"github.com/opentofu/opentofu/internal/encryption/registry"
	"github.com/opentofu/opentofu/internal/encryption/registry/lockingencryptionregistry"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// newEncryption sets up state and plan encryption from TF_ENCRYPTION and the
// configuration. The diagnostics are warnings only.
func newEncryption(ctx context.Context, opts Options, loader *configload.Loader, call configs.StaticModuleCall) (encryption.Encryption, tfdiags.Diagnostics, error) {
	env := strings.TrimSpace(opts.Encryption)
	if env == "" && !mentionsEncryption(opts.Files) {
		return encryption.Disabled(), nil, nil
	}
	mod, diags := loader.Parser().LoadConfigDirSelective(configDir, call, configs.SelectiveLoadEncryption)
	if diags.HasErrors() {
		return nil, nil, sentence("reading the configuration's encryption settings", diags)
	}
	cfg := mod.Encryption
	if env != "" {
		envCfg, diags := config.LoadConfigFromString("TF_ENCRYPTION", env)
		if diags.HasErrors() {
			return nil, nil, sentence("TF_ENCRYPTION", diags)
		}
		cfg = cfg.Merge(envCfg)
	}
	reg, err := encryptionRegistry()
	if err != nil {
		return nil, nil, err
	}
	// Key providers take no context: one that doesn't answer is left to itself.
	type set struct {
		enc   encryption.Encryption
		diags hcl.Diagnostics
	}
	up := make(chan set, 1)
	go func() {
		enc, diags := encryption.New(ctx, reg, cfg, mod.StaticEvaluator)
		up <- set{enc, diags}
	}()
	select {
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("setting up encryption: %w; nothing was changed", context.Cause(ctx))
	case s := <-up:
		if s.diags.HasErrors() {
			return nil, nil, sentence("setting up encryption", s.diags)
		}
		return s.enc, tfdiags.Diagnostics{}.Append(s.diags), nil
	}
}

// mentionsEncryption says whether it is worth to load the configuration for its
// encryption settings; most have none.
func mentionsEncryption(files map[string][]byte) bool {
	for _, b := range files {
		if bytes.Contains(b, []byte("encryption")) {
			return true
		}
	}
	return false
}

// encryptionRegistry holds the key providers and methods of OpenTofu, and the
// static key provider, which stock tofu doesn't offer. External ones start a
// program when the configuration names one. The cloud ones are there to say that
// they aren't linked.
func encryptionRegistry() (registry.Registry, error) {
	linked := []keyprovider.Descriptor{pbkdf2.New(), openbao.New(), externalkeys.New(), static.New()}
	var names []string
	for _, d := range linked {
		names = append(names, string(d.ID()))
	}
	for _, cloud := range []keyprovider.ID{"aws_kms", "gcp_kms", "azure_vault"} {
		linked = append(linked, unlinkedKeys{cloud, names})
	}
	reg := lockingencryptionregistry.New()
	var errs []error
	for _, d := range linked {
		errs = append(errs, reg.RegisterKeyProvider(d))
	}
	for _, d := range []method.Descriptor{aesgcm.New(), unencrypted.New(), externalmethod.New()} {
		errs = append(errs, reg.RegisterMethod(d))
	}
	return reg, errors.Join(errs...)
}

// sentence makes an error of diagnostics that come before there is a view.
func sentence(what string, diags hcl.Diagnostics) error { return diagnosed{what, diags} }

// diagnosed is an error of diagnostics, for who has no view to print them.
type diagnosed struct {
	what  string
	diags hcl.Diagnostics
}

func (e diagnosed) Error() string {
	what, diags := e.what, e.diags
	var errs []string
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			s := d.Summary
			if d.Detail != "" {
				s += ": " + d.Detail
			}
			if d.Subject != nil {
				s = d.Subject.String() + ": " + s
			}
			errs = append(errs, s)
		}
	}
	return fmt.Sprintf("%s: %s", what, strings.Join(errs, "; "))
}
