// Package source opens what oci_image's source names, and tells by its content what it is.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"fediversity.eu/yuba/providers/oci/internal/archive"
	"fediversity.eu/yuba/providers/oci/internal/blob"
	"fediversity.eu/yuba/providers/oci/internal/bundle"
	"fediversity.eu/yuba/providers/oci/internal/docker"
	"fediversity.eu/yuba/providers/oci/internal/image"
	"fediversity.eu/yuba/providers/oci/internal/layout"
	"fediversity.eu/yuba/providers/oci/internal/nix"
	"fediversity.eu/yuba/providers/oci/internal/rootfs"
)

// The kinds of sources, as Parse knows them by their prefix.
const (
	Path   = ""        // a docker archive, an OCI archive or the directory of an OCI layout
	Rootfs = "rootfs:" // a root file system: a tar or a directory
	Nix    = "nix:"    // a derivation that makes any of these
	Stdin  = "stdin:"  // an archive on the standard input
	Bundle = "bundle:" // the image of a node in a bundle
)

// maxReads bounds how many sources are read to their end at once, before a push: each takes a core, and may take the
// memory of a decompressor.
const maxReads = 4

// Ref is a source taken apart.
type Ref struct {
	Kind string
	// Path is that of the file or directory, or of the derivation.
	Path string
	// Architecture is that of an image that yuba makes of a root file system; empty for the default.
	Architecture string
	// Output is the output of a derivation.
	Output string
	// Node is the name of an image in a bundle.
	Node string
}

// Parse takes a source apart:
//
//	PATH  rootfs:[ARCHITECTURE:]PATH  nix:[ARCHITECTURE:]DERIVATION[!OUTPUT]  stdin:  bundle:NODE:PATH
//
// A relative path that looks like one of the others is written with "./" before it.
func Parse(s string) (Ref, error) {
	for _, kind := range []string{Rootfs, Nix, Stdin, Bundle} {
		rest, ok := strings.CutPrefix(s, kind)
		if !ok {
			continue
		}
		r := Ref{Kind: kind, Path: rest}
		switch before, after, cut := strings.Cut(rest, ":"); {
		case kind == Stdin:
			if rest != "" {
				return Ref{}, fmt.Errorf("nothing may follow %q", kind)
			}
			return r, nil
		case kind == Bundle:
			r.Node, r.Path = before, after
			if !cut || before == "" {
				return Ref{}, errors.New("want bundle:NODE:PATH")
			}
		case cut && image.IsArchitecture(before):
			r.Architecture, r.Path = before, after
		}
		if r.Path == "" {
			return Ref{}, fmt.Errorf("a path must follow %q", kind)
		}
		if kind == Nix {
			var err error
			r.Path, r.Output, err = nix.Parse(r.Path)
			return r, err
		}
		return r, nil
	}
	if s == "" {
		return Ref{}, errors.New("must be the path of a docker archive, an OCI archive or an OCI layout")
	}
	return Ref{Path: s}, nil
}

// Place is how to name a source to a user, as far as it has a name.
func Place(source string) string {
	r, err := Parse(source)
	if err != nil {
		return source
	}
	switch r.Kind {
	case Stdin:
		return "the standard input"
	case Bundle:
		return r.Path + ", image " + r.Node
	}
	return r.Path
}

// Store opens sources, and remembers what it found where another look would cost: a run looks several times (plan, the
// plan again that precedes an apply, push). What is remembered is only where things are and what digest they have; a
// layer is still verified when it's read. It's safe for concurrent use.
type Store struct {
	nix   *nix.Store
	stdin *spool
	slots chan struct{} // for what is decompressed or read to its end

	mu      sync.Mutex
	indexes map[string]found[archive.Index]
	rootfs  map[string]found[measured]
	outputs map[string]string // of derivations
	bundles map[string]*opening
}

// found is what was found in a file at some time.
type found[T any] struct {
	info  os.FileInfo // of a file
	print string      // of a directory
	what  T
}

type measured struct {
	diffID string
	size   int64
}

// NewStore returns a Store. Stdin may be nil.
func NewStore(stdin io.Reader, n *nix.Store) *Store {
	return &Store{nix: n, stdin: &spool{from: stdin}, slots: make(chan struct{}, maxReads), indexes: map[string]found[archive.Index]{}, rootfs: map[string]found[measured]{},
		outputs: map[string]string{}, bundles: map[string]*opening{}}
}

// Close gives back what the store holds.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.stdin.close()
	for name, o := range s.bundles {
		if o.bundle != nil {
			err = errors.Join(err, o.bundle.Close())
		}
		delete(s.bundles, name)
	}
	return err
}

// Check looks at a source without keeping it. Without deep it does only what takes no time worth mentioning: nothing is
// built, decompressed or read to its end. say is told what takes long.
func (s *Store) Check(ctx context.Context, source string, deep bool, say func(string)) error {
	if !deep {
		r, err := Parse(source)
		if err != nil {
			return err
		}
		if cheap, err := s.glance(ctx, r); !cheap || err != nil {
			return err
		}
	}
	img, err := s.Open(ctx, source, say)
	if err != nil {
		return err
	}
	return img.Close()
}

