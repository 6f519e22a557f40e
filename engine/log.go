package engine

import (
	"io"
	"log"
	"os"

	"github.com/opentofu/opentofu/internal/logging"
)

// quietLog discards the standard logger unless TF_LOG or TF_LOG_CORE is set.
//
// OpenTofu's logging package takes the standard logger over when it is
// initialised, and would format each of core's trace lines only to drop it.
func quietLog() {
	if os.Getenv("TF_LOG") == "" && os.Getenv("TF_LOG_CORE") == "" {
		log.SetOutput(io.Discard)
		return
	}
	log.SetOutput(logging.LogOutput())
}
