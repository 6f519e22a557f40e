// Package k8s is the k8s method: it turns a group file into the OpenTofu
// configuration that deploys the group's nodes to a Kubernetes cluster, each
// as the one pod of one Deployment.
//
// The package only computes. Parse reads a group file, Group.Graph writes the
// configuration; neither touches a disk, a cluster or a registry. The
// functions that do (Load, Group.CheckSources) say so.
package k8s

import (
	"fmt"
	"io"
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
	// Dir is the directory that relative paths of images start from.
	Dir string
	// Bundle is the path of the bundle that holds the images, empty when they
	// come from where the group file says.
	Bundle string
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
	// Registry says how images come to the registry.
	Registry Registry
	// Spire is the spire node, nil for a group whose nodes get no identity.
	Spire *Spire
	// Nodes are all nodes, sorted by name, also those that are turned off.
	Nodes []Node

	raw []byte
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

// Load reads and parses the group file at path. Its relative paths of images
// are resolved to absolute ones, so that they hold wherever the graph is used.
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

// sortNodes puts the nodes in the order in which everything lists them.
func (g *Group) sortNodes() {
	slices.SortFunc(g.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
}
