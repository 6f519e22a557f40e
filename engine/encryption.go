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
// static key provider. The cloud ones, and those that run a program, are there
// to say that they aren't linked.
func encryptionRegistry() (registry.Registry, error) {
	const noProcess = "external key providers and methods are not linked into yuba: it starts no processes"
	reg := lockingencryptionregistry.New()
	return reg, errors.Join(
		reg.RegisterKeyProvider(pbkdf2.New()),
		reg.RegisterKeyProvider(static.New()),
		reg.RegisterKeyProvider(openbao.New()),
		reg.RegisterKeyProvider(unlinkedKeys{"aws_kms", "the AWS KMS key provider is not linked into yuba; use pbkdf2 or openbao"}),
		reg.RegisterKeyProvider(unlinkedKeys{"gcp_kms", "the Google Cloud KMS key provider is not linked into yuba; use pbkdf2 or openbao"}),
		reg.RegisterKeyProvider(unlinkedKeys{"azure_vault", "the Azure Key Vault key provider is not linked into yuba; use pbkdf2 or openbao"}),
		reg.RegisterKeyProvider(unlinkedKeys{"external", noProcess}),
		reg.RegisterMethod(aesgcm.New()),
		reg.RegisterMethod(unencrypted.New()),
		reg.RegisterMethod(unlinkedMethod{"external", noProcess}),
	)
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
