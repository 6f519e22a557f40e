// Package layout finds an image in an OCI image layout: a directory, or the files of an OCI archive.
// https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
package layout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
)

const (
	// Marker is the file by which a layout is known.
	Marker = "oci-layout"
	// Index names the images of a layout.
	Index = "index.json"
	// RefName is the annotation of an image's name in the index.
	RefName = "org.opencontainers.image.ref.name"
	// MarkerContent is what a layout's Marker says.
	MarkerContent = `{"imageLayoutVersion":"1.0.0"}`

	maxIndexes = 3 // one in another
)

// Blob is the name of a blob's file.
func Blob(d v1.Hash) string { return "blobs/" + d.Algorithm + "/" + d.Hex }

// Open finds the one image for Linux in the files. They stay the caller's.
func Open(files image.Files) (*image.Image, error) {
	index, err := ReadIndex(files)
	if err != nil {
		return nil, err
	}
	found, err := images(files, index, 1)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		var names []string
		for _, d := range found {
			if n := d.Annotations[RefName]; n != "" {
				names = append(names, fmt.Sprintf("%.60q", n))
			}
		}
		list := ""
		if len(names) > 0 {
			list = " (" + strings.Join(names[:min(len(names), 10)], ", ") + ")"
		}
		return nil, fmt.Errorf("holds %d images for Linux%s, and a node needs exactly one: copy it out, as with 'skopeo copy oci:all:NAME oci:one:NAME'",
			len(found), list)
	}
	return Image(files, found[0])
}

// ReadIndex reads the index of the layout.
func ReadIndex(files image.Files) (*v1.IndexManifest, error) {
	raw, err := files.Metadata(Marker)
	if err != nil {
		return nil, err
	}
	var marker struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(raw, &marker); err != nil || !strings.HasPrefix(marker.Version, "1.") {
		return nil, fmt.Errorf("is an OCI layout of version %.20q, and yuba reads 1.0.0", marker.Version)
	}
	if raw, err = files.Metadata(Index); err != nil {
		return nil, err
	}
	return parseIndex(raw)
}

func parseIndex(raw []byte) (*v1.IndexManifest, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%s is not an image index: %w", Index, err)
	}
	return index, nil
}

// images are the descriptors of the images that can run on Linux.
func images(files image.Files, index *v1.IndexManifest, depth int) ([]v1.Descriptor, error) {
	var found []v1.Descriptor
	for _, d := range index.Manifests {
		switch {
		case d.MediaType.IsIndex():
			if depth == maxIndexes {
				return nil, errors.New("has an index in an index in an index")
			}
			raw, err := metadata(files, d)
			if err != nil {
				return nil, err
			}
			inner, err := parseIndex(raw)
			if err != nil {
				return nil, err
			}
			more, err := images(files, inner, depth+1)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		case d.MediaType.IsImage():
			// Build tools keep attestations beside an image, with the platform unknown/unknown.
			if d.Platform == nil || d.Platform.OS == "linux" {
				found = append(found, d)
			}
		}
	}
	return found, nil
}

// metadata reads a manifest, index or config, and checks that it is what the descriptor says.
func metadata(files image.Files, d v1.Descriptor) ([]byte, error) {
	if err := checkDescriptor(d); err != nil {
		return nil, err
	}
	raw, err := files.Metadata(Blob(d.Digest))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); int64(len(raw)) != d.Size || hex.EncodeToString(sum[:]) != d.Digest.Hex {
		return nil, fmt.Errorf("blob %s does not have the digest and size that it should have: the image is damaged; build or copy it again", d.Digest)
	}
	return raw, nil
}

// checkDescriptor refuses what yuba can't verify or doesn't hold.
func checkDescriptor(d v1.Descriptor) error {
	switch {
	case !image.IsDigest(d.Digest.String()):
		return fmt.Errorf("digest %.80q is not sha256", d.Digest)
	case d.Size < 0:
		return fmt.Errorf("blob %s has a size below 0", d.Digest)
	case len(d.URLs) > 0:
		return fmt.Errorf("blob %s is to be downloaded from elsewhere (urls), which yuba does not do", d.Digest)
	}
	return nil
}

var (
	plainLayers   = []types.MediaType{types.OCIUncompressedLayer, types.DockerUncompressedLayer}
	packedLayers  = []types.MediaType{types.OCILayer, types.OCILayerZStd, types.DockerLayer}
	configs       = []types.MediaType{types.OCIConfigJSON, types.DockerConfigJSON}
	ociLayerTypes = map[types.MediaType]types.MediaType{types.DockerLayer: types.OCILayer}
)

// Image opens the image of a manifest that the layout holds.
func Image(files image.Files, d v1.Descriptor) (*image.Image, error) {
	raw, err := metadata(files, d)
	if err != nil {
		return nil, fmt.Errorf("image manifest: %w", err)
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("image manifest %s: %w", d.Digest, err)
	}
	if err := image.CheckLayers(len(m.Layers)); err != nil {
		return nil, err
	}
	if !slices.Contains(configs, m.Config.MediaType) {
		return nil, fmt.Errorf("holds a %.80q and not an image", m.Config.MediaType)
	}
	config, err := metadata(files, m.Config)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	diffIDs, err := image.CheckConfig(config, len(m.Layers))
	if err != nil {
		return nil, fmt.Errorf("image config %s: %w", m.Config.Digest, err)
	}
	img := &image.Image{Config: config}
	whole := d.MediaType == types.OCIManifestSchema1 && m.Config.MediaType == types.OCIConfigJSON
	for i, l := range m.Layers {
		if err := checkDescriptor(l); err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
		name := Blob(l.Digest)
		if size, err := files.Size(name); err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		} else if size != l.Size {
			return nil, fmt.Errorf("layer %s has %d bytes and should have %d: the image is damaged; build or copy it again", l.Digest, size, l.Size)
		}
		layer := image.Layer{DiffID: diffIDs[i], Size: l.Size}
		switch {
		case slices.Contains(packedLayers, l.MediaType):
			mt := l.MediaType
			if oci, ok := ociLayerTypes[mt]; ok {
				whole = false
				mt = oci // the same bytes, https://github.com/opencontainers/image-spec/blob/v1.1.1/media-types.md#compatibility-matrix
			}
			layer.Blob = &v1.Descriptor{MediaType: mt, Size: l.Size, Digest: l.Digest}
			layer.Open = func(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
				f, err := files.Open(ctx, name)
				if err != nil {
					return nil, err
				}
				return blob.Stored{Content: f, Size: l.Size, Read: read}.Whole(l.Digest.String()), nil
			}
		case slices.Contains(plainLayers, l.MediaType):
			whole = false
			layer.Open = func(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
				f, err := files.Open(ctx, name)
				if err != nil {
					return nil, err
				}
				return blob.Stored{Content: f, Size: l.Size, Read: read}.Tar(diffIDs[i])
			}
		default:
			return nil, fmt.Errorf("layer %s is of the kind %.80q, which yuba does not push", l.Digest, l.MediaType)
		}
		img.Layers = append(img.Layers, layer)
	}
	if whole {
		img.Manifest = raw
	}
	return img, nil
}
