package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
)

// objectResource is kubernetes_object: any object, by server-side apply.
//
// State holds the manifest as the user wrote it. What the server made of it is
// remembered in private state (an ownership.Memory), so that a refresh shows
// what others changed and nothing else.
type objectResource struct{ *session }

var (
	_ resource.ResourceWithConfigure      = (*objectResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*objectResource)(nil)
	_ resource.ResourceWithImportState    = (*objectResource)(nil)
	_ resource.ResourceWithValidateConfig = (*objectResource)(nil)
)

func (r *objectResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_object"
}

func (r *objectResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Any Kubernetes object, applied by server-side apply.",
		Attributes: map[string]schema.Attribute{
			"manifest": schema.DynamicAttribute{
				Required:    true,
				Description: "The object as a manifest: apiVersion, kind, metadata and the rest. Fields that it leaves out belong to others.",
			},
			"force_conflicts": schema.BoolAttribute{
				Optional:    true,
				Description: "Take fields of the manifest from other field managers. Default: the environment variable " + EnvForceConflicts + ", else false.",
			},
			"unless": schema.StringAttribute{
				Optional: true, WriteOnly: true,
				Description: "A reason not to make or change the object now, such as one that an ephemeral resource has found; an apply that would " +
					"fails with it, before the API server is asked. Plans and deletions don't look at it. Empty or null: there is none.",
			},
			"timeout": schema.StringAttribute{
				Optional:    true,
				Description: "How long to wait for the end of the object when it is deleted, such as 90s. Default: that of the provider.",
			},
			"id": schema.StringAttribute{
				Computed:    true,
				Description: "apiVersion=,kind=,namespace=,name= of the object; also the id to import it by.",
			},
			"uid": schema.StringAttribute{
				Computed:    true,
				Description: "metadata.uid: another one is another object.",
			},
			"generation": schema.Int64Attribute{
				Computed:    true,
				Description: "metadata.generation after the last apply; null for kinds that have none.",
			},
		},
	}
}

func (r *objectResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

// attrs are the attributes of a resource as the protocol carries them. The
// framework's reflection would cost a refresh more than everything else.
type attrs map[string]tftypes.Value

func attrsOf(raw tftypes.Value) (attrs, error) {
	if raw.IsNull() {
		return nil, nil
	}
	var m map[string]tftypes.Value
	if err := raw.As(&m); err != nil {
		return nil, err
	}
	out := make(attrs, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out, nil
}

func (a attrs) str(name string) string {
	var s string
	if v, ok := a[name]; ok && v.IsKnown() && !v.IsNull() && v.As(&s) == nil {
		return s
	}
	return ""
}

func (a attrs) bool(name string) bool {
	var b bool
	return a[name].IsKnown() && !a[name].IsNull() && a[name].As(&b) == nil && b
}

func (a attrs) int(name string) (int64, bool) {
	var f big.Float
	if v, ok := a[name]; ok && v.IsKnown() && !v.IsNull() && v.As(&f) == nil {
		i, _ := f.Int64()
		return i, true
	}
	return 0, false
}

// duration reads an attribute, and takes unset for one that isn't set.
func (a attrs) duration(name string, unset time.Duration, diags *diag.Diagnostics) time.Duration {
	s := a.str(name)
	if s == "" {
		return unset
	}
	d, err := parseTimeout(s)
	if err != nil {
		diags.AddAttributeError(path.Root(name), "Bad duration", err.Error())
	}
	return d
}

func parseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > 7*24*time.Hour {
		return 0, fmt.Errorf("%q is no duration: write a number and a unit, such as 90s, 10m or 1h30m", s)
	}
	return d, nil
}

func stringValue(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func intValue(i int64, ok bool) tftypes.Value {
	if !ok {
		return tftypes.NewValue(tftypes.Number, nil)
	}
	return tftypes.NewValue(tftypes.Number, new(big.Float).SetInt64(i))
}

// note is what private state says besides the memory.
type note struct {
	// Drifted are the paths that the last refresh found changed by others.
	Drifted []string `json:"drifted,omitempty"`
	// Deleting is true when the last refresh found the object, or its
	// namespace, on its way out.
	Deleting bool `json:"deleting,omitempty"`
}

// Keys of private state.
const (
	keyMemory = "memory"
	keyNote   = "note"
)

type privateState interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}

type privateStore interface {
	privateState
	SetKey(context.Context, string, []byte) diag.Diagnostics
}

// private reads a key of private state into v, false when there is none.
func private(ctx context.Context, p privateState, key string, v any) bool {
	data, diags := p.GetKey(ctx, key)
	if diags.HasError() || len(data) == 0 || string(data) == "null" {
		return false
	}
	// Integers stay integers, as in manifests.
	return kjson.Unmarshal(data, v) == nil
}

func setPrivate(ctx context.Context, p privateStore, key string, v any) diag.Diagnostics {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte("null")
	}
	return p.SetKey(ctx, key, data)
}

