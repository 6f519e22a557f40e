package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

// pluginAddress tells whether the program was started as an OpenTofu
// provider, by the name under which it was started, and as which.
func pluginAddress(argv0 string) (string, bool) {
	name, ok := strings.CutPrefix(filepath.Base(argv0), "terraform-provider-")
	if !ok {
		return "", false
	}
	name, _, _ = strings.Cut(name, "_") // the version that a mirror puts there
	for _, p := range linked() {
		if strings.HasSuffix(p.address, "/"+name) {
			return p.address, true
		}
	}
	fmt.Fprintf(os.Stderr, "yuba: there is no provider %q in this program; it has: %s\n", name, strings.Join(addresses(), ", "))
	os.Exit(1)
	return "", false
}

// servePlugin speaks plugin protocol 6 until the program that started it
// lets go, and returns the exit code.
func servePlugin(address string) int {
	for _, p := range linked() {
		if p.address != address {
			continue
		}
		if err := tf6server.Serve(address, p.server(noProgress)); err != nil {
			fmt.Fprintf(os.Stderr, "yuba: provider %s: %v\n", address, err)
			return 1
		}
	}
	return 0
}
