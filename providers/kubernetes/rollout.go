package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
	"fediversity.eu/yuba/providers/kubernetes/internal/rollout"
)

// rolloutResource is kubernetes_rollout: the wait for a Deployment, and its way
// back. Its state says no more than which generation was waited for; a failed
// wait leaves state as it was, so that the next plan shows it as still to do.
type rolloutResource struct{ *session }

var (
	_ resource.ResourceWithConfigure      = (*rolloutResource)(nil)
	_ resource.ResourceWithValidateConfig = (*rolloutResource)(nil)
)

func (r *rolloutResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_rollout"
}

func (r *rolloutResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

func (r *rolloutResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		Description: "Waits until a Deployment runs what was applied, and sets it back to what ran before when it does not.",
		Attributes: map[string]schema.Attribute{
			"namespace":  schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "Namespace of the Deployment."},
			"name":       schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "Name of the Deployment."},
			"uid":        schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "The uid of the kubernetes_object of the Deployment."},
			"generation": schema.Int64Attribute{Required: true, Description: "The generation of the kubernetes_object of the Deployment: each new one is a rollout."},
			"timeout": schema.StringAttribute{
				Optional:    true,
				Description: "How long the pod may take to become ready, such as 90s; a pod that is set back has the same time. progressDeadlineSeconds has no say. Default: that of the provider.",
			},
			"persistence": schema.StringAttribute{
				Optional:    true,
				Description: "How long a reason that cannot heal by itself, such as an image that the registry does not have, must last until the rollout fails early. With the value of timeout it never does. Default: that of the provider.",
			},
			"id": schema.StringAttribute{
				Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description: "namespace/name of the Deployment.",
			},
		},
	}
}

func (r *rolloutResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	a, err := attrsOf(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad configuration", err.Error())
		return
	}
	a.duration("timeout", 0, &resp.Diagnostics)
	a.duration("persistence", 0, &resp.Diagnostics)
	for _, part := range []string{"namespace", "name"} {
		// What isn't known yet comes from objects that exist by then.
		if a[part].IsKnown() && !a[part].IsNull() {
			if err := checkName(part, a.str(part)); err != nil {
				resp.Diagnostics.AddAttributeError(path.Root(part), "Bad "+part, err.Error())
			}
		}
	}
}

// checkName checks the part of a Deployment's name.
func checkName(part, s string) error {
	if _, err := parseID((identity{"apps/v1", "Deployment", "x", s}).String()); err != nil {
		return fmt.Errorf("%q is no %s that a Deployment can have", s, part)
	}
	return nil
}

// Read forgets the rollout of a Deployment that is gone or is another one.
func (r *rolloutResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	c := r.connect(&resp.Diagnostics)
	if c == nil {
		return
	}
	a, err := attrsOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Bad state", err.Error())
		return
	}
	live, err := c.Read(ctx, client.Builtin("apps/v1", "Deployment"), a.str("namespace"), a.str("name"))
	if err != nil {
		resp.Diagnostics.AddError("Cannot read Deployment "+a.str("namespace")+"/"+a.str("name"), err.Error())
		return
	}
	if live == nil || metaString(live, "uid") != a.str("uid") {
		resp.State.RemoveResource(ctx)
	}
}

func (r *rolloutResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if state, ok := r.run(ctx, req.Plan.Raw, &resp.Diagnostics); ok {
		resp.State.Raw = state
	}
}

func (r *rolloutResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan, perr := attrsOf(req.Plan.Raw)
	state, serr := attrsOf(req.State.Raw)
	if perr == nil && serr == nil && plan["generation"].Equal(state["generation"]) {
		resp.State.Raw = req.Plan.Raw // other times are no rollout
		return
	}
	if state, ok := r.run(ctx, req.Plan.Raw, &resp.Diagnostics); ok {
		resp.State.Raw = state
	}
}

