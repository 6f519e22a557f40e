// Package archive reads the files in a tar that holds an image: a docker archive or an OCI archive, compressed as a
// whole or not. It never unpacks anything to a disk, and takes nothing in it on trust.
package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/image"
)

const (
	// maxEntries is far above what an archive of one image needs (`docker save` has 4 entries per layer).
	maxEntries = 10_000
	// maxKeptBytes bounds the small files of a compressed archive that are held until the manifest says which of them
	// matter: there is no seeking back to them.
	maxKeptBytes = 16 << 20
	// blockBytes is what tar rounds everything up to; a block of zeros ends an archive.
	blockBytes = 512
)

// File is an open file, or bytes in a fuzz test.
type File interface {
	io.ReadSeeker
	io.ReaderAt
	io.Closer
}

// Archive is an open archive. The caller closes it. It's an image.Files for one goroutine at a time.
type Archive struct {
	Index
	file   File
	cursor *cursor // of a compressed archive
}

// Index is what is where in an archive. It doesn't change, and can be used with another handle of the same file.
type Index struct {
	// Compressed tells whether the archive is compressed as a whole, so that a new Index costs a decompression.
	Compressed bool
	entries    map[string]entry
}

type entry struct {
	number  int   // in the archive, from 0
	offset  int64 // of the content in a plain archive
	size    int64
	content []byte // of small files in compressed archives
	link    string // cleaned target of a symlink
	dir     bool
}

// New walks the whole archive. f belongs to the Archive that it returns. Errors say what is wrong with the file, but
// leave it to the caller to name it.
func New(ctx context.Context, f File) (*Archive, error) {
	r, kind, err := start(f, &reader{ctx, f})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	entries, err := walk(ctx, f, r, kind != blob.Plain)
	if err != nil {
		return nil, err
	}
	return &Archive{Index: Index{kind != blob.Plain, entries}, file: f}, nil
}

// With is an Archive of a file that has this index. f belongs to the Archive.
func (i Index) With(f File) *Archive { return &Archive{Index: i, file: f} }

// Begins looks at the first entry only, and so tells a tar from something else at no cost.
func Begins(ctx context.Context, f File) error {
	r, _, err := start(f, &reader{ctx, f})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = tar.NewReader(r).Next()
	return notTar(err)
}

// Close closes the file.
func (a *Archive) Close() error {
	if a.cursor != nil {
		a.cursor.close()
	}
	return a.file.Close()
}

// reader ends a long decompression when a run is cancelled, which is not the same run for each file of an archive.
type reader struct {
	ctx context.Context
	f   File
}

func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.f.Read(b)
}

// start reads the file from its beginning, by way of r when it is compressed. Of a plain file it returns the file
// itself, so that the tar reader can seek.
func start(f File, r *reader) (io.ReadCloser, blob.Kind, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, blob.Plain, blob.Cause(err)
	}
	var magic [blob.SniffLen]byte
	n, err := f.ReadAt(magic[:], 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, blob.Plain, blob.Cause(err)
	case n == 0:
		return nil, blob.Plain, errors.New("is empty")
	}
	if blob.Sniff(magic[:n]) == blob.Plain {
		return plain{f}, blob.Plain, nil
	}
	z, kind, err := blob.Decompress(r)
	if err != nil {
		return nil, kind, notTar(err)
	}
	return z, kind, nil
}

// plain is a file that is not to be closed.
type plain struct{ io.ReadSeeker }

func (plain) Close() error { return nil }

// notTar says what an error of the tar reader, or of the decompressor below it, means.
func notTar(err error) error {
	switch damage := blob.Damage(err); {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case damage != nil:
		return damage
	case errors.Is(err, tar.ErrHeader):
		return errNoTar
	case errors.Is(err, io.EOF):
		return errors.New("is an archive of nothing")
	}
	return blob.Cause(err)
}

var errNoTar = errors.New("is not an archive, or is damaged: want a tar, as it is or compressed with gzip or zstd")

// walk reads all headers, and skips the contents by seeking where it can. r is f itself for a plain archive.
func walk(ctx context.Context, f File, r io.Reader, compressed bool) (map[string]entry, error) {
	entries, kept, end := map[string]entry{}, int64(0), int64(0)
	t := tar.NewReader(r)
	for number := 0; ; number++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, notTar(err)
		}
		if number == maxEntries {
			return nil, fmt.Errorf("is not the archive of an image: it has more than %d entries (a root file system is another kind of source)", maxEntries)
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return nil, err
		}
		e := entry{number: number, size: h.Size}
		if !compressed {
			if e.offset, err = f.Seek(0, io.SeekCurrent); err != nil {
				return nil, blob.Cause(err)
			}
			end = e.offset
			if h.Typeflag == tar.TypeReg {
				end += (h.Size + blockBytes - 1) / blockBytes * blockBytes
			}
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir:
			if old, ok := entries[name]; ok && !old.dir {
				return nil, fmt.Errorf("has two entries %q", name)
			}
			entries[name] = entry{dir: true}
			continue
		case tar.TypeSymlink:
			if e.link, err = cleanLink(name, h.Linkname); err != nil {
				return nil, err
			}
		case tar.TypeReg:
			for key := range h.PAXRecords {
				if strings.HasPrefix(key, "GNU.sparse.") {
					return nil, fmt.Errorf("entry %q is a sparse file, which no maker of image archives writes", name)
				}
			}
		default:
			return nil, fmt.Errorf("entry %q is neither a file, a directory nor a symlink (tar type %q)", name, h.Typeflag)
		}
		if _, ok := entries[name]; ok {
			return nil, fmt.Errorf("has two entries %q", name)
		}
		if compressed && h.Typeflag == tar.TypeReg && h.Size <= image.MaxMetadata && kept+h.Size <= maxKeptBytes {
			// What matters is JSON. Small layers are not.
			content := bufio.NewReaderSize(t, 512)
			if head, err := content.Peek(1); err == nil && strings.IndexByte("{[ \t\r\n", head[0]) >= 0 {
				if e.content, err = io.ReadAll(content); err != nil {
					return nil, notTar(err)
				}
				kept += h.Size
			}
		}
		entries[name] = e
	}
	if compressed {
		// The checksum is behind the end of the tar.
		if _, err := io.Copy(io.Discard, r); err != nil {
			return nil, notTar(err)
		}
		return entries, nil
	}
	// The tar reader takes the end of the file for the end of the archive; a compressed stream has its own end.
	if size, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, blob.Cause(err)
	} else if size < end+blockBytes {
		return nil, blob.ErrTruncated
	}
	return entries, nil
}

