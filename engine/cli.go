package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/addrs"
	localexec "github.com/opentofu/opentofu/internal/builtin/provisioners/local-exec"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/flags"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/configs/configload"
	"github.com/opentofu/opentofu/internal/encryption"
	"github.com/opentofu/opentofu/internal/plugins"
	"github.com/opentofu/opentofu/internal/provisioners"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
	"github.com/zclconf/go-cty/cty"
)

// CLI runs stock tofu's verbs on the configuration in the working directory.
// Flags, words, streams and exit codes are stock tofu's. What differs:
// providers are linked, modules are local, nothing is installed and nothing is
// written below .terraform.
type CLI struct {
	// Providers are the ones a configuration may name.
	Providers []Provider
	// OpenHTTP opens a state on a server, for the http backend and for
	// terraform_remote_state.
	OpenHTTP func(HTTPState) (StateStore, error)
	// StateFromEnv takes the state at TF_HTTP_ADDRESS, if that is set, where
	// there is no configuration to say where it is.
	StateFromEnv bool

	// Stdin is where approval is read from; nil is an empty one.
	Stdin *os.File
	// Stdout takes results and progress, Stderr errors.
	Stdout, Stderr *os.File
	// NoColor prints no colours. Without it, colours are printed when the
	// stream is a terminal.
	NoColor bool
	// Interrupts stops what is running, as in [Options].
	Interrupts <-chan struct{}
	// StartDir is what path.cwd is: the directory before -chdir. "" is the
	// working directory.
	StartDir string
	// Commands are named in hints to the user.
	Commands Commands
}

// verb runs one verb with its arguments and returns the exit code.
type verb func(*cli, context.Context, []string) int

func verbs() map[string]verb {
	return map[string]verb{
		"plan":     (*cli).plan,
		"apply":    func(c *cli, ctx context.Context, args []string) int { return c.apply(ctx, args, false) },
		"destroy":  func(c *cli, ctx context.Context, args []string) int { return c.apply(ctx, args, true) },
		"refresh":  (*cli).refresh,
		"validate": (*cli).validate,
		"output":   (*cli).output,
		"show":     (*cli).show,
		"console":  (*cli).console,
		"graph":    (*cli).graph,
		"import":   (*cli).importObject,
		"fmt":      (*cli).format,

		"init": (*cli).initialise,
		"get":  (*cli).get,

		"metadata functions": (*cli).metadataFunctions,

		"providers":        (*cli).providers,
		"providers schema": (*cli).providersSchema,

		"state list":             (*cli).stateList,
		"state show":             (*cli).stateShow,
		"state mv":               (*cli).stateMove,
		"state rm":               (*cli).stateRemove,
		"state pull":             (*cli).statePull,
		"state push":             (*cli).statePush,
		"state lock":             (*cli).stateLock,
		"state replace-provider": (*cli).stateReplaceProvider,
		"taint":                  func(c *cli, ctx context.Context, args []string) int { return c.taint(ctx, args, true) },
		"untaint":                func(c *cli, ctx context.Context, args []string) int { return c.taint(ctx, args, false) },
		"force-unlock":           (*cli).forceUnlock,

		"workspace list":   (*cli).workspaceList,
		"workspace show":   (*cli).workspaceShow,
		"workspace new":    (*cli).workspaceFixed,
		"workspace select": (*cli).workspaceFixed,
		"workspace delete": (*cli).workspaceFixed,
	}
}

// Run runs a verb, such as "plan" or "state list", and returns the exit code. A
// verb that there isn't is a mistake of the caller's.
func (c CLI) Run(ctx context.Context, name string, args []string) int {
	run, ok := verbs()[name]
	if !ok {
		panic("engine: no verb " + name)
	}
	view, args := arguments.ParseView(oneDash(args))
	return run(&cli{CLI: c, verb: name, view: view}, ctx, args)
}

// oneDash gives the flags that are OpenTofu's view's, which takes no others, one
// dash where they have two: all other flags may have either.
func oneDash(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(a, "=")
		switch name {
		case "--no-color", "--compact-warnings", "--consolidate-warnings", "--consolidate-errors", "--concise", "--deprecation":
			out[i] = a[1:]
		}
	}
	return out
}

// cli is one command line under way.
type cli struct {
	CLI
	verb string
	view *arguments.View
}

