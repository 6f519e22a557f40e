package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	engine "github.com/opentofu/opentofu/yuba"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/state"
)

// stockVerb carries out a verb of stock tofu's, on the configuration in the
// working directory. It returns the exit code.
func stockVerb(ctx context.Context, p process, name string, args []string) int {
	args, err := withEnvArgs(p.getenv, name, args)
	if err != nil {
		fmt.Fprintf(p.stderr, "yuba %s: %v\n", name, err)
		return 1
	}
	mode := live.Plain
	if asksJSON(args) {
		mode = live.Off
	}
	display := live.New(p.stderr, live.Options{Mode: mode})
	defer display.Close()
	return engine.CLI{
		Providers: engineProviders(progress{
			object: func(namespace, name, message string) {
				display.Message(strings.TrimPrefix(namespace+"/"+name, "/"), message)
			},
			bytes: display.Bytes,
		}),
		OpenHTTP:     func(h engine.HTTPState) (engine.StateStore, error) { return openHTTP(p, h) },
		StateFromEnv: true,
		Stdin:        p.stdin, Stdout: p.stdout, Stderr: p.stderr,
		NoColor:    !p.colour(p.stdout, false),
		Interrupts: p.interrupts(),
		StartDir:   p.startDir,
	}.Run(ctx, name, args)
}

// openHTTP opens a state on a server for a backend block or a
// terraform_remote_state.
func openHTTP(p process, h engine.HTTPState) (engine.StateStore, error) {
	client, err := state.New(state.Config{
		Address: h.Address, UpdateMethod: h.UpdateMethod,
		LockAddress: h.LockAddress, LockMethod: h.LockMethod,
		UnlockAddress: h.UnlockAddress, UnlockMethod: h.UnlockMethod,
		Username: h.Username, Password: h.Password, Headers: h.Headers,
		SkipCertVerification: h.SkipCertVerification, CACertificatePEM: h.CACertificatePEM,
		ClientCertificatePEM: h.ClientCertificatePEM, ClientPrivateKeyPEM: h.ClientPrivateKeyPEM,
		RetryMax: h.RetryMax, RetryWaitMin: h.RetryWaitMin, RetryWaitMax: h.RetryWaitMax,
		Warn: func(text string) { fmt.Fprintln(p.stderr, "Warning: "+text) },
	})
	if err != nil {
		return nil, err // a nil client must not become a store
	}
	return client, nil
}

// withEnvArgs puts the arguments of TF_CLI_ARGS and TF_CLI_ARGS_verb before the
// ones that were given.
func withEnvArgs(getenv func(string) string, verb string, args []string) ([]string, error) {
	var all []string
	for _, name := range []string{"TF_CLI_ARGS_" + strings.ReplaceAll(verb, " ", "_"), "TF_CLI_ARGS"} {
		words, err := shellWords(getenv(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, words...)
	}
	return append(all, args...), nil
}

// shellWords splits a line as a shell does that knows quotes and backslashes,
// and nothing else.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord, escaped := false, false
	var quote rune
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a %c is not closed", quote)
	case escaped:
		return nil, fmt.Errorf("it ends in a backslash")
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}

// changeDir carries out the global option -chdir, which stands before the
// command. It returns the other arguments.
func changeDir(args []string) ([]string, error) {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") {
			break
		}
		name, dir, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if name != "-chdir" && name != "chdir" {
			continue
		}
		if dir == "" {
			return nil, usagef("-chdir must include an equals sign followed by a directory path, like -chdir=example")
		}
		if err := os.Chdir(dir); err != nil {
			return nil, fmt.Errorf("-chdir: %w", err)
		}
		return slices.Concat(args[:i], args[i+1:]), nil
	}
	return args, nil
}

// stockCommand is a verb of stock tofu's. Its flags are parsed by the engine, as
// stock tofu parses them; the ones that are registered are for the help page.
func stockCommand(verb, args, summary, about, example string, flags ...func(*flag.FlagSet)) command {
	return command{
		name: verb, args: args, summary: summary, about: about, example: example, stock: true,
		setup: func(f *flag.FlagSet) action {
			for _, register := range flags {
				register(f)
			}
			return nil
		},
	}
}

