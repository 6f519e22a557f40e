package rootfs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fediversity.eu/yuba/providers/oci/internal/blob"
)

const blockBytes = 512

// Tar reads a tar of a root file system to its end, compressed or not, and returns the digest of the tar. The tar is the
// image's layer byte for byte: what made it has decided on order, times and owners.
func Tar(ctx context.Context, r io.Reader) (diffID string, err error) {
	z, _, err := blob.Decompress(blob.Context(ctx, r))
	if err != nil {
		return "", notTar(err)
	}
	defer z.Close()
	hash := sha256.New()
	var n blob.Count
	if err := check(io.TeeReader(z, io.MultiWriter(hash, &n)), &n); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// check reads all of r; n is how much of it was read.
func check(r io.Reader, n *blob.Count) error {
	var c contents
	t, end := tar.NewReader(r), blob.Count(0)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return notTar(err)
		}
		if err := checkEntry(h, &c); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, t); err != nil {
			return notTar(err)
		}
		end = (*n + blockBytes - 1) / blockBytes * blockBytes
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return notTar(err)
	}
	// The tar reader takes the end of the stream for the end of the archive.
	if *n < end+blockBytes {
		return blob.ErrTruncated
	}
	return c.check()
}

func checkEntry(h *tar.Header, c *contents) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeLink:
		if _, err := inside(h.Linkname); err != nil {
			return fmt.Errorf("entry %.100q is a hard link out of the root file system", h.Name)
		}
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeDir, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
	default:
		return fmt.Errorf("entry %.100q is of the tar type %q, which container runtimes don't unpack", h.Name, h.Typeflag)
	}
	return c.add(name, h.Typeflag == tar.TypeDir)
}

// inside gives the path below the root. Runtimes would keep an entry inside, too, but not all in the same place.
func inside(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || len(name) > 4096 || strings.ContainsRune(name, 0) || strings.HasPrefix(name, "/") ||
		clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("entry %.100q has an unsafe name: want a path below the root, such as sbin/init or ./sbin/init", name)
	}
	return clean, nil
}

func notTar(err error) error {
	switch damage := blob.Damage(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case damage != nil:
		return damage
	case errors.Is(err, tar.ErrHeader):
		return errors.New("is not the tar of a root file system, or is damaged: want a tar, as it is or compressed with gzip or zstd")
	}
	return blob.Cause(err)
}
