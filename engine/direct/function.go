package direct

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/zclconf/go-cty/cty"
)

func (p *provider) GetFunctions(ctx context.Context) (out providers.GetFunctionsResponse) {
	c := &call{method: "GetFunctions", diags: &out.Diagnostics}
	defer c.rescue()
	r, err := p.server.GetFunctions(ctx, &tfprotov6.GetFunctionsRequest{})
	if !c.answered(err, r != nil) {
		return out
	}
	c.report(r.Diagnostics)
	var conv converter
	out.Functions = conv.functions(r.Functions)
	if conv.err != nil {
		c.fail(fmt.Errorf("the provider's functions: %w", conv.err))
	}
	return out
}

func (p *provider) CallFunction(ctx context.Context, q providers.CallFunctionRequest) (out providers.CallFunctionResponse) {
	defer rescueError(&out.Error, "function "+q.Name)
	k := p.schemas.get(ctx, p.server)
	if k.resp.Diagnostics.HasErrors() {
		out.Error = k.resp.Diagnostics.Err()
		return out
	}
	spec, ok := k.resp.Functions[q.Name]
	if !ok {
		funcs := p.GetFunctions(ctx) // some are known only once configured
		if spec, ok = funcs.Functions[q.Name]; !ok {
			out.Error = fmt.Errorf("the provider has no function %s", q.Name)
			return out
		}
	}
	if len(q.Arguments) < len(spec.Parameters) {
		out.Error = fmt.Errorf("function %s takes %d arguments, not %d", q.Name, len(spec.Parameters), len(q.Arguments))
		return out
	}
	var diags tfdiags.Diagnostics
	c := &call{method: "CallFunction", diags: &diags}
	req := &tfprotov6.CallFunctionRequest{Name: q.Name}
	for i, arg := range q.Arguments {
		param := spec.VariadicParameter
		if i < len(spec.Parameters) {
			param = &spec.Parameters[i]
		}
		switch {
		case param == nil:
			out.Error = fmt.Errorf("function %s takes %d arguments, not %d", q.Name, len(spec.Parameters), len(q.Arguments))
			return out
		case !param.AllowUnknownValues && !arg.IsWhollyKnown():
			out.Result = cty.UnknownVal(spec.Return)
			return out
		case arg.IsNull() && !param.AllowNullValue:
			out.Error = &providers.CallFunctionArgumentError{Text: fmt.Sprintf("parameter %s must not be null", param.Name), FunctionArgument: i}
			return out
		}
		req.Arguments = append(req.Arguments, c.encodeType(arg, param.Type))
	}
	if out.Error = diags.Err(); out.Error != nil {
		return out
	}
	r, err := p.server.CallFunction(ctx, req)
	switch {
	case err != nil:
		out.Error = err
	case r == nil:
		out.Error = fmt.Errorf("function %s gave no response", q.Name)
	case r.Error != nil:
		e := &providers.CallFunctionArgumentError{Text: r.Error.Text}
		if r.Error.FunctionArgument != nil {
			e.FunctionArgument = int(*r.Error.FunctionArgument)
		}
		out.Error = e
	default:
		out.Result, out.Error = decodeValue(r.Result, spec.Return)
	}
	return out
}