// settings are what the flags of a verb say about its engine.
type settings struct {
	view          arguments.ViewOptions
	showSensitive bool
	lock          bool
	lockTimeout   time.Duration
	parallelism   int
	// newline prints diagnostics with an empty line after them, as older verbs
	// of stock tofu do.
	newline bool
}

func (s settings) locked(lock bool, timeout time.Duration) settings {
	s.lock, s.lockTimeout = lock, timeout
	return s
}

// engine prepares an engine that can print, and do nothing else before load.
func (c *cli) engine(s settings) *Engine {
	opts := Options{
		Providers: c.Providers,
		Stdin:     c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		JSON: s.view.ViewType == arguments.ViewJSON, NoColor: c.NoColor || c.view.NoColor,
		ShowSensitive: s.showSensitive, NoLock: !s.lock, LockTimeout: s.lockTimeout,
		Parallelism: max(s.parallelism, 0), Input: s.view.InputEnabled,
		Interrupts: c.Interrupts, Encryption: os.Getenv("TF_ENCRYPTION"), Commands: c.Commands,
		stock: c.view, JSONInto: s.view.JSONInto,
	}
	e := &Engine{opts: opts, startDir: c.StartDir}
	var err error
	if e.opts, err = opts.withDefaults(); err != nil {
		e.opts, e.broken = opts, err // which load says
		e.opts.Aside = func(print func()) { print() }
	}
	setUpLog()
	if e.tty, err = newTTY(e.opts); err != nil {
		panic(err) // a terminal is only looked at
	}
	if s.newline {
		e.tty.results.DiagsWithNewline()
	}
	e.asker = newAsker(e.opts, e.tty)
	if e.linked, err = link(c.Providers, c.backends(e), linkedProvisioners()); err != nil {
		panic(err) // the providers are the program's own
	}
	e.tty.linked = e.linked
	return e
}

// provisioners are those of stock tofu that need no connection: local-exec,
// which with the provider external is all that starts a process, and only when
// a configuration says so.
func linkedProvisioners() plugins.ProvisionerFactories {
	return plugins.ProvisionerFactories{"local-exec": func() (provisioners.Interface, error) { return localexec.New(), nil }}
}

// scope is what a verb needs besides the state.
type scope struct {
	vars *arguments.Vars
	// config loads all modules. Without it only the backend and the encryption
	// settings are looked at, and a mistake elsewhere doesn't disturb.
	config bool
	// anyProvider doesn't mind providers that aren't linked.
	anyProvider bool
	// warnTwice prints the configuration's warnings before the operation, which
	// finds them once more: stock tofu's plan does, its other verbs don't.
	warnTwice bool
	// noState leaves out the state.
	noState bool
	// noEncryption leaves out the encryption of states and plans.
	noEncryption bool
	// paths are those of -state, -state-out and -backup.
	paths statePaths
	// plan is a saved plan that is to be applied, "" if there is none.
	plan string
}

// load reads the configuration and finds the state. An interrupt ends it, so
// other ways to heed interrupts begin after it.
func (c *cli) load(ctx context.Context, e *Engine, s scope) (diags tfdiags.Diagnostics) {
	ctx, done := e.untilInterrupt(ctx)
	diags = c.read(ctx, e, s)
	if done() { // whatever it was in the middle of
		return tfdiags.Diagnostics{}.Append(sourceless("Interrupted", "Nothing was changed."))
	}
	return diags
}

