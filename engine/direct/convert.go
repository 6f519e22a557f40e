package direct

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// converter converts schemas from the protocol's form to core's. It keeps the
// first error.
type converter struct{ err error }

func (c *converter) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *converter) schemas(in map[string]*tfprotov6.Schema, ephemeral bool) map[string]providers.Schema {
	out := make(map[string]providers.Schema, len(in))
	for name, s := range in {
		if s == nil {
			c.fail("%s has none", name)
			continue
		}
		out[name] = c.schema(s, ephemeral)
	}
	return out
}

func (c *converter) schema(s *tfprotov6.Schema, ephemeral bool) providers.Schema {
	block := c.block(s.Block)
	block.Ephemeral = ephemeral
	return providers.Schema{Version: s.Version, Block: block}
}

func (c *converter) block(b *tfprotov6.SchemaBlock) *configschema.Block {
	if b == nil {
		b = &tfprotov6.SchemaBlock{}
	}
	out := &configschema.Block{
		Attributes:         c.attributes(b.Attributes),
		BlockTypes:         make(map[string]*configschema.NestedBlock, len(b.BlockTypes)),
		Description:        b.Description,
		DescriptionKind:    stringKind(b.DescriptionKind),
		Deprecated:         b.Deprecated,
		DeprecationMessage: b.DeprecationMessage,
	}
	for _, n := range b.BlockTypes {
		out.BlockTypes[n.TypeName] = &configschema.NestedBlock{
			Block:    *c.block(n.Block),
			Nesting:  c.blockNesting(n),
			MinItems: int(n.MinItems),
			MaxItems: int(n.MaxItems),
		}
	}
	return out
}

func (c *converter) blockNesting(n *tfprotov6.SchemaNestedBlock) (mode configschema.NestingMode) {
	switch n.Nesting {
	case tfprotov6.SchemaNestedBlockNestingModeSingle:
		return configschema.NestingSingle
	case tfprotov6.SchemaNestedBlockNestingModeGroup:
		return configschema.NestingGroup
	case tfprotov6.SchemaNestedBlockNestingModeList:
		return configschema.NestingList
	case tfprotov6.SchemaNestedBlockNestingModeMap:
		return configschema.NestingMap
	case tfprotov6.SchemaNestedBlockNestingModeSet:
		return configschema.NestingSet
	}
	c.fail("block %s has nesting mode %s", n.TypeName, n.Nesting)
	return mode
}

func (c *converter) attributes(in []*tfprotov6.SchemaAttribute) map[string]*configschema.Attribute {
	out := make(map[string]*configschema.Attribute, len(in))
	for _, a := range in {
		attr := &configschema.Attribute{
			Description:        a.Description,
			DescriptionKind:    stringKind(a.DescriptionKind),
			Required:           a.Required,
			Optional:           a.Optional,
			Computed:           a.Computed,
			Sensitive:          a.Sensitive,
			Deprecated:         a.Deprecated,
			DeprecationMessage: a.DeprecationMessage,
			WriteOnly:          a.WriteOnly,
		}
		if a.Type != nil {
			attr.Type = c.typ(a.Type)
		}
		if a.NestedType != nil {
			attr.NestedType = &configschema.Object{
				Attributes: c.attributes(a.NestedType.Attributes),
				Nesting:    c.objectNesting(a),
			}
		}
		out[a.Name] = attr
	}
	return out
}

func (c *converter) objectNesting(a *tfprotov6.SchemaAttribute) (mode configschema.NestingMode) {
	switch a.NestedType.Nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return configschema.NestingSingle
	case tfprotov6.SchemaObjectNestingModeList:
		return configschema.NestingList
	case tfprotov6.SchemaObjectNestingModeMap:
		return configschema.NestingMap
	case tfprotov6.SchemaObjectNestingModeSet:
		return configschema.NestingSet
	}
	c.fail("attribute %s has nesting mode %s", a.Name, a.NestedType.Nesting)
	return mode
}

func (c *converter) identity(s *tfprotov6.ResourceIdentitySchema) *configschema.Object {
	out := &configschema.Object{Nesting: configschema.NestingSingle, Attributes: map[string]*configschema.Attribute{}}
	for _, a := range s.IdentityAttributes {
		out.Attributes[a.Name] = &configschema.Attribute{
			Type:        c.typ(a.Type),
			Description: a.Description,
			Required:    a.RequiredForImport,
			Optional:    a.OptionalForImport,
		}
	}
	return out
}

func (c *converter) functions(in map[string]*tfprotov6.Function) map[string]providers.FunctionSpec {
	out := make(map[string]providers.FunctionSpec, len(in))
	for name, f := range in {
		if f == nil || f.Return == nil {
			c.fail("function %s returns nothing", name)
			continue
		}
		spec := providers.FunctionSpec{
			Return:             c.typ(f.Return.Type),
			Summary:            f.Summary,
			Description:        f.Description,
			DescriptionFormat:  textFormat(f.DescriptionKind),
			DeprecationMessage: f.DeprecationMessage,
		}
		for _, p := range f.Parameters {
			spec.Parameters = append(spec.Parameters, c.parameter(p))
		}
		if f.VariadicParameter != nil {
			p := c.parameter(f.VariadicParameter)
			spec.VariadicParameter = &p
		}
		out[name] = spec
	}
	return out
}

func (c *converter) parameter(p *tfprotov6.FunctionParameter) providers.FunctionParameterSpec {
	return providers.FunctionParameterSpec{
		Name:               p.Name,
		Type:               c.typ(p.Type),
		AllowNullValue:     p.AllowNullValue,
		AllowUnknownValues: p.AllowUnknownValues,
		Description:        p.Description,
		DescriptionFormat:  textFormat(p.DescriptionKind),
	}
}

// typ converts by the JSON form that both type systems share.
func (c *converter) typ(t tftypes.Type) cty.Type {
	ty, err := ctyType(t)
	if err != nil {
		c.fail("type %s: %w", t, err)
		return cty.DynamicPseudoType
	}
	return ty
}

func ctyType(t tftypes.Type) (cty.Type, error) {
	switch { // the common ones, without JSON
	case t == nil:
		return cty.NilType, errors.New("it has none")
	case t.Is(tftypes.String):
		return cty.String, nil
	case t.Is(tftypes.Bool):
		return cty.Bool, nil
	case t.Is(tftypes.Number):
		return cty.Number, nil
	case t.Is(tftypes.DynamicPseudoType):
		return cty.DynamicPseudoType, nil
	}
	b, err := json.Marshal(t)
	if err != nil {
		return cty.NilType, err
	}
	return ctyjson.UnmarshalType(b)
}

func stringKind(k tfprotov6.StringKind) configschema.StringKind {
	if k == tfprotov6.StringKindMarkdown {
		return configschema.StringMarkdown
	}
	return configschema.StringPlain
}

func textFormat(k tfprotov6.StringKind) providers.TextFormatting {
	if k == tfprotov6.StringKindMarkdown {
		return providers.TextFormattingMarkdown
	}
	return providers.TextFormattingPlain
}
