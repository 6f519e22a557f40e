package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"fediversity.eu/yuba/providers/oci/internal/archive"
	"fediversity.eu/yuba/providers/oci/internal/blob"
)

// spool is an archive that comes by a pipe. It goes into a file without a name, because its manifest may be at its end,
// because the registry may hold some of its layers, and because an upload that is cut has to begin again.
type spool struct {
	from io.Reader

	mu    sync.Mutex
	file  *os.File
	size  int64
	index *archive.Index // once it's known: a compressed archive is decompressed for it
	err   error
}

var errNoStdin = errors.New("there is no standard input to read an image from")

// open opens the archive, which the first caller reads to its end. The file stays open.
func (s *spool) open(ctx context.Context) (*archive.Archive, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil && s.err == nil {
		s.err = s.read(ctx)
	}
	if s.err != nil {
		return nil, s.err
	}
	f := section{io.NewSectionReader(s.file, 0, s.size)}
	if s.index != nil {
		return s.index.With(f), nil
	}
	a, err := archive.New(ctx, f)
	if err != nil {
		return nil, err
	}
	s.index = &a.Index
	return a, nil
}

type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

func (s *spool) read(ctx context.Context) error {
	if s.from == nil {
		return errNoStdin
	}
	f, err := os.CreateTemp("", "yuba-image-*")
	if err != nil {
		return fmt.Errorf("no file to keep the image in while it is pushed: %w (TMPDIR says where it goes)", err)
	}
	// A read of a pipe can't be cancelled: it is left to itself.
	done := make(chan error, 1)
	go func() {
		n, err := io.Copy(f, blob.Context(ctx, s.from))
		s.size = n
		done <- err
	}()
	err = os.Remove(f.Name())
	select {
	case copied := <-done:
		err = errors.Join(err, copied)
	case <-ctx.Done():
		return ctx.Err()
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("keeping the image in a file of %s while it is pushed (TMPDIR says where): %w", os.TempDir(), blob.Cause(err))
	}
	s.file = f
	return nil
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.err = nil, errNoStdin
	return err
}
