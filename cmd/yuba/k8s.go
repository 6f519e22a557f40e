package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	engine "github.com/opentofu/opentofu/yuba"

	"golang.org/x/term"

	"fediversity.eu/yuba/method/k8s"
	"fediversity.eu/yuba/providers/oci"
)

// environment is what the verbs on a deployed group read.
func environment() []variable {
	return append([]variable{
		{"KUBE_CONFIG_PATH", "kubeconfig file of the cluster"},
		{"K8S_REGISTRY", "registry, HOST[:PORT][/PATH], as deployer and cluster reach it"},
		{"K8S_NAMESPACE", "namespace of the target 'all' (default fediversity)"},
		{"KUBE_FORCE_CONFLICTS", "true takes fields that other field managers own"},
		{"REGISTRY_AUTH_FILE", "credentials of the registry, containers-auth.json(5)"},
		{"SSH_PRIVATE_KEY_FILE", "private key for the spire node, when the group has one"},
		{"SSH_USER, SSH_NODES", "user there; JSON with user, port, hostKeys and options by host"},
		{"K8S_SPIRE_API_SERVER", "URL of the API server as the spire node reaches it (default: the kubeconfig's)"},
	}, append(stateEnvironment(), logEnvironment()...)...)
}

// stateEnvironment is what the verbs on the state read.
func stateEnvironment() []variable {
	return []variable{
		{"TF_HTTP_ADDRESS", "URL of the state, on OpenTofu's HTTP backend"},
		{"TF_HTTP_*", "login, locks and certificates, as stock tofu has them"},
		{"TF_ENCRYPTION", "encryption of the state and of saved plans"},
	}
}

// logEnvironment is what everything reads that runs a provider.
func logEnvironment() []variable {
	return []variable{{"TF_LOG", "trace, debug, info, warn or error: log to the standard error, or to the file TF_LOG_PATH"}}
}

// graphEnvironment is what the graph depends on.
func graphEnvironment() []variable { return environment()[1:3] }

// without leaves a variable out.
func without(name string, from []variable) []variable {
	return slices.DeleteFunc(from, func(v variable) bool { return v.name == name })
}

// groupFlags say which group is worked on.
type groupFlags struct {
	file, submission, bundle string

	flags *flag.FlagSet
	group *k8s.Group // once it was read
}

func (g *groupFlags) register(f *flag.FlagSet) {
	g.registerFile(f)
	f.StringVar(&g.bundle, "bundle", "", "a `file` of 'yuba k8s bundle', which holds the group file and all images; all of it is verified first")
}

// registerFile leaves out -bundle, for the command that makes one.
func (g *groupFlags) registerFile(f *flag.FlagSet) {
	g.flags = f
	f.StringVar(&g.file, "group", "group.json", "the group `file`")
	f.StringVar(&g.submission, "submission", "", "the submission `file`; refused when the group file was evaluated with another one")
}

// read reads and checks the group file and the submission. A bundle is opened by the sources, which keep it; nil is for
// commands that need no image.
func (g *groupFlags) read(ctx context.Context, sources *oci.Sources) (*k8s.Group, error) {
	if g.group != nil {
		return g.group, nil
	}
	group, err := g.load(ctx, sources)
	if err != nil {
		return nil, err
	}
	if g.submission != "" {
		s, err := os.ReadFile(g.submission)
		if err != nil {
			return nil, fmt.Errorf("submission: %w", err)
		}
		if err := group.CheckSubmission(s); err != nil {
			return nil, err
		}
	}
	g.group = group
	return group, nil
}

func (g *groupFlags) load(ctx context.Context, sources *oci.Sources) (*k8s.Group, error) {
	if g.bundle == "" {
		return k8s.Load(g.file)
	}
	if err := onlyWith(g.flags, "a bundle: it has a group file of its own", "group"); err != nil {
		return nil, err
	}
	if sources == nil {
		sources = oci.NewSources(oci.SourceOptions{})
		defer sources.Close()
	}
	path, err := filepath.Abs(g.bundle)
	if err != nil {
		return nil, err
	}
	b, err := sources.OpenBundle(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("-bundle: %w", err)
	}
	return k8s.ParseBundle(path, b.Group, b.Nodes)
}

