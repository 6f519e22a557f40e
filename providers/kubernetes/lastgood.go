package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/ownership"
	"fediversity.eu/yuba/providers/kubernetes/internal/rollout"
)

// The last template whose rollout was completed is kept in the cluster, so that
// the way back survives lost state and a killed process. It is a
// ControllerRevision, the kind that StatefulSets and DaemonSets use for the
// same end; it goes with its Deployment. Its data never changes: a new template
// makes a new one, and then the older ones are deleted.

const (
	// lastGoodLabel on a record has the uid of its Deployment.
	lastGoodLabel = "yuba.fediversity.eu/last-good-of"
	// setBackAnnotation is on a Deployment that was set back, until its
	// manifest is applied again. As our field manager owns it and no manifest
	// has it, the next apply takes it away.
	setBackAnnotation = "yuba.fediversity.eu/set-back"
	// maxName is the API server's limit for names.
	maxName = 253
)

func revisions() client.Kind { return client.Builtin("apps/v1", "ControllerRevision") }

// errNotOurs says that a Deployment's template is not applied by us.
var errNotOurs = errors.New("other field managers own the image of its template")

// ownPart is the part of a Deployment that our field manager applied: applying
// it again changes nothing. Of a Deployment of which we own nothing it is empty
// but for its name.
func ownPart(live client.Object, manager string) client.Object {
	var own client.Object
	if tree := ownership.Owned(live, manager); tree != nil { // an empty one would be all
		part, _ := ownership.Project(live, tree)
		own, _ = part.(client.Object)
	}
	conf, meta := maps.Clone(own), maps.Clone(metaOf(own))
	if conf == nil {
		conf = client.Object{}
	}
	if meta == nil {
		meta = client.Object{}
	}
	meta["name"], meta["namespace"] = metaString(live, "name"), metaString(live, "namespace")
	conf["apiVersion"], conf["kind"], conf["metadata"] = "apps/v1", "Deployment", meta
	return conf
}

// putBack applies a Deployment with another template, and the note of
// setBackAnnotation: why, a colon, and the images that it had. It gives the
// Deployment as it is then.
func putBack(ctx context.Context, c *client.Client, live, template client.Object, why string) (client.Object, error) {
	conf := ownPart(live, c.FieldManager())
	spec := client.Object{}
	if s, ok := conf["spec"].(client.Object); ok {
		spec = maps.Clone(s)
	}
	spec["template"] = template
	conf["spec"] = spec
	notes := client.Object{}
	maps.Copy(notes, annotationsOf(conf))
	notes[setBackAnnotation] = why + ": " + strings.Join(images(templateOf(live)), ", ")
	meta := metaOf(conf)
	meta["annotations"], meta["uid"] = notes, metaString(live, "uid")
	namespace, name := metaString(live, "namespace"), metaString(live, "name")
	set, _, err := c.Apply(ctx, client.Builtin("apps/v1", "Deployment"), namespace, name, conf, client.ApplyOptions{Force: true})
	return set, err
}

// wasPutBack looks whether a Deployment has the template after all when putBack
// has failed: it may be the answer alone that was lost, also to an interrupt. It
// gives nil if it has not, and an error if that can't be known.
func wasPutBack(ctx context.Context, c *client.Client, live, template client.Object) (client.Object, error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	now, err := c.Get(ctx, client.Builtin("apps/v1", "Deployment"), metaString(live, "namespace"), metaString(live, "name"))
	if err != nil || metaString(now, "uid") != metaString(live, "uid") || !ownership.Equal(templateOf(ownPart(now, c.FieldManager())), template) {
		return nil, err
	}
	return now, nil
}

// setBackNote gives what a Deployment's annotation says of its being set back,
// "" when it runs what was applied.
func setBackNote(live client.Object) string {
	s, _ := annotationsOf(live)[setBackAnnotation].(string)
	return s
}

// splitNote gives the two parts of such a note.
func splitNote(note string) (why, images string) {
	i := strings.LastIndex(note, ": ")
	if i < 0 {
		return note, ""
	}
	return note[:i], note[i+2:]
}

func templateOf(o client.Object) client.Object {
	spec, _ := o["spec"].(client.Object)
	t, _ := spec["template"].(client.Object)
	return t
}

// images gives the images of a template's containers.
func images(template client.Object) []string {
	spec, _ := template["spec"].(client.Object)
	list, _ := spec["containers"].([]any)
	var out []string
	for _, c := range list {
		m, _ := c.(client.Object)
		if image, ok := m["image"].(string); ok {
			out = append(out, image)
		}
	}
	return out
}

// shortImages tells images apart in a line of 80 columns.
func shortImages(template client.Object) string {
	var out []string
	for _, image := range images(template) {
		image = image[strings.LastIndex(image, "/")+1:]
		if name, digest, ok := strings.Cut(image, "@sha256:"); ok {
			image = name + "@" + digest[:min(8, len(digest))]
		}
		out = append(out, image)
	}
	return strings.Join(out, ", ")
}

