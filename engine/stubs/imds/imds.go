// Package imds is a stub of github.com/aws/aws-sdk-go-v2/feature/ec2/imds.
// It is linked only because OpenTofu's key provider aws_kms names its types
// in a configuration; this program doesn't do that, and has no room for the
// real one. See README.md in engine/stubs.
package imds

type ClientEnableState uint

const (
	ClientDefaultEnableState ClientEnableState = iota
	ClientDisabled
	ClientEnabled
)
