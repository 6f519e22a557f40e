// Command runc-nocgroup is the OCI runtime for test machines whose cgroup2
// hierarchy has no controllers, because they are bound to cgroup v1. It removes
// linux.resources from the bundle's configuration and hands over to runc, which
// is in the same directory. So no limit is enforced.
//
// A container with its own user namespace and a writable /sys/fs/cgroup gets
// its cgroup delegated, as runc does with the systemd cgroup driver (and a
// production node has that) but not with cgroupfs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runc-nocgroup:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(args, "update"):
		return nil // of limits, of which there are none
	case slices.Contains(args, "create"), slices.Contains(args, "run"):
		if err := prepare(filepath.Join(bundle(args), "config.json")); err != nil {
			return err
		}
	}
	return syscall.Exec(filepath.Join(filepath.Dir(self), "runc"), append([]string{"runc"}, args...), os.Environ())
}

// bundle is the directory that the arguments of "runc create" name.
func bundle(args []string) string {
	for i, a := range args {
		if (a == "--bundle" || a == "-b") && i+1 < len(args) {
			return args[i+1]
		}
		if dir, ok := strings.CutPrefix(a, "--bundle="); ok {
			return dir
		}
	}
	return "."
}

// config is what prepare reads of an OCI runtime configuration.
type config struct {
	Mounts []mount
	Linux  struct {
		CgroupsPath string
		UIDMappings []struct{ ContainerID, HostID int }
	}
}

type mount struct {
	Destination, Type string
	Options           []string
}

// prepare rewrites the configuration and delegates the container's cgroup.
func prepare(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var c config
	var whole, linux map[string]json.RawMessage // what config doesn't know stays
	if err := errors.Join(json.Unmarshal(data, &c), json.Unmarshal(data, &whole)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(whole["linux"], &linux); err != nil {
		return fmt.Errorf("%s: linux: %w", path, err)
	}
	delete(linux, "resources")
	if whole["linux"], err = json.Marshal(linux); err != nil {
		return err
	}
	if data, err = json.Marshal(whole); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return delegate(c)
}

func delegate(c config) error {
	writable := slices.ContainsFunc(c.Mounts, func(m mount) bool {
		return m.Type == "cgroup" && m.Destination == "/sys/fs/cgroup" && !slices.Contains(m.Options, "ro")
	})
	if !writable || c.Linux.CgroupsPath == "" || len(c.Linux.UIDMappings) == 0 {
		return nil
	}
	root := c.Linux.UIDMappings[0].HostID - c.Linux.UIDMappings[0].ContainerID
	dir := filepath.Join("/sys/fs/cgroup", c.Linux.CgroupsPath)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// The kernel's list of what a delegatee must own (cgroups(7), delegation).
	files, err := os.ReadFile("/sys/kernel/cgroup/delegate")
	if err != nil {
		return err
	}
	for _, file := range append(strings.Fields(string(files)), ".") {
		if err := os.Chown(filepath.Join(dir, file), root, -1); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
