// Package push sends images to a registry in one pass over their layers: compress in parallel, hash, upload. What several
// images share is sent once. The digest depends on nothing but the image and the compression.
package push

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fediversity.eu/yuba/providers/oci/internal/registry"
)

// Image is what is pushed.
type Image struct {
	// Config is the image config, sent byte for byte.
	Config []byte
	// Layers from the lowest to the uppermost.
	Layers []Layer
	// Manifest, if not nil, is the OCI manifest of Config and the Blobs of all Layers, sent byte for byte in place of one
	// that Manifest makes, so that the image keeps its digest.
	Manifest []byte
}

// Layer is a source of one layer. Layers of the same DiffID (and Blob) are the same to Push, wherever they come from.
type Layer struct {
	// DiffID is the digest of the layer's tar ("sha256:...").
	DiffID string
	// Blob, if not nil, describes the layer as the source holds it compressed, with an OCI media type: these bytes
	// are sent as they are, and Open streams them in place of the tar.
	Blob *v1.Descriptor
	// Open streams the layer from its beginning. It's called again when an upload has to start again, after the
	// former stream was closed, and not at all when the registry has the layer; layers of one image are opened one
	// after the other, in any order. The stream ends with io.EOF only when it was what DiffID (or Blob) says.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Held, if not nil, is called when the registry has the layer, be it that it was sent or that it was there.
	Held func()
}

// SourceError is a failure of the image, not of the registry.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// DigestError says that the registry would hold, or holds, another image under the name than it must.
type DigestError struct{ Want, Got string }

func (e *DigestError) Error() string { return fmt.Sprintf("digest is %s and not %s", e.Got, e.Want) }

// Pusher pushes images. It's safe for concurrent use; memory and connections are those of one upload for each Push that
// runs.
type Pusher struct {
	client      *registry.Client
	compression Compression
	sent        *Sent
	blocks      blocks
}

// New makes a Pusher. The zero Compression is Gzip. Layers that are in sent are not sent again, where the registry has them.
func New(c *registry.Client, compression Compression, sent *Sent) *Pusher {
	return &Pusher{client: c, compression: cmp.Or(compression, Gzip), sent: sent}
}

// Push uploads the image under the tag, and returns the digest that the registry then gives for the tag.
// A non-empty want is the digest that the image must have. Where the image has another one, or the registry holds
// another image under the tag, the error is a *DigestError; a tag is never moved.
// Nothing refers to what an interrupted Push has sent; the registry's garbage collection takes it.
func (p *Pusher) Push(ctx context.Context, tag name.Tag, img Image, want string) (v1.Hash, error) {
	u := &uploader{client: p.client, repo: tag.Context(), compression: p.compression, blocks: &p.blocks}
	layers, err := p.layers(ctx, u, img.Layers)
	if err != nil {
		return v1.Hash{}, err
	}
	config := Descriptor(types.OCIConfigJSON, img.Config)
	raw := img.Manifest
	if raw == nil {
		if raw, err = Manifest(config, layers); err != nil {
			return v1.Hash{}, err
		}
	}
	digest := Descriptor(types.OCIManifestSchema1, raw).Digest
	if want != "" && digest.String() != want {
		return v1.Hash{}, &DigestError{Want: want, Got: digest.String()}
	}
	if err := u.small(ctx, config, img.Config); err != nil {
		return v1.Hash{}, err
	}
	var held v1.Hash
	err = p.client.Retry(ctx, true, func(ctx context.Context) (err error) {
		held, err = u.manifest(ctx, tag.TagStr(), raw)
		return err
	})
	if err != nil {
		return v1.Hash{}, err
	}
	if held != digest {
		return v1.Hash{}, &DigestError{Want: digest.String(), Got: held.String()}
	}
	return held, nil
}

// layers has the repository hold the layers and describes them. Those that another Push is bringing to the registry come
// last, when they can be mounted.
func (p *Pusher) layers(ctx context.Context, u *uploader, layers []Layer) ([]v1.Descriptor, error) {
	out := make([]v1.Descriptor, len(layers))
	var left []int
	var keys []string
	for i, l := range layers {
		left, keys = append(left, i), append(keys, key(u, l))
	}
	for len(left) > 0 {
		at, f, mine := p.sent.claim(left, keys)
		i := left[at]
		var err error
		if mine {
			out[i], err = u.layer(ctx, layers[i], nil, u.repo)
			p.sent.end(keys[i], f, out[i], u.repo, err)
		} else if err = f.wait(ctx); err == nil && !f.landed {
			continue // who began has failed; perhaps this Push can
		} else if err == nil {
			out[i], err = u.layer(ctx, layers[i], &f.what, f.where)
		}
		if err != nil {
			return nil, err
		}
		if layers[i].Held != nil {
			layers[i].Held()
		}
		left = append(left[:at], left[at+1:]...)
	}
	return out, nil
}

// Manifest is the manifest of an image, byte for byte as Push sends it.
func Manifest(config v1.Descriptor, layers []v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: layers})
}

// Descriptor describes a blob that is held in memory.
func Descriptor(mt types.MediaType, b []byte) v1.Descriptor {
	sum := sha256.Sum256(b)
	return v1.Descriptor{MediaType: mt, Size: int64(len(b)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
}

// manifest puts the manifest under the tag and asks what the tag then is. A tag that is there by now stays as it is: an
// earlier attempt may have made it, or somebody else while the layers were on their way.
func (u *uploader) manifest(ctx context.Context, tag string, raw []byte) (v1.Hash, error) {
	s, err := u.client.Session(ctx, u.repo, true)
	if err != nil {
		return v1.Hash{}, err
	}
	if held, found, err := s.Digest(ctx, tag); found || err != nil {
		return held, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL("manifests/"+tag), bytes.NewReader(raw))
	if err != nil {
		return v1.Hash{}, err
	}
	req.Header.Set("Content-Type", string(types.OCIManifestSchema1))
	resp, err := s.Do(req, http.StatusCreated, http.StatusOK, http.StatusAccepted)
	if err != nil {
		return v1.Hash{}, err
	}
	resp.Body.Close()
	held, found, err := s.Digest(ctx, tag)
	if err == nil && !found {
		err = errors.New("the registry took the manifest, but does not hold it")
	}
	return held, err
}
