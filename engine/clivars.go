package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/flags"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
)

// inputs are the values of input variables, by name.
type inputs map[string]backend.UnparsedVariableValue

// collectInputs gathers the values of input variables: from TF_VAR_* in
// environ, from terraform.tfvars and *.auto.tfvars in the working directory, and
// from -var and -var-file. Later ones win. The files' sources go to the parser,
// for snippets.
func collectInputs(parser *configs.Parser, environ []string, args []flags.RawFlag) (inputs, tfdiags.Diagnostics) {
	in := inputs{}
	var diags tfdiags.Diagnostics
	for _, e := range environ {
		if rest, ok := strings.CutPrefix(e, "TF_VAR_"); ok {
			if name, raw, ok := strings.Cut(rest, "="); ok {
				in[name] = rawInput{name, raw, tofu.ValueFromEnvVar}
			}
		}
	}
	for _, name := range autoVarFiles() {
		diags = diags.Append(in.addFile(parser, name, tofu.ValueFromAutoFile))
	}
	for _, a := range args {
		if a.Name == "-var-file" {
			diags = diags.Append(in.addFile(parser, a.Value, tofu.ValueFromNamedFile))
			continue
		}
		name, raw, ok := strings.Cut(a.Value, "=")
		switch {
		case !ok:
			diags = diags.Append(sourceless("Invalid -var option",
				"The given -var option %q is not correctly specified. Must be a variable name and value separated by an equals sign, like -var=\"key=value\".", a.Value))
		case strings.HasSuffix(name, " "):
			diags = diags.Append(sourceless("Invalid -var option",
				"Variable name %q is invalid due to trailing space. Did you mean -var=\"%s=%s\"?", name, strings.TrimSuffix(name, " "), strings.TrimPrefix(raw, " ")))
		default:
			in[name] = rawInput{name, raw, tofu.ValueFromCLIArg}
		}
	}
	return in, diags
}

// autoVarFiles are the files that are read without being named, in order.
func autoVarFiles() (names []string) {
	for _, name := range []string{"terraform.tfvars", "terraform.tfvars.json"} {
		if _, err := os.Stat(name); err == nil {
			names = append(names, name)
		}
	}
	entries, _ := os.ReadDir(".") // sorted; a directory that can't be read fails elsewhere
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".auto.tfvars") || strings.HasSuffix(e.Name(), ".auto.tfvars.json") {
			names = append(names, e.Name())
		}
	}
	return names
}

func (in inputs) addFile(parser *configs.Parser, name string, source tofu.ValueSourceType) tfdiags.Diagnostics {
	var diags tfdiags.Diagnostics
	src, err := readBounded(name, maxConfigFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return diags.Append(sourceless("Failed to read variables file", "Given variables file %s does not exist.", name))
	case err != nil:
		return diags.Append(sourceless("Failed to read variables file", "Error while reading %s: %s.", name, err))
	}
	parser.ForceFileSource(name, src)
	var f *hcl.File
	var hclDiags hcl.Diagnostics
	if strings.HasSuffix(name, ".json") || filepath.Ext(name) != ".tfvars" && strings.HasPrefix(strings.TrimSpace(string(src)), "{") {
		f, hclDiags = hcljson.Parse(src, name)
	} else {
		f, hclDiags = hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	}
	diags = diags.Append(hclDiags)
	if f == nil || f.Body == nil {
		return diags
	}
	// A variable block in such a file is a common mistake.
	content, _, _ := f.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}}})
	for _, b := range content.Blocks {
		diags = diags.Append(&hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  "Variable declaration in .tfvars file",
			Detail: fmt.Sprintf("A .tfvars file is used to assign values to variables that have already been declared in .tf files, not to declare new variables. "+
				"To declare variable %[1]q, place this block in one of your .tf files, such as variables.tf.\n\n"+
				"To set a value for this variable in %[2]s, use the definition syntax instead:\n    %[1]s = <value>", b.Labels[0], b.TypeRange.Filename),
			Subject: &b.TypeRange,
		})
	}
	if diags.HasErrors() {
		return diags
	}
	attrs, hclDiags := f.Body.JustAttributes()
	for key, a := range attrs {
		in[key] = exprInput{a.Expr, source}
	}
	return diags.Append(hclDiags)
}

// readBounded reads a file of at most so many bytes. It may be a pipe.
func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return b, err
}

// rawInput is a value as -var and TF_VAR_* have it.
type rawInput struct {
	name, raw string
	source    tofu.ValueSourceType
}

// ParseVariableValue reads the value as the variable's type wants it.
func (v rawInput) ParseVariableValue(mode configs.VariableParsingMode) (*tofu.InputValue, tfdiags.Diagnostics) {
	val, hclDiags := mode.Parse(v.name, v.raw)
	return &tofu.InputValue{Value: val, SourceType: v.source}, tfdiags.Diagnostics{}.Append(hclDiags)
}

// exprInput is a value as a file has it.
type exprInput struct {
	expr   hcl.Expression
	source tofu.ValueSourceType
}

// ParseVariableValue evaluates the expression, in which there are neither
// references nor functions.
func (v exprInput) ParseVariableValue(configs.VariableParsingMode) (*tofu.InputValue, tfdiags.Diagnostics) {
	val, hclDiags := v.expr.Value(nil)
	return &tofu.InputValue{Value: val, SourceType: v.source, SourceRange: tfdiags.SourceRangeFromHCL(v.expr.Range())},
		tfdiags.Diagnostics{}.Append(hclDiags)
}