// glance looks at what takes no time, and tells whether opening the source takes none either.
func (s *Store) glance(ctx context.Context, r Ref) (cheap bool, err error) {
	switch r.Kind {
	case Bundle:
		return true, nil // it was verified before
	case Nix, Stdin:
		return false, nil
	}
	info, err := stat(r.Path)
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		return r.Kind == Path, nil
	}
	f, compressed, err := open(r.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if r.Kind == Path && !compressed {
		return true, nil
	}
	return false, archive.Begins(ctx, f)
}

// Open opens the image of a source. Errors say what is wrong, but leave it to the caller to name the source.
// say is told what takes long, and "" when that is done.
func (s *Store) Open(ctx context.Context, source string, say func(string)) (*image.Image, error) {
	r, err := Parse(source)
	if err != nil {
		return nil, err
	}
	switch r.Kind {
	case Rootfs:
		return s.openRootfs(ctx, rootfs.Dir{Path: r.Path}, r.Architecture)
	case Nix:
		return s.openOutput(ctx, r, say)
	case Stdin:
		a, err := s.stdin.open(ctx)
		if err != nil {
			return nil, err
		}
		return inArchive(a)
	case Bundle:
		b, err := s.OpenBundle(ctx, r.Path)
		if err != nil {
			return nil, err
		}
		return b.Image(r.Node)
	}
	info, err := stat(r.Path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return inDir(r.Path)
	}
	return s.openArchive(ctx, r.Path)
}

// openArchive opens a docker archive or an OCI archive.
func (s *Store) openArchive(ctx context.Context, name string) (*image.Image, error) {
	a, err := s.archive(ctx, name)
	if err != nil {
		return nil, err
	}
	return inArchive(a)
}

