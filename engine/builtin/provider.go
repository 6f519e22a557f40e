// Package builtin is the provider terraform.io/builtin/terraform: the resource
// terraform_data, the data source terraform_remote_state and the functions
// encode_tfvars, decode_tfvars and encode_expr.
//
// OpenTofu has one of its own, which is not used because it links every backend
// for terraform_remote_state.
package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/opentofu/opentofu/internal/providers"
	"github.com/zclconf/go-cty/cty"
)

// Factory makes instances, which have no state. Without backends there is no
// terraform_remote_state.
func Factory(b Backends) func() (providers.Interface, error) {
	return func() (providers.Interface, error) { return provider{b}, nil }
}

type provider struct{ backends Backends }

var _ providers.Interface = provider{}

func (p provider) GetProviderSchema(context.Context) providers.GetProviderSchemaResponse {
	out := providers.GetProviderSchemaResponse{
		ResourceTypes: map[string]providers.Schema{dataType: {Block: dataBlock()}},
		Functions:     specs(),
	}
	if p.backends != nil {
		out.DataSources = map[string]providers.Schema{remoteStateType: {Block: remoteStateBlock()}}
	}
	return out
}

func (provider) GetFunctions(context.Context) providers.GetFunctionsResponse {
	return providers.GetFunctionsResponse{Functions: specs()}
}

func (provider) CallFunction(_ context.Context, q providers.CallFunctionRequest) (out providers.CallFunctionResponse) {
	f, ok := functions()[q.Name]
	if !ok || len(q.Arguments) != 1 {
		out.Error = fmt.Errorf("there is no function %s of %d arguments", q.Name, len(q.Arguments))
		return out
	}
	if !q.Arguments[0].IsWhollyKnown() {
		out.Result = cty.UnknownVal(f.spec.Return)
		return out
	}
	out.Result, out.Error = f.call(q.Arguments[0])
	return out
}

func (provider) ValidateProviderConfig(_ context.Context, q providers.ValidateProviderConfigRequest) providers.ValidateProviderConfigResponse {
	return providers.ValidateProviderConfigResponse{PreparedConfig: q.Config}
}

func (provider) ConfigureProvider(context.Context, providers.ConfigureProviderRequest) (out providers.ConfigureProviderResponse) {
	return out
}

func (provider) UpgradeResourceIdentity(context.Context, providers.UpgradeResourceIdentityRequest) (out providers.UpgradeResourceIdentityResponse) {
	return out
}

func (provider) Stop(context.Context) error  { return nil }
func (provider) Close(context.Context) error { return nil }

// What follows is for kinds of objects that the schema doesn't have.

var errNone = errors.New("terraform.io/builtin/terraform has no such object")

func (provider) ValidateEphemeralConfig(context.Context, providers.ValidateEphemeralConfigRequest) (out providers.ValidateEphemeralConfigResponse) {
	out.Diagnostics = out.Diagnostics.Append(errNone)
	return out
}

func (provider) OpenEphemeralResource(context.Context, providers.OpenEphemeralResourceRequest) (out providers.OpenEphemeralResourceResponse) {
	out.Diagnostics = out.Diagnostics.Append(errNone)
	return out
}

func (provider) RenewEphemeralResource(context.Context, providers.RenewEphemeralResourceRequest) (out providers.RenewEphemeralResourceResponse) {
	out.Diagnostics = out.Diagnostics.Append(errNone)
	return out
}

func (provider) CloseEphemeralResource(context.Context, providers.CloseEphemeralResourceRequest) (out providers.CloseEphemeralResourceResponse) {
	out.Diagnostics = out.Diagnostics.Append(errNone)
	return out
}