// k8sFlags are the flags that all verbs on a deployed group share.
type k8sFlags struct {
	group groupFlags
	view  viewFlags
	lock  lockFlags
}

func (k *k8sFlags) register(f *flag.FlagSet) {
	k.group.register(f)
	k.view.register(f)
	f.BoolVar(&k.view.concise, "concise", false, "leave out the lines that tell of progress")
	f.StringVar(&k.view.jsonInto, "json-into", "", "write what -json prints to this `file`, and print for humans")
	k.lock.register(f)
}

// graph is the group's graph as settings of an engine, for a run that needs this.
func (k *k8sFlags) graph(ctx context.Context, p process, needs k8s.Needs) (settings, error) {
	env, err := k8s.EnvFrom(p.getenv, needs)
	if err != nil {
		return settings{}, err
	}
	sources := p.sources()
	group, err := k.group.read(ctx, sources)
	if err != nil {
		return settings{}, err
	}
	if err := p.checkSources(group); err != nil {
		return settings{}, err
	}
	files, err := group.Graph(env)
	if err != nil {
		return settings{}, err
	}
	return settings{files: files, sources: sources, stdinTaken: group.UsesStdin(), view: k.view, lock: k.lock, input: true}, nil
}

// sources are those of the images in this process. A session closes them.
func (p process) sources() *oci.Sources {
	return oci.NewSources(oci.SourceOptions{Stdin: p.stdin, Environ: os.Environ()})
}

// checkSources looks whether the images are there, without opening one.
func (p process) checkSources(group *k8s.Group) error {
	if err := group.CheckSources(os.Stat); err != nil {
		return err
	}
	if group.UsesStdin() && term.IsTerminal(int(p.stdin.Fd())) {
		return errors.New("the group file has an image come on the standard input, which is a terminal: pipe an archive into yuba, as in './stream-image | yuba k8s apply -auto-approve'")
	}
	return nil
}

// configuration is what a plan in this mode works on.
func (k *k8sFlags) configuration(ctx context.Context, p process, mode engine.Mode) (settings, error) {
	if mode == engine.Destroy {
		return k.teardown(ctx, p)
	}
	return k.graph(ctx, p, k8s.NeedsCluster|k8s.NeedsRegistry)
}

// teardown is the graph of a destroy, which works on what the state holds.
func (k *k8sFlags) teardown(ctx context.Context, p process) (settings, error) {
	if _, err := k8s.EnvFrom(p.getenv, k8s.NeedsCluster); err != nil {
		return settings{}, err
	}
	group, err := k.group.read(ctx, nil)
	if err != nil {
		return settings{}, err
	}
	return settings{files: group.Teardown(), view: k.view, lock: k.lock, input: true}, nil
}

