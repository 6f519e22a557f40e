package engine

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/terraform-plugin-log/tfsdklog"
	"github.com/opentofu/opentofu/internal/logging"
)

// Core logs through the standard logger, which OpenTofu's logging package takes
// over when it is initialised. Providers in this process log there too, under
// names that start with providerPrefix.

const providerPrefix = "provider."

// setUpLog discards the standard logger's lines unless TF_LOG, TF_LOG_CORE or
// TF_LOG_PROVIDER is set. OpenTofu would format each of core's trace lines only
// to drop it.
func setUpLog() {
	w := &logRouter{core: io.Discard, provider: io.Discard}
	if coreLogs() {
		w.core = logging.LogOutput()
	}
	if providerLogs() {
		w.provider = logging.NewProviderLogger("").StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true})
	}
	if !coreLogs() && !providerLogs() {
		log.SetOutput(io.Discard) // which log knows, and then formats nothing
		return
	}
	log.SetOutput(w)
}

func coreLogs() bool     { return os.Getenv("TF_LOG") != "" || os.Getenv("TF_LOG_CORE") != "" }
func providerLogs() bool { return os.Getenv("TF_LOG") != "" || os.Getenv("TF_LOG_PROVIDER") != "" }

// logRouter sends the lines of providers and of core to their own loggers, which
// have their own levels.
type logRouter struct{ core, provider io.Writer }

func (r *logRouter) Write(line []byte) (int, error) {
	rest := line
	if _, after, ok := bytes.Cut(line, []byte("] ")); ok { // after "[DEBUG"
		rest = after
	}
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte(providerPrefix)) {
		return r.provider.Write(line)
	}
	return r.core.Write(line)
}

// providerLog prepares a context for what providers log by tflog. It is nil when
// nobody wants to see it.
func providerLog() func(context.Context, string) context.Context {
	if !providerLogs() {
		return nil
	}
	return func(ctx context.Context, name string) context.Context {
		ctx = tfsdklog.ContextWithStandardLogging(ctx, "")
		return tfsdklog.NewRootProviderLogger(ctx, tfsdklog.WithLogName(providerPrefix+name), tfsdklog.WithLevel(hclog.Trace))
	}
}
