package bundle

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/layout"
	"fediversity.eu/yuba/providers/oci/internal/push"
)

// Node is a node whose image goes into a bundle.
type Node struct {
	Name string
	// Open opens its image, which Write closes.
	Open func(ctx context.Context) (*image.Image, error)
	// Read is told how many bytes of the image's layers have been read, of how many.
	Read func(read, total int64)
}

// NodeError is a failure to read the image of a node, and not to write the bundle.
type NodeError struct {
	Node string
	Err  error
}

func (e *NodeError) Error() string { return "image of node " + e.Node + ": " + e.Err.Error() }
func (e *NodeError) Unwrap() error { return e.Err }

// Image is what a bundle holds of a node.
type Image struct {
	Node   string
	Digest v1.Hash // that the registry will give for it
}

// Write writes a bundle into an empty file. The digests of the images are those that they would have in a registry if
// they were pushed from their sources with the same compression.
func Write(ctx context.Context, f *os.File, group []byte, nodes []Node, compression push.Compression) ([]Image, error) {
	w := &writer{f: f, compression: compression, blobs: map[string]bool{}, layers: map[string]v1.Descriptor{}}
	if err := w.file(Group, group); err != nil {
		return nil, err
	}
	if err := w.file(layout.Marker, []byte(layout.MarkerContent)); err != nil {
		return nil, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	var images []Image
	for _, n := range nodes {
		d, err := w.image(ctx, n)
		if err != nil {
			return nil, err
		}
		images = append(images, Image{n.Name, d.Digest})
		d.Annotations = map[string]string{layout.RefName: n.Name}
		index.Manifests = append(index.Manifests, d)
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	if err := w.file(layout.Index, raw); err != nil {
		return nil, err
	}
	if err := w.file(Sums, append([]byte(comment), w.sums.Bytes()...)); err != nil {
		return nil, err
	}
	return images, w.end()
}

type writer struct {
	f    *os.File
	pos  int64
	sums bytes.Buffer

	compression push.Compression
	blobs       map[string]bool          // by their names
	layers      map[string]v1.Descriptor // that were compressed here, by the digest of their tar
}

func (w *writer) image(ctx context.Context, n Node) (v1.Descriptor, error) {
	img, err := n.Open(ctx)
	if err != nil {
		return v1.Descriptor{}, &NodeError{n.Name, err}
	}
	defer img.Close()
	var done, total int64
	for _, l := range img.Layers {
		total += l.Size
	}
	var layers []v1.Descriptor
	for _, l := range img.Layers {
		before := done
		read := func(b int64) { n.Read(before+b, total) }
		d, err := w.layer(ctx, n.Name, l, read)
		if err != nil {
			return v1.Descriptor{}, err
		}
		done += l.Size
		n.Read(done, total)
		layers = append(layers, d)
	}
	config := push.Descriptor(types.OCIConfigJSON, img.Config)
	if err := w.small(config, img.Config); err != nil {
		return v1.Descriptor{}, err
	}
	raw := img.Manifest
	if raw == nil {
		if raw, err = push.Manifest(config, layers); err != nil {
			return v1.Descriptor{}, err
		}
	}
	d := push.Descriptor(types.OCIManifestSchema1, raw)
	return d, w.small(d, raw)
}

// layer writes a layer that isn't there yet, as a push would send it.
func (w *writer) layer(ctx context.Context, node string, l image.Layer, read func(int64)) (v1.Descriptor, error) {
	open := func(ctx context.Context) (io.ReadCloser, error) { return l.Open(ctx, read) }
	if l.Blob != nil {
		if w.blobs[layout.Blob(l.Blob.Digest)] {
			return *l.Blob, nil
		}
		return w.blob(func(to io.Writer) (v1.Descriptor, error) {
			r, err := open(ctx)
			if err != nil {
				return *l.Blob, &NodeError{node, err}
			}
			defer r.Close()
			_, err = io.Copy(to, &nodeReader{node, r})
			return *l.Blob, err
		})
	}
	if d, ok := w.layers[l.DiffID]; ok {
		return d, nil
	}
	d, err := w.blob(func(to io.Writer) (v1.Descriptor, error) {
		d, err := push.Compress(ctx, to, push.Layer{DiffID: l.DiffID, Open: open}, w.compression)
		if bad := (*push.SourceError)(nil); errors.As(err, &bad) {
			err = &NodeError{node, bad.Err}
		}
		return d, err
	})
	if err == nil {
		w.layers[l.DiffID] = d
	}
	return d, err
}

// nodeReader tells an error of the image from one of the file that is written.
type nodeReader struct {
	node string
	r    io.Reader
}

func (r *nodeReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		err = &NodeError{r.node, err}
	}
	return n, err
}

func (w *writer) small(d v1.Descriptor, content []byte) error {
	if w.blobs[layout.Blob(d.Digest)] {
		return nil
	}
	w.blobs[layout.Blob(d.Digest)] = true
	return w.file(layout.Blob(d.Digest), content)
}

// file writes a file that is known.
func (w *writer) file(name string, content []byte) error {
	sum := sha256.Sum256(content)
	return w.entry(func(to io.Writer) (string, string, error) {
		_, err := to.Write(content)
		return name, hex.EncodeToString(sum[:]), err
	})
}

// blob writes a blob whose size and digest are known when it's written. One that turns out to be there already is written
// over by the next.
func (w *writer) blob(fill func(io.Writer) (v1.Descriptor, error)) (v1.Descriptor, error) {
	start := w.pos
	var d v1.Descriptor
	again := false
	err := w.entry(func(to io.Writer) (string, string, error) {
		var err error
		d, err = fill(to)
		again = w.blobs[layout.Blob(d.Digest)]
		if again {
			return "", "", err
		}
		return layout.Blob(d.Digest), d.Digest.Hex, err
	})
	if err != nil {
		return d, err
	}
	if again {
		w.pos = start
	}
	w.blobs[layout.Blob(d.Digest)] = true
	return d, nil
}

// entry writes the content first and then the header before it. fill returns name and checksum, or no name for an entry
// that is to be dropped.
func (w *writer) entry(fill func(io.Writer) (name, sum string, err error)) error {
	at := io.NewOffsetWriter(w.f, w.pos+blockBytes)
	var n blob.Count
	b := bufio.NewWriterSize(io.MultiWriter(at, &n), 1<<20)
	name, sum, err := fill(b)
	if err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	size := int64(n)
	if _, err := at.Write(make([]byte, padding(size))); err != nil {
		return err
	}
	h, err := header(name, size)
	if err != nil {
		return err
	}
	if _, err := w.f.WriteAt(h, w.pos); err != nil {
		return err
	}
	w.pos += blockBytes + size + padding(size)
	if name != Sums {
		fmt.Fprintf(&w.sums, "%s  %s\n", sum, name)
	}
	return nil
}

// end ends the tar with two blocks of zeros.
func (w *writer) end() error {
	if err := w.f.Truncate(w.pos); err != nil { // of a blob that was written twice
		return err
	}
	return w.f.Truncate(w.pos + 2*blockBytes)
}
