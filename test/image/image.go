// Package image makes docker archives for tests: one node image, its rootfs as the one layer, in the layouts
// that the makers of such archives write. The same Spec always gives the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Layout is who seems to have made the archive.
type Layout int

const (
	// Docker is what skopeo writes to docker-archive: <diff id>.tar, and symlinks to it for old readers.
	Docker Layout = iota
	// BuildImage is dockerTools.buildImage: sorted entries, <id>/layer.tar, a repositories file. Nix gzips it
	// outside by default (Spec.Gzip).
	BuildImage
	// StreamLayered is dockerTools.streamLayeredImage: the layer first, manifest.json last.
	StreamLayered
	// SaveLegacy is `docker save` before version 25.
	SaveLegacy
	// Save is `docker save` since version 25: also an OCI layout with everything in blobs/sha256.
	Save
)

// Layouts are all of them by name, for tests that are tables.
func Layouts() map[string]Layout {
	return map[string]Layout{
		"docker": Docker, "buildImage": BuildImage, "streamLayered": StreamLayered, "saveLegacy": SaveLegacy, "save": Save,
	}
}

// Spec says what is in the image. The zero Spec is a valid node image.
type Spec struct {
	// Name is the repository and tag in the archive; yuba ignores it. Default "node:latest".
	Name string
	// Labels are the labels of the image config.
	Labels map[string]string
	// Files are regular files of the rootfs, path to content, beside /sbin/init.
	Files map[string][]byte
	// Zeros adds a file of so many zero bytes, which is streamed.
	Zeros int64
	// Gzip compresses the archive as a whole, as Nix does by default.
	Gzip bool
	// GzipLayer compresses the layer inside the archive, as docker with a containerd store does.
	GzipLayer bool
	// Layout is who seems to have made the archive.
	Layout Layout
	// Layers is the number of layers, default 1. Those after the first are the same in all images.
	Layers int
	// Images is the number of images in the archive, default 1.
	Images int
	// OS and Architecture of the config, defaults "linux" and "amd64".
	OS, Architecture string
}

// modTime is the time of every entry: archives must not depend on the clock.
var modTime = time.Unix(1, 0).UTC()

type blob struct {
	size   int64
	write  func(io.Writer) error
	sha256 string // of the bytes in the archive
	diffID string // of the layer's tar
}

// Write writes the archive to w.
func Write(w io.Writer, s Spec) error {
	s.Name = cmp.Or(s.Name, "node:latest")
	var layers []blob
	for i := range max(s.Layers, 1) {
		l, err := measure(s, i)
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}
	config, err := s.config(layers)
	if err != nil {
		return err
	}
	if !s.Gzip {
		return s.archive(w, layers, config)
	}
	z := gzip.NewWriter(w)
	if err := s.archive(z, layers, config); err != nil {
		return err
	}
	return z.Close()
}

// Bytes is Write into memory.
func Bytes(s Spec) ([]byte, error) {
	var b bytes.Buffer
	err := Write(&b, s)
	return b.Bytes(), err
}

func (s Spec) config(layers []blob) ([]byte, error) {
	diffIDs := make([]string, len(layers))
	for i, l := range layers {
		diffIDs[i] = "sha256:" + l.diffID
	}
	return json.Marshal(map[string]any{
		"architecture": cmp.Or(s.Architecture, "amd64"),
		"os":           cmp.Or(s.OS, "linux"),
		"created":      modTime.Format(time.RFC3339),
		"config": map[string]any{
			"Cmd":        []string{"/sbin/init"},
			"StopSignal": "SIGRTMIN+3",
			"Labels":     s.Labels,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
}

// measure writes the layer once to nowhere, for its size and digests.
func measure(s Spec, index int) (blob, error) {
	plain := func(w io.Writer) error { return s.layer(w, index) }
	l := blob{write: plain}
	if s.GzipLayer {
		l.write = func(w io.Writer) error {
			z := gzip.NewWriter(w)
			if err := plain(z); err != nil {
				return err
			}
			return z.Close()
		}
	}
	diff, stored, size := sha256.New(), sha256.New(), new(counter)
	if err := plain(io.MultiWriter(diff, size)); err != nil {
		return blob{}, err
	}
	if !s.GzipLayer {
		sum := hex.EncodeToString(diff.Sum(nil))
		l.size, l.diffID, l.sha256 = size.n, sum, sum
		return l, nil
	}
	*size = counter{}
	if err := l.write(io.MultiWriter(stored, size)); err != nil {
		return blob{}, err
	}
	l.size, l.diffID, l.sha256 = size.n, hex.EncodeToString(diff.Sum(nil)), hex.EncodeToString(stored.Sum(nil))
	return l, nil
}

// layer writes the rootfs tar. Layers after the first hold one file each.
func (s Spec) layer(w io.Writer, index int) error {
	t := tar.NewWriter(w)
	if index > 0 {
		return cmp.Or(file(t, fmt.Sprintf("layer-%d", index), []byte("x")), t.Close())
	}
	if err := dir(t, "sbin/"); err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sbin/init", Mode: 0o755, Size: int64(len(initScript)), ModTime: modTime}); err != nil {
		return err
	}
	if _, err := t.Write([]byte(initScript)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if err := file(t, strings.TrimPrefix(name, "/"), s.Files[name]); err != nil {
			return err
		}
	}
	if s.Zeros > 0 {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o644, Size: s.Zeros, ModTime: modTime}); err != nil {
			return err
		}
		if _, err := io.CopyN(t, zeros{}, s.Zeros); err != nil {
			return err
		}
	}
	return t.Close()
}

