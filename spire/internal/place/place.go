// Package place puts whole files in place: whoever reads one sees the old or
// the new content, whatever ends this process or the machine meanwhile.
package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFiles is how many files a directory may have.
const maxFiles = 1 << 17

// Dir is an open directory that this process has locked: against all that lock
// it, or against those alone that lock it to write. The kernel takes the lock
// back when the process ends. Close gives it back.
type Dir struct {
	path string
	root *os.Root
	lock *os.File
}

// Write opens a directory to change it, and waits until nobody else has it.
func Write(ctx context.Context, path string) (*Dir, error) { return open(ctx, path, unix.LOCK_EX) }

// Look opens a directory to read it, and waits until nobody changes it.
func Look(ctx context.Context, path string) (*Dir, error) { return open(ctx, path, unix.LOCK_SH) }

func open(ctx context.Context, path string, how int) (_ *Dir, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, root: root}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.lock, err = root.Open("."); err != nil {
		return nil, err
	}
	info, err := d.lock.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("everybody can write to the directory %s, so that nothing in it can be trusted: chmod o-w %s", path, path)
	}
	for {
		err := unix.Flock(int(d.lock.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return d, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, fmt.Errorf("locking the directory %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for whoever works on the directory %s: %w", path, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Close ends the use of the directory.
func (d *Dir) Close() {
	if d.lock != nil {
		d.lock.Close()
	}
	d.root.Close()
}

// Names are those of the files, sorted.
func (d *Dir) Names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("the directory %s has more than %d files", d.path, maxFiles)
	}
	slices.Sort(names)
	return names, nil
}

// Unfinished is the file that File was writing when it left one of that name.
func Unfinished(name string) (file string, _ bool) {
	rest, begins := strings.CutPrefix(name, ".")
	rest, ends := strings.CutSuffix(rest, ".tmp")
	return rest, begins && ends
}

// File writes a file, unless it is as wanted already, and tells whether it did.
// The file belongs to the directory's owner. The directory is open to Write.
func (d *Dir) File(name string, data []byte, mode fs.FileMode) (changed bool, err error) {
	about, err := d.lock.Stat()
	if err != nil {
		return false, err
	}
	owner := about.Sys().(*syscall.Stat_t)
	if d.same(name, data, mode, owner.Uid) {
		return false, nil
	}
	temp := "." + name + ".tmp"
	if err := d.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return false, err
	}
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return false, err
	}
	_, err = f.Write(data)
	if int(owner.Uid) != os.Geteuid() {
		err = errors.Join(err, f.Chown(int(owner.Uid), int(owner.Gid)))
	}
	// The umask may have taken bits from it.
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		return false, errors.Join(err, d.root.Remove(temp))
	}
	return true, d.lock.Sync()
}

// same tells whether the file is what it would be written as.
func (d *Dir) same(name string, data []byte, mode fs.FileMode, owner uint32) bool {
	info, err := d.root.Lstat(name)
	if err != nil || info.Mode() != mode || info.Sys().(*syscall.Stat_t).Uid != owner {
		return false
	}
	old, err := d.Read(name, len(data))
	return err == nil && bytes.Equal(old, data)
}

// Read reads a regular file of at most that many bytes: nothing that a link
// leads to, and nothing that would let it wait.
func (d *Dir) Read(name string, limit int) ([]byte, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, opened) {
		return nil, fmt.Errorf("%s was replaced meanwhile", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, err
}

// Remove removes files for good, one after another. One that isn't there is no
// error. The directory is open to Write.
func (d *Dir) Remove(names ...string) error {
	for _, name := range names {
		if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return d.lock.Sync()
}
