package engine

import (
	"os"

	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// JSONForm is what a verb prints with -json.
type JSONForm int

// The forms.
const (
	JSONStream JSONForm = iota // one message a line: plan, apply, import
	JSONResult                 // one object with all diagnostics: validate
)

// ReportJSON prints an error that kept a verb from having an Engine, in the
// form in which stock tofu prints it with -json. It returns ErrReported.
func ReportJSON(stdout, stderr *os.File, form JSONForm, err error) error {
	t, ttyErr := newTTY(Options{Stdout: stdout, Stderr: stderr, JSON: true})
	if ttyErr != nil {
		return ttyErr
	}
	diags := tfdiags.Diagnostics{tfdiags.Sourceless(tfdiags.Error, err.Error(), "")}
	if form == JSONResult {
		views.NewValidate(arguments.ViewOptions{ViewType: arguments.ViewJSON}, t.results).Results(diags)
	} else {
		views.NewJSONView(t.results, nil).Diagnostics(diags)
	}
	return ErrReported
}