func (c *cli) read(ctx context.Context, e *Engine, s scope) (diags tfdiags.Diagnostics) {
	if e.broken != nil {
		return diags.Append(e.broken)
	}
	parser := configs.NewParser(configFS())
	e.tty.setSources(parser.Sources)
	var raw []flags.RawFlag
	if s.vars != nil {
		raw = s.vars.All()
	}
	in, more := collectInputs(parser, os.Environ(), raw)
	diags = diags.Append(more)
	e.vars = in
	workspace, err := currentWorkspace()
	if err != nil {
		diags = diags.Append(err)
	}
	if diags.HasErrors() {
		return diags
	}
	e.call = configs.NewStaticModuleCall(addrs.RootModule, hcl.Range{}, e.staticInput(context.WithoutCancel(ctx), in), configDir, workspace)

	var root *configs.Module
	if !s.noState || !s.config {
		// The backend first: as in stock tofu, what is wrong near it hides all else.
		var hclDiags hcl.Diagnostics
		root, hclDiags = parser.LoadConfigDirSelective(configDir, e.call, configs.SelectiveLoadBackend)
		if hclDiags.HasErrors() {
			return diags.Append(hclDiags)
		}
		if s.warnTwice {
			diags = diags.Append(hclDiags)
		}
	}
	snap := &configload.Snapshot{Modules: map[string]*configload.SnapshotModule{}}
	if s.config {
		var cfg *configs.Config
		var hclDiags hcl.Diagnostics
		if snap, cfg, hclDiags = readModules(ctx, parser, e.call); hclDiags.HasErrors() {
			return diags.Append(hclDiags)
		}
		if !s.anyProvider {
			if diags = diags.Append(e.linked.check(cfg)).Append(e.linked.checkVersions(cfg)); diags.HasErrors() {
				return diags
			}
		}
	}
	if !s.config {
		if hclDiags := addModule(snap, parser, "", configDir, ""); hclDiags.HasErrors() {
			return diags.Append(hclDiags)
		}
	}
	e.linked.takeLocks()
	e.loader = configload.NewLoaderFromSnapshot(snap)
	// With what it has parsed: the files are parsed once, as by stock tofu. What is wrong with their syntax a parser
	// tells only then.
	*e.loader.Parser() = *parser
	e.tty.setSources(func() map[string]*hcl.File { // those of the variables' files too
		sources := maps.Clone(parser.Sources())
		maps.Copy(sources, e.loader.Sources())
		return sources
	})
	e.opts.Files = snap.Modules[""].Files

	if e.enc = encryption.Disabled(); !s.noEncryption {
		var warnings tfdiags.Diagnostics
		if e.enc, warnings, err = newEncryption(ctx, e.opts, e.loader, e.call); err != nil {
			if said := (diagnosed{}); errors.As(err, &said) {
				return diags.Append(said.diags)
			}
			return diags.Append(err)
		}
		diags = diags.Append(warnings)
	}
	if s.noState {
		e.state = &stateBackend{workspace: workspace, client: newStateClient(nil, "")}
		return diags
	}
	return diags.Append(c.loadState(ctx, e, root, workspace, s))
}

// staticInput gives the root module its variables where OpenTofu evaluates
// statically, and asks for missing ones. Answers are remembered. Questions outlive
// load, and an interrupt withdraws them.
func (e *Engine) staticInput(ctx context.Context, in inputs) configs.StaticModuleVariables {
	return func(v *configs.Variable) (cty.Value, hcl.Diagnostics) {
		val, ok := in[v.Name]
		if !ok {
			if !v.Required() {
				return v.Default, nil
			}
			raw, err := e.asker.Input(ctx, &tofu.InputOpts{
				Id: "var." + v.Name, Query: "var." + v.Name, Description: v.InputPrompt(), Secret: v.Sensitive || v.Ephemeral,
			})
			if err != nil {
				return cty.NilVal, hcl.Diagnostics{{
					Severity: hcl.DiagError,
					Summary:  "No value for required variable",
					Detail:   fmt.Sprintf("The root module input variable %q is not set, and has no default value. Use a -var or -var-file command line argument to provide a value for this variable.", v.Name),
					Subject:  v.DeclRange.Ptr(),
				}}
			}
			val = rawInput{v.Name, raw, tofu.ValueFromInput}
			in[v.Name] = val
		}
		parsed, diags := val.ParseVariableValue(v.ParsingMode)
		return parsed.Value, diags.ToHCL()
	}
}

// misused says what is wrong with the arguments.
func (c *cli) misused(e *Engine, view interface {
	Diagnostics(tfdiags.Diagnostics)
}, diags tfdiags.Diagnostics) int {
	view.Diagnostics(diags)
	if !e.opts.JSON {
		_, _ = fmt.Fprintf(c.Stderr, "\nFor more help on using this command, run:\n  yuba %s -help\n", c.verb)
	}
	return 1
}

// report prints diagnostics and returns the exit code.
func (c *cli) report(e *Engine, view interface {
	Diagnostics(tfdiags.Diagnostics)
}, diags tfdiags.Diagnostics) int {
	view.Diagnostics(e.tty.ours(diags))
	if diags.HasErrors() {
		return 1
	}
	return 0
}

// exit is the exit code for an error of a verb that has said what there is to
// say.
func exit(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
