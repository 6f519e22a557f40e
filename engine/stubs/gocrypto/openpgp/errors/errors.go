// Package errors is a stub of
// github.com/ProtonMail/go-crypto/openpgp/errors. It is linked only because
// OpenTofu tells bad signatures apart with it; this program doesn't do that,
// and has no room for the real one. See README.md in engine/stubs.
package errors

import "errors"

var (
	ErrUnknownIssuer    = errors.New("openpgp: unknown issuer")
	ErrKeyExpired       = errors.New("openpgp: key expired")
	ErrSignatureExpired = errors.New("openpgp: signature expired")
)
