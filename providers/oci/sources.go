package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"fediversity.eu/yuba/providers/oci/internal/bundle"
	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/nix"
	"fediversity.eu/yuba/providers/oci/internal/push"
	"fediversity.eu/yuba/providers/oci/internal/source"
)

// SourceOptions say what sources of images there are in this process.
type SourceOptions struct {
	// Stdin is where a source "stdin:" reads; nil if there is no such source. It's read when there is something to push.
	Stdin io.Reader
	// Environ is the environment, "NAME=value", of which Nix gets what it reads.
	Environ []string
}

// Sources open the sources of images, and remember what costs to find out. Who makes them closes them when no server uses
// them any more. Safe for concurrent use.
type Sources struct {
	store *source.Store
	stdin io.Reader
}

// NewSources returns Sources for WithSources, which also read and write bundles.
func NewSources(o SourceOptions) *Sources {
	return &Sources{source.NewStore(o.Stdin, nix.NewStore(o.Environ)), o.Stdin}
}

// Close closes what is open.
func (s *Sources) Close() error { return s.store.Close() }

// DrainStdin reads the standard input to its end if no image was needed of it: whoever writes there need not be told so
// by a broken pipe.
func (s *Sources) DrainStdin() {
	if s.stdin != nil {
		_, _ = io.Copy(io.Discard, s.stdin)
	}
}

// Bundle is what a bundle holds.
type Bundle struct {
	// Group is the group file.
	Group []byte
	// Nodes are the names of the nodes with an image, sorted.
	Nodes []string
}

// OpenBundle verifies a bundle, whole, the first time that it's named. A source "bundle:NODE:PATH" then uses what was
// verified. The error names the file.
func (s *Sources) OpenBundle(ctx context.Context, path string) (*Bundle, error) {
	b, err := s.store.OpenBundle(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Bundle{b.Group, b.Nodes()}, nil
}

// BundleNode is a node whose image goes into a bundle.
type BundleNode struct {
	Name string
	// Source is that of its oci_image.
	Source string
	// Progress is told how many bytes of the image's layers have been read, of how many.
	Progress func(read, total int64)
	// Say is told what takes long before that, and "" when it is done.
	Say func(message string)
}

// BundleImage is an image in a bundle, with the digest that it will have in a registry.
type BundleImage struct{ Node, Digest string }

// WriteBundle writes a bundle into an empty file. All sources are looked at, and all derivations realised, before it begins.
// The compression is that of the provider's configuration, empty for its default.
func (s *Sources) WriteBundle(ctx context.Context, f *os.File, group []byte, nodes []BundleNode, compression string) ([]BundleImage, error) {
	compression = cmp.Or(compression, string(push.Gzip))
	if err := push.CheckCompression(compression); err != nil {
		return nil, err
	}
	var list []bundle.Node
	for _, n := range nodes {
		if err := s.store.Check(ctx, n.Source, true, n.Say); err != nil {
			return nil, nodeError(n, err)
		}
		list = append(list, bundle.Node{Name: n.Name, Read: n.Progress,
			Open: func(ctx context.Context) (*image.Image, error) { return s.store.Open(ctx, n.Source, n.Say) }})
	}
	images, err := bundle.Write(ctx, f, group, list, push.Compression(compression))
	if bad := (*bundle.NodeError)(nil); errors.As(err, &bad) {
		for _, n := range nodes {
			if n.Name == bad.Node {
				err = nodeError(n, bad.Err)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	var out []BundleImage
	for _, i := range images {
		out = append(out, BundleImage{i.Node, i.Digest.String()})
	}
	return out, nil
}

func nodeError(n BundleNode, err error) error {
	if build := (*nix.BuildError)(nil); errors.As(err, &build) {
		return fmt.Errorf("image of node %s: %w", n.Name, err)
	}
	return fmt.Errorf("image of node %s: %s: %w", n.Name, source.Place(n.Source), err)
}
