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
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/aws_kms"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/azure_vault"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/gcp_kms"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/openbao"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/pbkdf2"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider/static"
	"github.com/opentofu/opentofu/internal/encryption/method/aesgcm"
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
	mod, diags := loader.Parser().LoadConfigDir(configDir, call)
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
	enc, diags := encryption.New(ctx, reg, cfg, mod.StaticEvaluator)
	if diags.HasErrors() {
		return nil, nil, sentence("setting up encryption", diags)
	}
	return enc, tfdiags.Diagnostics{}.Append(diags), nil
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
// static key provider, but not those that run a program ("external"): this
// program starts no process. The three cloud ones are there so that naming them
// gives an error that says they aren't linked.
func encryptionRegistry() (registry.Registry, error) {
	reg := lockingencryptionregistry.New()
	return reg, errors.Join(
		reg.RegisterKeyProvider(pbkdf2.New()),
		reg.RegisterKeyProvider(static.New()),
		reg.RegisterKeyProvider(openbao.New()),
		reg.RegisterKeyProvider(aws_kms.New()),
		reg.RegisterKeyProvider(gcp_kms.New()),
		reg.RegisterKeyProvider(azure_vault.New()),
		reg.RegisterMethod(aesgcm.New()),
		reg.RegisterMethod(unencrypted.New()),
	)
}

// sentence makes an error of diagnostics that come before there is a view.
func sentence(what string, diags hcl.Diagnostics) error {
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
	return fmt.Errorf("%s: %s", what, strings.Join(errs, "; "))
}
