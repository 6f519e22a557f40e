package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
)

// adopts warns of an object that exists already, of which no state knows: what
// the apply changes of it, and whether its pods are replaced for that. answer is
// that of a dry run, nil when the manifest is not wholly known yet.
func (r *objectResource) adopts(ctx context.Context, x *applied, answer client.Object, diags *diag.Diagnostics) {
	live, err := r.client.Read(ctx, x.kind, x.id.namespace, x.id.name)
	if err != nil || live == nil || metaString(live, "deletionTimestamp") != "" {
		return // who may not list objects may still make some
	}
	whole, fields := answer != nil, []string(nil)
	if whole {
		_, fields = ownership.Guess(answer).Compare(answer, live)
		fields = slices.DeleteFunc(fields, countedByServer)
	} else {
		fields = unknownFields(x.manifest, "")
		// Objects come without their managers from where Read has them.
		if answer, err = r.client.Get(ctx, x.kind, x.id.namespace, x.id.name); err != nil {
			return
		}
	}
	summary := x.id.label() + " exists and will be adopted"
	detail := fmt.Sprintf("It was made at %s; its field managers are %s. The apply changes it in place, and a destroy deletes it.\n",
		metaString(live, "creationTimestamp"), managers(answer, r.client.FieldManager()))
	pods := templateOf(live) != nil && slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, ".spec.template.") })
	switch {
	case len(fields) == 0:
		detail += "Nothing of it changes but that " + r.client.FieldManager() + " is one of its managers."
	case pods && whole:
		summary += ", and its pods are replaced"
		detail += "Its pods are replaced, because their template changes. All that changes:" + listed(fields)
	case pods:
		summary += ", and its pods may be replaced"
		detail += "Its pods are replaced unless these fields, which are not known yet, get the values that they have:" + listed(fields)
	case whole:
		detail += "All that changes:" + listed(fields)
	default:
		detail += "What changes is not known yet."
	}
	diags.AddWarning(summary, detail)
}

// countedByServer says whether a field of an answer says nothing about what was applied.
func countedByServer(path string) bool {
	return strings.HasPrefix(path, ".status.") || slices.ContainsFunc(serverFields, func(f string) bool {
		return path == ".metadata."+f || strings.HasPrefix(path, ".metadata."+f+"[")
	})
}

// unknownFields are the paths of what is not known yet in a decoded manifest.
func unknownFields(v any, path string) []string {
	var out []string
	switch v := v.(type) {
	case unknown:
		out = append(out, path)
	case client.Object:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, unknownFields(v[name], path+"."+name)...)
		}
	case []any:
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if m, ok := item.(client.Object); ok {
				if name, ok := m["name"].(string); ok {
					at = fmt.Sprintf("%s[name=%q]", path, name)
				}
			}
			out = append(out, unknownFields(item, at)...)
		}
	}
	return out
}

// listed shows paths one a line; of more than a screen of them the first.
func listed(paths []string) string {
	const most = 20
	more := ""
	if n := len(paths) - most; n > 0 {
		paths, more = paths[:most], fmt.Sprintf("\n  and %d more", n)
	}
	return "\n  " + strings.Join(paths, "\n  ") + more
}
