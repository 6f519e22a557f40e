// Package image says what yuba needs of the image of a node, whatever it comes from, and checks it.
package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	// MaxLayers is what container runtimes can mount: overlayfs has its options in one page of memory, and Docker and
	// the image builders of Nix keep to 127 for that reason.
	MaxLayers = 127
	// MaxMetadata bounds in bytes each manifest, index and config, which are held in memory. It's what registries take
	// (distribution-spec, "Pushing manifests").
	MaxMetadata = 4 << 20
)

// Image is an open image. The caller closes it.
type Image struct {
	// Config is the image config, byte for byte.
	Config []byte
	// Layers from the lowest to the uppermost. Their streams are read one after the other.
	Layers []Layer
	// Manifest, if not nil, is the OCI manifest of the image, byte for byte; all layers then have a Blob. What it comes from
	// holds the image as a registry would, and it's pushed as it is.
	Manifest []byte
	// Closer, if not nil, holds what the layers are read from.
	io.Closer
}

// Layer is a source of one layer.
type Layer struct {
	// DiffID is the digest of the layer's tar ("sha256:...").
	DiffID string
	// Blob, if not nil, describes the layer as the source holds it compressed; Open then streams these bytes in place
	// of the tar.
	Blob *v1.Descriptor
	// Size is the size in bytes of the layer as the source holds it.
	Size int64
	// Open streams the layer from its beginning; it can be called again when the former stream is closed. read, if not
	// nil, is called with how many bytes of Size have been read. The stream ends with io.EOF only when it was what
	// DiffID (or Blob) says.
	Open func(ctx context.Context, read func(int64)) (io.ReadCloser, error)
}

// Close closes what the layers are read from.
func (i *Image) Close() error {
	if i.Closer == nil {
		return nil
	}
	return i.Closer.Close()
}

// Files are the files of an image in an archive or a directory. Names are clean, relative and use slashes.
type Files interface {
	// Has tells whether there is a regular file of this name.
	Has(name string) bool
	// Size is that of a file in bytes.
	Size(name string) (int64, error)
	// Metadata returns a file of at most MaxMetadata bytes.
	Metadata(name string) ([]byte, error)
	// Open streams a file. The former stream must be closed by then.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

var (
	digest       = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	architecture = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
)

// IsDigest tells whether s is a digest that yuba can verify.
func IsDigest(s string) bool { return digest.MatchString(s) }

// IsArchitecture tells whether s can be the name of an architecture in an image config (such as amd64, arm64).
func IsArchitecture(s string) bool { return architecture.MatchString(s) }

// CheckConfig checks the config of an image of so many layers, and returns the digests of the layers' tars.
func CheckConfig(raw []byte, layers int) (diffIDs []string, err error) {
	var c struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		RootFS       struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("not an image config: %w", err)
	}
	switch {
	case c.OS != "linux":
		return nil, fmt.Errorf("os is %.40q, and a node runs on \"linux\"", c.OS)
	case !IsArchitecture(c.Architecture):
		return nil, fmt.Errorf("architecture %.40q is no architecture's name", c.Architecture)
	case c.RootFS.Type != "layers":
		return nil, fmt.Errorf("rootfs.type is %.40q, want \"layers\"", c.RootFS.Type)
	case len(c.RootFS.DiffIDs) != layers:
		return nil, fmt.Errorf("has %d diff_ids, and the image %d layers", len(c.RootFS.DiffIDs), layers)
	}
	for _, d := range c.RootFS.DiffIDs {
		if !IsDigest(d) {
			return nil, fmt.Errorf("diff_id %.80q is not a sha256 digest", d)
		}
	}
	return c.RootFS.DiffIDs, nil
}

// CheckLayers is the rule of how many layers an image has.
func CheckLayers(n int) error {
	switch {
	case n == 0:
		return fmt.Errorf("holds an image without a layer, and a node needs a root file system")
	case n > MaxLayers:
		return fmt.Errorf("holds an image of %d layers, more than the %d that container runtimes mount: build it with fewer (maxLayers = %[2]d)", n, MaxLayers)
	}
	return nil
}
