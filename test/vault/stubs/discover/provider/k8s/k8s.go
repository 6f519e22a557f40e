// Package k8s stands for the finder of peers in Kubernetes; see ../../../README.md.
package k8s

// Provider finds nothing.
type Provider struct{}
