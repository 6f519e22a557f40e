package push

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"runtime"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"fediversity.eu/yuba/providers/oci/internal/deflate"
)

// maxParallel bounds the blocks of one push on machines of many cores, and so its memory.
const maxParallel = 16

func parallel() int { return min(runtime.GOMAXPROCS(0), maxParallel) }

// block is a piece of the layer on its way through the compressor.
type block struct {
	raw     []byte
	out     []byte
	encoder deflate.Encoder
	ready   chan struct{} // has one value when out is complete
}

// blocks are blocks that no stream uses at the moment. A block has about a MiB, and each layer would leave a few behind.
type blocks struct{ pool sync.Pool }

func (bs *blocks) get(size int) *block {
	b, _ := bs.pool.Get().(*block)
	if b == nil {
		b = &block{ready: make(chan struct{}, 1)}
	}
	if len(b.raw) != size {
		b.raw = make([]byte, size)
	}
	return b
}

// stream is a layer as it is sent, from a given byte on. It begins to work with the first Read or WriteTo; one goroutine at
// a time may call these.
type stream struct {
	layer  Layer
	format format
	blocks *blocks
	skip   int64 // what the registry has already; it's made all the same, for the digest

	ctx    context.Context
	cancel context.CancelCauseFunc
	start  sync.Once
	order  chan *block   // in the order of the layer
	free   chan *block   // at most so many are under way
	done   chan struct{} // closed when nobody uses the source any more

	// Of the consumer. mu is for those who look on while it may still run.
	pending []byte
	held    *block // whose out is in pending
	mu      sync.Mutex
	hash    hash.Hash
	size    int64
	whole   bool

	// Valid when order or done is closed.
	err      error // of the source
	complete bool  // all of the source was read
}

func newStream(ctx context.Context, l Layer, c Compression, bs *blocks, skip int64) *stream {
	s := &stream{layer: l, format: newFormat(l, c), blocks: bs, skip: skip, hash: sha256.New(), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	// One is read, one is sent, and the others are compressed.
	n := parallel() + 2
	s.order, s.free = make(chan *block, n), make(chan *block, n)
	for range n {
		s.free <- nil // made when it's needed
	}
	return s
}

var errStopped = errors.New("upload has stopped")

// Close stops the work and waits for its end, so that the source is free. It may be called more than once, and while
// another goroutine reads.
func (s *stream) Close() error {
	s.start.Do(func() { close(s.done) })
	s.cancel(errStopped)
	<-s.done
	return nil
}

// descriptor is for after Close; ok is false when not everything was read.
func (s *stream) descriptor() (d v1.Descriptor, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return v1.Descriptor{MediaType: s.format.mediaType(), Size: s.size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(s.hash.Sum(nil))}}, s.whole
}

// work reads the layer and has its blocks compressed.
func (s *stream) work() {
	var compressing sync.WaitGroup
	defer close(s.done)
	defer close(s.order)
	defer compressing.Wait()
	src, err := s.layer.Open(s.ctx)
	if err != nil {
		s.fail(err)
		return
	}
	defer src.Close()
	for head, last := s.format.begin(), false; !last; head = nil {
		b := s.take()
		if b == nil {
			return
		}
		n, err := fill(src, b.raw)
		if err != nil && err != io.EOF {
			s.fail(err)
			return
		}
		last = err == io.EOF
		raw := b.raw[:n]
		s.format.count(raw)
		b.out = append(b.out, head...)
		s.order <- b // never full
		work := func() {
			if len(raw) > 0 {
				s.format.block(b, raw)
			}
			if last {
				b.out = append(b.out, s.format.end()...)
			}
			b.ready <- struct{}{}
		}
		if last {
			work()
		} else {
			compressing.Go(work)
		}
	}
	s.complete = true
}

// fail notes an error of the source, unless it comes from the end of the stream.
func (s *stream) fail(err error) {
	if s.ctx.Err() == nil {
		s.err = err
	}
}

// take waits for a block that nobody uses. It returns nil when the stream was closed.
func (s *stream) take() *block {
	select {
	case b := <-s.free:
		if b == nil {
			b = s.blocks.get(s.format.blockSize())
		}
		b.out = b.out[:0]
		return b
	case <-s.ctx.Done():
		return nil
	}
}

// fill is io.ReadFull that leaves the reader's error as it is.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// next makes pending hold some bytes to send. At the end of the layer it returns io.EOF.
func (s *stream) next() error {
	s.start.Do(func() { go s.work() })
	for len(s.pending) == 0 {
		if s.held != nil {
			s.free <- s.held // never full
			s.held = nil
		}
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		var b *block
		select {
		case b = <-s.order:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
		if b == nil { // the channel is closed
			if !s.complete {
				return cmp.Or(s.err, errStopped)
			}
			s.recycle()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.whole = true
			return io.EOF
		}
		<-b.ready
		s.held, s.pending = b, b.out
		s.mu.Lock()
		s.hash.Write(s.pending)
		s.size += int64(len(s.pending))
		s.mu.Unlock()
		n := min(s.skip, int64(len(s.pending)))
		s.pending, s.skip = s.pending[n:], s.skip-n
	}
	return nil
}

// recycle gives back the blocks of a stream that has come to its end. Those of one that has not may be in use.
func (s *stream) recycle() {
	for {
		select {
		case b := <-s.free:
			if b != nil {
				s.blocks.pool.Put(b)
			}
		default:
			return
		}
	}
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	if err := s.next(); err != nil {
		return 0, err
	}
	n := copy(b, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// WriteTo implements io.WriterTo, by which net/http sends a block in one piece and without a copy.
func (s *stream) WriteTo(w io.Writer) (sent int64, err error) {
	for {
		if err := s.next(); err == io.EOF {
			return sent, nil
		} else if err != nil {
			return sent, err
		}
		n, err := w.Write(s.pending)
		sent += int64(n)
		if err != nil {
			return sent, err
		}
		s.pending = nil
	}
}

// Compress writes to w what Push sends of a layer, and describes it. An error of the layer's own is a *SourceError.
func Compress(ctx context.Context, w io.Writer, l Layer, c Compression) (v1.Descriptor, error) {
	s := newStream(ctx, l, c, new(blocks), 0)
	_, err := s.WriteTo(w)
	s.Close()
	if s.err != nil {
		return v1.Descriptor{}, &SourceError{s.err}
	}
	d, _ := s.descriptor()
	return d, err
}
