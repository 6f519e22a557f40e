package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	engine "github.com/opentofu/opentofu/yuba"

	"fediversity.eu/yuba/cmd/yuba/mirror"
	"fediversity.eu/yuba/providers/external"
	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/providers/local"
	"fediversity.eu/yuba/providers/null"
	"fediversity.eu/yuba/providers/oci"
	"fediversity.eu/yuba/providers/random"
	"fediversity.eu/yuba/providers/spire"
)

// progress receives what providers tell about long work. Its functions may
// be called from several goroutines at once.
type progress struct {
	object func(namespace, name, message string)
	bytes  func(ref string, sent, total int64)
	// message is about the image ref; it may be nil.
	message func(ref, message string)
	// sources are where images come from; nil for those of this process.
	sources *oci.Sources
}

var noProgress = progress{object: func(string, string, string) {}, bytes: func(string, int64, int64) {}}

// provider is one of the providers in this program.
type provider struct {
	address, version string
	server           func(progress) func() tfprotov6.ProviderServer
}

// The versions of the well-known providers whose resource types and schemas
// the linked ones have.
const (
	randomVersion   = "3.7.2"
	nullVersion     = "3.2.4"
	localVersion    = "2.5.3"
	externalVersion = "2.3.5"
)

func linked() []provider {
	// A pre-release would be chosen by no version constraint but its own:
	// stock tofu would not find it in a mirror.
	release, _, _ := strings.Cut(version, "-")
	return []provider{
		{kubernetes.Address, release, func(p progress) func() tfprotov6.ProviderServer {
			return kubernetes.Server(version, kubernetes.WithProgress(p.object))
		}},
		{oci.Address, release, func(p progress) func() tfprotov6.ProviderServer {
			options := []oci.Option{oci.WithProgress(p.bytes), oci.WithMessages(p.message)}
			if p.sources != nil {
				options = append(options, oci.WithSources(p.sources))
			}
			return oci.Server(version, options...)
		}},
		{spire.Address, release, func(progress) func() tfprotov6.ProviderServer { return spire.Server(version) }},
		{random.Address, randomVersion, func(progress) func() tfprotov6.ProviderServer {
			return random.Server(randomVersion)
		}},
		{null.Address, nullVersion, func(progress) func() tfprotov6.ProviderServer { return null.Server(nullVersion) }},
		{local.Address, localVersion, func(progress) func() tfprotov6.ProviderServer { return local.Server(localVersion) }},
		{external.Address, externalVersion, func(progress) func() tfprotov6.ProviderServer { return external.Server(externalVersion) }},
	}
}

func addresses() []string {
	var out []string
	for _, p := range linked() {
		out = append(out, p.address)
	}
	return out
}

func engineProviders(p progress) []engine.Provider {
	var out []engine.Provider
	for _, l := range linked() {
		out = append(out, engine.Provider{Address: l.address, Version: l.version, New: l.server(p)})
	}
	return out
}

func providerCommands() []command {
	return []command{
		{
			name:    "providers",
			summary: "List the providers in this program, or those that a configuration needs.",
			about:   "With a configuration in the working directory: which providers it and its state need, as stock tofu lists them.",
			loose:   true,
			args:    "[FLAGS]",
			example: "yuba providers",
			setup: func(f *flag.FlagSet) action {
				varFlags(f)
				testDirFlag(f)
				return func(ctx context.Context, p process, args []string) error {
					if engine.HasConfig(".") {
						return exitCode(stockVerb(ctx, p, "providers", args))
					}
					if err := noArgs(args); err != nil {
						return err
					}
					for _, l := range linked() {
						if _, err := fmt.Fprintf(p.stdout, "%s %s\n", l.address, l.version); err != nil {
							return err
						}
					}
					return nil
				}
			},
		},
		{
			name:    "providers mirror",
			args:    "DIR",
			summary: "Lay out a mirror of the providers for stock tofu.",
			about: "Writes a filesystem mirror that holds this program as each of its providers, so that stock tofu\n" +
				"can plan and apply the states that yuba wrote (filesystem_mirror in its CLI configuration).",
			example: "yuba providers mirror ./mirror\n" +
				"printf 'provider_installation {\\n  filesystem_mirror {\\n    path = \"%s/mirror\"\\n  }\\n}\\n' \"$PWD\" > tofu.rc\n" +
				"TF_CLI_CONFIG_FILE=tofu.rc tofu init",
			setup: func(*flag.FlagSet) action {
				return func(_ context.Context, p process, args []string) error {
					if len(args) != 1 {
						return usagef("one directory is needed")
					}
					var m []mirror.Provider
					for _, l := range linked() {
						m = append(m, mirror.Provider{Address: l.address, Version: l.version})
					}
					files, err := mirror.Write(args[0], m)
					for _, f := range files {
						fmt.Fprintln(p.stdout, f)
					}
					return err
				}
			},
		},
	}
}

func versionCommand() command {
	return command{
		name:    "version",
		args:    "[-json]",
		summary: "Print the versions of yuba and of the OpenTofu in it.",
		example: "yuba version",
		setup: func(f *flag.FlagSet) action {
			asJSON := f.Bool("json", false, "print JSON")
			return func(_ context.Context, p process, args []string) error {
				if err := noArgs(args); err != nil {
					return err
				}
				if *asJSON {
					return json.NewEncoder(p.stdout).Encode(map[string]string{
						"yuba": version, "opentofu": engine.Version(),
						"terraform_version": engine.Version(), "platform": runtime.GOOS + "_" + runtime.GOARCH, // as stock tofu has them
					})
				}
				_, err := fmt.Fprintf(p.stdout, "yuba %s (OpenTofu %s)\n", version, engine.Version())
				return err
			}
		},
	}
}