const initScript = "#!/bin/sh\nexec sleep infinity\n"

type manifestItem struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// archive writes the outer tar.
func (s Spec) archive(w io.Writer, layers []blob, config []byte) error {
	t := tar.NewWriter(w)
	sum := sha256.Sum256(config)
	configHex := hex.EncodeToString(sum[:])
	item := manifestItem{Config: configHex + ".json", RepoTags: []string{s.Name}}
	// id is the name of a layer's directory: made up, but stable.
	id := func(l blob) string {
		h := sha256.Sum256([]byte("id:" + l.diffID))
		return hex.EncodeToString(h[:])
	}
	var steps []error
	add := func(err error) { steps = append(steps, err) }
	legacy := func(l blob) {
		add(dir(t, id(l)+"/"))
		add(file(t, id(l)+"/VERSION", []byte("1.0")))
		add(file(t, id(l)+"/json", fmt.Appendf(nil, `{"id":%q}`, id(l))))
	}
	repositories := func() {
		repo, tag, _ := strings.Cut(s.Name, ":")
		b, err := json.Marshal(map[string]map[string]string{repo: {tag: id(layers[len(layers)-1])}})
		add(err)
		add(file(t, "repositories", b))
	}
	manifest := func() {
		items := make([]manifestItem, max(s.Images, 1))
		for i := range items {
			items[i] = item
		}
		b, err := json.Marshal(items)
		add(err)
		add(file(t, "manifest.json", b))
	}

	switch s.Layout {
	case Docker:
		for _, l := range layers {
			item.Layers = append(item.Layers, l.diffID+".tar")
			add(stream(t, l.diffID+".tar", l))
		}
		for _, l := range layers {
			legacy(l)
			add(t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: id(l) + "/layer.tar", Linkname: "../" + l.diffID + ".tar", ModTime: modTime}))
		}
		add(file(t, item.Config, config))
		repositories()
		manifest()
	case BuildImage:
		add(dir(t, "./"))
		for _, l := range layers {
			item.Layers = append(item.Layers, id(l)+"/layer.tar")
			legacy(l)
			add(stream(t, id(l)+"/layer.tar", l))
		}
		add(file(t, item.Config, config))
		manifest()
		repositories()
	case StreamLayered:
		for _, l := range layers {
			item.Layers = append(item.Layers, l.diffID+"/layer.tar")
			add(stream(t, l.diffID+"/layer.tar", l))
		}
		add(file(t, item.Config, config))
		manifest()
	case SaveLegacy:
		for _, l := range layers {
			item.Layers = append(item.Layers, id(l)+"/layer.tar")
			legacy(l)
			add(stream(t, id(l)+"/layer.tar", l))
		}
		add(file(t, item.Config, config))
		manifest()
		repositories()
	case Save:
		item.Config = "blobs/sha256/" + configHex
		add(dir(t, "blobs/"))
		add(dir(t, "blobs/sha256/"))
		add(file(t, item.Config, config))
		type desc map[string]any
		var descs []desc
		for _, l := range layers {
			item.Layers = append(item.Layers, "blobs/sha256/"+l.sha256)
			add(stream(t, "blobs/sha256/"+l.sha256, l))
			mt := "application/vnd.oci.image.layer.v1.tar"
			if s.GzipLayer {
				mt += "+gzip"
			}
			descs = append(descs, desc{"mediaType": mt, "digest": "sha256:" + l.sha256, "size": l.size})
		}
		m, err := json.Marshal(desc{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
			"config": desc{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:" + configHex, "size": len(config)},
			"layers": descs})
		add(err)
		mh := sha256.Sum256(m)
		add(file(t, "blobs/sha256/"+hex.EncodeToString(mh[:]), m))
		ix, err := json.Marshal(desc{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
			"manifests": []desc{{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + hex.EncodeToString(mh[:]), "size": len(m)}}})
		add(err)
		add(file(t, "index.json", ix))
		manifest()
		add(file(t, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)))
		repositories()
	default:
		return fmt.Errorf("unknown layout %d", s.Layout)
	}
	add(t.Close())
	return cmp.Or(steps...)
}

func dir(t *tar.Writer, name string) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: modTime})
}

func file(t *tar.Writer, name string, b []byte) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(b)), ModTime: modTime})
	if err != nil {
		return err
	}
	_, err = t.Write(b)
	return err
}

func stream(t *tar.Writer, name string, l blob) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: l.size, ModTime: modTime})
	if err != nil {
		return err
	}
	return l.write(t)
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
