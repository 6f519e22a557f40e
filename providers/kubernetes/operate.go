package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/internal/kubeconfig"
	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
	"fediversity.eu/yuba/providers/kubernetes/internal/rollout"
)

// Cluster is what an operator looks at and sets right between deploys, where
// there is neither plan nor state: nodes are the Deployments that were applied.
type Cluster struct{ session *session }

// Open connects to the cluster whose kubeconfig KUBE_CONFIG_PATH names. version
// is shown to the API server. There is nothing to close.
func Open(version string, opts ...Option) (*Cluster, error) {
	o := newOptions(opts)
	s, err := o.dial(o.getenv(kubeconfig.EnvPath), DefaultFieldManager, version)
	if err != nil {
		return nil, err
	}
	return &Cluster{session: s}, nil
}

// State is what a node is at.
type State string

const (
	Ready       State = "ready"       // it runs what was applied last, and that is ready
	Unconfirmed State = "unconfirmed" // the same, but no apply has seen it become so
	NotReady    State = "not ready"   // it has something to become
	SetBack     State = "set back"    // it runs an older image than was applied last
	Missing     State = "missing"     // it has no Deployment
)

// Node is how one node of a group is.
type Node struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Wanted is the image that was applied last, Running that of the pod, and
	// LastGood that of the last complete rollout, to which a node is set back.
	// "" is for one that there is not.
	Wanted   string `json:"wanted"`
	Running  string `json:"running"`
	LastGood string `json:"lastGood"`
	// Ready is true when the pod that the Deployment asks for is there, ready,
	// and alone, whatever image it has.
	Ready   bool       `json:"ready"`
	Pod     string     `json:"pod"`
	Host    string     `json:"host"`  // the cluster's node that the pod is on
	Since   *time.Time `json:"since"` // when the pod was made
	Claim   string     `json:"claim"`
	Volume  string     `json:"volume"` // the claim's phase and size
	Reason  string     `json:"reason"` // one line, "" when all is well
	Details []string   `json:"details"`
	// Drift is what somebody else changed in what was applied.
	Drift []string `json:"drift"`
}

// Well is true when there is nothing to do about the node.
func (n Node) Well() bool { return n.State == Ready && len(n.Drift) == 0 }

// StatusOptions say how closely Status looks.
type StatusOptions struct {
	// Brief leaves out what only the pods themselves know: failed units and
	// logs.
	Brief bool
}

// Now is the time by the API server's clock, as far as that is known: a Node's
// Since is of that clock.
func (c *Cluster) Now() time.Time { return c.session.client.Now() }

