// Package archive reads a docker archive that holds one image of one layer: what dockerTools, `docker save` and
// skopeo write, gzipped as a whole or not. It never unpacks anything to a disk, and takes nothing in it on trust.
package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxEntries is far above what an archive of one layer needs (`docker save` has 4 entries per layer).
	maxEntries = 10_000
	// maxMetadataBytes bounds manifest.json and the image config, which are held in memory.
	maxMetadataBytes = 4 << 20
	// maxKeptBytes bounds the small files of a gzipped archive that are held until manifest.json says which one is
	// the config: there is no seeking back to it.
	maxKeptBytes = 16 << 20
	// blockBytes is what tar rounds everything up to; a block of zeros ends an archive.
	blockBytes = 512
)

// Archive is an open docker archive of one image. The caller closes it. Its methods may be used by one goroutine
// at a time; a stream of OpenLayer counts as such use until it is closed.
type Archive struct {
	// Config is the image config, byte for byte.
	Config []byte
	// DiffID is the digest of the layer's tar, as the config says ("sha256:..."). OpenLayer verifies it.
	DiffID string
	// LayerSize is the size in bytes of the layer as it lies in the archive.
	LayerSize int64

	file   source
	gzip   bool
	layer  string // name of the entry
	offset int64  // of the layer's first byte in a plain archive
}

// Cache opens archives, and remembers what it found in gzipped ones: there, each look costs a decompression, and a run
// looks several times (plan, the plan again that precedes an apply, push). What is remembered is only where things are;
// a layer is still verified when it's read. The zero Cache is ready to use; it's safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	known map[string]known
}

type known struct {
	info    os.FileInfo
	archive Archive // without a file
}

// Check looks at the archive without keeping it. A plain archive is checked whole except for the bytes of the
// layer; a gzipped one only at its beginning, unless deep is set: then it's decompressed once.
func (c *Cache) Check(ctx context.Context, name string, deep bool) error {
	f, zipped, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if !zipped || deep {
		_, err := c.index(ctx, name, f, zipped)
		return err
	}
	r, err := reader(ctx, f, zipped)
	if err != nil {
		return err
	}
	if _, err := tar.NewReader(r).Next(); err != nil {
		return notArchive(err)
	}
	return nil
}

// Open opens and checks the archive, as Check with deep set. Errors say what is wrong with the file, but
// leave it to the caller to name it.
func (c *Cache) Open(ctx context.Context, name string) (*Archive, error) {
	f, zipped, err := open(name)
	if err != nil {
		return nil, err
	}
	a, err := c.index(ctx, name, f, zipped)
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// index is the function of this name, but for a gzipped file that has not changed since.
func (c *Cache) index(ctx context.Context, name string, f *os.File, zipped bool) (*Archive, error) {
	if !zipped {
		return index(ctx, f, zipped)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, cause(err)
	}
	c.mu.Lock()
	k, ok := c.known[name]
	c.mu.Unlock()
	if ok && os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) {
		a := k.archive
		a.file = f
		return &a, nil
	}
	a, err := index(ctx, f, zipped)
	if err != nil {
		return nil, err
	}
	k = known{info, *a}
	k.archive.file = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]known{}
	}
	c.known[name] = k
	return a, nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }

// source is the file, or bytes in a fuzz test.
type source interface {
	io.ReadSeeker
	io.ReaderAt
	io.Closer
}

func open(name string) (f *os.File, zipped bool, err error) {
	// Stat first: opening a FIFO would block.
	info, err := os.Stat(name)
	if err != nil {
		return nil, false, cause(err)
	}
	if info.IsDir() {
		return nil, false, errors.New("is a directory, not a docker archive")
	}
	if !info.Mode().IsRegular() {
		return nil, false, errors.New("is not a regular file")
	}
	f, err = os.Open(name)
	if err != nil {
		return nil, false, cause(err)
	}
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil {
		f.Close()
		if errors.Is(err, io.EOF) {
			return nil, false, errors.New("is empty, not a docker archive")
		}
		return nil, false, cause(err)
	}
	return f, magic == [2]byte{0x1f, 0x8b}, nil
}

