package rootfs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fediversity.eu/yuba/providers/oci/internal/blob"
)

// Dir is a root file system in a directory.
type Dir struct {
	// Path is the directory.
	Path string
	// Unlinked has each name of a file be a file of its own. That is for the Nix store, where a hard link tells what
	// the store has saved in space and not what is in a path.
	Unlinked bool
}

const (
	// maxDepth bounds the directories that are open at a time.
	maxDepth = 256
	// maxXattrs bounds the extended attributes of a file, names and values; Linux has the same bound for each of them.
	maxXattrs = 64 << 10
	bufBytes  = 1 << 20
)

// Measure reads the directory to its end, and returns digest and size of the layer that Write makes of it.
func (d Dir) Measure(ctx context.Context) (diffID string, size int64, err error) {
	hash := sha256.New()
	var n blob.Count
	if err := d.Write(ctx, io.MultiWriter(hash, &n)); err != nil {
		return "", 0, err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), int64(n), nil
}

// Write writes the tar of the directory. It depends on the files alone: they come sorted, each directory before what is
// in it; times are 1 s after the epoch; owners are numbers, and what belongs to the user who runs this belongs to root.
// Hard links, devices, FIFOs and extended attributes that mean something elsewhere are kept; sockets are left out.
func (d Dir) Write(ctx context.Context, w io.Writer) error {
	p := &packer{ctx: ctx, tar: tar.NewWriter(w), buf: make([]byte, bufBytes)}
	visit := func(e *item) error { return p.add(e) }
	if err := d.walk(visit); err != nil {
		return err
	}
	if err := p.contents.check(); err != nil {
		return err
	}
	return p.tar.Close()
}

// Fingerprint changes when the directory does, as far as sizes, inodes and times tell. It costs a walk.
func (d Dir) Fingerprint(ctx context.Context) (string, error) {
	hash := sha256.New()
	err := d.walk(func(e *item) error {
		st := e.stat
		fmt.Fprintf(hash, "%q %d %d %o %d %d %d %d %d\n", e.name, st.Dev, st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		return ctx.Err()
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// item is one file.
type item struct {
	name  string // from the root
	base  string
	dir   *os.Root // that holds it
	info  fs.FileInfo
	stat  *syscall.Stat_t
	first string // the name under which it was before, of another hard link
}

type inode struct{ dev, ino uint64 }

// walk visits all files in order.
func (d Dir) walk(visit func(*item) error) error {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return blob.Cause(err)
	}
	defer root.Close()
	w := &walker{visit: visit, links: map[inode]string{}, unlinked: d.Unlinked}
	return w.dir(root, "", 0)
}

type walker struct {
	visit    func(*item) error
	links    map[inode]string
	unlinked bool
}

func (w *walker) dir(root *os.Root, prefix string, depth int) error {
	if depth == maxDepth {
		return fmt.Errorf("has more than %d directories in one another", maxDepth)
	}
	names, err := names(root)
	if err != nil {
		return at(prefix, err)
	}
	for _, base := range names {
		e := &item{name: prefix + base, base: base, dir: root}
		if e.info, err = root.Lstat(base); err != nil {
			return at(e.name, err)
		}
		if e.info.Mode().Type() == fs.ModeSocket {
			continue
		}
		e.stat = e.info.Sys().(*syscall.Stat_t)
		if !w.unlinked && e.info.Mode().IsRegular() && e.stat.Nlink > 1 {
			id := inode{e.stat.Dev, e.stat.Ino}
			if first, ok := w.links[id]; ok {
				e.first = first
			} else {
				w.links[id] = e.name
			}
		}
		if err := w.visit(e); err != nil {
			return err
		}
		if !e.info.IsDir() {
			continue
		}
		sub, err := root.OpenRoot(base)
		if err != nil {
			return at(e.name, err)
		}
		err = w.dir(sub, e.name+"/", depth+1)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func names(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func at(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, blob.ErrChanged)
	}
	return fmt.Errorf("%s: %w", name, blob.Cause(err))
}

// packer writes files into a tar.
type packer struct {
	ctx      context.Context
	tar      *tar.Writer
	buf      []byte
	contents contents
}

func (p *packer) add(e *item) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if err := p.contents.add(e.name, e.info.IsDir()); err != nil {
		return err
	}
	h := &tar.Header{
		Format: tar.FormatPAX, Name: e.name, ModTime: modTime,
		Mode: int64(e.stat.Mode & 0o7777), Uid: owner(e.stat.Uid, os.Geteuid()), Gid: owner(e.stat.Gid, os.Getegid()),
	}
	switch mode := e.info.Mode(); {
	case e.first != "":
		h.Typeflag, h.Linkname = tar.TypeLink, e.first
	case mode.IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, e.info.Size()
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
	case mode.Type() == fs.ModeSymlink:
		target, err := e.dir.Readlink(e.base)
		if err != nil {
			return at(e.name, err)
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, target, 0o777
	case mode.Type() == fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	case mode&fs.ModeDevice != 0:
		h.Typeflag = tar.TypeBlock
		if mode&fs.ModeCharDevice != 0 {
			h.Typeflag = tar.TypeChar
		}
		h.Devmajor, h.Devminor = int64(unix.Major(e.stat.Rdev)), int64(unix.Minor(e.stat.Rdev))
	default:
		return fmt.Errorf("%s: is of a kind that no image has (%v)", e.name, mode.Type())
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
		return p.header(h)
	}

	// O_NONBLOCK: a FIFO that has taken the place of the file must not block.
	f, err := e.dir.OpenFile(e.base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return at(e.name, err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil {
		return at(e.name, err)
	} else if !os.SameFile(now, e.info) {
		return at(e.name, blob.ErrChanged)
	}
	if h.PAXRecords, err = xattrs(f, p.buf); err != nil {
		return at(e.name, err)
	}
	if err := p.header(h); err != nil || h.Typeflag == tar.TypeDir {
		return err
	}
	n, err := io.CopyBuffer(p.tar, io.LimitReader(blob.Context(p.ctx, f), h.Size), p.buf)
	if err == nil && n < h.Size {
		err = at(e.name, blob.ErrChanged)
	}
	return err
}

func (p *packer) header(h *tar.Header) error {
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}

// owner is the owner in the image. An image that somebody builds who isn't root has no file of root; the Nix store of a
// single user is such a directory, too.
func owner(id uint32, own int) int {
	if int(id) == own {
		return 0
	}
	return int(id)
}

// kept tells which extended attributes go into an image: not those that say something about the host (SELinux, IMA,
// overlayfs).
func kept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
}

// xattrs are the extended attributes as tar has them. buf has room for two of the greatest.
func xattrs(f *os.File, buf []byte) (map[string]string, error) {
	buf, value := buf[:maxXattrs], buf[maxXattrs:2*maxXattrs]
	n, err := unix.Flistxattr(int(f.Fd()), buf)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("extended attributes: %w", err)
	}
	records := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if !kept(name) {
			continue
		}
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err != nil {
			return nil, fmt.Errorf("extended attribute %s: %w", name, err)
		}
		records["SCHILY.xattr."+name] = string(value[:n])
	}
	return records, nil
}
