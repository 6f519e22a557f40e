// Package drop is the drop directory of the spire node: for each node a
// drop-file, for each namespace the kubeconfig that the SPIRE server asks
// with. Receive and Retire write it, Read tells what is in it. One of them
// works on a directory at a time, and what one of them leaves when it is killed,
// the next brings in order.
package drop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/internal/place"
)

// private is the mode of what is written: kubeconfigs are secrets.
const private fs.FileMode = 0o600

// Contents are what a drop directory says. All are sorted.
type Contents struct {
	Nodes  []handoff.Identity // those that can be registered
	Broken []Broken           // those that cannot, though there is a drop-file
	Other  []string           // names of files that mean nothing here
}

// Broken is a node with a drop-file that is no good, and why.
type Broken struct {
	handoff.Identity
	Err error
}

// Receive puts a hand-off in the place of what was handed over for its
// namespace before. A node that would have the identity of another namespace's
// is refused, and nothing is changed then.
func Receive(ctx context.Context, path string, h handoff.Handoff) error {
	return change(ctx, path, func(d *place.Dir, names []string) error {
		all := h.Identities()
		wanted, clusters := map[string]bool{}, map[string]handoff.Identity{}
		for _, id := range all {
			wanted[id.DropFile()], clusters[id.Cluster()] = true, id
		}
		var old []string
		for _, name := range names {
			id, ok := handoff.ParseDropFile(name)
			switch {
			case !ok || wanted[name]:
			case id.Namespace == h.Namespace:
				old = append(old, name)
			default:
				if own, ok := clusters[id.Cluster()]; ok {
					return handoff.CollisionError{A: id, B: own}
				}
			}
		}
		// No drop-file is ever there without its kubeconfig.
		if _, err := d.File(handoff.KubeconfigFile(h.Namespace), []byte(h.Kubeconfig), private); err != nil {
			return err
		}
		for _, id := range all {
			data, err := handoff.NewDrop(id).Marshal()
			if err != nil {
				return err
			}
			if _, err := d.File(id.DropFile(), data, private); err != nil {
				return err
			}
		}
		return d.Remove(append(old, unfinished(names, h.Namespace)...)...)
	})
}

// Retire removes what was handed over for a namespace. Nothing there is no error.
func Retire(ctx context.Context, path, namespace string) error {
	return change(ctx, path, func(d *place.Dir, names []string) error {
		var old []string
		for _, name := range names {
			if id, ok := handoff.ParseDropFile(name); ok && id.Namespace == namespace {
				old = append(old, name)
			}
		}
		// The kubeconfig goes when nothing needs it any more.
		old = append(old, handoff.KubeconfigFile(namespace))
		return d.Remove(append(old, unfinished(names, namespace)...)...)
	})
}

// unfinished are the files of a namespace that one who was killed was writing.
func unfinished(names []string, namespace string) (out []string) {
	for _, name := range names {
		plain, ok := place.Unfinished(name)
		id, drop := handoff.ParseDropFile(plain)
		of, kubeconfig := handoff.ParseKubeconfigFile(plain)
		if ok && (drop && id.Namespace == namespace || kubeconfig && of == namespace) {
			out = append(out, name)
		}
	}
	return out
}

// change works on the directory alone.
func change(ctx context.Context, path string, work func(d *place.Dir, names []string) error) error {
	d, err := place.Write(ctx, path)
	if err != nil {
		return fmt.Errorf("the drop directory: %w", err)
	}
	defer d.Close()
	names, err := d.Names()
	if err == nil {
		err = work(d, names)
	}
	if err != nil {
		return fmt.Errorf("the drop directory %s: %w", path, err)
	}
	return nil
}

// Read tells what the directory says. An error means that it could not be
// read; a file that is no good is among the contents.
func Read(ctx context.Context, path string) (Contents, error) {
	d, err := place.Look(ctx, path)
	if err != nil {
		return Contents{}, fmt.Errorf("the drop directory: %w", err)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return Contents{}, fmt.Errorf("the drop directory: %w", err)
	}
	var c Contents
	var all []handoff.Identity
	bad := map[handoff.Identity]error{}
	kubeconfigs := map[string]error{} // by namespace
	for _, name := range names {
		id, ok := handoff.ParseDropFile(name)
		if !ok {
			if _, ok := handoff.ParseKubeconfigFile(name); !ok && !strings.HasPrefix(name, ".") {
				c.Other = append(c.Other, name)
			}
			continue
		}
		all = append(all, id)
		err := readDrop(d, name)
		if err == nil {
			var known bool
			if err, known = kubeconfigs[id.Namespace]; !known {
				err = readKubeconfig(d, id.Namespace)
				kubeconfigs[id.Namespace] = err
			}
		}
		if err != nil {
			bad[id] = err
		}
	}
	// Receive lets no two collide; who put them there by hand gets neither.
	by := map[string]handoff.Identity{}
	for _, id := range all {
		if other, ok := by[id.Cluster()]; ok {
			err := handoff.CollisionError{A: other, B: id}
			bad[other], bad[id] = err, err
		}
		by[id.Cluster()] = id
	}
	for _, id := range all {
		if err := bad[id]; err != nil {
			c.Broken = append(c.Broken, Broken{id, err})
			continue
		}
		c.Nodes = append(c.Nodes, id)
	}
	return c, nil
}

func readDrop(d *place.Dir, name string) error {
	data, err := d.Read(name, handoff.MaxSize)
	if err == nil {
		_, err = handoff.ParseDrop(name, data)
	}
	return err
}

func readKubeconfig(d *place.Dir, namespace string) error {
	name := handoff.KubeconfigFile(namespace)
	data, err := d.Read(name, handoff.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its kubeconfig %s is not there", name)
	}
	if err == nil {
		_, err = handoff.ParseKubeconfig(data)
	}
	return err
}