// cause drops operation and path: the path is a per-run value, and the caller decides whether to name it.
func cause(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// reader starts at the beginning of the file. A plain file is returned as it is, so that the tar reader can seek.
func reader(ctx context.Context, f source, zipped bool) (io.Reader, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, cause(err)
	}
	if !zipped {
		return f, nil
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return nil, notArchive(err)
	}
	return &ctxReader{ctx, z}, nil
}

// ctxReader ends a long decompression when the run is cancelled.
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

func notArchive(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is truncated: it ends in the middle of an entry; build or copy it again")
	case errors.Is(err, gzip.ErrChecksum):
		return errors.New("is damaged: the gzip checksum does not match; build or copy it again")
	}
	return fmt.Errorf("is not a docker archive: %w", cause(err))
}

type entry struct {
	offset  int64
	size    int64
	content []byte // of small files in gzipped archives
	link    string // cleaned target of a symlink
	dir     bool
}

// index walks the whole archive and picks out the one image. f belongs to the Archive that it returns.
func index(ctx context.Context, f source, zipped bool) (*Archive, error) {
	r, err := reader(ctx, f, zipped)
	if err != nil {
		return nil, err
	}
	entries, err := walk(ctx, f, r, zipped)
	if err != nil {
		return nil, err
	}
	if zipped {
		// The checksum is behind the end of the tar.
		if _, err := io.Copy(io.Discard, r); err != nil {
			return nil, notArchive(err)
		}
	}
	get := func(name string) ([]byte, error) {
		e, err := resolve(entries, name)
		if err != nil {
			return nil, err
		}
		if e.size > maxMetadataBytes {
			return nil, fmt.Errorf("%s has %d bytes, more than the %d that yuba reads", name, e.size, maxMetadataBytes)
		}
		if zipped {
			if e.content == nil && e.size > 0 {
				return nil, fmt.Errorf("%s comes after too many other small files", name)
			}
			return e.content, nil
		}
		b := make([]byte, e.size)
		if _, err := f.ReadAt(b, e.offset); err != nil {
			return nil, fmt.Errorf("%s: %w", name, cause(err))
		}
		return b, nil
	}

	if _, ok := entries["manifest.json"]; !ok {
		return nil, errors.New("is not a docker archive: it has no manifest.json")
	}
	raw, err := get("manifest.json")
	if err != nil {
		return nil, err
	}
	configName, layerName, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	config, err := get(configName)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	if want := digestInName(configName); want != "" {
		if sum := sha256.Sum256(config); hex.EncodeToString(sum[:]) != want {
			return nil, fmt.Errorf("image config %s does not have the digest that its name says", configName)
		}
	}
	diffID, err := parseConfig(config)
	if err != nil {
		return nil, fmt.Errorf("image config %s: %w", configName, err)
	}
	layer, err := resolve(entries, layerName)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	if layer.link != "" {
		layerName = layer.link
		layer = entries[layerName]
	}
	return &Archive{Config: config, DiffID: diffID, LayerSize: layer.size,
		file: f, gzip: zipped, layer: layerName, offset: layer.offset}, nil
}

