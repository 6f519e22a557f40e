package builtin

import (
	"errors"
	"fmt"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/zclconf/go-cty/cty"
)

// function is one of a single argument.
type function struct {
	spec providers.FunctionSpec
	call func(cty.Value) (cty.Value, error)
}

func functions() map[string]function {
	one := func(param string, in, out cty.Type, summary string) providers.FunctionSpec {
		return providers.FunctionSpec{
			Parameters:        []providers.FunctionParameterSpec{{Name: param, Type: in}},
			Return:            out,
			Summary:           summary,
			Description:       summary,
			DescriptionFormat: providers.TextFormattingPlain,
		}
	}
	return map[string]function{
		"decode_tfvars": {one("content", cty.String, cty.DynamicPseudoType, "Decode a TFVars file content into an object"), decodeVars},
		"encode_tfvars": {one("input", cty.DynamicPseudoType, cty.String, "Encode an object into a string with the same format as a TFVars file"), encodeVars},
		"encode_expr":   {one("expr", cty.DynamicPseudoType, cty.String, "Takes an arbitrary expression and converts it into a string with valid OpenTofu syntax"), encodeExpr},
	}
}

func specs() map[string]providers.FunctionSpec {
	out := map[string]providers.FunctionSpec{}
	for name, f := range functions() {
		out[name] = f.spec
	}
	return out
}

func decodeVars(content cty.Value) (cty.Value, error) {
	none := cty.NullVal(cty.DynamicPseudoType)
	if content.IsNull() {
		return none, errors.New("the content must not be null")
	}
	file, diags := hclsyntax.ParseConfig([]byte(content.AsString()), "decode_tfvars", hcl.InitialPos)
	if diags.HasErrors() {
		return none, fmt.Errorf("the content is not what a TFVars file holds: %w", diags)
	}
	attrs, diags := file.Body.JustAttributes()
	if diags.HasErrors() {
		return none, fmt.Errorf("the content must be attributes only: %w", diags)
	}
	vals := map[string]cty.Value{}
	for name, a := range attrs {
		v, diags := a.Expr.Value(nil)
		if diags.HasErrors() {
			return none, fmt.Errorf("the value of %s: %w", name, diags)
		}
		vals[name] = v
	}
	return cty.ObjectVal(vals), nil
}

func encodeVars(in cty.Value) (cty.Value, error) {
	none := cty.NullVal(cty.String)
	if in.IsNull() || !(in.Type().IsObjectType() || in.Type().IsMapType()) {
		return none, errors.New("the input must be an object or a map, and not null")
	}
	vals := in.AsValueMap()
	names := make([]string, 0, len(vals))
	for name := range vals {
		if !hclsyntax.ValidIdentifier(name) {
			return none, fmt.Errorf("%q is no name that a variable could have", name)
		}
		names = append(names, name)
	}
	sort.Strings(names)
	file := hclwrite.NewEmptyFile()
	for _, name := range names {
		file.Body().SetAttributeValue(name, vals[name])
	}
	return cty.StringVal(string(file.Bytes())), nil
}

func encodeExpr(in cty.Value) (cty.Value, error) {
	return cty.StringVal(string(hclwrite.TokensForValue(in).Bytes())), nil
}
