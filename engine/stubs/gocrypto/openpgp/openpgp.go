// Package openpgp is a stub of github.com/ProtonMail/go-crypto/openpgp. It
// is linked only because OpenTofu checks signatures of provider packages
// with it; this program doesn't do that, and has no room for the real one.
// See README.md in engine/stubs.
package openpgp

import (
	"errors"
	"io"
)

type PublicKey struct{}

func (*PublicKey) KeyIdString() string { return "" }

type Identity struct{ Name string }
type Entity struct {
	PrimaryKey *PublicKey
	Identities map[string]*Identity
}
type EntityList []*Entity
type KeyRing interface{}

func ReadArmoredKeyRing(io.Reader) (EntityList, error) {
	return nil, errors.New("OpenPGP is not linked into yuba: provider packages are never installed")
}
func CheckDetachedSignature(KeyRing, io.Reader, io.Reader, any) (*Entity, error) {
	return nil, errors.New("OpenPGP is not linked into yuba: provider packages are never installed")
}
