// Package docker finds the one image in a docker archive: what dockerTools, `docker save` and skopeo write.
package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
)

// Manifest is the file by which a docker archive is known. It may be the last one.
const Manifest = "manifest.json"

// Open finds the image in the files. They stay the caller's.
func Open(files image.Files) (*image.Image, error) {
	raw, err := files.Metadata(Manifest)
	if err != nil {
		return nil, err
	}
	item, err := parse(raw)
	if err != nil {
		return nil, err
	}
	config, err := files.Metadata(item.Config)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	if want := digestInName(item.Config); want != "" {
		if sum := sha256.Sum256(config); hex.EncodeToString(sum[:]) != want {
			return nil, fmt.Errorf("image config %s does not have the digest that its name says", item.Config)
		}
	}
	diffIDs, err := image.CheckConfig(config, len(item.Layers))
	if err != nil {
		return nil, fmt.Errorf("image config %s: %w", item.Config, err)
	}
	img := &image.Image{Config: config}
	for i, name := range item.Layers {
		size, err := files.Size(name)
		if err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
		diffID := diffIDs[i]
		img.Layers = append(img.Layers, image.Layer{DiffID: diffID, Size: size,
			Open: func(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
				f, err := files.Open(ctx, name)
				if err != nil {
					return nil, err
				}
				return blob.Stored{Content: f, Size: size, Read: read}.Tar(diffID)
			}})
	}
	return img, nil
}

type item struct {
	Config string
	Layers []string
}

func parse(raw []byte) (item, error) {
	var items []item
	if err := json.Unmarshal(raw, &items); err != nil {
		return item{}, fmt.Errorf("%s is not what docker archives have: %w", Manifest, err)
	}
	if len(items) != 1 {
		return item{}, fmt.Errorf("holds %d images, and a node needs exactly one", len(items))
	}
	i := items[0]
	if err := image.CheckLayers(len(i.Layers)); err != nil {
		return item{}, err
	}
	var err error
	if i.Config, err = cleanName(i.Config); err != nil {
		return item{}, err
	}
	for n := range i.Layers {
		if i.Layers[n], err = cleanName(i.Layers[n]); err != nil {
			return item{}, err
		}
	}
	return i, nil
}

func cleanName(name string) (string, error) {
	clean := path.Clean(name)
	if len(clean) > 4096 || strings.HasPrefix(clean, "/") || clean == ".." || strings.HasPrefix(clean, "../") || name == "" {
		return "", fmt.Errorf("%s: %.100q is an unsafe name", Manifest, name)
	}
	return clean, nil
}

// digestInName is the hex digest that a config's name promises: <hex>.json or blobs/sha256/<hex>.
func digestInName(name string) string {
	base := strings.TrimSuffix(path.Base(name), ".json")
	if image.IsDigest("sha256:" + base) {
		return base
	}
	return ""
}
