// Package types is a stub of github.com/aws/aws-sdk-go-v2/service/kms/types.
// It is linked only because OpenTofu's key provider aws_kms uses it; this
// program doesn't do that, and has no room for the real one. See README.md
// in engine/stubs.
package types

type DataKeySpec string

const DataKeySpecAes256 DataKeySpec = "AES_256"

func (DataKeySpec) Values() []DataKeySpec { return []DataKeySpec{DataKeySpecAes256} }
