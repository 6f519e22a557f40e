package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Image is the source of a node's image. Exactly one of Archive, Layout,
// Rootfs, Stream and Derivation is set. Paths are as the group file gives
// them; Group.Source resolves them.
type Image struct {
	// Archive is the path of a docker archive or an OCI archive.
	Archive string
	// Layout is the path of the directory of an OCI layout.
	Layout string
	// Rootfs is the path of a root file system: a tar or a directory.
	Rootfs string
	// Stream says that an archive comes on the standard input.
	Stream bool
	// Derivation is the store path of a Nix derivation that makes an archive, a
	// layout or a root file system.
	Derivation string

	// Output is the output of the derivation, empty for "out".
	Output string
	// Architecture is that of an image that is made of a root file system,
	// empty for the default.
	Architecture string
}

// imageSources are the keys of which an image has one.
var imageSources = []string{"archive", "layout", "rootfs", "stream", "derivation"}

// stdin is the one value of stream.
const stdin = "-"

// read fills m from the object of the image.
func (m *Image) read(o fields) {
	var has []string
	for _, key := range imageSources {
		if _, ok := o.m[key]; ok {
			has = append(has, key)
		}
	}
	switch len(has) {
	case 0:
		o.r.add(o.at, "has no source: one of %s must be there", strings.Join(imageSources, ", "))
	case 1:
	default:
		o.r.add(o.at, "has %d sources (%s), must have one", len(has), strings.Join(has, ", "))
	}
	m.Archive = o.string("archive", false, isPath)
	m.Layout = o.string("layout", false, isPath)
	m.Rootfs = o.string("rootfs", false, isPath)
	m.Derivation = o.string("derivation", false, isDerivation)
	m.Stream = o.string("stream", false, func(s string) error {
		if s != stdin {
			return fmt.Errorf("is %s, must be %s: the standard input of yuba", quote(s), quote(stdin))
		}
		return nil
	}) != ""
	m.Output = o.string("output", false, isOutput)
	if _, ok := o.m["output"]; ok && !slices.Contains(has, "derivation") {
		o.r.add(o.at.child("output"), "is for a derivation only")
	}
	m.Architecture = o.string("architecture", false, isArchitecture)
	if _, ok := o.m["architecture"]; ok && !slices.Contains(has, "derivation") && !slices.Contains(has, "rootfs") {
		o.r.add(o.at.child("architecture"), "is for a rootfs or a derivation only: any other image says it itself")
	}
}

var (
	architecture = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

	// Few groups have derivations, and these take long to compile, which each
	// start of yuba would pay.
	// https://nix.dev/manual/nix/2.28/store/store-path
	derivation = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(/[^/\x00]+)*/[0-9a-df-np-sv-z]{32}-[0-9a-zA-Z+\-._?=]{1,207}\.drv$`)
	})
	outputName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-zA-Z+\-._?=]{1,64}$`)
	})
)

// isDerivation is the rule of store paths of derivations. The store may be
// another one than /nix/store.
func isDerivation(s string) error {
	if err := isPath(s); err != nil {
		return err
	}
	if !derivation().MatchString(s) || filepath.Clean(s) != s {
		return fmt.Errorf("%s is not the store path of a derivation, such as /nix/store/HASH-NAME.drv", quote(s))
	}
	return nil
}

func isOutput(s string) error {
	if !outputName().MatchString(s) {
		return fmt.Errorf("%s is not the name of a derivation's output", quote(s))
	}
	return nil
}

func isArchitecture(s string) error {
	if !architecture.MatchString(s) {
		return fmt.Errorf("%s is not an architecture as images name it, such as amd64 or arm64", quote(s))
	}
	return nil
}

// path returns the key and the value of a source that is a file or a
// directory.
func (m Image) path() (key, value string) {
	switch {
	case m.Archive != "":
		return "archive", m.Archive
	case m.Layout != "":
		return "layout", m.Layout
	case m.Rootfs != "":
		return "rootfs", m.Rootfs
	}
	return "", ""
}

// resolve returns a path of the group file; a relative one starts from its
// directory.
func (g *Group) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(g.Dir, path)
}

// Source returns the image of n as the source of an oci_image names it.
func (g *Group) Source(n Node) string {
	architecture := ""
	if n.Image.Architecture != "" {
		architecture = n.Image.Architecture + ":"
	}
	switch {
	case g.Bundle != "":
		return "bundle:" + n.Name + ":" + g.Bundle
	case n.Image.Stream:
		return "stdin:"
	case n.Image.Derivation != "":
		s := "nix:" + architecture + n.Image.Derivation
		if n.Image.Output != "" {
			s += "!" + n.Image.Output
		}
		return s
	}
	_, path := n.Image.path()
	path = filepath.Clean(g.resolve(path))
	if !filepath.IsAbs(path) && strings.Contains(path, ":") {
		path = "./" + path // or its beginning could be taken for a kind
	}
	if n.Image.Rootfs != "" {
		return "rootfs:" + architecture + path
	}
	return path
}

// UsesStdin tells whether the image of an enabled node comes on the standard
// input.
func (g *Group) UsesStdin() bool {
	return g.Bundle == "" && slices.ContainsFunc(g.EnabledNodes(), func(n Node) bool { return n.Image.Stream })
}

// CheckSources looks with stat (os.Stat, as a rule) whether the file or
// directory of each enabled node's image is there, and returns one error that
// names all nodes whose image is not. A derivation is Nix's business: it may
// be substituted. A destroy needs no images and should not ask.
func (g *Group) CheckSources(stat func(path string) (fs.FileInfo, error)) error {
	if g.Bundle != "" {
		return nil
	}
	r := report{file: g.File}
	for _, n := range g.EnabledNodes() {
		key, value := n.Image.path()
		if key == "" {
			continue
		}
		at := path("nodes").element(n.index).child("image").child(key)
		name := g.resolve(value)
		info, err := stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.add(at, "missing %s %s: build the image of node %s first", key, name, n.Name)
		case err != nil:
			r.add(at, "cannot look at the %s of node %s: %v", key, n.Name, err)
		case key == "archive" && info.IsDir():
			r.add(at, "%s is a directory: the image of node %s must be a docker archive or an OCI archive; a directory is a layout or a rootfs", name, n.Name)
		case key == "layout" && !info.IsDir():
			r.add(at, "%s is not a directory: the image of node %s must be an OCI layout; a file is an archive or a rootfs", name, n.Name)
		case !info.IsDir() && !info.Mode().IsRegular():
			r.add(at, "%s is neither a file nor a directory, and no image of node %s", name, n.Name)
		}
	}
	return r.err()
}
