// Package k8s is the k8s method: it turns a group file into the OpenTofu
// configuration that deploys the group's nodes to a Kubernetes cluster, each
// as the one pod of one Deployment.
//
// The package only computes. Parse reads a group file, Group.Graph writes the
// configuration; neither touches a disk, a cluster or a registry. The
// functions that do (Load, Group.CheckArchives) say so.
package k8s

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// TargetAll is the target that holds all nodes of a group.
const TargetAll = "all"

// MaxSize is the size in bytes above which a group file is refused. A node
// takes some hundred bytes, thus this is room for more nodes than a namespace
// can hold.
const MaxSize = 16 << 20

// Group is the content of a group file: nodes that are deployed together and
// share one state. It comes from Parse or Load, which have checked every
// field; a Group made by other means is the caller's risk.
type Group struct {
	// File is the name of the group file as errors show it.
	File string
	// Dir is the directory that relative archive paths start from.
	Dir string
	// Name is the name of the group, a DNS label.
	Name string
	// Target is TargetAll, or the app (a DNS label) that this deploys alone.
	Target string
	// Submission is the digest ("sha256:" and 64 hex digits) of the submission
	// that the group file was evaluated with, empty if there was none.
	Submission string
	// RuntimeClass is the name of the RuntimeClass of all pods.
	RuntimeClass string
	// RolloutTimeout is how long one node may take to become ready.
	RolloutTimeout time.Duration
	// Persistence is how long a reason that cannot heal by itself must last
	// until a rollout fails before its time is over.
	Persistence time.Duration
	// RemovalTimeout is how long the end of one object is waited for.
	RemovalTimeout time.Duration
	// Nodes are all nodes, sorted by name, also those that are turned off.
	Nodes []Node
}

// Node is one node of a group.
type Node struct {
	// Name is a DNS label.
	Name string
	// Enabled is false for a node that the submission turns off: it is not
	// part of the graph, thus an apply removes it.
	Enabled bool
	// Image is where the node's image comes from.
	Image Image
	// Tag is the tag under which the image is pushed. The image is pushed
	// again when, and only when, the tag changes.
	Tag string
	// Storage is the claim of /var/lib, with the group's defaults applied.
	Storage Storage
	// Resources are the resource requests and limits of the pod.
	Resources Resources

	index int // its place in the group file
}

// Image is the source of a node's image. Exactly one field is set.
type Image struct {
	// Archive is the path of a docker archive, as the group file gives it. Use
	// Group.ArchivePath to open it.
	Archive string
}

// Storage is the volume of a node.
type Storage struct {
	// Class is the StorageClass, empty for the cluster's default one.
	Class string
	// Size is a Kubernetes quantity of whole bytes, such as "10Gi".
	Size string
}

// Resources are Kubernetes quantities by resource name (cpu, memory,
// ephemeral-storage).
type Resources struct {
	Requests, Limits map[string]string
}

// Load reads and parses the group file at path. Its relative archive paths are
// resolved to absolute ones, so that they hold wherever the graph is used.
func Load(path string) (*Group, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the group file: %w", err)
	}
	defer f.Close()
	// One byte more than allowed, so that Parse can tell.
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the group file: %w", err)
	}
	g, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if g.Dir, err = filepath.Abs(g.Dir); err != nil {
		return nil, fmt.Errorf("cannot tell the directory of the group file %s: %w", path, err)
	}
	return g, nil
}

// EnabledNodes returns the nodes that are part of the graph, sorted by name.
func (g *Group) EnabledNodes() []Node {
	return slices.DeleteFunc(slices.Clone(g.Nodes), func(n Node) bool { return !n.Enabled })
}

// NodeNames returns the names of the nodes that are part of the graph, sorted.
func (g *Group) NodeNames() []string {
	names := []string{}
	for _, n := range g.EnabledNodes() {
		names = append(names, n.Name)
	}
	return names
}

// ArchivePath returns the path of the docker archive of n.
func (g *Group) ArchivePath(n Node) string {
	if filepath.IsAbs(n.Image.Archive) {
		return filepath.Clean(n.Image.Archive)
	}
	return filepath.Join(g.Dir, n.Image.Archive)
}

// CheckArchives looks with stat (os.Stat, as a rule) whether the archive of
// each enabled node is there, and returns one error that names all nodes whose
// archive is not. A destroy needs no archives and should not ask.
func (g *Group) CheckArchives(stat func(path string) (fs.FileInfo, error)) error {
	r := report{file: g.File}
	for _, n := range g.EnabledNodes() {
		at := path("nodes").element(n.index).child("image").child("archive")
		name := g.ArchivePath(n)
		switch info, err := stat(name); {
		case errors.Is(err, fs.ErrNotExist):
			r.add(at, "missing archive %s: build the image of node %s first", name, n.Name)
		case err != nil:
			r.add(at, "cannot look at the archive of node %s: %v", n.Name, err)
		case !info.Mode().IsRegular():
			r.add(at, "%s is not a file: the image of node %s must be a docker archive", name, n.Name)
		}
	}
	return r.err()
}

// sortNodes puts the nodes in the order in which everything lists them.
func (g *Group) sortNodes() {
	slices.SortFunc(g.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
}