func k8sCommands() []command {
	return append([]command{
		{
			name:    "k8s plan",
			args:    "[FLAGS]",
			summary: "Show what an apply would change.",
			env:     environment(),
			json:    new(engine.JSONStream),
			about:   `Exit codes with -detailed-exitcode: 0 nothing to do, 1 error, 2 there are changes.`,
			example: "yuba k8s plan -group=group.json -out=group.plan",
			setup:   k8sPlan,
		},
		{
			name:    "k8s apply",
			args:    "[FLAGS] [PLANFILE]",
			summary: "Push the images and roll the nodes out.",
			env:     environment(),
			json:    new(engine.JSONStream),
			about: `With a PLANFILE of 'yuba k8s plan -out' just that plan is carried out, without asking.
A node that does not become ready is set back to its last good image; the exit code is then 1.`,
			example: "yuba k8s apply -group=group.json -auto-approve\nyuba k8s apply -bundle=group.bundle",
			setup:   func(f *flag.FlagSet) action { return k8sApply(f, false) },
		},
		{
			name:    "k8s destroy",
			args:    "[FLAGS]",
			summary: "Remove the group's namespace with all that is in it.",
			env:     without("K8S_REGISTRY", environment()),
			json:    new(engine.JSONStream),
			about:   "The volumes' claims go with the namespace. The images stay in the registry.",
			example: "yuba k8s destroy -group=group.json",
			setup:   func(f *flag.FlagSet) action { return k8sApply(f, true) },
		},
		{
			name:    "k8s output",
			args:    "[FLAGS] [NAME]",
			summary: "Print the outputs of the last apply.",
			env:     stateEnvironment(),
			example: "yuba k8s output -json nodes",
			setup: func(f *flag.FlagSet) action {
				var view viewFlags
				view.register(f)
				raw := f.Bool("raw", false, "print a string, number or boolean as it is")
				return func(ctx context.Context, p process, args []string) error {
					if len(args) > 1 {
						return usagef("at most one output is named")
					}
					s, err := open(ctx, p, settings{view: view})
					if err != nil {
						return err
					}
					defer s.close()
					return s.Output(ctx, first(args), *raw)
				}
			},
		},
		{
			name:    "k8s show",
			args:    "[FLAGS] [PLANFILE]",
			summary: "Show the state, or a saved plan.",
			about:   "A saved plan is shown without asking any server.",
			env:     stateEnvironment(),
			example: "yuba k8s show -json group.plan",
			setup: func(f *flag.FlagSet) action {
				var view viewFlags
				view.register(f)
				return func(ctx context.Context, p process, args []string) error {
					if len(args) > 1 {
						return usagef("at most one plan file is shown")
					}
					s, err := open(ctx, p, settings{view: view, offline: len(args) == 1})
					if err != nil {
						return err
					}
					defer s.close()
					return s.Show(ctx, first(args))
				}
			},
		},
		{
			name:    "k8s validate",
			args:    "[FLAGS]",
			summary: "Check the group file and the graph made of it; asks no server.",
			env:     graphEnvironment(),
			json:    new(engine.JSONResult),
			example: "yuba k8s validate -group=group.json",
			setup: func(f *flag.FlagSet) action {
				var k k8sFlags
				k.group.register(f)
				k.view.register(f)
				return func(ctx context.Context, p process, args []string) error {
					if err := noArgs(args); err != nil {
						return err
					}
					set, err := k.graph(ctx, p, k8s.NeedsRegistry)
					if err != nil {
						return err
					}
					set.offline = true
					s, err := open(ctx, p, set)
					if err != nil {
						return err
					}
					defer s.close()
					return s.Validate(ctx)
				}
			},
		},
		{
			name:    "k8s import",
			args:    "[FLAGS] ADDRESS ID",
			summary: "Take an object that exists into the state.",
			env:     environment(),
			json:    new(engine.JSONStream),
			about: `An apply adopts objects that exist by itself; import is for looking at what it would change first.
The ID of a kubernetes_object is apiVersion=VERSION,kind=KIND,namespace=NAMESPACE,name=NAME. A claim is better left to the
apply: one that was imported is planned to be replaced, with its volume, where its class is another one.`,
			example: "yuba k8s import random_uuid.node_web 7f0b1f6e-3f0d-4f7c-a0a3-0c9f8d0a7d5e\n" +
				"yuba k8s import kubernetes_object.deployment_web apiVersion=apps/v1,kind=Deployment,namespace=fediversity,name=web",
			setup: func(f *flag.FlagSet) action {
				var k k8sFlags
				k.register(f)
				return func(ctx context.Context, p process, args []string) error {
					if len(args) != 2 {
						return usagef("an address and an ID are needed")
					}
					set, err := k.graph(ctx, p, k8s.NeedsCluster|k8s.NeedsRegistry)
					if err != nil {
						return err
					}
					s, err := open(ctx, p, set)
					if err != nil {
						return err
					}
					defer s.close()
					return s.Import(ctx, args[0], args[1])
				}
			},
		},
		{
			name:    "k8s nodes",
			args:    "[FLAGS]",
			summary: "Print the names of the group's nodes.",
			about:   "One name a line, or a JSON list. Asks no server and needs nothing from the environment.",
			example: "yuba k8s nodes -group=group.json",
			setup: func(f *flag.FlagSet) action {
				var g groupFlags
				g.register(f)
				asJSON := f.Bool("json", false, "print JSON")
				return func(ctx context.Context, p process, args []string) error {
					if err := noArgs(args); err != nil {
						return err
					}
					group, err := g.read(ctx, nil)
					if err != nil {
						return err
					}
					if *asJSON {
						return json.NewEncoder(p.stdout).Encode(group.NodeNames())
					}
					_, err = fmt.Fprint(p.stdout, strings.Join(append(group.NodeNames(), ""), "\n"))
					return err
				}
			},
		},
		bundleCommand(),
		{
			name:    "k8s schema",
			summary: "Print the JSON Schema of the group file.",
			example: "yuba k8s schema > group.schema.json",
			setup: func(*flag.FlagSet) action {
				return func(_ context.Context, p process, args []string) error {
					if err := noArgs(args); err != nil {
						return err
					}
					_, err := p.stdout.Write(k8s.Schema())
					return err
				}
			},
		},
		{
			name:    "k8s export",
			args:    "[FLAGS] DIR",
			summary: "Write the group's graph as a configuration for stock tofu.",
			env:     graphEnvironment(),
			about:   `Stock tofu finds the providers in a mirror that 'yuba providers mirror' makes.`,
			example: "yuba k8s export -group=group.json ./graph",
			setup:   k8sExport,
		},
	}, operatorCommands()...)
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func k8sPlan(f *flag.FlagSet) action {
	var k k8sFlags
	var plan planFlags
	k.register(f)
	plan.register(f, false)
	out := f.String("out", "", "save the plan to this `file`, for 'yuba k8s apply' or stock tofu")
	detailed := f.Bool("detailed-exitcode", false, "exit with 2 when there are changes")
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		options, err := plan.options()
		if err != nil {
			return err
		}
		options.Out = *out
		set, err := k.configuration(ctx, p, options.Mode)
		if err != nil {
			return err
		}
		set.parallelism, set.input = plan.parallelism, plan.input
		s, err := open(ctx, p, set)
		if err != nil {
			return err
		}
		defer s.close()
		changes, err := s.Plan(ctx, options)
		s.drain(err)
		if err == nil && changes && *detailed {
			return exitCode(2)
		}
		return err
	}
}

