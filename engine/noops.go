package engine

import (
	"bytes"
	"slices"

	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/states"
)

// withoutNoOps is the plan without the resources that nothing happens to, which
// no view shows: OpenTofu's compares their values attribute by attribute, after
// it has made JSON of them, to find nothing. It changes neither plan nor what
// is in it.
func withoutNoOps(plan *plans.Plan) *plans.Plan {
	if plan == nil || plan.Changes == nil {
		return plan
	}
	changes, out := *plan.Changes, *plan
	changes.Resources = slices.DeleteFunc(slices.Clone(changes.Resources), nothingHappens)
	out.Changes = &changes
	return &out
}

// nothingHappens is stricter than the views are: what has more to it than an
// action that is none stays.
func nothingHappens(c *plans.ResourceInstanceChangeSrc) bool {
	return c.Action == plans.NoOp && c.Importing == nil && c.DeposedKey == states.NotDeposed && c.Addr.Equal(c.PrevRunAddr) &&
		bytes.Equal(c.Before, c.After) && len(c.BeforeValMarks) == 0 && len(c.AfterValMarks) == 0
}
