// Package armresources is a stub of
// github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources.
// It is linked only because OpenTofu's Azure login, which the key provider
// azure_vault shares with a backend, names its client; this program doesn't
// do that, and has no room for the real one. See README.md in engine/stubs.
package armresources

import (
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
)

type ResourceGroupsClient struct{}

func NewResourceGroupsClient(string, azcore.TokenCredential, *arm.ClientOptions) (*ResourceGroupsClient, error) {
	return nil, errors.New("Azure is not linked into yuba: the azure_vault key provider can't be used")
}