func k8sApply(f *flag.FlagSet, destroy bool) action {
	var k k8sFlags
	var plan planFlags
	k.register(f)
	plan.register(f, destroy)
	approve := f.Bool("auto-approve", false, "do not ask before changing anything")
	return func(ctx context.Context, p process, args []string) error {
		options, err := plan.options()
		if err != nil {
			return err
		}
		if destroy {
			options.Mode = engine.Destroy
		}
		o := engine.ApplyOptions{PlanOptions: options, AutoApprove: *approve}
		var set settings
		switch {
		case len(args) == 0:
			set, err = k.configuration(ctx, p, options.Mode)
			if err == nil && set.stdinTaken && !*approve {
				err = usagef("the image of a node comes on the standard input, so nobody can be asked there: give -auto-approve")
			}
		case len(args) == 1 && !destroy:
			o.PlanFile = args[0]
			err = onlyWith(f, "a plan file: the plan was made with what it says", "group", "bundle", "submission", "destroy", "refresh-only", "refresh", "replace", "target", "target-file", "exclude", "exclude-file")
			set = settings{view: k.view, lock: k.lock}
		default:
			err = usagef("unexpected argument %q", args[len(args)-1])
		}
		if err != nil {
			return err
		}
		set.parallelism, set.input = plan.parallelism, plan.input
		s, err := open(ctx, p, set)
		if err != nil {
			return err
		}
		defer s.close()
		err = s.Apply(ctx, o)
		s.drain(err)
		if options.Mode == engine.Normal {
			err = k.summarize(ctx, p, s, err)
		}
		return err
	}
}

// onlyWith refuses flags that something else, such as a saved plan, leaves no room for.
func onlyWith(f *flag.FlagSet, what string, names ...string) error {
	var err error
	f.Visit(func(x *flag.Flag) {
		if err == nil && slices.Contains(names, x.Name) {
			err = usagef("-%s has no place beside %s", x.Name, what)
		}
	})
	return err
}

func k8sExport(f *flag.FlagSet) action {
	var g groupFlags
	g.register(f)
	return func(ctx context.Context, p process, args []string) error {
		if len(args) != 1 {
			return usagef("one directory is needed")
		}
		k := k8sFlags{group: g}
		set, err := k.graph(ctx, p, k8s.NeedsRegistry)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return err
		}
		for name, data := range set.files {
			name = filepath.Join(args[0], name)
			if err := os.WriteFile(name, data, 0o644); err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, name)
		}
		return nil
	}
}