// The flags of stock tofu's verbs, for the help pages.

func shown(f *flag.FlagSet, name, usage string)   { f.String(name, "", usage) }
func switched(f *flag.FlagSet, name, text string) { f.Bool(name, false, text) }

func varFlags(f *flag.FlagSet) {
	shown(f, "var", "set an input variable, `name=value`; may be given several times")
	shown(f, "var-file", "read values of input variables from this `file`, besides terraform.tfvars and *.auto.tfvars")
}

func viewsFlags(f *flag.FlagSet) {
	switched(f, "json", "print OpenTofu's machine-readable form")
	jsonIntoFlag(f)
	humanFlags(f)
}

func jsonIntoFlag(f *flag.FlagSet) {
	shown(f, "json-into", "write what -json prints to this `file`, and print for humans")
}

func humanFlags(f *flag.FlagSet) {
	switched(f, "no-color", "print without colour")
	switched(f, "compact-warnings", "show warnings by their summary only")
	f.Bool("consolidate-warnings", true, "show every place of a warning")
	switched(f, "consolidate-errors", "show errors of one kind together")
	shown(f, "deprecation", "which modules' deprecations are shown, a `choice` of module:all, module:local and module:none")
}

func conciseFlag(f *flag.FlagSet)   { switched(f, "concise", "leave out the lines about progress") }
func sensitiveFlag(f *flag.FlagSet) { switched(f, "show-sensitive", "show sensitive values") }
func inputFlag(f *flag.FlagSet)     { f.Bool("input", true, "never ask") }
func stateFlag(f *flag.FlagSet)     { shown(f, "state", "the state in this `file` (backend local only)") }

func stateOutFlag(f *flag.FlagSet) {
	shown(f, "state-out", "write the state to this `file` (backend local only)")
}

func testDirFlag(f *flag.FlagSet) {
	shown(f, "test-directory", "without effect, a `directory`: test files are not read")
}
func ignoreVersionFlag(f *flag.FlagSet) {
	switched(f, "ignore-remote-version", "without effect: it is about states in the cloud")
}

func stateFileFlags(f *flag.FlagSet) {
	stateFlag(f)
	stateOutFlag(f)
	shown(f, "backup", "keep the state from before in this `file`, - for none (backend local only)")
}

func stockLockFlags(f *flag.FlagSet) { new(lockFlags).register(f) }

func operationFlags(f *flag.FlagSet) {
	(&planFlags{parallelism: 10}).register(f, false)
}

func refreshFlags(f *flag.FlagSet) {
	f.Int("parallelism", 10, "how many objects are worked on at a time, a `number`")
	shown(f, "target", "work on this `address` and what it needs only; may be given several times")
	shown(f, "target-file", "read addresses for -target from this `file`, one a line")
	shown(f, "exclude", "leave out this `address` and what needs it; may be given several times")
	shown(f, "exclude-file", "read addresses for -exclude from this `file`, one a line")
	inputFlag(f)
}

func one(name, usage string) func(*flag.FlagSet) {
	return func(f *flag.FlagSet) { shown(f, name, usage) }
}

func onOff(name, text string) func(*flag.FlagSet) {
	return func(f *flag.FlagSet) { switched(f, name, text) }
}

