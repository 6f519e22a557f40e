package engine

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/configs/configload"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/zclconf/go-cty/cty"
)

// configDir is where the root module lies on the virtual file system.
const configDir = "."

// newLoader loads the root module from memory.
func newLoader(files map[string][]byte) *configload.Loader {
	return configload.NewLoaderFromSnapshot(&configload.Snapshot{
		Modules: map[string]*configload.SnapshotModule{"": {Dir: configDir, Files: files}},
	})
}

// rootCall gives the root module its variables where OpenTofu evaluates
// statically: module sources, encryption, backends.
func rootCall(vars map[string]string) configs.StaticModuleCall {
	value := func(v *configs.Variable) (cty.Value, hcl.Diagnostics) {
		raw, ok := vars[v.Name]
		switch {
		case ok:
			return v.ParsingMode.Parse(v.Name, raw)
		case v.Required():
			return cty.NilVal, hcl.Diagnostics{{
				Severity: hcl.DiagError,
				Summary:  "No value for required variable",
				Detail:   fmt.Sprintf("The variable %q has no default and was not given a value.", v.Name),
				Subject:  v.DeclRange.Ptr(),
			}}
		}
		return v.Default, nil
	}
	return configs.NewStaticModuleCall(addrs.RootModule, hcl.Range{}, value, configDir, backend.DefaultStateName)
}

// variable is the value of an input variable as -var has it.
type variable struct{ name, raw string }

var _ backend.UnparsedVariableValue = variable{}

// ParseVariableValue reads the value as the variable's type wants it.
func (v variable) ParseVariableValue(mode configs.VariableParsingMode) (*tofu.InputValue, tfdiags.Diagnostics) {
	val, hclDiags := mode.Parse(v.name, v.raw)
	return &tofu.InputValue{Value: val, SourceType: tofu.ValueFromCLIArg}, tfdiags.Diagnostics{}.Append(hclDiags)
}

func unparsed(vars map[string]string) map[string]backend.UnparsedVariableValue {
	out := make(map[string]backend.UnparsedVariableValue, len(vars))
	for name, raw := range vars {
		out[name] = variable{name, raw}
	}
	return out
}
