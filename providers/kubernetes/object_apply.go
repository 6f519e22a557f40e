package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
)

// settle is how long an apply waits for a kind whose definition was applied a
// moment ago: API servers begin to serve it one by one.
const settle = 15 * time.Second

func (r *objectResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	plan, x := r.prepare(ctx, req.Plan.Raw, &resp.Diagnostics)
	if x == nil {
		return
	}
	timeout := plan.duration("timeout", r.timeout, &resp.Diagnostics)
	if x.stop(unless(req.Config.Raw, &resp.Diagnostics), &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	live, ok := r.createNew(ctx, c, x, timeout, resp.Private, &resp.Diagnostics)
	if !ok {
		return
	}
	x.keep(plan, live)
	resp.State.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
}

// createNew makes an object that state doesn't know, and remembers in private
// state what was made. ok is false when there is nothing to keep. The object is
// to be kept when it is there and something that follows has failed, of which
// diags have the error.
func (r *objectResource) createNew(ctx context.Context, c *client.Client, x *applied, timeout time.Duration, p privateStore, diags *diag.Diagnostics) (live client.Object, ok bool) {
	live, warnings, err := r.create(ctx, c, x, timeout)
	if err != nil {
		diags.AddError("Cannot apply "+x.id.label(), x.explain(err))
		return nil, false
	}
	r.remember(ctx, x, live, warnings, diags, p)
	if err := r.established(ctx, c, x, live, timeout); err != nil {
		diags.AddError(x.id.label()+" is not served", err.Error())
	}
	return live, true
}

// create applies an object that state doesn't know. One that exists is adopted;
// one on its way out is waited for.
func (r *objectResource) create(ctx context.Context, c *client.Client, x *applied, timeout time.Duration) (client.Object, []string, error) {
	patient, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	var notServed *client.NotServedError
	var none *client.NoPathError
	for {
		k, err := r.kind(ctx, c, x.id)
		if err == nil {
			x.kind = k
			if isDeployment(k) {
				if err := rememberBefore(ctx, c, x.id.namespace, x.id.name); err != nil && !apierrors.IsForbidden(err) {
					return nil, nil, fmt.Errorf("recording what ran before: %w", err)
				}
			}
			live, warnings, aerr := x.apply(ctx, c)
			if aerr == nil && metaString(live, "deletionTimestamp") != "" {
				r.progress(x.id.namespace, x.id.name, "an older "+x.id.kind+" of this name is being deleted: waiting for its end")
				if err := r.waitGone(ctx, c, k, x.id, metaString(live, "uid"), timeout); err != nil {
					return nil, nil, err
				}
				continue
			}
			err = aerr
			if !errors.As(err, &none) {
				return live, warnings, err
			}
		} else if !errors.As(err, &notServed) && !errors.As(err, &none) {
			return nil, nil, err
		}
		if !sleep(patient, 500*time.Millisecond) {
			return nil, nil, err
		}
	}
}

func isDeployment(k client.Kind) bool { return k.Group == "apps" && k.Kind == "Deployment" }

func (r *objectResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	plan, x := r.prepare(ctx, req.Plan.Raw, &resp.Diagnostics)
	if x == nil {
		return
	}
	state, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	var n note
	private(ctx, req.Private, keyNote, &n)
	if plan["manifest"].Equal(state["manifest"]) && len(n.Drifted) == 0 {
		// Only how to apply or to delete has changed.
		plan["generation"] = state["generation"]
		resp.State.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
		return
	}
	if x.stop(unless(req.Config.Raw, &resp.Diagnostics), &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	if x.kind, err = r.kind(ctx, c, x.id); err != nil {
		resp.Diagnostics.AddError("Cannot apply "+x.id.label(), err.Error())
		return
	}
	x.uid, x.drifted, x.memory = state.str("uid"), n.Drifted, &ownership.Memory{}
	private(ctx, req.Private, keyMemory, x.memory)
	x.prior, _, _ = decodeManifest(state["manifest"])
	if isDeployment(x.kind) {
		if err := rememberBefore(ctx, c, x.id.namespace, x.id.name); err != nil && !apierrors.IsForbidden(err) {
			resp.Diagnostics.AddError("Cannot apply "+x.id.label(), "recording what ran before: "+err.Error())
			return
		}
	}
	live, warnings, err := x.apply(ctx, c)
	if err != nil {
		resp.Diagnostics.AddError("Cannot apply "+x.id.label(), x.explain(err))
		return
	}
	x.keep(plan, live)
	r.remember(ctx, x, live, warnings, &resp.Diagnostics, resp.Private)
	resp.State.Raw = tftypes.NewValue(req.Plan.Raw.Type(), map[string]tftypes.Value(plan))
}

// prepare reads a plan that is to be carried out, nil when it is wrong.
func (r *objectResource) prepare(_ context.Context, raw tftypes.Value, diags *diag.Diagnostics) (attrs, *applied) {
	plan, err := attrsOf(raw)
	if err != nil {
		diags.AddError("Bad plan", err.Error())
		return nil, nil
	}
	manifest, whole, err := decodeManifest(plan["manifest"])
	if err == nil && !whole {
		err = errors.New("the manifest is still not wholly known")
	}
	var id identity
	if err == nil {
		id, _, err = identify(manifest)
	}
	if err != nil {
		diags.AddError("Bad manifest", err.Error())
		return nil, nil
	}
	return plan, &applied{id: id, manifest: manifest, force: r.force(plan)}
}

// unless is the configuration's reason against an apply, "" when there is none.
func unless(config tftypes.Value, diags *diag.Diagnostics) string {
	a, err := attrsOf(config)
	if err != nil {
		diags.AddError("Bad configuration", err.Error())
	}
	return a.str("unless")
}

// stop adds an error when there is a reason against the apply.
func (x *applied) stop(reason string, diags *diag.Diagnostics) {
	if reason != "" {
		diags.AddError(x.id.label()+" was not touched", reason)
	}
}

// keep fills in what the apply made known.
func (x *applied) keep(plan attrs, live client.Object) {
	plan["id"] = stringValue(x.id.String())
	plan["uid"] = stringValue(metaString(live, "uid"))
	if !plan["generation"].IsKnown() {
		plan["generation"] = intValue(generationOf(live))
	}
}

// remember writes what was applied to private state, and tells the server's warnings.
func (r *objectResource) remember(ctx context.Context, x *applied, live client.Object, warnings []string, diags *diag.Diagnostics, priv privateStore) {
	mem := ownership.Learn(x.manifest, live, ownership.Owned(live, r.client.FieldManager()))
	diags.Append(setPrivate(ctx, priv, keyMemory, mem)...)
	diags.Append(setPrivate(ctx, priv, keyNote, note{})...)
	for _, w := range warnings {
		diags.AddWarning("Warning from the API server for "+x.id.label(), redactor(x.manifest)(w))
	}
}

// established waits until the API server serves the kind that a
// CustomResourceDefinition defines, so that objects of that kind can follow.
func (r *objectResource) established(ctx context.Context, c *client.Client, x *applied, live client.Object, timeout time.Duration) error {
	if x.id.kind != "CustomResourceDefinition" || x.id.gvk().Group != "apiextensions.k8s.io" {
		return nil
	}
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var errs tolerance
	for {
		why := "no condition Established yet"
		for _, cond := range conditionsOf(live) {
			switch {
			case cond.kind == "Established" && cond.status == "True":
				return nil
			case cond.kind == "NamesAccepted" && cond.status == "False":
				return fmt.Errorf("its names are not accepted: %s", cond.message)
			case cond.kind == "Established" && cond.message != "":
				why = cond.message
			}
		}
		if !sleep(wctx, 200*time.Millisecond) {
			return interrupted(ctx, fmt.Errorf("not established within %s: %s%s", timeout, why, errs.unseen()))
		}
		next, err := c.Get(wctx, x.kind, "", x.id.name)
		switch {
		case err == nil:
			errs.answered()
			live = next
		case wctx.Err() == nil && !errs.allows(err, time.Now()):
			return err
		}
	}
}

type condition struct{ kind, status, reason, message string }

func conditionsOf(obj client.Object) []condition {
	status, _ := obj["status"].(client.Object)
	list, _ := status["conditions"].([]any)
	var out []condition
	for _, it := range list {
		m, _ := it.(client.Object)
		var c condition
		c.kind, _ = m["type"].(string)
		c.status, _ = m["status"].(string)
		c.reason, _ = m["reason"].(string)
		c.message, _ = m["message"].(string)
		out = append(out, c)
	}
	return out
}

func (r *objectResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	state, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	id, err := parseID(state.str("id"))
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	timeout := state.duration("timeout", r.timeout, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	k, err := r.kind(ctx, c, id)
	var notServed *client.NotServedError
	if errors.As(err, &notServed) {
		return // it went with its definition
	}
	if err != nil {
		resp.Diagnostics.AddError("Cannot delete "+id.label(), err.Error())
		return
	}
	uid := state.str("uid")
	gone, err := c.Delete(ctx, k, id.namespace, id.name, uid, propagation(k))
	switch {
	case apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID"):
		resp.Diagnostics.AddError("Cannot delete "+id.label(), "it was made anew by someone after it was planned, and is not the object that state knows: plan again ("+err.Error()+")")
		return
	case err != nil:
		resp.Diagnostics.AddError("Cannot delete "+id.label(), err.Error())
		return
	case gone:
		return
	}
	if err := r.waitGone(ctx, c, k, id, uid, timeout); err != nil {
		resp.Diagnostics.AddError(id.label()+" is not gone", err.Error())
	}
}

// propagation is foreground for kinds that own pods: they are gone only when
// their pods are, so that volumes and names are free after.
func propagation(k client.Kind) metav1.DeletionPropagation {
	switch k.Group + "/" + k.Kind {
	case "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job", "batch/CronJob", "/ReplicationController":
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// sleep waits for d, false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// interrupted adds to err that it was the user who ended the wait.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}