func tofuCommands() []command {
	const where = `The configuration is the *.tf and *.tofu files of the working directory; -chdir=DIR before the command
names another one. See docs/tofu.md for what differs from stock tofu.`
	approve := onOff("auto-approve", "do not ask before changing anything")
	dry := onOff("dry-run", "only print what would be done")
	datedBackup := one("backup", "keep the state from before in this `file`, not in one with the time in its name (backend local only)")
	missing := onOff("allow-missing", "exit with 0 when there is no such object")
	all := []command{
		stockCommand("plan", "[FLAGS]", "Show what an apply would change.", where+`

Exit codes with -detailed-exitcode: 0 nothing to do, 1 error, 2 there are changes.`, "yuba -chdir=infra plan -out=tofu.plan",
			operationFlags, varFlags, viewsFlags, conciseFlag, sensitiveFlag, stockLockFlags, stateFlag,
			one("out", "save the plan to this `file`, for 'yuba apply' or stock tofu"),
			onOff("detailed-exitcode", "exit with 2 when there are changes"),
			one("generate-config-out", "write the configuration of imported objects that have none to this `file`")),
		stockCommand("apply", "[FLAGS] [PLANFILE]", "Create, change and remove what the configuration says.", where+`

With a PLANFILE of 'yuba plan -out' just that plan is carried out, without asking.`, "yuba -chdir=infra apply",
			operationFlags, varFlags, viewsFlags, conciseFlag, sensitiveFlag, stockLockFlags, stateFileFlags, approve,
			onOff("suppress-forget-errors", "exit with 0 when a destroy leaves objects that were only forgotten")),
		stockCommand("destroy", "[FLAGS]", "Remove everything that the state has.", where, "yuba -chdir=infra destroy",
			operationFlags, varFlags, viewsFlags, conciseFlag, sensitiveFlag, stockLockFlags, stateFileFlags, approve,
			onOff("suppress-forget-errors", "exit with 0 when objects remain that were only forgotten")),
		stockCommand("refresh", "[FLAGS]", "Bring the state in step with what there is.", where+"\n\n'yuba apply -refresh-only' shows first what that would change.", "yuba refresh",
			refreshFlags, varFlags, viewsFlags, conciseFlag, stockLockFlags, stateFileFlags),
		stockCommand("validate", "[FLAGS]", "Check the configuration; asks no server.", where, "yuba validate",
			varFlags, testDirFlag, viewsFlags, onOff("no-tests", "without effect: test files are not read")),
		stockCommand("output", "[FLAGS] [NAME]", "Print the outputs of the last apply.", where, "yuba output -json",
			varFlags, viewsFlags, sensitiveFlag, stateFlag, onOff("raw", "print a string, number or boolean as it is")),
		stockCommand("show", "[FLAGS] [FILE]", "Show the state, a saved plan or a state file.", where, "yuba show -json tofu.plan",
			varFlags, viewsFlags, sensitiveFlag, one("plan", "show the plan in this `file`"), onOff("state", "show the state"),
			onOff("config", "show the configuration (with -json)"), one("module", "show the module in this `directory` (with -json)")),
		stockCommand("console", "[FLAGS]", "Evaluate expressions, typed or from the standard input.", where, "echo 'length(var.names)' | yuba console",
			varFlags, jsonIntoFlag, humanFlags, inputFlag, stateFlag, stockLockFlags),
		stockCommand("graph", "[FLAGS]", "Print the graph of a plan or an apply, for Graphviz.", where, "yuba graph | dot -Tsvg > graph.svg",
			varFlags, one("plan", "graph the apply of the plan in this `file`"), one("type", "which graph: `plan`, plan-refresh-only, plan-destroy or apply"),
			onOff("draw-cycles", "show cycles in colour"), one("module-depth", "without effect, a `number`"), onOff("verbose", "show everything")),
		stockCommand("import", "[FLAGS] ADDRESS ID", "Take an object that exists into the state.", where, "yuba import random_uuid.x 7f0b1f6e-3f0d-4f7c-a0a3-0c9f8d0a7d5e",
			varFlags, ignoreVersionFlag, viewsFlags, inputFlag, stockLockFlags, stateFileFlags),
		stockCommand("fmt", "[FLAGS] [FILE|DIR|-]...", "Write configuration files in their canonical form.", "", "yuba fmt -check -recursive",
			onOff("no-color", "print without colour"), onOff("check", "change nothing; exit with 3 when something would be changed"), onOff("diff", "show the differences"),
			onOff("recursive", "also in directories below"), func(f *flag.FlagSet) {
				f.Bool("list", true, "do not list the files that are changed")
				f.Bool("write", true, "change no file")
			}),
		stockCommand("state list", "[FLAGS] [ADDRESS...]", "List the addresses of the objects in the state.", stateWhere, "yuba state list",
			varFlags, viewsFlags, stateFlag, one("id", "only objects with this `id`")),
		stockCommand("state show", "[FLAGS] ADDRESS", "Show an object in the state.", stateWhere, "yuba state show random_uuid.x",
			varFlags, viewsFlags, sensitiveFlag, stateFlag),
		stockCommand("state mv", "[FLAGS] SOURCE DESTINATION", "Move objects in the state to another address.", stateWhere, "yuba state mv random_uuid.x module.m.random_uuid.x",
			varFlags, ignoreVersionFlag, viewsFlags, dry, stockLockFlags, stateFlag, stateOutFlag,
			datedBackup, one("backup-out", "keep the other state from before in this `file` (backend local only)")),
		stockCommand("state rm", "[FLAGS] ADDRESS...", "Forget objects without removing them.", stateWhere, "yuba state rm random_uuid.x",
			varFlags, ignoreVersionFlag, viewsFlags, dry, stockLockFlags, stateFlag, datedBackup),
		stockCommand("state pull", "[FLAGS]", "Print the state as it is stored, decrypted.", stateWhere, "yuba state pull > backup.tfstate",
			varFlags),
		stockCommand("state push", "[FLAGS] FILE", "Store a state file, such as errored.tfstate.",
			"A state with another lineage or a lower serial than the stored one is refused, unless -force. A server may refuse it\n"+
				"all the same, and 'yuba state serve' does: docs/state.md#versions says how to go back to an older state.\n\n"+stateWhere, "yuba state push errored.tfstate",
			varFlags, viewsFlags, stockLockFlags, onOff("force", "send it whatever the lineage and serial of the stored one")),
		stockCommand("state replace-provider", "[FLAGS] FROM TO", "Give objects in the state another provider.", stateWhere,
			"yuba state replace-provider registry.terraform.io/hashicorp/random registry.opentofu.org/hashicorp/random",
			varFlags, ignoreVersionFlag, viewsFlags, approve, stockLockFlags, stateFlag),
		stockCommand("taint", "[FLAGS] ADDRESS", "Mark an object so that the next apply replaces it.", stateWhere, "yuba taint random_uuid.x",
			varFlags, ignoreVersionFlag, viewsFlags, missing, stockLockFlags, stateFileFlags),
		stockCommand("untaint", "[FLAGS] ADDRESS", "Take that mark away.", stateWhere, "yuba untaint random_uuid.x",
			varFlags, ignoreVersionFlag, viewsFlags, missing, stockLockFlags, stateFileFlags),
		stockCommand("force-unlock", "[FLAGS] LOCK_ID", "Release a lock that its holder left behind.",
			"Nothing of the state itself is changed. Be sure that the holder is gone: it may still be writing.\n\n"+stateWhere,
			"yuba force-unlock 7f0b1f6e-3f0d-4f7c-a0a3-0c9f8d0a7d5e",
			varFlags, viewsFlags, onOff("force", "do not ask")),
		stockCommand("workspace list", "", "List the workspaces.", workspaceWhere, "yuba workspace list", varFlags, viewsFlags),
		stockCommand("workspace show", "", "Print the name of the workspace.", workspaceWhere, "TF_WORKSPACE=test yuba workspace show", varFlags, humanFlags),
		stockCommand("workspace new", "NAME", "Say how a workspace is made.", workspaceWhere, "TF_WORKSPACE=test yuba apply"),
		stockCommand("workspace select", "NAME", "Say how a workspace is chosen.", workspaceWhere, "TF_WORKSPACE=test yuba plan"),
		stockCommand("workspace delete", "NAME", "Say how a workspace is removed.", workspaceWhere, "TF_WORKSPACE=test yuba destroy"),
		stockCommand("providers schema", "-json", "Print the schemas of the configuration's providers.", where, "yuba providers schema -json", varFlags,
			onOff("json", "print JSON (required)")),
		stockCommand("metadata functions", "-json", "Print the signatures of the language's functions.", "", "yuba metadata functions -json",
			onOff("json", "print JSON (required)")),
		stockCommand("init", "[FLAGS]", "Check that a configuration needs nothing to be installed.", `Providers are linked, modules are read from where they lie, and nothing is written below .terraform: every
command works without it. It is here for scripts that call it, and fails where a provider, a module or a backend
is missing. Flags that say how to install something have no effect.

`+where, "yuba -chdir=infra init -input=false",
			varFlags, viewsFlags, inputFlag, stockLockFlags, func(f *flag.FlagSet) {
				f.Bool("backend", true, "leave out the backend")
				f.Bool("cloud", true, "the same")
				shown(f, "backend-config", "refused, as a `setting` is not kept anywhere: put it into the backend block, or into TF_HTTP_*")
				switched(f, "migrate-state", "refused: 'yuba state pull' and 'yuba state push' move a state")
				switched(f, "force-copy", "refused, as -migrate-state")
				shown(f, "from-module", "refused: no `module` is copied")
				switched(f, "reconfigure", "without effect: nothing is kept")
				switched(f, "upgrade", "without effect")
				f.Bool("get", true, "without effect: modules are read from where they lie")
				shown(f, "plugin-dir", "without effect: no `directory` of plugins is read")
				shown(f, "lockfile", "without effect, a `mode`: no lock file is written")
			}, ignoreVersionFlag, testDirFlag),
		stockCommand("get", "[FLAGS]", "Check that the modules are there.", "They are read from where they lie, so nothing is fetched.\n\n"+where, "yuba get",
			varFlags, viewsFlags, onOff("update", "without effect"), testDirFlag),
	}
	for i := range all {
		if all[i].name != "fmt" && all[i].name != "metadata functions" { // they look at no configuration's values
			all[i].env = tofuEnvironment()
		}
	}
	return all
}

