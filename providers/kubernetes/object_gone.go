package kubernetes

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
)

// waitGone waits until the object of that uid is gone. When time is up, or ctx
// ends, the error says what holds it.
func (r *objectResource) waitGone(ctx context.Context, c *client.Client, k client.Kind, id identity, uid string, timeout time.Duration) error {
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	started := time.Now()
	said := ""
	why := "it is being deleted"
	var errs tolerance
	var inside contents
	var last client.Object
	for pause := 100 * time.Millisecond; ; pause = min(pause*3/2, 2*time.Second) {
		obj, err := c.Get(wctx, k, id.namespace, id.name)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && wctx.Err() == nil && !errs.allows(err, time.Now()):
			return err
		case err == nil && metaString(obj, "uid") != uid:
			return nil // somebody made another one since
		case err == nil:
			errs.answered()
			last, why = obj, holds(obj)
			if time.Since(started) < slowEnd {
				break
			}
			why += inside.of(wctx, c, obj)
			if why != said {
				said = why
				r.progress(id.namespace, id.name, "still there: "+strings.Join(strings.Fields(why), " "))
			}
		}
		if !sleep(wctx, pause) {
			if last != nil && inside.at.IsZero() {
				// Time was too short to look before.
				lctx, cancel := context.WithTimeout(ctx, contentsTime)
				defer cancel()
				why = holds(last) + inside.of(lctx, c, last)
			}
			return interrupted(ctx, fmt.Errorf("%s was not gone within %s: %s%s", id.label(), timeout, why, errs.unseen()))
		}
	}
}

// slowEnd is the time from which on the end of an object is worth a word, and
// further requests.
const slowEnd = 2 * time.Second

// finalizers that Kubernetes itself uses, and what they wait for.
var finalizerMeaning = map[string]string{
	"kubernetes.io/pvc-protection": "a pod still uses the claim",
	"kubernetes.io/pv-protection":  "a claim still uses the volume",
	"foregroundDeletion":           "its dependents, such as pods, are not gone yet",
	"orphan":                       "its dependents are being released",
}

// finalizersOf names an object's finalizers, with what they wait for.
func finalizersOf(obj client.Object) []string {
	var names []string
	list, _ := metaOf(obj)["finalizers"].([]any)
	for _, f := range list {
		name := fmt.Sprint(f)
		if meaning := finalizerMeaning[name]; meaning != "" {
			name += " (" + meaning + ")"
		}
		names = append(names, name)
	}
	return names
}

// holds says what keeps an object that is being deleted.
func holds(obj client.Object) string {
	var parts []string
	if ts := metaString(obj, "deletionTimestamp"); ts != "" {
		parts = append(parts, "deletionTimestamp "+ts)
	} else {
		parts = append(parts, "it has no deletionTimestamp")
	}
	if names := finalizersOf(obj); len(names) > 0 {
		parts = append(parts, "held by the finalizers "+strings.Join(names, ", "))
	}
	if obj["kind"] == "Namespace" {
		conditions := conditionsOf(obj)
		if len(conditions) == 0 {
			parts = append(parts, "the namespace controller has not said yet what is left in it")
		}
		for _, c := range conditions {
			if c.status == "True" && strings.HasPrefix(c.kind, "Namespace") {
				parts = append(parts, c.message)
			}
		}
	}
	return strings.Join(parts, "; ")
}

// contents finds the objects that hold another one which is on its way out. The
// zero value is ready; it is for one object.
type contents struct {
	at   time.Time
	text string
}

const (
	contentsAgain = 5 * time.Second // until they are looked for again
	contentsTime  = 5 * time.Second // for the look that is made after time is over
	maxResources  = 10              // of which objects are named
	maxLeft       = 5               // objects of one resource that are named
)

// leftOver is how the namespace controller counts what is left (ProcessContentTotals
// of k8s.io/kubernetes/pkg/controller/namespace/deletion).
var leftOver = regexp.MustCompile(`([a-z0-9-]+)\.([a-z0-9.-]*) has \d+ resource instances`)

// of names what is left in a namespace, the pods of a Deployment, or those that
// use a claim, "" when nothing is known. It asks again only after a while: what
// is left may be much.
func (n *contents) of(ctx context.Context, c *client.Client, o client.Object) string {
	if time.Since(n.at) < contentsAgain {
		return n.text
	}
	var lines []string
	head := "\nIt waits for:\n  - "
	pods := client.Builtin("v1", "Pod")
	name, namespace := metaString(o, "name"), metaString(o, "namespace")
	switch o["kind"] {
	case "Namespace":
		head = "\nIn it are still:\n  - "
		for _, cond := range conditionsOf(o) {
			if cond.kind != "NamespaceContentRemaining" || cond.status != "True" {
				continue
			}
			for _, m := range leftOver.FindAllStringSubmatch(cond.message, maxResources) {
				if k, err := c.KindOf(ctx, m[2], m[1]); err == nil && k.Namespaced {
					lines = append(lines, left(ctx, c, k, name, client.ListOptions{}, nil)...)
				}
			}
		}
	case "Deployment":
		lines = left(ctx, c, pods, namespace, client.ListOptions{LabelSelector: selectorOf(o)}, nil)
	case "PersistentVolumeClaim":
		lines = left(ctx, c, pods, namespace, client.ListOptions{}, func(pod client.Object) bool { return slices.Contains(claimNames(pod), name) })
	}
	if ctx.Err() == nil {
		n.at, n.text = time.Now(), ""
		if len(lines) > 0 {
			n.text = head + strings.Join(lines, "\n  - ")
		}
	}
	return n.text
}

// left names the objects of one kind in a namespace that are chosen, those with
// finalizers first: they hold the others, too.
func left(ctx context.Context, c *client.Client, k client.Kind, namespace string, o client.ListOptions, chosen func(client.Object) bool) []string {
	objects, _, err := c.List(ctx, k, namespace, o)
	if err != nil {
		return nil // who may delete need not be allowed to list
	}
	if chosen != nil {
		objects = slices.DeleteFunc(objects, func(o client.Object) bool { return !chosen(o) })
	}
	slices.SortFunc(objects, func(a, b client.Object) int {
		if d := len(finalizersOf(b)) - len(finalizersOf(a)); d != 0 {
			return d
		}
		return strings.Compare(metaString(a, "name"), metaString(b, "name"))
	})
	var lines []string
	for i, o := range objects {
		if i == maxLeft {
			lines = append(lines, fmt.Sprintf("%d more %s", len(objects)-i, k.Resource))
			break
		}
		line := k.Kind + " " + metaString(o, "name")
		if spec, _ := o["spec"].(client.Object); k.Kind == "Pod" && spec["nodeName"] != nil {
			line += fmt.Sprintf(" on node %v", spec["nodeName"])
		}
		if names := finalizersOf(o); len(names) > 0 {
			line += ", held by the finalizers " + strings.Join(names, ", ")
		}
		switch end := metaString(o, "deletionTimestamp"); {
		case end == "":
			line += ", not asked to end"
		case k.Kind == "Pod": // for pods it has the grace time in it
			line += ", asked to end by " + end
		}
		lines = append(lines, line)
	}
	return lines
}
