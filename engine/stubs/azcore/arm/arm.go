// Package arm is a stub of github.com/Azure/azure-sdk-for-go/sdk/azcore/arm.
// It is linked only because OpenTofu's Azure login uses it; this program
// doesn't do that, and has no room for the real one. See README.md in
// engine/stubs.
package arm

import "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

type ClientOptions struct {
	policy.ClientOptions
	DisableRPRegistration bool
}