// tofuEnvironment is what the verbs on any configuration read.
func tofuEnvironment() []variable {
	return slices.Concat([]variable{
		{"KUBE_CONFIG_PATH", "kubeconfig file, for fediversity/kubernetes"},
		{"REGISTRY_AUTH_FILE", "credentials of registries, for fediversity/oci"},
	}, stateEnvironment(), []variable{
		{"TF_VAR_NAME", "value of the input variable NAME"},
		{"TF_WORKSPACE", "the workspace"},
		{"TF_INPUT", "false never asks"},
		{"TF_CLI_ARGS", "further arguments; TF_CLI_ARGS_plan for plan alone, and so on"},
	}, logEnvironment())
}

const stateWhere = `The state is the one of the configuration in the working directory. Where there is no configuration, it is
the one at TF_HTTP_ADDRESS; the other TF_HTTP_* as with OpenTofu's http backend.`

const workspaceWhere = `TF_WORKSPACE names the workspace of each command. The backend http has only "default".`

// aliases are other names that stock tofu has for verbs.
var aliases = map[string]string{
	"state ls": "state list", "state remove": "state rm", "state move": "state mv",
	"env list": "workspace list", "env new": "workspace new", "env select": "workspace select", "env delete": "workspace delete",
}

// absent are the verbs of stock tofu's that there aren't, with what there is
// instead.
var absent = map[string]string{
	"test":           "test files are not read; 'yuba validate' checks the configuration, and checks, preconditions and postconditions are part of each plan",
	"login":          "nothing is downloaded from a registry of providers, so there is nothing to log in to; the login of a registry of images is in the file that REGISTRY_AUTH_FILE names, that of the state's server in TF_HTTP_USERNAME and TF_HTTP_PASSWORD or the backend block",
	"logout":         "nothing is kept to log out from",
	"push":           "stock tofu has it no longer, either; 'yuba state push' stores a state",
	"providers lock": "providers are linked into yuba, so there is nothing to lock",
}
