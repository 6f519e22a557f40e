package k8s

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Defaults of keys that a group file may leave out.
const (
	defaultTarget         = TargetAll
	defaultRuntimeClass   = "systemd"
	defaultRolloutTimeout = 10 * time.Minute
	defaultPersistence    = 20 * time.Second
	defaultRemovalTimeout = 10 * time.Minute
)

// resourceNames are the resources that a node can request or be limited to.
var resourceNames = []string{"cpu", "memory", "ephemeral-storage"}

// Parse reads a group file. name is its path: errors show it, and relative
// archive paths start from its directory. It reads no file.
//
// The error is a *FileError that holds everything that is wrong.
func Parse(name string, data []byte) (*Group, error) {
	r := &report{file: name}
	if len(data) > MaxSize {
		r.add("", "is larger than %d MiB, no group file is", MaxSize>>20)
		return nil, r.err()
	}
	doc, err := parseJSON(r, data)
	if err != nil {
		r.add("", "%v", err)
		return nil, r.err()
	}
	g := &Group{
		File:           name,
		Dir:            filepath.Dir(name),
		Target:         defaultTarget,
		RuntimeClass:   defaultRuntimeClass,
		RolloutTimeout: defaultRolloutTimeout,
		Persistence:    defaultPersistence,
		RemovalTimeout: defaultRemovalTimeout,
		raw:            data,
	}
	g.read(r.object("", doc, "version", "group", "target", "submission", "runtimeClass", "rolloutTimeout", "persistence", "removalTimeout", "registry", "spire", "spiffeProviders", "storage", "nodes"))
	if err := r.err(); err != nil {
		return nil, err
	}
	g.sortNodes()
	return g, nil
}

// read fills g from the object of the whole file.
func (g *Group) read(o fields) {
	if v, ok := o.typed("version", kindNumber, true); ok {
		if n, err := strconv.ParseFloat(v.text, 64); err != nil || n != 1 {
			o.r.add(o.at.child("version"), "is %s, but this yuba reads version 1 only", quote(v.text))
		}
	}
	g.Name = o.string("group", true, isLabel)
	if o.has("target", false) {
		g.Target = o.string("target", false, isLabel)
	}
	g.Submission = o.string("submission", false, isDigest)
	if o.has("runtimeClass", false) {
		g.RuntimeClass = o.string("runtimeClass", false, isSubdomain)
	}
	o.duration("rolloutTimeout", &g.RolloutTimeout)
	o.duration("persistence", &g.Persistence)
	o.duration("removalTimeout", &g.RemovalTimeout)
	if r, ok := o.child("registry", false, "compression", "plainHTTP", "caFile", "uploadHosts"); ok {
		g.Registry.read(r)
	}
	if s, ok := o.child("spire", false, spireKeys...); ok {
		g.Spire = &Spire{}
		g.Spire.read(s)
	}
	g.noProviders(o)
	var defaults Storage
	if s, ok := o.child("storage", true, "class", "size"); ok {
		defaults = Storage{
			Class: s.string("class", false, isSubdomain),
			Size:  s.string("size", true, isVolumeSize),
		}
	}
	nodes, ok := o.typed("nodes", kindArray, true)
	if !ok {
		return
	}
	at := o.at.child("nodes")
	if len(nodes.elems) == 0 {
		// An apply of no nodes would remove all nodes and their volumes; that is
		// what destroy is for.
		o.r.add(at, "is empty, a group has at least one node")
	}
	first, stream := map[string]int{}, -1
	for i, elem := range nodes.elems {
		n := Node{Enabled: true, Storage: defaults, index: i}
		n.read(o.r.object(at.element(i), elem, "name", "enabled", "image", "tag", "storage", "resources"))
		if other, ok := first[n.Name]; ok {
			o.r.add(at.element(i).child("name"), "duplicate node %s, nodes[%d] has this name too", quote(n.Name), other)
		} else if n.Name != "" {
			first[n.Name] = i
		}
		if n.Image.Stream && n.Enabled {
			if stream >= 0 {
				o.r.add(at.element(i).child("image").child("stream"), "nodes[%d] has its image on the standard input, and there is but one", stream)
			}
			stream = i
		}
		g.Nodes = append(g.Nodes, n)
	}
}

// read fills n from the object of the node. n holds the defaults.
func (n *Node) read(o fields) {
	n.Name = o.string("name", true, isLabel)
	if v, ok := o.typed("enabled", kindBool, false); ok {
		n.Enabled = v.yes
	}
	if image, ok := o.child("image", true, slices.Concat(imageSources, []string{"output", "architecture"})...); ok {
		n.Image.read(image)
	}
	n.Tag = o.string("tag", true, isTag)
	if s, ok := o.child("storage", false, "class", "size"); ok {
		if s.has("class", false) {
			n.Storage.Class = s.string("class", false, isSubdomain)
		}
		if s.has("size", false) {
			n.Storage.Size = s.string("size", false, isVolumeSize)
		}
	}
	if res, ok := o.child("resources", false, "requests", "limits"); ok {
		n.Resources.Requests = res.quantities("requests")
		n.Resources.Limits = res.quantities("limits")
		n.Resources.check(res)
	}
}

// duration reads the duration of key into d, which keeps its value when there
// is none.
func (o fields) duration(key string, d *time.Duration) {
	if o.has(key, false) {
		o.string(key, false, func(s string) (err error) {
			*d, err = parseDuration(s)
			return err
		})
	}
}

// quantities reads the object of key, which maps resource names to quantities.
func (o fields) quantities(key string) map[string]string {
	child, ok := o.child(key, false, resourceNames...)
	if !ok {
		return nil
	}
	m := map[string]string{}
	for _, name := range resourceNames {
		if q := child.string(name, false, isQuantity); q != "" {
			m[name] = q
		}
	}
	return m
}

// check reports requests that contradict the limits.
func (res Resources) check(o fields) {
	for _, name := range resourceNames {
		request, limit := res.Requests[name], res.Limits[name]
		if request == "" || limit == "" {
			continue
		}
		r, err := parseQuantity(request)
		if err != nil {
			continue
		}
		l, err := parseQuantity(limit)
		if err != nil {
			continue
		}
		if r.Cmp(l) > 0 {
			o.r.add(o.at, "the request of %s (%s) is more than its limit (%s)", name, request, limit)
		}
	}
}
