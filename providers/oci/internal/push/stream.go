package push

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/pgzip"
)

const (
	// The level and the block size are part of the digest of every image that was ever pushed: changing one means
	// that a node's tag gives another digest.
	gzipLevel = 1
	blockSize = 1 << 20
	// maxBlocks bounds the memory of one push (about 3 MiB a block) on machines of many cores.
	maxBlocks = 8
	bufSize   = 256 << 10
)

// stream is the compressed layer as the body of one request. It begins to work with the first Read.
type stream struct {
	ctx   context.Context
	layer Layer
	start sync.Once
	pr    *io.PipeReader
	pw    *io.PipeWriter
	done  chan struct{} // closed when the work has ended

	// The results, valid after Close.
	err   error // of the source
	hash  hash.Hash
	size  int64
	whole bool
}

func newStream(ctx context.Context, l Layer) *stream {
	s := &stream{ctx: ctx, layer: l, hash: sha256.New(), done: make(chan struct{})}
	s.pr, s.pw = io.Pipe()
	return s
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	s.start.Do(func() { go s.work() })
	return s.pr.Read(b)
}

// Close stops the work and waits for its end, so that the source is free. It may be called more than once.
func (s *stream) Close() error {
	s.start.Do(func() { close(s.done) })
	s.pr.CloseWithError(errStopped)
	<-s.done
	return nil
}

var errStopped = errors.New("upload has stopped")

// descriptor is valid after Close; ok is false when not everything was read.
func (s *stream) descriptor() (d v1.Descriptor, ok bool) {
	return v1.Descriptor{MediaType: types.OCILayer, Size: s.size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(s.hash.Sum(nil))}}, s.whole
}

func (s *stream) work() {
	defer close(s.done)
	s.pw.CloseWithError(s.compress())
}

// compress ends with nil only when the whole layer has been taken by the reader.
func (s *stream) compress() error {
	src, err := s.layer.Open(s.ctx)
	if err != nil {
		s.err = err
		return err
	}
	defer src.Close()
	// Unbuffered, each small write of the compressor would be a turn of two goroutines.
	out := bufio.NewWriterSize(io.MultiWriter(s.pw, s.hash, (*counter)(&s.size)), bufSize)
	z, err := newGzip(out)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(onlyWriter{z}, &sourceReader{src, &s.err}, make([]byte, blockSize)); err != nil {
		// After an error Close would leave the compressor's goroutines behind; Reset ends them. They may be in the
		// middle of a write to the pipe.
		s.pw.CloseWithError(err)
		z.Reset(io.Discard)
		return err
	}
	if err := z.Close(); err != nil {
		z.Reset(io.Discard)
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.whole = true
	return nil
}

// newGzip compresses blocks of fixed size in parallel, so that the result does not depend on the number of cores.
func newGzip(w io.Writer) (*pgzip.Writer, error) {
	z, err := pgzip.NewWriterLevel(w, gzipLevel)
	if err != nil {
		return nil, err
	}
	if err := z.SetConcurrency(blockSize, min(runtime.GOMAXPROCS(0), maxBlocks)); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return z, nil
}

// Compress writes to w what Push sends of a layer that isn't compressed yet, and describes it. An error of the layer's own
// is a *SourceError.
func Compress(ctx context.Context, w io.Writer, l Layer) (v1.Descriptor, error) {
	s := newStream(ctx, l)
	_, err := io.CopyBuffer(onlyWriter{w}, onlyReader{s}, make([]byte, bufSize))
	s.Close()
	if s.err != nil {
		return v1.Descriptor{}, &SourceError{s.err}
	}
	d, _ := s.descriptor()
	return d, err
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// onlyWriter hides ReadFrom, and keeps CopyBuffer to its buffer.
type onlyWriter struct{ io.Writer }

type onlyReader struct{ io.Reader }

// sourceReader remembers an error of the source apart from those of the upload.
type sourceReader struct {
	r   io.Reader
	err *error
}

func (r *sourceReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		*r.err = err
	}
	return n, err
}
