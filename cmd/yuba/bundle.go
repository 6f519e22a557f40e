package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/method/k8s"
	"fediversity.eu/yuba/providers/oci"
)

func bundleCommand() command {
	return command{
		name:    "k8s bundle",
		args:    "[FLAGS] -o FILE",
		summary: "Write the group file and all images into one file, to be carried to another host.",
		about: `There 'yuba k8s apply -bundle FILE' needs nothing else but registry, API server and state. The file is a tar that tools
for OCI archives read, too; the same group file and images give the same bytes. Prints the nodes with the digests that
their images will have in a registry. Asks no server, unless Nix does.`,
		example: "yuba k8s bundle -group=group.json -o group.bundle\nyuba k8s plan -bundle=group.bundle",
		setup:   k8sBundle,
	}
}

func k8sBundle(f *flag.FlagSet) action {
	var g groupFlags
	g.registerFile(f)
	out := f.String("o", "", "the `file` to write; one that is there is replaced when the new one is whole")
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if *out == "" {
			return usagef("-o is needed: the file to write")
		}
		sources := p.sources()
		defer sources.Close()
		group, err := g.read(ctx, sources)
		if err != nil {
			return err
		}
		if err := p.checkSources(group); err != nil {
			return err
		}
		// What was read and checked, and not what may be there now.
		data := group.Raw()
		if err := replaceable(*out); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cancelOnInterrupt(ctx, p.interrupts(), cancel)
		display := p.display(viewFlags{})
		images, err := writeBundle(ctx, *out, sources, data, bundleNodes(group, display), group.Registry.Compression)
		display.Close()
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return errors.New("cancelled, nothing was written")
			}
			return fmt.Errorf("cannot write the bundle: %w", err)
		}
		for _, i := range images {
			if _, err := fmt.Fprintf(p.stdout, "%s %s\n", i.Node, i.Digest); err != nil {
				return err
			}
		}
		return nil
	}
}

func bundleNodes(group *k8s.Group, display *live.Display) []oci.BundleNode {
	var nodes []oci.BundleNode
	for _, n := range group.EnabledNodes() {
		// A node's work begins with the first word of it, and its line ends with the display.
		begin := sync.OnceFunc(func() { display.Event(live.Event{Line: n.Name, Doing: "writing its image"}) })
		nodes = append(nodes, oci.BundleNode{Name: n.Name, Source: group.Source(n),
			Progress: func(read, total int64) { begin(); display.Bytes(n.Name, read, total) },
			Say:      func(message string) { begin(); display.Message(n.Name, message) },
		})
	}
	return nodes
}

// replaceable refuses what a rename would do harm to.
func replaceable(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return usagef("-o=%s: is there and is not a regular file", name)
	}
	return nil
}

// writeBundle writes the bundle beside its place and then puts it there.
func writeBundle(ctx context.Context, name string, sources *oci.Sources, group []byte, nodes []oci.BundleNode, compression string) (_ []oci.BundleImage, err error) {
	part := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d", filepath.Base(name), os.Getpid()))
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	defer f.Close()
	images, err := sources.WriteBundle(ctx, f, group, nodes, compression)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(part, name)
	}
	return images, err
}