// archive is the archive in a file. Its index is found again only where that would cost a decompression.
func (s *Store) archive(ctx context.Context, name string) (*archive.Archive, error) {
	f, _, err := open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, blob.Cause(err)
	}
	s.mu.Lock()
	known, ok := s.indexes[name]
	s.mu.Unlock()
	if ok && same(known.info, info) {
		return known.what.With(f), nil
	}
	var a *archive.Archive
	err = s.alone(ctx, func() error {
		a, err = archive.New(ctx, f)
		return err
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	if a.Compressed {
		s.mu.Lock()
		s.indexes[name] = found[archive.Index]{info: info, what: a.Index}
		s.mu.Unlock()
	}
	return a, nil
}

// alone waits until few others read something to its end.
func (s *Store) alone(ctx context.Context, work func() error) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return work()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// inArchive finds the image in an archive, which it closes with the image, or at once when there is none.
func inArchive(a *archive.Archive) (*image.Image, error) {
	var img *image.Image
	var err error
	switch {
	case a.Has(docker.Manifest): // also in the archives of docker since version 25, which are OCI archives, too
		img, err = docker.Open(a)
	case a.Has(layout.Marker):
		img, err = layout.Open(a)
	default:
		err = errNoImage
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	img.Closer = a
	return img, nil
}

var errNoImage = errors.New("is not a docker archive and not an OCI archive: it has no manifest.json and no oci-layout " +
	"(the tar of a root file system is another kind of source)")

// inDir finds the image in an OCI layout.
func inDir(name string) (*image.Image, error) {
	d, err := layout.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if !d.Has(layout.Marker) {
		d.Close()
		return nil, errors.New("is a directory, but not an OCI layout: it has no oci-layout (a root file system is another kind of source)")
	}
	img, err := layout.Open(d)
	if err != nil {
		d.Close()
		return nil, err
	}
	img.Closer = d
	return img, nil
}

// openRootfs makes an image of a root file system.
func (s *Store) openRootfs(ctx context.Context, dir rootfs.Dir, architecture string) (*image.Image, error) {
	info, err := stat(dir.Path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return s.openRootDir(ctx, dir, architecture)
	}
	f, _, err := open(dir.Path)
	if err != nil {
		return nil, err
	}
	img, err := s.rootTar(ctx, dir.Path, f, architecture)
	if err != nil {
		f.Close()
		return nil, err
	}
	img.Closer = f
	return img, nil
}

func (s *Store) rootTar(ctx context.Context, name string, f *os.File, architecture string) (*image.Image, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, blob.Cause(err)
	}
	s.mu.Lock()
	known, ok := s.rootfs[name]
	s.mu.Unlock()
	if !ok || !same(known.info, info) {
		var diffID string
		err := s.alone(ctx, func() (err error) {
			diffID, err = rootfs.Tar(ctx, io.NewSectionReader(f, 0, info.Size()))
			return err
		})
		if err != nil {
			return nil, err
		}
		known = found[measured]{info: info, what: measured{diffID, info.Size()}}
		s.mu.Lock()
		s.rootfs[name] = known
		s.mu.Unlock()
	}
	m := known.what
	return &image.Image{Config: rootfs.Config(m.diffID, architecture), Layers: []image.Layer{{DiffID: m.diffID, Size: m.size,
		Open: func(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
			content := io.NopCloser(blob.Context(ctx, io.NewSectionReader(f, 0, m.size)))
			return blob.Stored{Content: content, Size: m.size, Read: read, Mismatch: blob.ErrChanged}.Tar(m.diffID)
		}}}}, nil
}

func (s *Store) openRootDir(ctx context.Context, dir rootfs.Dir, architecture string) (*image.Image, error) {
	print, err := dir.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	known, ok := s.rootfs[dir.Path]
	s.mu.Unlock()
	if !ok || known.print != print {
		known = found[measured]{print: print}
		err := s.alone(ctx, func() (err error) {
			known.what.diffID, known.what.size, err = dir.Measure(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.rootfs[dir.Path] = known
		s.mu.Unlock()
	}
	m := known.what
	return &image.Image{Config: rootfs.Config(m.diffID, architecture), Layers: []image.Layer{{DiffID: m.diffID, Size: m.size,
		Open: func(ctx context.Context, read func(int64)) (io.ReadCloser, error) {
			return blob.Stored{Content: write(ctx, dir), Size: m.size, Read: read, Mismatch: blob.ErrChanged}.Whole(m.diffID), nil
		}}}}, nil
}

// openOutput opens what a derivation makes, whatever that is.
func (s *Store) openOutput(ctx context.Context, r Ref, say func(string)) (*image.Image, error) {
	key := r.Path + "!" + r.Output
	s.mu.Lock()
	out := s.outputs[key]
	s.mu.Unlock()
	if out == "" {
		var err error
		if out, err = s.nix.Realise(ctx, r.Path, r.Output, say); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.outputs[key] = out
		s.mu.Unlock()
	}
	img, err := s.openAny(ctx, out, r.Architecture)
	if err != nil {
		return nil, fmt.Errorf("%s, which Nix made of it, %w", out, err)
	}
	return img, nil
}

func (s *Store) openAny(ctx context.Context, name, architecture string) (*image.Image, error) {
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if _, err := os.Lstat(name + "/" + layout.Marker); err == nil {
			return inDir(name)
		}
		return s.openRootDir(ctx, rootfs.Dir{Path: name, Unlinked: true}, architecture)
	}
	img, noArchive := s.openArchive(ctx, name)
	if noArchive == nil || errors.Is(noArchive, errScript) || ctx.Err() != nil {
		return img, noArchive
	}
	img, noRootfs := s.openRootfs(ctx, rootfs.Dir{Path: name}, architecture)
	if noRootfs != nil {
		return nil, fmt.Errorf("can't be used: as the archive of an image it %w; as the tar of a root file system it %w", noArchive, noRootfs)
	}
	return img, nil
}

// opening is a bundle that is being verified, or was.
type opening struct {
	once   sync.Once
	bundle *bundle.Bundle
	err    error
}

// OpenBundle verifies the bundle in a file, whole, the first time that it's asked for. The bundle is closed by Close.
func (s *Store) OpenBundle(ctx context.Context, name string) (*bundle.Bundle, error) {
	s.mu.Lock()
	o := s.bundles[name]
	if o == nil {
		o = new(opening)
		s.bundles[name] = o
	}
	s.mu.Unlock()
	o.once.Do(func() { o.bundle, o.err = bundle.Open(ctx, name) })
	return o.bundle, o.err
}

func stat(name string) (os.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, blob.Cause(err)
	}
	return info, nil
}

var errScript = errors.New("is a script, such as streamLayeredImage makes, and yuba runs none: pipe what it prints into yuba, " +
	`with "image": {"stream": "-"} in the group file`)

// open opens a regular file that isn't empty, and tells whether it's compressed.
func open(name string) (f *os.File, compressed bool, err error) {
	if f, _, err = blob.OpenFile(name); err != nil {
		return nil, false, err
	}
	var magic [blob.SniffLen]byte
	n, err := f.ReadAt(magic[:], 0)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		err = errors.New("is empty")
	case bytes.HasPrefix(magic[:], []byte("#!")):
		err = errScript
	case err != nil && !errors.Is(err, io.EOF):
		err = blob.Cause(err)
	default:
		return f, blob.Sniff(magic[:n]) != blob.Plain, nil
	}
	f.Close()
	return nil, false, err
}

// write is the tar of a directory while it's made.
func write(ctx context.Context, dir rootfs.Dir) io.ReadCloser {
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pw.CloseWithError(dir.Write(ctx, pw))
	}()
	return &writing{pr, done}
}

type writing struct {
	*io.PipeReader
	done chan struct{}
}

// Close waits for the end of the work.
func (w *writing) Close() error {
	err := w.PipeReader.Close()
	<-w.done
	return err
}
