package layout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
)

// Dir is a layout in a directory. No name leads out of it, also not through a symlink. The caller closes it.
type Dir struct{ root *os.Root }

// OpenDir opens the directory.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, blob.Cause(err)
	}
	return &Dir{root}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// file opens a regular file. Stat comes first: opening a FIFO would block.
func (d *Dir) file(name string) (*os.File, error) {
	info, err := d.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%q is named but not in the layout", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, blob.Cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, blob.Cause(err))
	}
	return f, nil
}

// Has implements image.Files.
func (d *Dir) Has(name string) bool {
	info, err := d.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// Size implements image.Files.
func (d *Dir) Size(name string) (int64, error) {
	f, err := d.file(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, blob.Cause(err))
	}
	return info.Size(), nil
}

// Metadata implements image.Files.
func (d *Dir) Metadata(name string) ([]byte, error) {
	f, err := d.file(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, image.MaxMetadata+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, blob.Cause(err))
	}
	if len(b) > image.MaxMetadata {
		return nil, fmt.Errorf("%s has more than the %d bytes that yuba reads", name, image.MaxMetadata)
	}
	return b, nil
}

// Open implements image.Files.
func (d *Dir) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := d.file(name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{blob.Context(ctx, f), f}, nil
}
