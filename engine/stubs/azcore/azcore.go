// Package azcore is a stub of github.com/Azure/azure-sdk-for-go/sdk/azcore.
// It is linked only because OpenTofu's key provider azure_vault uses it;
// this program doesn't do that, and has no room for the real one. See
// README.md in engine/stubs.
package azcore

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

type AccessToken = policy.AccessToken
type TokenCredential interface {
	GetToken(context.Context, policy.TokenRequestOptions) (AccessToken, error)
}
