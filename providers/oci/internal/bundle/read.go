package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/layout"
	"fediversity.eu/yuba/providers/oci/internal/push"
)

// Bundle is a bundle that was verified whole. The caller closes it. It's safe for concurrent use.
type Bundle struct {
	// Group is the group file.
	Group []byte

	file   File
	places map[string]place // of the entries
	images map[string]v1.Descriptor
}

// File is what a bundle is read from.
type File interface {
	io.ReaderAt
	io.Closer
}

type place struct{ offset, size int64 }

// Open opens a bundle and verifies all of it: nothing is used of one that isn't whole. Its errors don't name the file.
func Open(ctx context.Context, name string) (*Bundle, error) {
	f, info, err := blob.OpenFile(name)
	if err != nil {
		return nil, err
	}
	b, err := New(ctx, f, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// New is Open for a file that is open. It belongs to the Bundle.
func New(ctx context.Context, f File, size int64) (*Bundle, error) {
	b := &Bundle{file: f, places: map[string]place{}, images: map[string]v1.Descriptor{}}
	if err := b.verify(ctx, size); err != nil {
		return nil, err
	}
	if err := b.index(); err != nil {
		return nil, err
	}
	return b, nil
}

// Close closes the file.
func (b *Bundle) Close() error { return b.file.Close() }

// Nodes are the names of the nodes with an image, sorted.
func (b *Bundle) Nodes() []string {
	var names []string
	for n := range b.images {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Image opens the image of a node. It does not close the bundle.
func (b *Bundle) Image(node string) (*image.Image, error) {
	d, ok := b.images[node]
	if !ok {
		return nil, fmt.Errorf("has no image of node %q", node)
	}
	return layout.Image(b, d)
}

var (
	errNotBundle = errors.New("is not a bundle of yuba's: make one with 'yuba k8s bundle'")
	errDamaged   = errors.New("is damaged: copy it again")
)

// damaged is where something is that isn't as yuba has written it.
func damaged(what string, args ...any) error {
	return fmt.Errorf("%s: the bundle %w", fmt.Sprintf(what, args...), errDamaged)
}

// verify reads the whole file.
func (b *Bundle) verify(ctx context.Context, size int64) error {
	r := bufio.NewReaderSize(blob.Context(ctx, io.NewSectionReader(b.file, 0, size)), 64<<10)
	var sums bytes.Buffer
	sums.WriteString(comment)
	var listed []byte
	for pos := int64(0); ; {
		var block [blockBytes]byte
		if _, err := io.ReadFull(r, block[:]); err != nil {
			return short(err, pos == 0)
		}
		if block == [blockBytes]byte{} {
			break
		}
		name, length, err := parse(block, pos)
		if err != nil {
			return err
		}
		_, twice := b.places[name]
		switch {
		case pos == 0 && name != Group:
			return errNotBundle
		case listed != nil:
			return damaged("something comes after %s", Sums)
		case twice:
			return damaged("there are two entries %s", name)
		case len(b.places) == maxEntries:
			return fmt.Errorf("has more than %d entries", maxEntries)
		}
		pos += blockBytes
		b.places[name] = place{pos, length}
		sum, content, err := b.content(r, name, length)
		if err != nil {
			return err
		}
		switch name {
		case Sums:
			listed = content
		case Group:
			b.Group = content
			fallthrough
		default:
			fmt.Fprintf(&sums, "%s  %s\n", sum, name)
		}
		if blobName.MatchString(name) && name != "blobs/sha256/"+sum {
			return damaged("%s has the digest %s", name, sum)
		}
		pos += length + padding(length)
	}
	var last [blockBytes]byte
	if _, err := io.ReadFull(r, last[:]); err != nil {
		return short(err, false)
	} else if last != [blockBytes]byte{} {
		return damaged("its end is not one")
	}
	switch _, err := r.ReadByte(); err {
	case io.EOF:
	case nil:
		return damaged("something comes after its end")
	default:
		return blob.Cause(err)
	}
	switch {
	case listed == nil:
		return damaged("there is no %s", Sums)
	case !bytes.Equal(listed, sums.Bytes()):
		return damaged("%s says something else than there is", Sums)
	}
	return nil
}

// short is what an error of a read means.
func short(err error, first bool) error {
	switch {
	case first && (err == io.EOF || err == io.ErrUnexpectedEOF):
		return errNotBundle
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return damaged("it ends too early")
	}
	return blob.Cause(err)
}

// parse reads a header, which must be just as it's written for a file of this name and size.
func parse(block [blockBytes]byte, pos int64) (name string, size int64, err error) {
	h, err := tar.NewReader(bytes.NewReader(block[:])).Next()
	if err == nil && known(h.Name) && h.Size >= 0 {
		var want []byte
		if want, err = header(h.Name, h.Size); err == nil && bytes.Equal(want, block[:]) {
			return h.Name, h.Size, nil
		}
	}
	if pos == 0 {
		return "", 0, errNotBundle
	}
	if err == nil && !known(h.Name) {
		return "", 0, damaged("there is an entry %.100q", h.Name)
	}
	return "", 0, damaged("the entry at byte %d is not as yuba has written it", pos)
}

// content reads an entry to its end with its padding. What is not a blob is small, and returned.
func (b *Bundle) content(r io.Reader, name string, size int64) (sum string, content []byte, err error) {
	hash := sha256.New()
	to := io.Writer(hash)
	var kept bytes.Buffer
	if !blobName.MatchString(name) {
		if size > maxKept {
			return "", nil, fmt.Errorf("has a %s of %d bytes, more than the %d that yuba reads", name, size, maxKept)
		}
		to = io.MultiWriter(hash, &kept)
	}
	if _, err := io.CopyN(to, r, size); err != nil {
		return "", nil, short(err, false)
	}
	var pad [blockBytes]byte
	if _, err := io.ReadFull(r, pad[:padding(size)]); err != nil {
		return "", nil, short(err, false)
	} else if pad != [blockBytes]byte{} {
		return "", nil, damaged("behind %s is not nothing", name)
	}
	return hex.EncodeToString(hash.Sum(nil)), kept.Bytes(), nil
}

// index checks that the images are what a push will want of them.
func (b *Bundle) index() error {
	index, err := layout.ReadIndex(b)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, d := range index.Manifests {
		node := d.Annotations[layout.RefName]
		if _, twice := b.images[node]; twice || node == "" {
			return damaged("%s has two images %.100q", layout.Index, node)
		}
		img, err := layout.Image(b, d)
		if err != nil {
			return fmt.Errorf("image of node %.100q: %w", node, err)
		}
		if img.Manifest == nil {
			return damaged("image of node %.100q: it is not in the form that is pushed", node)
		}
		used[layout.Blob(d.Digest)] = true
		used[layout.Blob(push.Descriptor("", img.Config).Digest)] = true
		for _, l := range img.Layers {
			used[layout.Blob(l.Blob.Digest)] = true
		}
		b.images[node] = d
	}
	for name := range b.places {
		if blobName.MatchString(name) && !used[name] {
			return damaged("no image has %s", name)
		}
	}
	return nil
}

// Has implements image.Files.
func (b *Bundle) Has(name string) bool {
	_, ok := b.places[name]
	return ok
}

// Size implements image.Files.
func (b *Bundle) Size(name string) (int64, error) {
	p, ok := b.places[name]
	if !ok {
		return 0, damaged("%s is missing", name)
	}
	return p.size, nil
}

// Metadata implements image.Files.
func (b *Bundle) Metadata(name string) ([]byte, error) {
	size, err := b.Size(name)
	if err != nil {
		return nil, err
	}
	if size > image.MaxMetadata {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that yuba reads", name, size, image.MaxMetadata)
	}
	content := make([]byte, size)
	if _, err := b.file.ReadAt(content, b.places[name].offset); err != nil {
		return nil, fmt.Errorf("%s: %w", name, blob.Cause(err))
	}
	return content, nil
}

// Open implements image.Files. Other than those of an archive, files can be open at the same time.
func (b *Bundle) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	size, err := b.Size(name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(blob.Context(ctx, io.NewSectionReader(b.file, b.places[name].offset, size))), nil
}