// cleanName gives the entry's path inside the archive. "./x" and "x" are the same, as tar makes them.
func cleanName(name string) (string, error) {
	if len(name) > 4096 || strings.ContainsAny(name, "\x00\\") || strings.HasPrefix(name, "/") || !within(path.Clean(name)) {
		return "", fmt.Errorf("entry %.100q has an unsafe name", name)
	}
	return path.Clean(name), nil
}

func cleanLink(name, target string) (string, error) {
	to := path.Join(path.Dir(name), target)
	if target == "" || strings.HasPrefix(target, "/") || strings.ContainsAny(target, "\x00\\") || !within(to) || to == name {
		return "", fmt.Errorf("entry %.100q is a symlink that leads out of the archive", name)
	}
	return to, nil
}

func within(clean string) bool { return clean != ".." && !strings.HasPrefix(clean, "../") }

// resolve finds a file, through at most one symlink (skopeo writes such).
func (i Index) resolve(name string) (file string, e entry, err error) {
	e, ok := i.entries[name]
	if !ok {
		return "", entry{}, fmt.Errorf("%q is named but not in the archive", name)
	}
	if e.link != "" {
		link := e.link
		if e, ok = i.entries[link]; !ok {
			return "", entry{}, fmt.Errorf("%q is a symlink to %q, which is not in the archive", name, link)
		}
		if e.link != "" {
			return "", entry{}, fmt.Errorf("%q is a symlink to a symlink", name)
		}
		name = link
	}
	if e.dir {
		return "", entry{}, fmt.Errorf("%q is a directory", name)
	}
	return name, e, nil
}

// Has implements image.Files.
func (i Index) Has(name string) bool {
	_, _, err := i.resolve(name)
	return err == nil
}

// Size implements image.Files.
func (i Index) Size(name string) (int64, error) {
	_, e, err := i.resolve(name)
	return e.size, err
}

// Metadata implements image.Files.
func (a *Archive) Metadata(name string) ([]byte, error) {
	_, e, err := a.resolve(name)
	switch {
	case err != nil:
		return nil, err
	case e.size > image.MaxMetadata:
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that yuba reads", name, e.size, image.MaxMetadata)
	case !a.Compressed:
		b := make([]byte, e.size)
		if _, err := a.file.ReadAt(b, e.offset); err != nil {
			return nil, fmt.Errorf("%s: %w", name, blob.Cause(err))
		}
		return b, nil
	case e.content == nil:
		return nil, fmt.Errorf("%s is not JSON, or comes after too many other small files", name)
	}
	return e.content, nil
}

// Open implements image.Files. Files that are opened in the order of a compressed archive cost one decompression.
func (a *Archive) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	name, e, err := a.resolve(name)
	if err != nil {
		return nil, err
	}
	if !a.Compressed {
		return io.NopCloser(blob.Context(ctx, io.NewSectionReader(a.file, e.offset, e.size))), nil
	}
	if a.cursor != nil && a.cursor.next > e.number {
		a.cursor.close()
		a.cursor = nil
	}
	if a.cursor == nil {
		r := &reader{ctx, a.file}
		z, _, err := start(a.file, r)
		if err != nil {
			return nil, err
		}
		a.cursor = &cursor{reader: r, file: z, tar: tar.NewReader(z)}
	}
	if err := a.cursor.seek(ctx, name, e); err != nil {
		a.cursor.close()
		a.cursor = nil
		return nil, err
	}
	return io.NopCloser(blob.Context(ctx, a.cursor.tar)), nil
}

// cursor is a decompression that has come to some entry.
type cursor struct {
	reader *reader
	file   io.ReadCloser
	tar    *tar.Reader
	next   int // number of the entry that Next gives
}

func (c *cursor) close() { c.file.Close() }

// seek goes on to the entry e.
func (c *cursor) seek(ctx context.Context, name string, e entry) error {
	c.reader.ctx = ctx
	for {
		h, err := c.tar.Next()
		if err == io.EOF {
			return blob.ErrChanged
		}
		if err != nil {
			return notTar(err)
		}
		c.next++
		if c.next <= e.number {
			continue
		}
		if got, err := cleanName(h.Name); err != nil || got != name || h.Typeflag != tar.TypeReg || h.Size != e.size {
			return blob.ErrChanged
		}
		return nil
	}
}
