// Package rootfs makes an image of one layer from a root file system: a directory or a tar of it.
package rootfs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// DefaultArchitecture is that of an image that doesn't say otherwise. It must not be the deployer's own: the same root
// file system is the same image everywhere.
const DefaultArchitecture = "amd64"

// modTime is the time of all that yuba makes an image of: what Nix gives to everything in its store. A time says when
// something was copied, and an image must not depend on that.
var modTime = time.Unix(1, 0).UTC()

// Config is the config of an image of this one layer: systemd as its command, and the signal that stops systemd (systemd(1)).
func Config(diffID, architecture string) []byte {
	type process struct {
		Cmd        []string
		StopSignal string
	}
	type rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	raw, err := json.Marshal(struct {
		Created      string  `json:"created"`
		Architecture string  `json:"architecture"`
		OS           string  `json:"os"`
		Config       process `json:"config"`
		RootFS       rootfs  `json:"rootfs"`
	}{modTime.Format(time.RFC3339), cmp.Or(architecture, DefaultArchitecture), "linux",
		process{[]string{"/sbin/init"}, "SIGRTMIN+3"}, rootfs{"layers", []string{diffID}}})
	if err != nil {
		panic(err) // strings only
	}
	return raw
}

// inits are where the one thing may be that a node can't start without. A distribution that merged its directories has
// /sbin as a symlink to one of the others.
var inits = map[string]bool{"sbin/init": true, "usr/sbin/init": true, "usr/bin/init": true, "bin/init": true}

// contents collects what there is in a root file system.
type contents struct {
	init      bool
	container string // what it is instead, if it is that
}

var containers = map[string]string{"manifest.json": "docker archive", "oci-layout": "OCI layout"}

// add takes note of an entry, and refuses names that an image can't have.
func (c *contents) add(name string, dir bool) error {
	if strings.HasPrefix(path.Base(name), ".wh.") {
		return fmt.Errorf("has a file %.100q: in the layer of an image, such a name deletes a file", name)
	}
	c.init = c.init || inits[name] && !dir
	if what := containers[name]; what != "" && !dir {
		c.container = what
	}
	return nil
}

func (c *contents) check() error {
	switch {
	case c.init:
		return nil
	case c.container != "":
		return fmt.Errorf("is not a root file system, but looks like the files of an image (%s)", c.container)
	}
	return errors.New("is not the root file system of a node: it has no /sbin/init")
}
