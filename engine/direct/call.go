package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// call is one call of the provider: what it is about and where its errors go.
type call struct {
	method   string
	typeName string // "" for the provider itself
	obj      *object
	meta     *object // nil if the provider takes no provider_meta
	diags    *tfdiags.Diagnostics
}

// begin looks up what the call is about. The caller defers rescue, and goes on
// unless the call has failed.
func (p *provider) begin(ctx context.Context, method string, kind objectKind, typeName string, diags *tfdiags.Diagnostics) (*call, context.Context) {
	c := &call{method: method, typeName: typeName, diags: diags}
	if p.pool.Log != nil {
		ctx = p.pool.Log(ctx, p.name)
	}
	s := p.schemas.get(ctx, p.server)
	if s.resp.Diagnostics.HasErrors() {
		*diags = diags.Append(s.resp.Diagnostics)
		return c, ctx
	}
	c.meta = s.meta
	if c.obj = s.objects[kind][typeName]; c.obj == nil {
		c.fail(fmt.Errorf("unknown %s %q", kind, typeName))
	}
	return c, ctx
}

func (c *call) fail(err error)                             { *c.diags = c.diags.Append(err) }
func (c *call) failed() bool                               { return c.diags.HasErrors() }
func (c *call) report(diags []*tfprotov6.Diagnostic)       { *c.diags = c.diags.Append(diagnostics(diags)) }
func (c *call) encode(v cty.Value) *tfprotov6.DynamicValue { return c.encodeAs(v, c.obj) }

// answered records the error of a call that gave none or no response.
func (c *call) answered(err error, response bool) bool {
	if err == nil && !response {
		err = errors.New("the provider gave no response")
	}
	if err != nil {
		c.fail(fmt.Errorf("%s: %w", c.method, err))
	}
	return err == nil
}

// encodeAs is nil after an error, which the call then has.
func (c *call) encodeAs(v cty.Value, obj *object) *tfprotov6.DynamicValue {
	if obj == nil {
		return nil
	}
	return c.encodeType(v, obj.ty)
}

func (c *call) encodeType(v cty.Value, ty cty.Type) *tfprotov6.DynamicValue {
	b, err := marshal(v, ty)
	if err != nil {
		c.fail(err)
		return nil
	}
	return &tfprotov6.DynamicValue{MsgPack: b}
}

// decode gives a null for no value at all, as the wire does.
func (c *call) decode(v *tfprotov6.DynamicValue) cty.Value { return c.decodeType(v, c.obj.ty) }

func (c *call) decodeType(v *tfprotov6.DynamicValue, ty cty.Type) cty.Value {
	out, err := decodeValue(v, ty)
	if err != nil {
		c.fail(fmt.Errorf("%s: the provider's value: %w", c.method, err))
		return cty.NullVal(ty)
	}
	return out
}

func decodeValue(v *tfprotov6.DynamicValue, ty cty.Type) (cty.Value, error) {
	switch {
	case v == nil:
		return cty.NullVal(ty), nil
	case len(v.MsgPack) > 0:
		return msgpack.Unmarshal(v.MsgPack, ty)
	case len(v.JSON) > 0:
		return unmarshalJSON(v.JSON, ty)
	}
	return cty.NullVal(ty), nil
}

// sent is a value that the provider was given, with its encoding.
type sent struct {
	value   cty.Value
	encoded *tfprotov6.DynamicValue
}

// decodeState decodes what is to become state, where a write-only attribute
// must not show up. Often it is what was sent. Equal bytes are equal values,
// which need no decoding, if they are known: what is known of unknown values
// need not survive the encoding. Neither does a value that had to be converted
// to be encoded.
func (c *call) decodeState(v *tfprotov6.DynamicValue, sent ...sent) cty.Value {
	out := cty.NilVal
	for _, s := range sent {
		if v != nil && len(v.MsgPack) > 0 && s.encoded != nil && bytes.Equal(v.MsgPack, s.encoded.MsgPack) &&
			s.value.IsWhollyKnown() && s.value.Type().TestConformance(c.obj.ty) == nil {
			out = s.value
			break
		}
	}
	if out == cty.NilVal {
		out = c.decode(v)
	}
	if c.obj.writeOnly {
		*c.diags = c.diags.Append(writeOnlyNull(c.obj.schema.Block, out, c.typeName))
	}
	return out
}

func (c *call) encodeIdentity(v cty.Value) *tfprotov6.ResourceIdentityData {
	if v == cty.NilVal || v.IsNull() || c.obj == nil || c.obj.identity == cty.NilType {
		return nil
	}
	return &tfprotov6.ResourceIdentityData{IdentityData: c.encodeType(v, c.obj.identity)}
}

func (c *call) decodeIdentity(v *tfprotov6.ResourceIdentityData) cty.Value {
	if v == nil || v.IdentityData == nil || c.obj.identity == cty.NilType {
		return cty.NilVal
	}
	return c.decodeType(v.IdentityData, c.obj.identity)
}

func (c *call) encodeMeta(v cty.Value) *tfprotov6.DynamicValue {
	if c.meta == nil {
		return nil
	}
	return c.encodeAs(v, c.meta)
}

// rescue turns a panic of the provider into an error of the call.
func (c *call) rescue() {
	if r := recover(); r != nil {
		what := "the provider"
		if c.typeName != "" {
			what = c.typeName
		}
		*c.diags = c.diags.Append(tfdiags.WholeContainingBody(tfdiags.Error, "Provider panicked",
			fmt.Sprintf("%s of %s panicked: %v\n\nThis is a bug in the provider. What it was doing may be half done.\n\n%s", c.method, what, r, debug.Stack())))
	}
}

// rescueError is rescue where there are no diagnostics.
func rescueError(err *error, what string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s panicked: %v\n\n%s", what, r, debug.Stack())
	}
}
