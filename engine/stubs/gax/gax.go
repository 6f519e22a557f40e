// Package gax is a stub of github.com/googleapis/gax-go/v2. It is linked
// only because the Google Cloud KMS client has its options; this program
// doesn't do that, and has no room for the real one. See README.md in
// engine/stubs.
package gax

type CallOption interface{}
