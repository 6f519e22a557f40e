// Package armor is a stub of github.com/ProtonMail/go-crypto/openpgp/armor. It
// is there only because `go mod tidy` looks at the tests of OpenTofu's packages,
// one of which imports it. See README.md in engine/stubs.
package armor