// Delete has nothing to do: the Deployment is another resource's.
func (r *rolloutResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// target is one rollout to wait for.
type target struct {
	namespace, name, uid string
	generation           int64
	timeout, persistence time.Duration
	within               string // the timeout as the user wrote it
	phase                string // what progress messages begin with
}

func (t target) label() string { return t.namespace + "/" + t.name }

// run waits for the rollout that raw plans; ok is false when it failed, and
// diags then say why and what was done about it.
func (r *rolloutResource) run(ctx context.Context, raw tftypes.Value, diags *diag.Diagnostics) (state tftypes.Value, ok bool) {
	c := r.connect(diags)
	if c == nil {
		return state, false
	}
	a, err := attrsOf(raw)
	if err != nil {
		diags.AddError("Bad plan", err.Error())
		return state, false
	}
	t := target{namespace: a.str("namespace"), name: a.str("name"), uid: a.str("uid"), timeout: a.duration("timeout", r.timeout, diags), persistence: a.duration("persistence", r.persist, diags)}
	t.generation, _ = a.int("generation")
	t.within = cmp.Or(a.str("timeout"), t.timeout.String())
	if diags.HasError() {
		return state, false
	}
	mirror, release := r.watch.acquire(t.namespace)
	defer release()

	out := r.wait(ctx, c, mirror, t)
	if out.complete() {
		return r.succeed(ctx, c, t, out.live, a, raw, diags)
	}
	if ctx.Err() != nil {
		diags.AddError("Interrupted while waiting for the rollout of "+t.label(),
			"It was: "+out.why()+"\nThe Deployment keeps what was applied. The next apply waits for it again.")
		return state, false
	}
	if out.err != nil {
		diags.AddError("It is not known whether the rollout of "+t.label()+" is complete",
			out.why()+"\n\nNothing was set back, because nobody could look: the Deployment keeps what was applied. The next apply waits for it again.")
		return state, false
	}
	summary := "The rollout of " + t.label() + " failed"
	switch {
	case out.expired:
		summary = fmt.Sprintf("The rollout of %s was not complete within %s", t.label(), t.within)
	case out.verdict.Stuck != "":
		out.early = t.persistence
	}
	story, late := r.setBack(ctx, c, mirror, t, out)
	if late.complete() {
		return r.succeed(ctx, c, t, late.live, a, raw, diags)
	}
	diags.AddError(summary, out.why()+"\n\n"+story)
	return state, false
}

// succeed records a rollout that is complete, and gives its state.
func (r *rolloutResource) succeed(ctx context.Context, c *client.Client, t target, live client.Object, a attrs, raw tftypes.Value, diags *diag.Diagnostics) (state tftypes.Value, ok bool) {
	if note := setBackNote(live); note != "" {
		// Complete, but not what was applied: a plan that refreshes would
		// have shown it.
		diags.AddError("The Deployment "+t.label()+" was set back and has not been applied since",
			note+"\nIt runs "+strings.Join(images(templateOf(live)), ", ")+". Plan with a refresh and apply the Deployment, too.")
		return state, false
	}
	if err := patiently(ctx, recordTime, func(ctx context.Context) error { return remember(ctx, c, live) }); err != nil {
		diags.AddWarning("The rollout of "+t.label()+" is complete, but not recorded",
			"A later rollout that fails cannot be set back to it: "+err.Error())
	}
	a["id"] = stringValue(t.label())
	return tftypes.NewValue(raw.Type(), map[string]tftypes.Value(a)), true
}

// outcome is how a wait ended.
type outcome struct {
	verdict rollout.Verdict
	live    client.Object // the Deployment, when it is done
	expired bool          // the time was over
	err     error         // the cluster could not be looked at
	early   time.Duration // after which it was given up, when that is before its time
	inside  []string      // what the pod says of itself
}

// hasNoPod says that a rollout is complete for want of pods: somebody has scaled
// the Deployment to none.
func (o outcome) hasNoPod() bool { return o.complete() && rollout.Replicas(o.live) == 0 }

// complete says that the cluster runs what its Deployment says.
func (o outcome) complete() bool { return o.err == nil && o.verdict.State == rollout.Done }

func (o outcome) why() string {
	switch {
	case o.err != nil && o.verdict.Message == "":
		return o.err.Error()
	case o.err != nil:
		return o.verdict.Why() + "\nThe API server could not be asked at the end: " + o.err.Error()
	}
	lines := append([]string{o.verdict.Why()}, o.inside...)
	if o.early > 0 {
		lines = append(lines, fmt.Sprintf("This does not heal by itself: it was given up after %s.", o.early))
	}
	return strings.Join(lines, "\n")
}

// wait looks at the Deployment until it is done, has failed, or time is up.
// What breaks in between (watches, connections, the API server) is waited out:
// only the verdict and the operator's time decide.
func (r *session) wait(ctx context.Context, c *client.Client, m *sharedMirror, t target) outcome {
	out := r.watchUntil(ctx, c, m, t)
	if out.verdict.State != rollout.Done && out.verdict.Pod != "" && ctx.Err() == nil {
		// Before anything is set back: then the pod is gone.
		out.inside = inside(ctx, c, m.Object(atPods, out.verdict.Pod))
	}
	return out
}

func (r *session) watchUntil(ctx context.Context, c *client.Client, m *sharedMirror, t target) outcome {
	started := time.Now()
	deadline, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	patience := rollout.Patience{Grace: t.persistence}
	var refused tolerance
	out := outcome{verdict: rollout.Verdict{Message: "nothing was seen of its rollout yet"}}
	said := ""
	for {
		changed := m.Changed()
		synced, err := m.Synced()
		out.err = err
		if synced {
			s := snapshot(m, t.name)
			if time.Since(started) > lookCloser {
				s = m.related.explain(deadline, s)
			}
			out.verdict = patience.Judge(rollout.Deployment(warned(m, s), t.uid, t.generation), time.Now())
		}
		now := out.verdict.Message
		if err != nil {
			now += " (" + err.Error() + ")"
		}
		if now != said && (synced || err != nil) {
			said = now
			r.progress(t.namespace, t.name, t.phase+said)
		}
		if !synced && isRefusal(err) && !refused.allows(err, time.Now()) {
			return out
		}
		least := time.Duration(0)
		if synced && out.verdict.State != rollout.Waiting {
			confirmed, err := r.confirm(deadline, c, m, t, out.verdict)
			if err == nil {
				return confirmed
			}
			// The copy lags behind the cluster, or there was no answer: look
			// again, but not all the time.
			out.verdict.State = rollout.Waiting
			least = tryAgain
			if deadline.Err() == nil && !errors.Is(err, errLags) {
				out.err = err
			}
		}
		next := 5 * time.Second
		if d := lookCloser - time.Since(started); d > 0 {
			next = min(next, d+time.Millisecond)
		}
		if n := patience.Next(time.Now()); n > 0 {
			next = min(next, n)
		}
		timer := time.NewTimer(max(next, least))
		select {
		case <-deadline.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return out
			}
			return r.lastLook(ctx, c, m, t, out)
		case <-changed:
			// Changes come in swarms; one look does for all of a moment.
			sleep(deadline, settleChanges)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// lookCloser is the time from which on a rollout that isn't complete is worth
// further requests.
const lookCloser = 3 * time.Second

// settleChanges is the pause after a change until the next look.
const settleChanges = 50 * time.Millisecond

// errLags says that the copy that was judged is not what is there.
var errLags = errors.New("the cluster changed meanwhile")

// confirm asks the API server itself before a verdict is believed, or gives an
// error: the copy may be older than what was applied, and what it says of the
// pod may have healed while the cluster was out of sight.
func (r *session) confirm(ctx context.Context, c *client.Client, m *sharedMirror, t target, v rollout.Verdict) (outcome, error) {
	if v.State == rollout.Done {
		live, err := c.Get(ctx, client.Builtin("apps/v1", "Deployment"), t.namespace, t.name)
		if err != nil && !apierrors.IsNotFound(err) {
			return outcome{}, err
		}
		if g, _ := generationOf(live); err != nil || metaString(live, "uid") != t.uid || g != v.Generation || !rollout.Complete(live) {
			return outcome{}, errLags
		}
		return outcome{verdict: v, live: live}, nil
	}
	now, err := r.look(ctx, c, m, t)
	switch {
	case err != nil:
		return outcome{}, err
	case now.verdict.State != rollout.Waiting:
		return now, nil
	case v.Stuck != "" && now.verdict.Stuck == v.Stuck && !now.verdict.Held:
		now.verdict.State = rollout.Failed
		return now, nil
	}
	return outcome{}, errLags
}

// look judges what the API server holds now, past the mirror (but for events,
// which only give reasons).
func (r *session) look(ctx context.Context, c *client.Client, m *sharedMirror, t target) (outcome, error) {
	live, err := c.Get(ctx, client.Builtin("apps/v1", "Deployment"), t.namespace, t.name)
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return outcome{}, err
	}
	s := rollout.Snapshot{Deployment: live}
	if live != nil {
		o := client.ListOptions{LabelSelector: selectorOf(live)}
		if s.ReplicaSets, _, err = c.List(ctx, client.Builtin("apps/v1", "ReplicaSet"), t.namespace, o); err != nil {
			return outcome{}, err
		}
		if s.Pods, _, err = c.List(ctx, client.Builtin("v1", "Pod"), t.namespace, o); err != nil {
			return outcome{}, err
		}
		s = warned(m, m.related.explain(ctx, s))
	}
	generation := t.generation
	if spec, _ := ownPart(live, c.FieldManager())["spec"].(client.Object); spec["replicas"] != nil && rollout.Replicas(live) == 0 {
		// It is what was applied that asks for no pod, whoever has changed it since.
		now, _ := generationOf(live)
		generation = max(generation, now)
	}
	out := outcome{verdict: rollout.Deployment(s, t.uid, generation)}
	if out.verdict.State == rollout.Done {
		out.live = live
	}
	return out, nil
}

// selectorOf is a Deployment's selector as a query has it; "" selects all.
func selectorOf(d client.Object) string {
	spec, _ := d["spec"].(client.Object)
	data, err := json.Marshal(spec["selector"])
	if err != nil {
		return ""
	}
	var ls metav1.LabelSelector
	if json.Unmarshal(data, &ls) != nil {
		return ""
	}
	s, err := metav1.LabelSelectorAsSelector(&ls)
	if err != nil {
		return ""
	}
	return s.String()
}

// lastLook judges a rollout whose time is over by what is there now, and not by
// a copy: it may have been complete for as long as nobody could see it. An API
// server that is away at this moment is waited for, as long as a pod may take: a
// node is neither taken for well nor set back unseen.
func (r *session) lastLook(ctx context.Context, c *client.Client, m *sharedMirror, t target, last outcome) outcome {
	var out outcome
	err := patiently(ctx, max(lookTime, t.timeout), func(ctx context.Context) (err error) {
		out, err = r.look(ctx, c, m, t)
		if client.Transient(err) {
			r.progress(t.namespace, t.name, t.phase+"its time is over, and nobody could look yet: "+err.Error())
		}
		return err
	})
	if err != nil {
		last.err, last.expired = err, ctx.Err() == nil
		return last
	}
	out.expired = out.verdict.State == rollout.Waiting
	return out
}

// setBack puts the last template whose rollout was complete back in place,
// waits for it, and gives the story of that as text. When the rollout turns out to
// be complete meanwhile, it changes nothing, and gives that.
func (r *session) setBack(ctx context.Context, c *client.Client, m *sharedMirror, t target, failed outcome) (story string, late outcome) {
	if failed.verdict.Absent {
		return "There is nothing to set back.", outcome{}
	}
	var live client.Object
	err := r.untilBack(ctx, t, func(ctx context.Context) (err error) {
		live, err = c.Get(ctx, client.Builtin("apps/v1", "Deployment"), t.namespace, t.name)
		return err
	})
	if err != nil {
		return "Nothing was set back, because the Deployment could not be read: " + err.Error(), outcome{}
	}
	if metaString(live, "uid") != t.uid || metaString(live, "deletionTimestamp") != "" {
		return "There is nothing to set back: the Deployment is being deleted or is another one.", outcome{}
	}
	if rollout.Complete(live) && rollout.Replicas(live) > 0 {
		var now outcome
		err := r.untilBack(ctx, t, func(ctx context.Context) (err error) {
			now, err = r.look(ctx, c, m, t)
			return err
		})
		switch {
		case err != nil:
			return "Nothing was set back, because by its own word it is complete now, and nobody could look at its pods: " + err.Error() + "\n" + keeping(live), outcome{}
		case now.complete():
			return "", now
		}
	}
	return r.setTemplateBack(ctx, c, m, t, live, failed.verdict), outcome{}
}

// keeping says what a Deployment goes on with that is not set back.
func keeping(live client.Object) string {
	return "The Deployment keeps " + strings.Join(images(templateOf(live)), ", ") + "."
}

// untilBack does a part of a set-back. The time that a pod has to become ready is
// also the time for an API server that is away to come back: without it the node
// stays down.
func (r *session) untilBack(ctx context.Context, t target, work func(context.Context) error) error {
	return patiently(ctx, t.timeout, func(ctx context.Context) error {
		err := work(ctx)
		if client.Transient(err) {
			r.progress(t.namespace, t.name, "to be set back: "+err.Error())
		}
		return err
	})
}

// setTemplateBack is the part of setBack that changes the Deployment, which is live.
func (r *session) setTemplateBack(ctx context.Context, c *client.Client, m *sharedMirror, t target, live client.Object, failed rollout.Verdict) string {
	keeps := keeping(live)
	var template client.Object
	err := r.untilBack(ctx, t, func(ctx context.Context) (err error) {
		template, err = lastGood(ctx, c, t.namespace, t.uid)
		return err
	})
	if err != nil {
		return "Nothing was set back, because the record of the last complete rollout could not be read: " + err.Error() + "\n" + keeps
	}
	if template == nil {
		return "This is the first deploy: there is no previous image to set back.\n" + keeps
	}
	if conf := ownPart(live, c.FieldManager()); ownership.Equal(templateOf(conf), template) {
		return "There is nothing to set back: this is the template whose rollout was complete before, so the reason is outside of it.\n" + keeps
	}
	image := strings.Join(images(template), ", ")
	r.progress(t.namespace, t.name, "setting back to "+shortImages(template))
	var set client.Object
	err = r.untilBack(ctx, t, func(ctx context.Context) (err error) {
		set, err = putBack(ctx, c, live, template, fmt.Sprintf("generation %d did not become ready (%s)", failed.Generation, failed.Message))
		return err
	})
	if err != nil {
		now, unknown := wasPutBack(ctx, c, live, template)
		switch {
		case unknown != nil:
			return "It is not known whether it was set back to " + image + ": " + err.Error() + "\nThe Deployment could not be read again: " + unknown.Error()
		case now == nil:
			return "It could not be set back to " + image + ": " + err.Error() + "\n" + keeps
		}
		set = now
	}
	t.generation, _ = generationOf(set)
	t.phase = "setting back: "
	back := r.wait(ctx, c, m, t)
	now := "The Deployment was set back to the last image whose rollout was complete, " + image
	switch {
	case back.hasNoPod():
		return now + ", but asks for no pod: nothing shows whether that is ready."
	case back.complete():
		return now + ", and that is ready again."
	case ctx.Err() != nil:
		return now + "; waiting for it was interrupted: " + back.why()
	case back.err != nil:
		return now + ", but nobody could see whether that is ready: " + back.why()
	case back.expired:
		return fmt.Sprintf("%s, but that was not ready within %s either: %s", now, t.within, back.why())
	}
	return now + ", but that does not become ready either: " + back.why()
}
