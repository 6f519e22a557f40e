// Package option is a stub of google.golang.org/api/option. It is linked
// only because OpenTofu's key provider gcp_kms configures its client with
// it; this program doesn't do that, and has no room for the real one. See
// README.md in engine/stubs.
package option

type ClientOption interface{}

func WithTokenSource(any) ClientOption        { return nil }
func WithCredentialsJSON([]byte) ClientOption { return nil }
func WithUserAgent(string) ClientOption       { return nil }
