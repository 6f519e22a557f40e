// Package bundle keeps a group file and the images of its nodes in one file, for a deployer that has no way to where they
// came from.
//
// A bundle is a tar, and an OCI archive for tools that read such:
//
//	group.json          the group file, byte for byte
//	oci-layout
//	blobs/sha256/...    configs, manifests and compressed layers, each once
//	index.json          the images, named by their nodes
//	SHA256SUMS          the checksums of all the others, for sha256sum(1)
//
// It's made of nothing but group file and images: the same ones give the same bytes. No byte of it is free: headers are
// as this package writes them, padding is zero, contents have their checksums. Whoever can write the file can also make
// another one that is good; a bundle proves that nothing broke on its way, not who made it.
package bundle

import (
	"archive/tar"
	"bytes"
	"fmt"
	"regexp"
	"time"

	"fediversity.eu/yuba/providers/oci/internal/layout"
)

// Names of the entries beside the blobs.
const (
	Group = "group.json"
	Sums  = "SHA256SUMS"
)

const (
	// comment is the first line of Sums. sha256sum ignores it.
	comment = "# yuba bundle 1\n"

	blockBytes = 512
	// maxEntries is more than a namespace has room for: a thousand nodes with a hundred layers each.
	maxEntries = 100_000
	// maxKept bounds the group file and the sums in memory. The group file has the same bound elsewhere.
	maxKept = 16 << 20
)

var blobName = regexp.MustCompile(`^blobs/sha256/[0-9a-f]{64}$`)

// header is the one header that a file of this name and size has. The GNU form holds any size in one block.
func header(name string, size int64) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644,
		ModTime: time.Unix(1, 0)})
	if err != nil || b.Len() != blockBytes {
		return nil, fmt.Errorf("no header for %.100q of %d bytes: %w", name, size, err)
	}
	return b.Bytes(), nil
}

func padding(size int64) int64 { return (blockBytes - size%blockBytes) % blockBytes }

// known tells which names a bundle has.
func known(name string) bool {
	switch name {
	case Group, Sums, layout.Marker, layout.Index:
		return true
	}
	return blobName.MatchString(name)
}
