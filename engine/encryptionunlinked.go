package engine

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/encryption/keyprovider"
)

// unlinkedKeys stands for a key provider of OpenTofu that this program doesn't
// have. Configuring it says why.
type unlinkedKeys struct {
	id     keyprovider.ID
	linked []string // what there is instead
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
	return nil, nil, fmt.Errorf("the key provider %s is not linked into this program; linked are: %s", u.id, strings.Join(u.linked, ", "))
}
