// Package alicloudkms stands for the seal of that name, whose SDK is not built; see ../README.md.
package alicloudkms

import wrapping "github.com/hashicorp/go-kms-wrapping/v2"

// Wrapper is a seal that does nothing.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper returns it.
func NewWrapper() *Wrapper { return &Wrapper{} }
