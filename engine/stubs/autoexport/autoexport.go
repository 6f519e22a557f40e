// Package autoexport is a stub of
// go.opentelemetry.io/contrib/exporters/autoexport. It is linked only
// because OpenTofu exports its traces with it when OTEL_TRACES_EXPORTER is
// set; this program doesn't do that, and has no room for the real one. See
// README.md in engine/stubs.
package autoexport

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/sdk/trace"
)

type SpanOption interface{}

func NewSpanExporter(context.Context, ...SpanOption) (trace.SpanExporter, error) {
	return nil, errors.New("trace exporters are not linked into yuba: unset OTEL_TRACES_EXPORTER")
}
