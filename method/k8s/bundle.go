package k8s

import (
	"slices"
	"strings"
)

// ParseBundle reads the group file of a bundle, a file that holds the images
// of these nodes, too. The images of the group then come from the bundle.
func ParseBundle(bundle string, data []byte, nodes []string) (*Group, error) {
	g, err := Parse(bundle+": group.json", data)
	if err != nil {
		return nil, err
	}
	g.Bundle = bundle
	if want := g.NodeNames(); !slices.Equal(want, nodes) {
		r := report{file: g.File}
		r.add("nodes", "are %s, and the bundle has images of %s: make it again with 'yuba k8s bundle'",
			quote(strings.Join(want, ", ")), quote(strings.Join(nodes, ", ")))
		return nil, r.err()
	}
	return g, nil
}

// Raw returns the group file as it was read.
func (g *Group) Raw() []byte { return g.raw }
