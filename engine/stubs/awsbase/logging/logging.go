// Package logging is a stub of
// github.com/hashicorp/aws-sdk-go-base/v2/logging. It is linked only because
// OpenTofu's key provider aws_kms hands it a logger; this program doesn't do
// that, and has no room for the real one. See README.md in engine/stubs.
package logging

import "context"

type HcLogger struct{}

func NewHcLogger(ctx context.Context, _ any) (context.Context, HcLogger) { return ctx, HcLogger{} }
func RegisterLogger(ctx context.Context, _ HcLogger) context.Context     { return ctx }
