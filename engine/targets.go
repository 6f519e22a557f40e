package engine

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// selectObjects puts -target, -exclude and -replace into an operation.
func selectObjects(op *backend.Operation, o PlanOptions) (diags tfdiags.Diagnostics) {
	if len(o.Targets)+len(o.TargetFiles) > 0 && len(o.Excludes)+len(o.ExcludeFiles) > 0 {
		return diags.Append(sourceless("Invalid combination of arguments",
			"The target and exclude planning options are mutually-exclusive. Each plan must use either only the target options or only the exclude options."))
	}
	op.Targets = targetables("target", o.Targets, &diags)
	op.Excludes = targetables("exclude", o.Excludes, &diags)
	op.Targets = append(op.Targets, targetablesIn("target-file", o.TargetFiles, &diags)...)
	op.Excludes = append(op.Excludes, targetablesIn("exclude-file", o.ExcludeFiles, &diags)...)
	for _, raw := range o.Replace {
		a, more := addrs.ParseAbsResourceInstanceStr(raw)
		switch {
		case more.HasErrors():
			diags = diags.Append(sourceless(fmt.Sprintf("Invalid force-replace address %q", raw), "%s", more.Err()))
		case a.Resource.Resource.Mode != addrs.ManagedResourceMode:
			diags = diags.Append(sourceless(fmt.Sprintf("Invalid force-replace address %q", raw), "Only managed resources can be used with the -replace=... option."))
		default:
			op.ForceReplace = append(op.ForceReplace, a)
		}
	}
	if len(op.ForceReplace) > 0 && (o.Mode == Destroy || o.Mode == RefreshOnly) {
		diags = diags.Append(sourceless("Incompatible refresh options", "The -replace option can be used only with a normal plan, not with -destroy or -refresh-only."))
	}
	if o.SkipRefresh && o.Mode == RefreshOnly {
		diags = diags.Append(sourceless("Incompatible refresh options", "It doesn't make sense to use -refresh-only at the same time as -refresh=false, because OpenTofu would have nothing to do."))
	}
	return diags
}

func targetables(flag string, raws []string, diags *tfdiags.Diagnostics) (out []addrs.Targetable) {
	for _, raw := range raws {
		bad := func(detail string) {
			*diags = diags.Append(sourceless(fmt.Sprintf("Invalid %s %q", flag, raw), "%s", detail))
		}
		traversal, hclDiags := hclsyntax.ParseTraversalAbs([]byte(raw), "", hcl.Pos{Line: 1, Column: 1})
		if hclDiags.HasErrors() {
			bad(hclDiags[0].Detail)
			continue
		}
		target, more := addrs.ParseTarget(traversal)
		if more.HasErrors() {
			bad(more[0].Description().Detail)
			continue
		}
		out = append(out, target.Subject)
	}
	return out
}

// targetablesIn reads addresses from files, as OpenTofu's flag of this name does.
func targetablesIn(flag string, files []string, diags *tfdiags.Diagnostics) []addrs.Targetable {
	var args []string
	for _, f := range files {
		args = append(args, "-"+flag+"="+f)
	}
	plan, done, more := arguments.ParsePlan(args)
	defer done()
	*diags = diags.Append(more)
	return append(plan.Operation.Targets, plan.Operation.Excludes...)
}
