// Package impersonate is a stub of google.golang.org/api/impersonate. It is
// linked only because OpenTofu's key provider gcp_kms logs in with it; this
// program doesn't do that, and has no room for the real one. See README.md
// in engine/stubs.
package impersonate

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

type CredentialsConfig struct {
	TargetPrincipal   string
	Scopes, Delegates []string
}

func CredentialsTokenSource(context.Context, CredentialsConfig, ...option.ClientOption) (any, error) {
	return nil, errors.New("Google Cloud KMS is not linked into yuba: the gcp_kms key provider can't be used")
}
