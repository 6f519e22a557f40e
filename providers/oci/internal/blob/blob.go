// Package blob streams what images are made of: decompressed by what it is and not by its name, and verified.
package blob

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Kind is how something is compressed.
type Kind string

// The kinds that Sniff tells apart. Only the first three can be decompressed.
const (
	Plain Kind = ""
	Gzip  Kind = "gzip"
	Zstd  Kind = "zstd"
	Bzip2 Kind = "bzip2"
	Xz    Kind = "xz"
)

// SniffLen is how many bytes Sniff needs.
const SniffLen = 6

var magics = []struct {
	kind  Kind
	magic []byte
}{
	{Gzip, []byte{0x1f, 0x8b}},
	{Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd}},
	{Bzip2, []byte("BZh")},
	{Xz, []byte{0xfd, '7', 'z', 'X', 'Z', 0}},
}

// Sniff tells from its first bytes how something is compressed. What begins with a printable name, as a tar does, is
// taken for a bzip2 stream only if its name begins with "BZh".
func Sniff(head []byte) Kind {
	for _, m := range magics {
		if bytes.HasPrefix(head, m.magic) {
			return m.kind
		}
	}
	return Plain
}

const (
	// maxZstdWindow bounds the memory that a zstd stream can ask for; it's what zstd itself takes without --long.
	maxZstdWindow = 128 << 20
	bufSize       = 256 << 10
)

// Decompress gives the content of r, which may be plain, and how it is compressed. Closing it leaves r open. Its errors
// are for Damage.
func Decompress(r io.Reader) (io.ReadCloser, Kind, error) {
	head := bufio.NewReaderSize(r, bufSize)
	magic, err := head.Peek(SniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Plain, err
	}
	switch kind := Sniff(magic); kind {
	case Plain:
		return io.NopCloser(head), kind, nil
	case Gzip:
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, kind, err
		}
		return z, kind, nil
	case Zstd:
		z, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, kind, err
		}
		return z.IOReadCloser(), kind, nil
	default:
		return nil, kind, fmt.Errorf("is compressed with %s; yuba reads gzip, zstd and what isn't compressed", kind)
	}
}

// ErrTruncated is what Damage makes of an end that comes too early.
var ErrTruncated = errors.New("is truncated; build or copy it again")

var (
	errWindow  = fmt.Errorf("needs more memory to be decompressed than the %d MiB that yuba gives: compress it without --long", maxZstdWindow>>20)
	errDamaged = errors.New("is damaged: its checksum does not match; build or copy it again")
)

// Damage says in a user's words what an error while reading means. It returns nil for one that says nothing of damage.
func Damage(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrTruncated
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return errWindow
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrCRCMismatch):
		return errDamaged
	}
	return nil
}

// Cause drops operation and path of an error: the path is a per-run value, and the caller decides whether to name it.
func Cause(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// OpenFile opens a regular file. Its errors don't name the file.
func OpenFile(name string) (*os.File, os.FileInfo, error) {
	// Stat first: opening a FIFO would block.
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, Cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, Cause(err)
	}
	return f, info, nil
}

// Context ends a long read when the run is cancelled. What it returns has Read and nothing else, so io.Copy uses its own
// buffer, not the kernel's ways between files: those can't be told that the context has ended.
func Context(ctx context.Context, r io.Reader) io.Reader { return &ctxReader{ctx, r} }

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *ctxReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// Count counts the bytes that are written to it, which goes beside a hash or a file in an io.MultiWriter.
type Count int64

// Write implements io.Writer.
func (c *Count) Write(b []byte) (int, error) {
	*c += Count(len(b))
	return len(b), nil
}

// Stored is a layer or another blob as something holds it.
type Stored struct {
	// Content is read once. Closing what is made of a Stored closes it.
	Content io.ReadCloser
	// Size is how many bytes Content must have.
	Size int64
	// Read, if not nil, is called with the number of bytes that were read so far.
	Read func(int64)
	// Mismatch, if not nil, is the error for another digest than is wanted.
	Mismatch error
}

// ErrChanged says that a source is another one than a moment ago.
var ErrChanged = errors.New("has changed while it was read")

// Whole streams the blob as it is. The stream ends with io.EOF only when it had the digest ("sha256:...") and the size.
func (s Stored) Whole(digest string) io.ReadCloser {
	c := &countReader{r: s.Content, read: s.Read}
	return &stream{r: c, stored: c, size: s.Size, hash: sha256.New(), digest: digest, mismatch: s.Mismatch, close: s.Content.Close}
}

// Tar streams the tar of a layer, decompressed where it is compressed. The stream ends with io.EOF only when the tar had
// the digest that the image config says, and the blob its size.
func (s Stored) Tar(diffID string) (io.ReadCloser, error) {
	c := &countReader{r: s.Content, read: s.Read}
	z, _, err := Decompress(c)
	if err != nil {
		s.Content.Close()
		return nil, layerError(err)
	}
	return &stream{r: z, stored: c, size: s.Size, hash: sha256.New(), digest: diffID, mismatch: s.Mismatch, tar: true,
		close: func() error { return errors.Join(z.Close(), s.Content.Close()) }}, nil
}

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

type stream struct {
	r        io.Reader
	stored   *countReader
	size     int64
	hash     hash.Hash
	digest   string
	tar      bool
	mismatch error
	close    func() error
	err      error // the last word, repeated
}

func (s *stream) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(b)
	s.hash.Write(b[:n])
	if err == io.EOF {
		err = s.end()
	} else if err != nil {
		err = layerError(err)
	}
	s.err = err
	return n, err
}

// end is the verdict on a stream that was read to its end.
func (s *stream) end() error {
	if s.tar {
		// What a decompressor leaves unread counts, too.
		if _, err := io.Copy(io.Discard, s.stored); err != nil {
			return layerError(err)
		}
	}
	if s.stored.n != s.size {
		return ErrChanged // a file that has become shorter
	}
	got := "sha256:" + hex.EncodeToString(s.hash.Sum(nil))
	switch {
	case got == s.digest:
		return io.EOF
	case s.mismatch != nil:
		return s.mismatch
	case s.tar:
		return fmt.Errorf("layer has the digest %s, but the image config says %s: the image is damaged; build or copy it again", got, s.digest)
	}
	return fmt.Errorf("blob %s has the digest %s: the image is damaged; build or copy it again", s.digest, got)
}

func layerError(err error) error {
	if damage := Damage(err); damage != nil {
		return fmt.Errorf("layer %w", damage)
	}
	return err
}

func (s *stream) Close() error {
	if s.close == nil {
		return nil
	}
	err := s.close()
	s.close = nil
	if s.err == nil {
		s.err = errors.New("layer is closed")
	}
	return err
}
