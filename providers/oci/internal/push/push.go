// Package push sends an image to a registry in one pass over its layers: compress in parallel, hash, upload.
// The digest depends on nothing but the image.
package push

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fediversity.eu/yuba/providers/oci/internal/registry"
)

// Image is what is pushed.
type Image struct {
	// Config is the image config, sent byte for byte.
	Config []byte
	// Layers from the lowest to the uppermost.
	Layers []Layer
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
	// after the other. The stream ends with io.EOF only when it was what DiffID (or Blob) says.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// SourceError is a failure of the image, not of the registry.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// DigestError says that the registry would hold, or holds, another image under the name than it must.
type DigestError struct{ Want, Got string }

func (e *DigestError) Error() string { return fmt.Sprintf("digest is %s and not %s", e.Got, e.Want) }

// Push uploads the image under the tag, and returns the digest that the registry then gives for the tag.
// A non-empty want is the digest that the image must have. Where the image has another one, or the registry holds
// another image under the tag, the error is a *DigestError; a tag is never moved.
// Nothing refers to what an interrupted Push has sent; the registry's garbage collection takes it.
func Push(ctx context.Context, c *registry.Client, tag name.Tag, img Image, want string) (v1.Hash, error) {
	u := &uploader{client: c, repo: tag.Context()}
	var layers []v1.Descriptor
	for _, l := range img.Layers {
		d, err := u.layer(ctx, l)
		if err != nil {
			return v1.Hash{}, err
		}
		layers = append(layers, d)
	}
	config := Descriptor(types.OCIConfigJSON, img.Config)
	raw, err := Manifest(config, layers)
	if err != nil {
		return v1.Hash{}, err
	}
	digest := Descriptor(types.OCIManifestSchema1, raw).Digest
	if want != "" && digest.String() != want {
		return v1.Hash{}, &DigestError{Want: want, Got: digest.String()}
	}
	if err := u.blob(ctx, config, img.Config); err != nil {
		return v1.Hash{}, err
	}
	var held v1.Hash
	err = c.Retry(ctx, true, func(ctx context.Context) (err error) {
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

// Manifest is the manifest of an image, byte for byte as Push sends it.
func Manifest(config v1.Descriptor, layers []v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: layers})
}

// Descriptor describes a blob that is held in memory.
func Descriptor(mt types.MediaType, b []byte) v1.Descriptor {
	sum := sha256.Sum256(b)
	return v1.Descriptor{MediaType: mt, Size: int64(len(b)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
}

type uploader struct {
	client *registry.Client
	repo   name.Repository
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

// layer compresses and uploads one layer.
func (u *uploader) layer(ctx context.Context, l Layer) (v1.Descriptor, error) {
	if l.Blob != nil {
		return *l.Blob, u.whole(ctx, *l.Blob, l.Open)
	}
	var done v1.Descriptor // set once the whole stream was read; then its digest is known whatever became of the upload
	err := u.client.Retry(ctx, true, func(ctx context.Context) error {
		s, err := u.client.Session(ctx, u.repo, true)
		if err != nil {
			return err
		}
		if done.Size > 0 {
			// The answer to the last request was lost, or came too late.
			if held, err := hasBlob(ctx, s, done); held || err != nil {
				return err
			}
		}
		location, err := begin(ctx, s)
		if err != nil {
			return err
		}
		var last *stream
		location, err = send(ctx, s, location, -1, func() (io.ReadCloser, error) {
			if last != nil {
				last.Close()
			}
			last = newStream(ctx, l)
			return last, nil
		})
		last.Close()
		if last.err != nil && ctx.Err() == nil {
			return &SourceError{last.err}
		}
		if err != nil {
			return err
		}
		d, ok := last.descriptor()
		if !ok {
			return fmt.Errorf("%w: the registry answered before it had read the layer", registry.ErrAgain)
		}
		done = d
		return commit(ctx, s, location, d)
	})
	return done, err
}

// blob uploads a small blob, unless the registry holds it.
func (u *uploader) blob(ctx context.Context, d v1.Descriptor, content []byte) error {
	return u.whole(ctx, d, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
}

// whole uploads a blob that is known, unless the registry holds it.
func (u *uploader) whole(ctx context.Context, d v1.Descriptor, open func(context.Context) (io.ReadCloser, error)) error {
	return u.client.Retry(ctx, true, func(ctx context.Context) error {
		s, err := u.client.Session(ctx, u.repo, true)
		if err != nil {
			return err
		}
		if held, err := hasBlob(ctx, s, d); held || err != nil {
			return err
		}
		location, err := begin(ctx, s)
		if err != nil {
			return err
		}
		location, err = send(ctx, s, location, d.Size, func() (io.ReadCloser, error) { return open(ctx) })
		if err != nil {
			return err
		}
		return commit(ctx, s, location, d)
	})
}

func hasBlob(ctx context.Context, s *registry.Session, d v1.Descriptor) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.URL("blobs/"+d.Digest.String()), nil)
	if err != nil {
		return false, err
	}
	resp, err := s.Do(req, http.StatusOK, http.StatusNotFound, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound:
		return false, nil
	case http.StatusOK:
		// A registry that says another length has a damaged blob, which uploading again mends.
		return resp.ContentLength < 0 || resp.ContentLength == d.Size, nil
	}
	return true, nil // a registry on object storage says where the blob is
}

// begin opens an upload and returns where to send the content.
func begin(ctx context.Context, s *registry.Session) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL("blobs/uploads/"), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.Do(req, http.StatusAccepted)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return next(resp)
}

// send streams the content to the upload and returns where to commit it. open is called again when the request is sent
// again, for a fresh token; the former content is then closed. size -1 means that it's not known yet.
func send(ctx context.Context, s *registry.Session, to *url.URL, size int64, open func() (io.ReadCloser, error)) (*url.URL, error) {
	body, err := open()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.GetBody, req.ContentLength = open, size
	req.Header.Set("Content-Type", "application/octet-stream")
	// Lets a registry that wants a fresh token, or nothing at all, say so before the content flows.
	req.Header.Set("Expect", "100-continue")
	resp, err := s.Do(req, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	return next(resp)
}

// commit ends the upload under its digest, which the registry verifies.
func commit(ctx context.Context, s *registry.Session, to *url.URL, d v1.Descriptor) error {
	q := to.Query()
	q.Set("digest", d.Digest.String())
	to.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := s.Do(req, http.StatusCreated, http.StatusNoContent)
	if err != nil {
		// The upload may be gone because an earlier commit went through and its answer was lost, or because the
		// registry forgot it when it restarted: the next attempt asks for the blob, and sends it again if it must.
		if te := (*transport.Error)(nil); errors.As(err, &te) && te.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w: %w", registry.ErrAgain, err)
		}
		return err
	}
	resp.Body.Close()
	return nil
}

// next is the Location of the answer. It must be on the host that was asked: the content, and the token, go there.
func next(resp *http.Response) (*url.URL, error) {
	to, err := resp.Location()
	if err != nil {
		return nil, errors.New("the registry does not say where to upload")
	}
	asked := resp.Request.URL
	if !registry.SameHost(to, asked) {
		return nil, fmt.Errorf("the registry wants the upload on another host, %s, which yuba does not follow", to.Host)
	}
	to.Scheme, to.Host = asked.Scheme, asked.Host
	return to, nil
}
