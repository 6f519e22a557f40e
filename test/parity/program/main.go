// Command program is yuba's engine with the lab provider besides the linked
// ones: no linked provider that needs no server has write-only attributes,
// functions, or failures on demand. Started as terraform-provider-NAME, it is
// that provider, for stock tofu.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	engine "github.com/opentofu/opentofu/yuba"

	"fediversity.eu/yuba/providers/external"
	"fediversity.eu/yuba/providers/local"
	"fediversity.eu/yuba/providers/null"
	"fediversity.eu/yuba/providers/random"
	"fediversity.eu/yuba/test/parity/lab"
)

func linked() []engine.Provider {
	return []engine.Provider{
		{Address: lab.Address, New: lab.Server},
		{Address: random.Address, New: random.Server("3.7.2")},
		{Address: null.Address, New: null.Server("3.2.4")},
		{Address: local.Address, New: local.Server("2.5.3")},
		{Address: external.Address, New: external.Server("2.3.5")},
	}
}

func main() {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "terraform-provider-"); ok {
		if err := serve(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(os.Args[1:]))
}

func serve(name string) error {
	i := slices.IndexFunc(linked(), func(p engine.Provider) bool { return strings.HasSuffix(p.Address, "/"+name) })
	if i < 0 {
		return fmt.Errorf("no provider %q", name)
	}
	p := linked()[i]
	return tf6server.Serve(p.Address, func() tfprotov6.ProviderServer { return p.New() })
}

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "program VERB [ARGUMENTS]")
		return 1
	}
	verb, args := args[0], args[1:]
	if (verb == "state" || verb == "providers") && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = verb+" "+args[0], args[1:]
	}
	cli := engine.CLI{
		Providers: linked(),
		OpenHTTP:  func(engine.HTTPState) (engine.StateStore, error) { return nil, errors.New("no http states here") },
		Stdin:     os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Commands: engine.Commands{
			Plan: "yuba plan", Apply: "yuba apply", StatePush: "yuba state push", ForceUnlock: "yuba force-unlock",
		},
	}
	return cli.Run(context.Background(), verb, args)
}
