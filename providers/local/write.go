package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
)

// maxLinks is how many symbolic links are followed to the file that is written.
const maxLinks = 40

// write makes the file of r, with the permissions less the umask, and missing directories. At no moment is there a part
// of the content under the file's name: it's written beside it, and then takes its place.
func write(ctx context.Context, name string, r io.Reader, filePerm, dirPerm fs.FileMode) (sums checksums, err error) {
	name, err = target(name)
	if err != nil {
		return checksums{}, err
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return checksums{}, err
	}
	f, err := beside(name, filePerm)
	if err != nil {
		return checksums{}, fmt.Errorf("no file can be made in the directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	if sums, err = copySums(ctx, f, r); err != nil {
		return checksums{}, err
	}
	if err := f.Sync(); err != nil {
		return checksums{}, err
	}
	if err := f.Close(); err != nil {
		return checksums{}, err
	}
	return sums, os.Rename(f.Name(), name)
}

// target follows symbolic links from name to what will be written, which needn't exist.
func target(name string) (string, error) {
	if name == "" || os.IsPathSeparator(name[len(name)-1]) {
		return "", errors.New("this is not the name of a file")
	}
	for range maxLinks {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			if !info.Mode().IsRegular() {
				return "", fmt.Errorf("%s is there and is no file, but %s", name, kind(info.Mode()))
			}
			return name, nil
		}
		link, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(name), link)
		}
		name = link
	}
	return "", fmt.Errorf("%s: more than %d symbolic links", name, maxLinks)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "a pipe or socket"
	}
}

// beside opens a new file in the directory of name. It's not os.CreateTemp, which heeds neither permissions nor umask.
func beside(name string, perm fs.FileMode) (*os.File, error) {
	for {
		temp := filepath.Join(filepath.Dir(name), ".yuba-"+strconv.FormatUint(rand.Uint64(), 36))
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// permissions reads the notation of file_permission and directory_permission.
func permissions(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || len(s) < 3 || len(s) > 4 || n > 0o777 {
		return 0, fmt.Errorf("%.100q are no permissions: want 3 or 4 octal digits, at most 0777", s)
	}
	return fs.FileMode(n), nil
}
