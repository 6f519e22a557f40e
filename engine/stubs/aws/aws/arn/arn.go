// Package arn is a stub of github.com/aws/aws-sdk-go-v2/aws/arn. It is
// linked only because OpenTofu's key provider aws_kms checks key names with
// it; this program doesn't do that, and has no room for the real one. See
// README.md in engine/stubs.
package arn

import "errors"

type ARN struct{ Resource string }

func Parse(string) (ARN, error) {
	return ARN{}, errors.New("AWS is not linked into yuba: the aws_kms key provider can't be used")
}