func hasImages(template client.Object) bool {
	spec, _ := template["spec"].(client.Object)
	list, _ := spec["containers"].([]any)
	return len(list) > 0 && len(images(template)) == len(list)
}

// goodTemplate is what of a Deployment's template is a way back: what is ours.
// Of a Deployment of which we own nothing it is all: others have made it.
func goodTemplate(live client.Object, manager string) client.Object {
	if ownership.Owned(live, manager) != nil {
		return templateOf(ownPart(live, manager))
	}
	template := maps.Clone(templateOf(live))
	if meta, ok := template["metadata"].(client.Object); ok {
		meta = maps.Clone(meta)
		delete(meta, "creationTimestamp")
		template["metadata"] = meta
	}
	return template
}

// remember records the template of a Deployment whose rollout is complete. One
// without pods has shown nothing of its template.
func remember(ctx context.Context, c *client.Client, live client.Object) error {
	if rollout.Replicas(live) == 0 {
		return nil
	}
	template := goodTemplate(live, c.FieldManager())
	if !hasImages(template) {
		return errNotOurs
	}
	return record(ctx, c, live, template)
}

// rememberBefore records what a Deployment runs before another template takes
// its place, when it is complete and nobody has seen to it: the process that
// waited for it was killed, or it took longer than it might, or others have made
// it: should our first one fail, this is the way back.
func rememberBefore(ctx context.Context, c *client.Client, namespace, name string) error {
	live, err := c.Get(ctx, client.Builtin("apps/v1", "Deployment"), namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if metaString(live, "deletionTimestamp") != "" || !rollout.Complete(live) || rollout.Replicas(live) == 0 || setBackNote(live) != "" {
		return nil
	}
	template := goodTemplate(live, c.FieldManager())
	if !hasImages(template) {
		return nil // what others have changed of ours never counts
	}
	known, err := lastGood(ctx, c, namespace, metaString(live, "uid"))
	if err != nil || ownership.Equal(template, known) {
		return err
	}
	return record(ctx, c, live, template)
}

// record makes a template the last good one of a Deployment.
func record(ctx context.Context, c *client.Client, live, template client.Object) error {
	namespace, name, uid := metaString(live, "namespace"), metaString(live, "name"), metaString(live, "uid")
	data, err := json.Marshal(template)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte(uid), data...))
	suffix := "-last-good-" + hex.EncodeToString(sum[:5])
	own := strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-.") + suffix
	generation, _ := generationOf(live)
	_, _, err = c.Apply(ctx, revisions(), namespace, own, client.Object{
		"apiVersion": "apps/v1", "kind": "ControllerRevision",
		"metadata": client.Object{
			"name": own, "namespace": namespace,
			"labels": client.Object{lastGoodLabel: uid},
			"ownerReferences": []any{client.Object{
				"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true,
			}},
		},
		"revision": generation,
		"data":     client.Object{"spec": client.Object{"template": template}},
	}, client.ApplyOptions{Force: true})
	if err != nil {
		return err
	}
	all, _, err := c.List(ctx, revisions(), namespace, client.ListOptions{LabelSelector: lastGoodLabel + "=" + uid})
	if err != nil {
		return err
	}
	for _, o := range all {
		if metaString(o, "name") == own {
			continue
		}
		if _, err := c.Delete(ctx, revisions(), namespace, metaString(o, "name"), metaString(o, "uid"), ""); err != nil {
			return err
		}
	}
	return nil
}

// lastGood gives the recorded template of a Deployment, nil when there is none.
func lastGood(ctx context.Context, c *client.Client, namespace, uid string) (client.Object, error) {
	all, _, err := c.List(ctx, revisions(), namespace, client.ListOptions{LabelSelector: lastGoodLabel + "=" + uid})
	if err != nil {
		return nil, err
	}
	newest, name := newestRecord(all, uid)
	if name != "" && !hasImages(newest) {
		return nil, fmt.Errorf("ControllerRevision %s/%s holds no template", namespace, name)
	}
	return newest, nil
}

// newestRecord gives the template of the newest record of a Deployment, and its
// name, "" when there is none. A process that was killed between making a record
// and deleting the older one left two.
func newestRecord(records []client.Object, uid string) (template client.Object, name string) {
	best := int64(-1)
	for _, o := range records {
		labels, _ := metaOf(o)["labels"].(client.Object)
		if r, ok := o["revision"].(int64); ok && r > best && labels[lastGoodLabel] == uid {
			data, _ := o["data"].(client.Object)
			best, template, name = r, templateOf(data), metaString(o, "name")
		}
	}
	return template, name
}
