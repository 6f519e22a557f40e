package kubernetes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
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

// wanted is an object as a configuration wants it.
type wanted struct {
	manifest client.Object // nil when nothing is known of it yet
	whole    bool          // all of the manifest is known
	id       identity
	known    bool // the identity is
	force    bool // fields of others may be taken
}

// idValue is the attribute id.
func (w wanted) idValue() tftypes.Value {
	if !w.known {
		return unknownString
	}
	return stringValue(w.id.String())
}

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
	remembered := private(ctx, req.Private, keyMemory, mem)

	want := wanted{force: r.force(plan)}
	want.manifest, want.whole, err = decodeManifest(plan["manifest"])
	if err == nil && want.manifest != nil {
		want.id, want.known, err = identify(want.manifest)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("manifest"), "Bad manifest", err.Error())
		return
	}

	plan["id"], plan["uid"], plan["generation"] = want.idValue(), unknownString, unknownNumber
	if state == nil {
		r.planNew(ctx, want, remembered, &resp.Diagnostics)
	} else {
		r.planChange(ctx, want, mem, req.Private, state, plan, resp)
	}
	resp.Plan.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
}

// planNew finds what there is to say of an object that isn't in state. Of its
// plan, nothing depends on that. replaced is true when it takes the place of one
// that is. Nothing of what it says belongs to an attribute, which is what
// quietServer relies on: it asks here, too.
func (r *objectResource) planNew(ctx context.Context, want wanted, replaced bool, diags *diag.Diagnostics) {
	if r.session == nil {
		r.connect(diags)
		return
	}
	if r.err != nil || !want.known {
		return // a new cluster is made first; its objects are all new
	}
	k, ok := r.planKind(ctx, want.id, diags)
	if !ok || replaced || k.Namespaced && !r.namespaceReady(ctx, want.id.namespace) {
		return
	}
	x := &applied{id: want.id, kind: k, manifest: want.manifest, force: want.force, dryRun: true}
	if !want.whole {
		r.adopts(ctx, x, nil, diags)
		return
	}
	answer, err := r.tryOut(ctx, x, diags)
	if err != nil {
		diags.AddError(want.id.label()+" exists and can't be adopted", redactor(want.manifest)(err.Error())+
			"\nThe API server never changes this of an existing object. Let the configuration say what the object has, or delete the object with all that it holds.")
		return
	}
	// What a dry run would make has no resource version.
	if metaString(answer, "resourceVersion") != "" {
		r.adopts(ctx, x, answer, diags)
	}
}

// planChange plans an object that is in state: what of plan stays as it is, and
// what can't be changed in place.
func (r *objectResource) planChange(ctx context.Context, want wanted, mem *ownership.Memory, p privateState, state, plan attrs, resp *resource.ModifyPlanResponse) {
	var n note
	private(ctx, p, keyNote, &n)
	if !want.known || want.id.String() != state.str("id") {
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
	same := plan["manifest"].Equal(state["manifest"])
	if same && len(n.Drifted) == 0 {
		plan["generation"] = state["generation"]
		return
	}
	if r.connect(&resp.Diagnostics) == nil {
		return
	}
	k, ok := r.planKind(ctx, want.id, &resp.Diagnostics)
	if !ok || !want.whole {
		return
	}
	x := &applied{id: want.id, kind: k, manifest: want.manifest, force: want.force, dryRun: true, memory: mem, drifted: n.Drifted, uid: state.str("uid")}
	x.prior, _, _ = decodeManifest(state["manifest"])
	answer, err := r.tryOut(ctx, x, &resp.Diagnostics)
	if err != nil {
		plan["uid"] = unknownString
		replace(resp, immutablePaths(client.ImmutableFields(err), state, plan)...)
		return
	}
	if answer == nil || same {
		// With drift that the configuration has caught up with, the apply
		// takes the fields back into our hands. The unknown generation makes
		// it happen.
		return
	}
	// The generation tells whether anything but metadata changes.
	live, err := r.client.Read(ctx, k, want.id.namespace, want.id.name)
	if err != nil || live == nil {
		return
	}
	was, counted := generationOf(live)
	will, _ := generationOf(answer)
	if counted && was == will && !state["generation"].IsNull() || !counted && state["generation"].IsNull() {
		plan["generation"] = state["generation"]
	}
}

// planKind finds the kind of an object that is planned, false when it isn't
// served: its definition may come with this apply.
func (r *objectResource) planKind(ctx context.Context, id identity, diags *diag.Diagnostics) (client.Kind, bool) {
	k, err := r.kind(ctx, r.client, id)
	var notServed *client.NotServedError
	if err != nil && !errors.As(err, &notServed) {
		diags.AddError("Cannot plan "+id.label(), err.Error())
	}
	return k, err == nil
}

// tryOut asks the API server by a dry run what x would make of the object; nil
// when it doesn't say, or refuses. The error is that something of the object
// can't be changed, which is for the caller to tell.
func (r *objectResource) tryOut(ctx context.Context, x *applied, diags *diag.Diagnostics) (client.Object, error) {
	answer, warnings, err := x.apply(ctx, r.client)
	switch {
	case err == nil:
		for _, w := range warnings {
			diags.AddWarning("Warning from the API server for "+x.id.label(), redactor(x.manifest)(w))
		}
		return answer, nil
	case len(client.ImmutableFields(err)) > 0:
		return nil, err
	case !client.NoAnswer(err):
		// Not at the attribute: the whole manifest would be shown before the reason.
		diags.AddError("The API server refuses "+x.id.label(), x.explain(err))
	}
	return nil, nil
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
