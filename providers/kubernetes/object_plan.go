package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
)

var (
	unknownString = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	unknownNumber = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
)

// ModifyPlan says what an apply would do. Without a change it asks nobody; with
// one, the API server answers by a dry run where it can.
func (r *objectResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy needs no answer
	}
	plan, err := attrsOf(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad plan", err.Error())
		return
	}
	state, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	mem := &ownership.Memory{}
	replaced := private(ctx, req.Private, keyMemory, mem) && state == nil
	var n note
	private(ctx, req.Private, keyNote, &n)

	manifest, whole, err := decodeManifest(plan["manifest"])
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("manifest"), "Bad manifest", err.Error())
		return
	}
	var id identity
	idKnown := false
	if manifest != nil {
		if id, idKnown, err = identify(manifest); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("manifest"), "Bad manifest", err.Error())
			return
		}
	}

	plan["id"] = unknownString
	if idKnown {
		plan["id"] = stringValue(id.String())
	}
	plan["uid"], plan["generation"] = unknownString, unknownNumber
	defer func() {
		resp.Plan.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
	}()

	same := false
	if state != nil {
		if !idKnown || id.String() != state.str("id") {
			replace(resp, identityPaths(state, plan)...)
			return
		}
		if n.Deleting {
			// It ends anyway, alone or with its namespace: wait for that, then
			// make it anew.
			replace(resp, path.Root("uid"))
			return
		}
		plan["uid"] = state["uid"]
		same = plan["manifest"].Equal(state["manifest"])
		if same && len(n.Drifted) == 0 {
			plan["generation"] = state["generation"]
			return
		}
	}
	if r.session == nil || r.err != nil {
		if state != nil || r.session == nil {
			r.connect(&resp.Diagnostics)
		}
		return // a new cluster is made first; its objects are all new
	}
	if !idKnown {
		return
	}
	k, err := r.kind(ctx, r.client, id)
	var notServed *client.NotServedError
	if errors.As(err, &notServed) {
		return // its definition may come with this apply
	}
	if err != nil {
		resp.Diagnostics.AddError("Cannot plan "+id.label(), err.Error())
		return
	}
	if replaced || !whole && state != nil {
		return
	}
	x := &applied{id: id, kind: k, manifest: manifest, force: r.force(plan), dryRun: true, memory: mem, drifted: n.Drifted}
	if state == nil {
		if k.Namespaced && !r.namespaceReady(ctx, id.namespace) {
			return
		}
		if !whole {
			r.adopts(ctx, x, nil, &resp.Diagnostics)
			return
		}
	} else {
		x.uid = state.str("uid")
		x.prior, _, _ = decodeManifest(state["manifest"])
	}
	answer, warnings, err := x.apply(ctx, r.client)
	if err != nil {
		if fields := client.ImmutableFields(err); len(fields) > 0 {
			if state == nil {
				resp.Diagnostics.AddError(id.label()+" exists and can't be adopted", redactor(manifest)(err.Error())+
					"\nThe API server never changes this of an existing object. Let the configuration say what the object has, or delete the object with all that it holds.")
				return
			}
			plan["uid"] = unknownString
			replace(resp, immutablePaths(fields, state, plan)...)
			return
		}
		if client.NoAnswer(err) {
			return
		}
		// Not at the attribute: the whole manifest would be shown before the reason.
		resp.Diagnostics.AddError("The API server refuses "+id.label(), x.explain(err))
		return
	}
	for _, w := range warnings {
		resp.Diagnostics.AddWarning("Warning from the API server for "+id.label(), redactor(manifest)(w))
	}
	if state == nil {
		// What a dry run would make has no resource version.
		if metaString(answer, "resourceVersion") != "" {
			r.adopts(ctx, x, answer, &resp.Diagnostics)
		}
		return
	}
	if same {
		// With drift that the configuration has caught up with, the apply
		// takes the fields back into our hands. The unknown generation makes
		// it happen.
		return
	}
	// The generation tells whether anything but metadata changes.
	live, err := r.client.Read(ctx, k, id.namespace, id.name)
	if err != nil || live == nil {
		return
	}
	was, counted := generationOf(live)
	will, _ := generationOf(answer)
	if counted && was == will && !state["generation"].IsNull() || !counted && state["generation"].IsNull() {
		plan["generation"] = state["generation"]
	}
}

// managers names who else has a hand in an object.
func managers(obj client.Object, us string) string {
	var names []string
	for _, e := range ownership.Entries(obj) {
		if e.Manager != us && e.Manager != "" && e.Subresource == "" && !slices.Contains(names, e.Manager) {
			names = append(names, e.Manager)
		}
	}
	if len(names) == 0 {
		return "unknown"
	}
	return strings.Join(names, ", ")
}

// namespaceReady says whether objects can be made in a namespace now.
func (r *objectResource) namespaceReady(ctx context.Context, name string) bool {
	ns, err := r.client.Read(ctx, client.Builtin("v1", "Namespace"), "", name)
	if err != nil {
		return true // who may not read namespaces may still write in them
	}
	return ns != nil && metaString(ns, "deletionTimestamp") == ""
}

func replace(resp *resource.ModifyPlanResponse, paths ...path.Path) {
	resp.RequiresReplace.Append(paths...)
}

// identityPaths finds the parts of the identity that differ, so that the plan
// shows the reason where it is.
func identityPaths(state, plan attrs) []path.Path {
	var out []path.Path
	for _, steps := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}, {"metadata", "name"}} {
		if p, ok := changedPath(state, plan, steps); ok {
			out = append(out, p)
		}
	}
	if out == nil {
		out = append(out, path.Root("manifest"))
	}
	return out
}

// immutablePaths turns the server's field names, such as spec.selector, into
// paths of the manifest.
func immutablePaths(fields []string, state, plan attrs) []path.Path {
	var out []path.Path
	for _, f := range fields {
		if p, ok := changedPath(state, plan, strings.Split(f, ".")); ok {
			out = append(out, p)
		}
	}
	if out == nil {
		out = append(out, path.Root("manifest"))
	}
	return out
}

// changedPath gives the path of the manifest at steps, if both have it and it
// differs: the engine looks at the values there.
func changedPath(state, plan attrs, steps []string) (path.Path, bool) {
	p := path.Root("manifest")
	a, b := state["manifest"], plan["manifest"]
	for _, s := range steps {
		var am, bm map[string]tftypes.Value
		if !a.IsKnown() || !b.IsKnown() || a.As(&am) != nil || b.As(&bm) != nil {
			return p, false
		}
		av, aok := am[s]
		bv, bok := bm[s]
		if !aok || !bok {
			return p, false
		}
		a, b, p = av, bv, step(p, a.Type(), s)
	}
	return p, !a.Equal(b)
}

func step(p path.Path, t tftypes.Type, name string) path.Path {
	if _, ok := t.(tftypes.Map); ok {
		return p.AtMapKey(name)
	}
	return p.AtName(name)
}