func metaOf(obj client.Object) client.Object {
	m, _ := obj["metadata"].(client.Object)
	return m
}

func annotationsOf(obj client.Object) client.Object {
	m, _ := metaOf(obj)["annotations"].(client.Object)
	return m
}

func metaString(obj client.Object, field string) string {
	s, _ := metaOf(obj)[field].(string)
	return s
}

func generationOf(obj client.Object) (int64, bool) {
	g, ok := metaOf(obj)["generation"].(int64)
	return g, ok
}

func (r *objectResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	a, err := attrsOf(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad configuration", err.Error())
		return
	}
	a.duration("timeout", 0, &resp.Diagnostics)
	if !a["manifest"].IsKnown() || a["manifest"].IsNull() {
		return
	}
	m, _, err := decodeManifest(a["manifest"])
	if err == nil && m != nil {
		_, _, err = identify(m)
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("manifest"), "Bad manifest", err.Error())
	}
}

// kind finds how the object is served and checks its namespace.
func (r *objectResource) kind(ctx context.Context, c *client.Client, id identity) (client.Kind, error) {
	k, err := c.Kind(ctx, id.gvk())
	switch {
	case err != nil:
		return k, err
	case k.Namespaced && id.namespace == "":
		return k, fmt.Errorf("metadata.namespace is missing: a %s lives in a namespace", id.kind)
	case !k.Namespaced && id.namespace != "":
		return k, fmt.Errorf("metadata.namespace is %q, but a %s lives outside of namespaces: remove it", id.namespace, id.kind)
	}
	return k, nil
}

func (r *objectResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	a, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	id, err := parseID(a.str("id"))
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	k, err := r.kind(ctx, c, id)
	var notServed *client.NotServedError
	if errors.As(err, &notServed) && !a["manifest"].IsNull() {
		// With its definition, the object went too.
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Cannot read "+id.label(), err.Error())
		return
	}
	if a["manifest"].IsNull() {
		r.readImported(ctx, c, k, id, a, resp)
		return
	}
	live, err := c.Read(ctx, k, id.namespace, id.name)
	if err != nil {
		resp.Diagnostics.AddError("Cannot read "+id.label(), err.Error())
		return
	}
	if live == nil {
		resp.State.RemoveResource(ctx)
		return
	}
	manifest, _, err := decodeManifest(a["manifest"])
	if err != nil {
		resp.Diagnostics.AddError("Bad state of "+id.label(), err.Error())
		return
	}
	seen := compare(ctx, req.Private, manifest, a.str("uid"), live, k.Namespaced && c.NamespaceEnding(ctx, id.namespace))
	if seen.changed() {
		if len(seen.note.Drifted) > 0 {
			a["manifest"] = encodeValue(seen.manifest, a["manifest"].Type())
		}
		a["uid"] = stringValue(seen.uid)
		// Only with a change of what is ours: other writers' changes, such as
		// a scale, are no news for what depends on the generation.
		a["generation"] = intValue(generationOf(live))
		resp.State.Raw = tftypes.NewValue(req.State.Raw.Type(), map[string]tftypes.Value(a))
	}
	if seen.noteChanged {
		resp.Diagnostics.Append(setPrivate(ctx, resp.Private, keyNote, seen.note)...)
	}
}

// comparison is what a refresh sees of an object.
type comparison struct {
	manifest    client.Object // with the live values
	uid         string
	recreated   bool
	note        note
	noteChanged bool
}

// changed says whether state has to change.
func (c comparison) changed() bool { return len(c.note.Drifted) > 0 || c.recreated }

// compare looks at a live object beside its state, the manifest and the uid.
// ending is true when the object's namespace is being deleted.
func compare(ctx context.Context, p privateState, manifest client.Object, uid string, live client.Object, ending bool) comparison {
	mem := &ownership.Memory{}
	private(ctx, p, keyMemory, mem)
	var before note
	private(ctx, p, keyNote, &before)
	now, drifted := mem.Compare(manifest, live)
	if note := setBackNote(live); note != "" && annotationsOf(manifest)[setBackAnnotation] == nil {
		// A template that was set back may have just more than the manifest,
		// which is no drift by itself. The plan shows this annotation to go.
		now, drifted = withAnnotation(now, setBackAnnotation, note), append(drifted, ".metadata.annotations."+setBackAnnotation)
	}
	c := comparison{manifest: now, uid: metaString(live, "uid")}
	c.recreated = c.uid != uid
	c.note = note{Drifted: drifted, Deleting: ending || metaString(live, "deletionTimestamp") != ""}
	c.noteChanged = !c.note.equal(before)
	return c
}

