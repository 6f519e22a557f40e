// Package mirror lays out a filesystem mirror of providers that are all one
// and the same executable: the running one.
package mirror

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Provider is one provider of the mirror.
type Provider struct {
	Address string // "registry.opentofu.org/fediversity/oci"
	Version string // "1.2.3"
}

// Write puts the running executable into dir once for each provider, in the
// unpacked layout that OpenTofu's documentation of filesystem mirrors
// describes, and returns the files it wrote. All but the first are hard links
// where the file system has them. A file that is there already is replaced in
// one step, so that a running tofu never sees half a provider.
func Write(dir string, providers []Provider) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program's own file: %w", err)
	}
	var written []string
	for _, p := range providers {
		base := filepath.Base(filepath.FromSlash(p.Address))
		target := filepath.Join(dir, filepath.FromSlash(p.Address), p.Version, runtime.GOOS+"_"+runtime.GOARCH,
			fmt.Sprintf("terraform-provider-%s_v%s", base, p.Version))
		source := self
		if len(written) > 0 {
			source = written[0]
		}
		if err := place(source, target, len(written) > 0); err != nil {
			return written, fmt.Errorf("provider %s: %w", p.Address, err)
		}
		written = append(written, target)
	}
	return written, nil
}

// place makes target hold what source holds.
func place(source, target string, link bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	tmp := target + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp)
		}
	}()
	if !link || os.Link(source, tmp) != nil {
		if err := copyFile(source, tmp); err != nil {
			return err
		}
	}
	return os.Rename(tmp, target)
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