// walk reads all headers, and skips the contents by seeking where it can. r is f itself for a plain archive.
func walk(ctx context.Context, f source, r io.Reader, zipped bool) (map[string]entry, error) {
	entries, kept, end := map[string]entry{}, int64(0), int64(0)
	for t := tar.NewReader(r); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, notArchive(err)
		}
		if len(entries) == maxEntries {
			return nil, fmt.Errorf("is not the archive of a node image: it has more than %d entries", maxEntries)
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return nil, err
		}
		e := entry{size: h.Size}
		if !zipped {
			if e.offset, err = f.Seek(0, io.SeekCurrent); err != nil {
				return nil, cause(err)
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
					return nil, fmt.Errorf("entry %q is a sparse file, which no maker of docker archives writes", name)
				}
			}
		default:
			return nil, fmt.Errorf("entry %q is neither a file, a directory nor a symlink (tar type %q)", name, h.Typeflag)
		}
		if _, ok := entries[name]; ok {
			return nil, fmt.Errorf("has two entries %q", name)
		}
		if zipped && e.link == "" && h.Size <= maxMetadataBytes && kept+h.Size <= maxKeptBytes {
			if e.content, err = io.ReadAll(t); err != nil {
				return nil, notArchive(err)
			}
			kept += h.Size
		}
		entries[name] = e
	}
	if !zipped {
		// The tar reader takes the end of the file for the end of the archive; a gzip stream has its own end.
		if size, err := f.Seek(0, io.SeekEnd); err != nil {
			return nil, cause(err)
		} else if size < end+blockBytes {
			return nil, notArchive(io.ErrUnexpectedEOF)
		}
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

// resolve finds a file that the manifest names, through at most one symlink (skopeo writes such).
func resolve(entries map[string]entry, name string) (entry, error) {
	e, ok := entries[name]
	if !ok {
		return entry{}, fmt.Errorf("%q is named but not in the archive", name)
	}
	target := e
	if e.link != "" {
		if target, ok = entries[e.link]; !ok {
			return entry{}, fmt.Errorf("%q is a symlink to %q, which is not in the archive", name, e.link)
		}
		if target.link != "" {
			return entry{}, fmt.Errorf("%q is a symlink to a symlink", name)
		}
		target.link = e.link
	}
	if target.dir {
		return entry{}, fmt.Errorf("%q is a directory", name)
	}
	return target, nil
}

func parseManifest(raw []byte) (config, layer string, err error) {
	var items []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", "", fmt.Errorf("manifest.json is not what docker archives have: %w", err)
	}
	if len(items) != 1 {
		return "", "", fmt.Errorf("holds %d images, and a node needs exactly one", len(items))
	}
	if n := len(items[0].Layers); n != 1 {
		return "", "", fmt.Errorf("holds an image of %d layers, and a node image has its rootfs as its one layer: "+
			"build it as one layer (dockerTools.buildImage without fromImage, or maxLayers = 1)", n)
	}
	if config, err = cleanName(items[0].Config); err != nil {
		return "", "", fmt.Errorf("manifest.json: %w", err)
	}
	if layer, err = cleanName(items[0].Layers[0]); err != nil {
		return "", "", fmt.Errorf("manifest.json: %w", err)
	}
	return config, layer, nil
}

// digestInName is the hex digest that a config's name promises: <hex>.json or blobs/sha256/<hex>.
func digestInName(name string) string {
	base := strings.TrimSuffix(path.Base(name), ".json")
	if regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(base) {
		return base
	}
	return ""
}

func parseConfig(raw []byte) (diffID string, err error) {
	var c struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		RootFS       struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", fmt.Errorf("not an image config: %w", err)
	}
	switch {
	case c.OS != "linux":
		return "", fmt.Errorf("os is %.40q, and a node runs on \"linux\"", c.OS)
	case !regexp.MustCompile(`^[a-z0-9]{1,20}$`).MatchString(c.Architecture):
		return "", fmt.Errorf("architecture %.40q is no architecture's name", c.Architecture)
	case c.RootFS.Type != "layers":
		return "", fmt.Errorf("rootfs.type is %.40q, want \"layers\"", c.RootFS.Type)
	case len(c.RootFS.DiffIDs) != 1:
		return "", fmt.Errorf("has %d diff_ids for one layer", len(c.RootFS.DiffIDs))
	case !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(c.RootFS.DiffIDs[0]):
		return "", fmt.Errorf("diff_id %.80q is not a sha256 digest", c.RootFS.DiffIDs[0])
	}
	return c.RootFS.DiffIDs[0], nil
}