// Status tells how the nodes of a namespace are, in the order of names.
func (c *Cluster) Status(ctx context.Context, namespace string, names []string, o StatusOptions) ([]Node, error) {
	api := c.session.client
	kinds := []client.MirrorKind{
		{Kind: client.Builtin("apps/v1", "Deployment")},
		{Kind: client.Builtin("apps/v1", "ReplicaSet")},
		{Kind: client.Builtin("v1", "Pod")},
		{Kind: client.Builtin("v1", "Event"), FieldSelector: "type=Warning", Optional: true},
		{Kind: revisions(), Optional: true},
		{Kind: client.Builtin("v1", "PersistentVolumeClaim"), Optional: true},
	}
	lists, refused := make([][]client.Object, len(kinds)), make([]bool, len(kinds))
	group, gctx := errgroup.WithContext(ctx)
	for i, k := range kinds {
		group.Go(func() (err error) {
			lists[i], _, err = api.List(gctx, k.Kind, namespace, client.ListOptions{FieldSelector: k.FieldSelector})
			refused[i] = k.Optional && apierrors.IsForbidden(err)
			if err != nil && !refused[i] {
				return fmt.Errorf("reading %s of namespace %s: %w", k.Resource, namespace, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	further := &related{client: api, namespace: namespace}
	nodes := make([]Node, len(names))
	group, gctx = errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, name := range names {
		s := rollout.Snapshot{ReplicaSets: lists[1], Pods: lists[2], Events: lists[3], Deployment: named(lists[0], name)}
		group.Go(func() error {
			nodes[i] = c.node(gctx, name, o, further, s, lists[4], lists[5])
			if nodes[i].State == Unconfirmed && refused[4] {
				nodes[i].State, nodes[i].Reason = Ready, "" // nobody knows better
			}
			return context.Cause(ctx)
		})
	}
	return nodes, group.Wait()
}

// node judges one node.
func (c *Cluster) node(ctx context.Context, name string, o StatusOptions, further *related, s rollout.Snapshot, records, claims []client.Object) Node {
	n := Node{Name: name, State: Missing, Details: []string{}, Drift: []string{}}
	d := s.Deployment
	if d == nil {
		n.Reason = "there is no Deployment of this name: it was never applied, or deleted"
		return n
	}
	live := templateOf(d)
	for _, claim := range claimNames(live) {
		n.Claim, n.Volume = claim, volumeOf(named(claims, claim))
		break
	}
	n.Wanted = strings.Join(images(live), ", ")
	good, _ := newestRecord(records, metaString(d, "uid"))
	n.LastGood = strings.Join(images(good), ", ")

	generation, _ := generationOf(d)
	v := rollout.Deployment(s, metaString(d, "uid"), generation)
	if v.State != rollout.Done {
		s = further.explain(ctx, s)
		v = rollout.Deployment(s, metaString(d, "uid"), generation)
	}
	var pod client.Object
	if pods := rollout.PodsOf(s); len(pods) > 0 {
		pod = pods[0]
		n.Pod, n.Running = metaString(pod, "name"), strings.Join(images(pod), ", ")
		spec, _ := pod["spec"].(client.Object)
		n.Host, _ = spec["nodeName"].(string)
		if t, err := time.Parse(time.RFC3339, metaString(pod, "creationTimestamp")); err == nil {
			n.Since = &t
		}
	}
	n.Ready = v.State == rollout.Done && pod != nil
	n.State = NotReady
	n.Drift = append(n.Drift, drift(d, good, c.session.client.FieldManager())...)
	note := setBackNote(d)
	switch {
	case note != "":
		n.State = SetBack
		n.Reason, n.Wanted = splitNote(note)
		if !n.Ready {
			n.Reason += "; the older image is not ready either: " + v.Message
		}
	case n.Ready && len(n.Drift) == 0 && !ownership.Equal(templateOf(ownPart(d, c.session.client.FieldManager())), good):
		n.State, n.Reason = Unconfirmed, "it is ready, but no apply has seen it become so: the next one does"
	case n.Ready:
		n.State = Ready
	case v.State == rollout.Done:
		n.Reason = "it is scaled to 0 pods"
	default:
		n.Reason = v.Message
	}
	// Names of field managers and annotations are anybody's.
	n.Reason = text.Plain(n.Reason)
	for i, what := range n.Drift {
		n.Drift[i] = text.Plain(what)
	}
	if !n.Ready {
		n.Details = append(n.Details, v.Detail...)
		if v.Pod != "" && !o.Brief {
			n.Details = append(n.Details, inside(ctx, c.session.client, named(s.Pods, v.Pod))...)
		}
	}
	return n
}

func sameImages(a, b client.Object) bool { return slices.Equal(images(a), images(b)) }

// drift says what others changed in a Deployment, when that differs from the
// last good template. What they added is theirs, and a plan doesn't show it
// either.
func drift(d, good client.Object, manager string) []string {
	ours := ownership.Owned(d, manager)
	if ours == nil {
		return []string{"somebody else made the Deployment: it was never applied"}
	}
	var out []string
	// Not every way of scaling leaves a name.
	spec, _ := d["spec"].(client.Object)
	owned, _ := ours["f:spec"].(client.Object)
	if n, ok := spec["replicas"].(int64); ok && n != 1 && owned["f:replicas"] == nil {
		out = append(out, fmt.Sprintf("somebody scaled it to %d pods", n))
	}
	for _, e := range ownership.Entries(d) {
		if e.Manager == manager && e.Operation == "Apply" || e.Subresource != "" {
			continue
		}
		spec, _ := e.Fields["f:spec"].(client.Object)
		tree, _ := spec["f:template"].(client.Object)
		if tree == nil || good == nil {
			continue
		}
		was, ok := ownership.Project(good, tree)
		is, _ := ownership.Project(templateOf(d), tree)
		if !ok || ownership.Equal(was, common(was, is)) {
			continue
		}
		what := "the pod's template"
		if live := templateOf(d); !sameImages(live, good) {
			what = "the image to " + strings.Join(images(live), ", ")
		}
		out = append(out, e.Manager+" changed "+what)
	}
	return out
}

// common is what of is was has, too: the rest are somebody's additions.
func common(was, is any) any {
	w, ok1 := was.(client.Object)
	i, ok2 := is.(client.Object)
	if !ok1 || !ok2 {
		return is
	}
	out := client.Object{}
	for k, v := range i {
		if old, ok := w[k]; ok {
			out[k] = common(old, v)
		}
	}
	return out
}

func named(objects []client.Object, name string) client.Object {
	for _, o := range objects {
		if metaString(o, "name") == name {
			return o
		}
	}
	return nil
}

// claimNames are those that a template mounts.
func claimNames(template client.Object) []string {
	spec, _ := template["spec"].(client.Object)
	volumes, _ := spec["volumes"].([]any)
	var names []string
	for _, it := range volumes {
		v, _ := it.(client.Object)
		claim, _ := v["persistentVolumeClaim"].(client.Object)
		if name, ok := claim["claimName"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// volumeOf is a claim's phase and size.
func volumeOf(claim client.Object) string {
	status, _ := claim["status"].(client.Object)
	phase, _ := status["phase"].(string)
	capacity, _ := status["capacity"].(client.Object)
	size, _ := capacity["storage"].(string)
	if claim != nil && metaString(claim, "deletionTimestamp") != "" {
		phase = "Terminating"
	}
	return strings.TrimSpace(phase + " " + size)
}

// LogOptions choose what Logs copies.
type LogOptions struct {
	Lines    int64         // at the end; negative: all
	Follow   bool          // until the container ends
	Previous bool          // the log of before the last restart
	Since    time.Duration // leaves out what is older; 0: nothing
	// Timestamps puts the time before each line.
	Timestamps bool

	// Journal copies systemd's journal instead of the log, which is systemd's
	// console; Units leave only what is of them. Neither has Previous, and a
	// journal always has times.
	Journal bool
	Units   []string
}

// Logs copies the log of a node's pod to w as it is: what w is must bear control
// characters, or see PlainText.
func (c *Cluster) Logs(ctx context.Context, namespace, name string, o LogOptions, w io.Writer) error {
	for _, u := range o.Units {
		if !isUnit(u) {
			return fmt.Errorf("%q is not the name of a systemd unit", u)
		}
	}
	api := c.session.client
	d, err := api.Get(ctx, client.Builtin("apps/v1", "Deployment"), namespace, name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s is not deployed: namespace %s has no Deployment of this name", name, namespace)
	}
	if err != nil {
		return err
	}
	s := rollout.Snapshot{Deployment: d}
	if s.ReplicaSets, _, err = api.List(ctx, client.Builtin("apps/v1", "ReplicaSet"), namespace, client.ListOptions{}); err != nil {
		return err
	}
	if s.Pods, _, err = api.List(ctx, client.Builtin("v1", "Pod"), namespace, client.ListOptions{}); err != nil {
		return err
	}
	pods := rollout.PodsOf(s)
	if len(pods) == 0 {
		return fmt.Errorf("node %s has no pod now; 'yuba k8s status' says why", name)
	}
	pod := pods[0]
	podName := metaString(pod, "name")
	spec, _ := pod["spec"].(client.Object)
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		return fmt.Errorf("pod %s has no container", podName)
	}
	first, _ := containers[0].(client.Object)
	container, _ := first["name"].(string)
	if o.Journal || len(o.Units) > 0 {
		if err := api.ExecTo(ctx, namespace, podName, container, o.journalctl(), w); err != nil {
			return fmt.Errorf("the journal of pod %s: %s", podName, refusal(err, "create and get on pods/exec"))
		}
		return nil
	}
	body, err := api.Logs(ctx, namespace, podName, client.LogOptions{Container: container, Previous: o.Previous, Tail: o.Lines, Follow: o.Follow,
		Since: o.Since, Timestamps: o.Timestamps})
	if err != nil {
		return fmt.Errorf("the log of pod %s: %s", podName, refusal(err, "get on pods/log"))
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

// journalctl is the command that prints what is asked for.
func (o LogOptions) journalctl() []string {
	lines := "all"
	if o.Lines >= 0 {
		lines = strconv.FormatInt(o.Lines, 10)
	}
	command := []string{"journalctl", "--no-pager", "--quiet", "-n", lines}
	if o.Follow {
		command = append(command, "-f")
	}
	if o.Since > 0 {
		command = append(command, fmt.Sprintf("--since=-%ds", int64((o.Since+time.Second-1)/time.Second)))
	}
	for _, u := range o.Units {
		command = append(command, "-u", u)
	}
	return command
}

// PlainText takes out of a text all that is none: control sequences and
// characters that would steer a terminal.
func PlainText(s string) string { return text.Plain(s) }

// ErrNothingToRollBack says that a node runs its last good image already.
var ErrNothingToRollBack = errors.New("it runs the template of its last complete rollout already")

// LastGood gives the image of a node's last complete rollout, and the one that
// its Deployment has now.
func (c *Cluster) LastGood(ctx context.Context, namespace, name string) (good, now string, err error) {
	live, template, err := c.wayBack(ctx, namespace, name)
	if err != nil {
		return "", "", err
	}
	return strings.Join(images(template), ", "), strings.Join(images(templateOf(live)), ", "), nil
}

// wayBack reads a Deployment and its last good template. With
// ErrNothingToRollBack there is the Deployment, too.
func (c *Cluster) wayBack(ctx context.Context, namespace, name string) (live, template client.Object, err error) {
	api := c.session.client
	live, err = api.Get(ctx, client.Builtin("apps/v1", "Deployment"), namespace, name)
	if err != nil {
		return nil, nil, err
	}
	template, err = lastGood(ctx, api, namespace, metaString(live, "uid"))
	switch {
	case err != nil:
		return nil, nil, err
	case template == nil:
		return nil, nil, fmt.Errorf("node %s has no last good image: no apply has seen a rollout of it to its end", name)
	case ownership.Equal(templateOf(ownPart(live, api.FieldManager())), template):
		return live, nil, ErrNothingToRollBack
	}
	return live, template, nil
}

// Rollback sets a node back to its last good image and waits for its pod, as
// a rollout that failed does. within is the time for the wait. The next plan shows
// the node as still to do.
func (c *Cluster) Rollback(ctx context.Context, namespace, name string, within time.Duration) error {
	live, template, err := c.wayBack(ctx, namespace, name)
	if err != nil {
		return err
	}
	set, err := putBack(ctx, c.session.client, live, template, "rolled back by hand")
	if err != nil {
		now, unknown := wasPutBack(ctx, c.session.client, live, template)
		switch {
		case unknown != nil:
			return fmt.Errorf("it is not known whether it was set back: %w; the Deployment could not be read again: %w", err, unknown)
		case now == nil:
			return fmt.Errorf("it was not set back: %w", err)
		}
		set = now
	}
	return c.await(ctx, set, within, "it was set back")
}

// Await waits for the pod of a node that runs its last good image already: a
// Rollback may have ended before it was there.
func (c *Cluster) Await(ctx context.Context, namespace, name string, within time.Duration) error {
	live, _, err := c.wayBack(ctx, namespace, name)
	switch {
	case err == nil:
		return errors.New("somebody has changed it meanwhile")
	case !errors.Is(err, ErrNothingToRollBack):
		return err
	}
	return c.await(ctx, live, within, ErrNothingToRollBack.Error())
}

// await waits for the pod of a Deployment as it is now. So says what it has come
// to, for errors.
func (c *Cluster) await(ctx context.Context, deployment client.Object, within time.Duration, so string) error {
	s := c.session
	namespace := metaString(deployment, "namespace")
	mirror, release := s.watch.acquire(namespace)
	defer release()
	t := target{namespace: namespace, name: metaString(deployment, "name"), uid: metaString(deployment, "uid"), timeout: within, within: within.String(), persistence: s.persist}
	t.generation, _ = generationOf(deployment)
	out := s.wait(ctx, s.client, mirror, t)
	switch {
	case out.hasNoPod():
		return fmt.Errorf("%s, but somebody scaled it to 0 pods: scale it to 1, or apply, which does", so)
	case out.complete():
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s; waiting for its pod was interrupted: %s", so, out.why())
	case out.err != nil:
		return fmt.Errorf("%s, but nobody could see whether it is ready: %s", so, out.why())
	case out.expired:
		return fmt.Errorf("%s, but was not ready within %s: %s", so, within, out.why())
	}
	return fmt.Errorf("%s, but does not become ready: %s", so, out.why())
}

// newOptions are the defaults, changed by opts.
func newOptions(opts []Option) options {
	o := options{getenv: os.Getenv, persist: defaultPersistence, timeout: defaultTimeout, progress: func(string, string, string) {}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// dial makes a session with the cluster of a kubeconfig.
func (o options) dial(configPath, manager, version string) (*session, error) {
	rc, err := kubeconfig.Load(configPath)
	if err != nil {
		return nil, err
	}
	if o.transport != nil {
		rc.Wrap(o.transport)
	}
	c, err := client.New(rc, "yuba/"+version, manager)
	if err != nil {
		return nil, err
	}
	s := &session{options: o, client: c}
	s.watch.client = c
	return s, nil
}
