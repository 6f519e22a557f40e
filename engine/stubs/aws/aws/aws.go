// Package aws is a stub of github.com/aws/aws-sdk-go-v2/aws. It is linked
// only because OpenTofu's key provider aws_kms uses it; this program doesn't
// do that, and has no room for the real one. See README.md in engine/stubs.
package aws

import "errors"

type Config struct{}
type RetryMode string

const (
	RetryModeStandard RetryMode = "standard"
	RetryModeAdaptive RetryMode = "adaptive"
)

func ParseRetryMode(v string) (RetryMode, error) {
	return "", errors.New("AWS is not linked into yuba: the aws_kms key provider can't be used")
}
func String(s string) *string { return &s }
