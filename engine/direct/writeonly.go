package direct

import (
	"fmt"

	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

// writeOnlyNull makes sure that a provider doesn't hand back what it was given
// in a write-only attribute: it would land in the plan and the state. The error
// names the attribute and never its value.
func writeOnlyNull(block *configschema.Block, v cty.Value, typeName string) (diags tfdiags.Diagnostics) {
	for _, p := range block.WriteOnlyPaths(v, nil) {
		got, err := p.Apply(v)
		if err != nil || got.IsNull() {
			continue // no such place in this value
		}
		diags = diags.Append(tfdiags.Sourceless(tfdiags.Error, "Invalid provider response",
			fmt.Sprintf("%s has a value in the write-only attribute %s, where the provider must leave it null. This is a bug in the provider.", typeName, tfdiags.FormatCtyPath(p))))
	}
	return diags
}
