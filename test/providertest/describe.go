package providertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Describe is the schema as text, without descriptions: what a state and a configuration must agree on. One line each
// for a kind of object and for each of its attributes and nested blocks, sorted by name.
func Describe(s *tfprotov6.GetProviderSchemaResponse) string {
	var b strings.Builder
	object := func(kind string, s *tfprotov6.Schema) {
		fmt.Fprintf(&b, "%s version %d%s\n", kind, s.Version, word(s.Block.Deprecated, "deprecated"))
		var lines []string
		for _, a := range s.Block.Attributes {
			lines = append(lines, "  "+a.Name+" "+strings.ReplaceAll(a.Type.String(), "tftypes.", "")+word(a.Required, "required")+word(a.Optional, "optional")+
				word(a.Computed, "computed")+word(a.Sensitive, "sensitive")+word(a.WriteOnly, "write-only")+word(a.Deprecated, "deprecated")+"\n")
		}
		for _, n := range s.Block.BlockTypes {
			lines = append(lines, "  "+n.TypeName+" block\n")
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	object("provider", s.Provider)
	for _, kind := range []struct {
		name    string
		schemas map[string]*tfprotov6.Schema
	}{{"resource", s.ResourceSchemas}, {"data", s.DataSourceSchemas}, {"ephemeral", s.EphemeralResourceSchemas}} {
		for _, name := range slices.Sorted(maps.Keys(kind.schemas)) {
			object(kind.name+" "+name, kind.schemas[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Functions)) {
		f := s.Functions[name]
		var params []string
		for _, p := range f.Parameters {
			params = append(params, p.Name+" "+strings.TrimPrefix(p.Type.String(), "tftypes."))
		}
		fmt.Fprintf(&b, "function %s(%s) %s\n", name, strings.Join(params, ", "), strings.TrimPrefix(f.Return.Type.String(), "tftypes."))
	}
	return b.String()
}

func word(is bool, word string) string {
	if is {
		return " " + word
	}
	return ""
}
