package engine

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider"
	"github.com/opentofu/opentofu/internal/encryption/method"
)

// unlinkedKeys stands for a key provider of OpenTofu that this program doesn't
// have. Configuring it says why.
type unlinkedKeys struct {
	id     keyprovider.ID
	reason string
}

var (
	_ keyprovider.Descriptor         = unlinkedKeys{}
	_ keyprovider.SelfDecodingConfig = unlinkedKeys{}
)

func (u unlinkedKeys) ID() keyprovider.ID               { return u.id }
func (u unlinkedKeys) ConfigStruct() keyprovider.Config { return u }

// DepsTraversals finds none: the settings don't matter.
func (unlinkedKeys) DepsTraversals(hcl.Body) ([]hcl.Traversal, hcl.Diagnostics) { return nil, nil }

// DecodeConfig takes whatever settings there are.
func (unlinkedKeys) DecodeConfig(hcl.Body, *hcl.EvalContext) hcl.Diagnostics { return nil }

// Build fails with the reason.
func (u unlinkedKeys) Build() (keyprovider.KeyProvider, keyprovider.KeyMeta, error) {
	return nil, nil, errors.New(u.reason)
}

// unlinkedMethod stands for an encryption method in the same way.
type unlinkedMethod struct {
	id     method.ID
	reason string
}

var _ method.Descriptor = unlinkedMethod{}

func (u unlinkedMethod) ID() method.ID { return u.id }

// DecodeConfig takes whatever settings there are.
func (u unlinkedMethod) DecodeConfig(method.EvalContext, hcl.Body) (method.Config, hcl.Diagnostics) {
	return u, nil
}

// Build fails with the reason.
func (u unlinkedMethod) Build() (method.Method, error) { return nil, errors.New(u.reason) }
