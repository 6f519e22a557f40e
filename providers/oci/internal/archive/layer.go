package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow bounds the memory that a zstd layer can ask for; it's what zstd itself takes without --long.
const maxZstdWindow = 128 << 20

// OpenLayer streams the layer's tar from its beginning, decompressed where the archive holds it compressed.
// read, if not nil, is called with the number of bytes of the layer in the archive (of LayerSize) that were read
// so far. The stream ends with io.EOF only when the layer had the digest of the config and what follows it in a
// gzipped archive is whole, too. The caller closes the stream; the archive stays open.
func (a *Archive) OpenLayer(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
	var stored io.Reader
	var rest func() error // what is left to check behind the layer
	if a.gzip {
		r, err := reader(ctx, a.file, true)
		if err != nil {
			return nil, err
		}
		t := tar.NewReader(r)
		for {
			h, err := t.Next()
			if err == io.EOF {
				return nil, errChanged
			}
			if err != nil {
				return nil, notArchive(err)
			}
			if name, err := cleanName(h.Name); err != nil {
				return nil, err
			} else if name == a.layer && h.Typeflag == tar.TypeReg && h.Size == a.LayerSize {
				break
			}
		}
		stored = t
		rest = func() error {
			if _, err := io.Copy(io.Discard, r); err != nil {
				return notArchive(err)
			}
			return nil
		}
	} else {
		stored = &ctxReader{ctx, io.NewSectionReader(a.file, a.offset, a.LayerSize)}
		rest = func() error { return nil }
	}
	counted := &countReader{r: stored, read: read}
	l := &layerStream{diffID: a.DiffID, hash: sha256.New(), stored: counted, size: a.LayerSize, rest: rest}
	// A tar begins with a file name, which neither magic can be.
	head := bufio.NewReaderSize(counted, 256<<10)
	magic, err := head.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, notArchive(err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
		l.r = z
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
		l.r, l.close = z, z.Close
	default:
		l.r = head
	}
	return l, nil
}

var errChanged = errors.New("has changed while it was read")

type countReader struct {
	r    io.Reader
	n    int64
	read func(int64)
}

func (c *countReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if c.read != nil && n > 0 {
		c.read(c.n)
	}
	return n, err
}

type layerStream struct {
	r      io.Reader
	close  func()
	diffID string
	hash   hash.Hash
	stored *countReader
	size   int64
	rest   func() error
	err    error // the last word, repeated
}

func (l *layerStream) Read(b []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.r.Read(b)
	l.hash.Write(b[:n])
	if err == io.EOF {
		err = l.end()
	} else if err != nil {
		err = layerError(err)
	}
	l.err = err
	return n, err
}

// end is the verdict on a stream that was read to its end.
func (l *layerStream) end() error {
	if l.stored.n != l.size {
		return errChanged // a plain file that has become shorter
	}
	if got := "sha256:" + hex.EncodeToString(l.hash.Sum(nil)); got != l.diffID {
		return fmt.Errorf("layer has the digest %s, but the image config says %s: the archive is damaged; build or copy it again", got, l.diffID)
	}
	if err := l.rest(); err != nil {
		return err
	}
	return io.EOF
}

func layerError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
		return notArchive(err)
	}
	return err
}

func (l *layerStream) Close() error {
	if l.close != nil {
		l.close()
	}
	if l.err == nil {
		l.err = errors.New("layer is closed")
	}
	return nil
}
