// Package trust says where a program looks for the authorities that it trusts
// when nobody names any: in a minimal image, nowhere.
package trust

import (
	"crypto/x509"
	"errors"
	"os"
)

// Unknown says whether err is that a certificate is signed by an authority
// that is not trusted.
func Unknown(err error) bool {
	_, is := errors.AsType[x509.UnknownAuthorityError](err)
	return is
}

// OutOfTime says whether err is that a certificate is not valid yet, or no longer: what
// x509 says of it has the time that it is by this machine's clock. Either the one
// or the other is wrong.
func OutOfTime(err error) bool {
	invalid, is := errors.AsType[x509.CertificateInvalidError](err)
	return is && invalid.Reason == x509.Expired
}

// Advice is what to do to trust one more authority, as the second half of a sentence. It
// adds what is wrong when the program has no authorities at all:
// crypto/x509 says nothing of it, not even that the file which SSL_CERT_FILE
// names is missing.
func Advice() string {
	const advice = "let SSL_CERT_FILE name a PEM file of all authorities to trust"
	pool, err := x509.SystemCertPool()
	file := os.Getenv("SSL_CERT_FILE")
	switch {
	case err == nil && !pool.Equal(x509.NewCertPool()):
		return advice
	case file != "":
		return advice + "; now it names " + file + ", which is missing or has none"
	}
	return advice + "; this machine has no certificate authorities"
}