// withAnnotation gives a copy of obj that has one more annotation.
func withAnnotation(obj client.Object, key, value string) client.Object {
	out, meta, notes := maps.Clone(obj), maps.Clone(metaOf(obj)), maps.Clone(annotationsOf(obj))
	if notes == nil {
		notes = client.Object{}
	}
	notes[key] = value
	meta["annotations"], out["metadata"] = notes, meta
	return out
}

func (n note) equal(o note) bool {
	return n.Deleting == o.Deleting && slices.Equal(n.Drifted, o.Drifted)
}

func (r *objectResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, err := parseID(req.ID); err != nil {
		resp.Diagnostics.AddError("Bad import id", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}

// readImported makes the first state of an object that is imported.
func (r *objectResource) readImported(ctx context.Context, c *client.Client, k client.Kind, id identity, a attrs, resp *resource.ReadResponse) {
	live, err := c.Get(ctx, k, id.namespace, id.name)
	if apierrors.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Cannot import "+id.label(), err.Error())
		return
	}
	manifest := importedManifest(live, c.FieldManager())
	manifest["apiVersion"], manifest["kind"] = id.apiVersion, id.kind
	mem := ownership.Learn(manifest, live, ownership.Owned(live, c.FieldManager()))
	a["manifest"] = encodeValue(manifest, nil)
	a["uid"] = stringValue(metaString(live, "uid"))
	a["generation"] = intValue(generationOf(live))
	resp.State.Raw = tftypes.NewValue(resp.State.Raw.Type(), map[string]tftypes.Value(a))
	resp.Diagnostics.Append(setPrivate(ctx, resp.Private, keyMemory, mem)...)
}

// lastApplied is where kubectl apply keeps the manifest that it was given.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// importedManifest makes the manifest of an object that somebody made: what our
// field manager owns; else what any other applies, be it by the server or by
// kubectl; else all that isn't obviously the server's.
func importedManifest(live client.Object, manager string) client.Object {
	tree := ownership.Owned(live, manager)
	if tree == nil {
		for _, e := range ownership.Entries(live) {
			if e.Operation == "Apply" && e.Subresource == "" && tree == nil {
				tree = e.Fields
			}
		}
	}
	var out client.Object
	if tree != nil {
		part, _ := ownership.Project(live, tree)
		out, _ = part.(client.Object)
	}
	if text, ok := annotationsOf(live)[lastApplied].(string); ok && out == nil {
		var manifest client.Object
		if kjson.Unmarshal([]byte(text), &manifest) == nil && manifest != nil {
			// The live values of what was applied.
			out, _ = ownership.Guess(manifest).Compare(manifest, live)
		}
	}
	if out == nil {
		out = client.Object{}
		for k, v := range live {
			if k != "status" {
				out[k] = v
			}
		}
	}
	meta := client.Object{}
	for k, v := range metaOf(out) {
		meta[k] = v
	}
	for _, f := range serverFields {
		delete(meta, f)
	}
	if ann, ok := meta["annotations"].(client.Object); ok {
		kept := client.Object{}
		for k, v := range ann {
			// kubectl's own copy of the object, and the controller's counter.
			if k != lastApplied && k != "deployment.kubernetes.io/revision" {
				kept[k] = v
			}
		}
		if meta["annotations"] = kept; len(kept) == 0 {
			delete(meta, "annotations")
		}
	}
	for _, f := range []string{"name", "namespace"} {
		if v := metaString(live, f); v != "" {
			meta[f] = v
		}
	}
	out["metadata"] = meta
	return out
}

// conflictError words the conflicts of an apply.
func conflictError(conflicts []client.Conflict) string {
	byManager := map[string][]string{}
	var managers []string
	for _, c := range conflicts {
		if byManager[c.Manager] == nil {
			managers = append(managers, c.Manager)
		}
		byManager[c.Manager] = append(byManager[c.Manager], c.Field)
	}
	sort.Strings(managers)
	var b strings.Builder
	b.WriteString("Other field managers own fields that the manifest sets:\n")
	for _, m := range managers {
		for _, f := range byManager[m] {
			fmt.Fprintf(&b, "  - %s: owned by %q\n", f, m)
		}
	}
	b.WriteString("To take these fields, run once more with " + EnvForceConflicts + "=true in the environment (or force_conflicts = true on this " +
		"resource). To leave them to their managers, remove them from the manifest, or have their managers set what it says.")
	return b.String()
}

// force says whether fields of others may be taken.
func (r *objectResource) force(a attrs) bool {
	if a["force_conflicts"].IsNull() {
		return r.forced(nil)
	}
	return r.forced(a.bool("force_conflicts"))
}

// forced is force for what the configuration says of it, nil when that is nothing.
func (r *objectResource) forced(configured any) bool {
	if configured == nil && r.session != nil {
		return r.session.force
	}
	force, _ := configured.(bool)
	return force
}

// applied is one apply, with all that it needs to know.
type applied struct {
	id       identity
	kind     client.Kind
	manifest client.Object
	uid      string // of the object that must exist; "" when it may be new
	force    bool
	dryRun   bool
	prior    client.Object // manifest of the last apply, nil when there was none
	memory   *ownership.Memory
	drifted  []string
}

// takeable says whether a field in conflict is ours to take back: the plan has
// shown that it was changed, or we had applied it and some writer (not another
// applier, who would take it again) came to share it.
func (x *applied) takeable() func(client.Conflict) bool {
	var ours map[string]bool
	if x.prior != nil {
		ours = x.memory.Paths(x.prior)
	}
	return func(c client.Conflict) bool {
		for _, p := range x.drifted {
			if c.Field == p || strings.HasPrefix(c.Field, p+".") || strings.HasPrefix(c.Field, p+"[") {
				return true
			}
		}
		return !c.Applied && ours[c.Field]
	}
}

// apply sends the manifest. Fields of others are taken only when they are ours
// to take; else the error names them.
func (x *applied) apply(ctx context.Context, c *client.Client) (client.Object, []string, error) {
	body := maps.Clone(x.manifest)
	if x.uid != "" {
		// The server then refuses to touch, or to make, another object.
		meta := maps.Clone(metaOf(x.manifest))
		meta["uid"] = x.uid
		body["metadata"] = meta
	}
	o := client.ApplyOptions{Force: x.force, DryRun: x.dryRun}
	send := func() (client.Object, []string, error) {
		obj, warnings, err := c.Apply(ctx, x.kind, x.id.namespace, x.id.name, body, o)
		if len(client.ImmutableFields(err)) > 0 && x.kind.Group == "" && x.kind.Kind == "PersistentVolumeClaim" && x.leaveClaim(ctx, c, body) {
			return c.Apply(ctx, x.kind, x.id.namespace, x.id.name, body, o)
		}
		return obj, warnings, err
	}
	obj, warnings, err := send()
	conflicts := client.Conflicts(err)
	if len(conflicts) == 0 {
		return obj, warnings, err
	}
	takeable := x.takeable()
	for _, conflict := range conflicts {
		if !takeable(conflict) {
			return nil, nil, errors.New(conflictError(conflicts))
		}
	}
	o.Force = true
	return send()
}

// leaveClaim adds to what is sent of a claim that has a volume the fields that we
// have applied once and that the manifest leaves out now, such as storageClassName,
// with the values that they have: the API server would take an apply without them
// for their removal, and refuse it. Without that the claim would be replaced, and its
// data lost, for the sake of nothing. It is false when there are none.
func (x *applied) leaveClaim(ctx context.Context, c *client.Client, body client.Object) bool {
	live, err := c.Get(ctx, x.kind, x.id.namespace, x.id.name)
	if err != nil {
		return false
	}
	ours, _ := ownership.Owned(live, c.FieldManager())["f:spec"].(client.Object)
	has, _ := live["spec"].(client.Object)
	spec, _ := body["spec"].(client.Object)
	if has["volumeName"] == nil {
		return false // nothing is lost, and a class that never gave a volume can go
	}
	spec = maps.Clone(spec)
	added := false
	for name, v := range has {
		// These may be changed, and so be removed.
		if _, given := spec[name]; given || ours["f:"+name] == nil || name == "resources" || name == "volumeAttributesClassName" {
			continue
		}
		spec[name], added = v, true
	}
	if added {
		body["spec"] = spec
	}
	return added
}

// explain gives an error of an apply the words for the user; secrets are cut out.
func (x *applied) explain(err error) string {
	text := redactor(x.manifest)(err.Error())
	switch {
	case x.uid != "" && client.AnotherObject(err) && x.dryRun:
		return "the object was deleted or made anew since state was refreshed: plan again, with a refresh (" + text + ")"
	case x.uid != "" && client.AnotherObject(err):
		return "the object was deleted or made anew after it was planned: plan again (" + text + ")"
	case len(client.ImmutableFields(err)) > 0:
		return text + "\nThe API server never changes this field of an existing object: replace it, with -replace and the address of this resource."
	case apierrors.IsNotFound(err) && x.kind.Namespaced && strings.Contains(text, "namespaces "):
		return text + "\nApply the namespace first: let this resource depend on it."
	case client.NamespaceTerminating(err):
		return text + "\nThe namespace is being deleted: apply again when it is gone."
	}
	return text
}
