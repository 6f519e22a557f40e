package direct

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

// diagnostics converts a provider's to core's.
func diagnostics(in []*tfprotov6.Diagnostic) (out tfdiags.Diagnostics) {
	for _, d := range in {
		if d == nil {
			continue
		}
		severity := tfdiags.Error // also of an invalid one: better loud than lost
		if d.Severity == tfprotov6.DiagnosticSeverityWarning {
			severity = tfdiags.Warning
		}
		if d.Attribute != nil {
			out = out.Append(tfdiags.AttributeValue(severity, d.Summary, d.Detail, path(d.Attribute)))
		} else {
			out = out.Append(tfdiags.WholeContainingBody(severity, d.Summary, d.Detail))
		}
	}
	return out
}

// path converts as far as core can follow: an element of a set, which the
// protocol names by its value, ends it.
func path(in *tftypes.AttributePath) (out cty.Path) {
	for _, step := range in.Steps() {
		switch s := step.(type) {
		case tftypes.AttributeName:
			out = out.GetAttr(string(s))
		case tftypes.ElementKeyString:
			out = out.Index(cty.StringVal(string(s)))
		case tftypes.ElementKeyInt:
			out = out.Index(cty.NumberIntVal(int64(s)))
		default:
			return out
		}
	}
	return out
}
