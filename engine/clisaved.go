package engine

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

// checkSaved refuses to work on another state than stock tofu does in the same
// directory: its init may have been told, by -backend-config, what the backend
// block leaves out, and keeps that below .terraform. Here it would be ignored,
// and everything planned anew. used is the configuration that the backend gets.
func checkSaved(kind string, used cty.Value) (diags tfdiags.Diagnostics) {
	b, err := readBounded(filepath.Join(dataDir(), "terraform.tfstate"), maxConfigFile)
	if err != nil {
		return nil // stock tofu hasn't been here
	}
	var saved struct {
		Backend *struct {
			Type   string
			Config map[string]any
		}
	}
	if json.Unmarshal(b, &saved) != nil || saved.Backend == nil || saved.Backend.Type != kind {
		return nil // stock tofu, too, wants to be initialised again
	}
	for _, name := range []string{"address", "path", "workspace_dir"} {
		there, ok := saved.Backend.Config[name].(string)
		if !ok || there == "" || !used.Type().HasAttribute(name) {
			continue
		}
		here := ""
		if v := used.GetAttr(name); !v.IsNull() {
			here = v.AsString()
		}
		if name == "address" { // which is shown
			here, _ = withoutUserinfo(here)
			there, _ = withoutUserinfo(there)
		}
		if here != there && !(name == "path" && here == "" && there == "terraform.tfstate") {
			diags = diags.Append(sourceless("Stock tofu has its state elsewhere",
				"In this directory 'tofu init' was told that the %s of the backend %q is %q; here it is %s. That is kept below %s, which is not read: put the setting into the backend block%s.",
				name, kind, there, orNone(here), dataDir(), map[bool]string{true: " or into TF_HTTP_ADDRESS"}[kind == "http"]))
		}
	}
	return diags
}

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return fmt.Sprintf("%q", s)
}
