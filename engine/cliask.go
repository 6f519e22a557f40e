package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/backend"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/jsonprovider"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/dag"
	"github.com/opentofu/opentofu/internal/getproviders"
	"github.com/opentofu/opentofu/internal/plans"
	"github.com/opentofu/opentofu/internal/repl"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/internal/tofu"
	"golang.org/x/term"
)

func (c *cli) console(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseConsole(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true}.locked(args.Backend.StateLock, args.Backend.StateLockTimeout))
	view := views.NewConsole(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	diags = c.load(ctx, e, scope{vars: args.Vars, config: true, paths: statePaths{state: args.StatePath}})
	if diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	op := e.operation(nil, nil, view.Backend().StateLocker())
	op.AllowUnsetVariables = true
	run, _, unlock, more := e.localRun(ctx, op)
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	defer func() { view.Diagnostics(unlock()) }()
	scope, more := run.Core.Eval(ctx, run.Config, run.InputState, addrs.RootModuleInstance, &tofu.EvalOpts{SetVariables: run.PlanOpts.SetVariables})
	if diags = diags.Append(more); scope == nil {
		return c.report(e, view, diags)
	}
	scope.ConsoleMode = true
	if diags.HasErrors() {
		diags = diags.Append(tfdiags.SimpleWarning("Due to the problems above, some expressions may produce unexpected results."))
	}
	view.Diagnostics(diags)
	session := &repl.Session{Scope: scope}
	if fd, ok := e.asker.terminal(); ok {
		return c.converse(ctx, fd, session, view)
	}
	var open brackets
	lines := bufio.NewScanner(e.opts.stdin())
	lines.Buffer(nil, 1<<20)
	next := func() (string, error) {
		if !lines.Scan() {
			return "", cmp.Or(lines.Err(), io.EOF)
		}
		return lines.Text(), nil
	}
	for {
		line, err := await(ctx, next)
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			return c.report(e, view, tfdiags.Diagnostics{}.Append(fmt.Errorf("reading the standard input: %w", err)))
		}
		expr, complete := open.add(strings.TrimSpace(line))
		if !complete {
			continue
		}
		result, quit, diags := session.Handle(expr)
		switch {
		case diags.HasErrors():
			return c.report(e, view, diags)
		case quit:
			return 0
		}
		view.Output(result)
	}
}

// await is what read gives, or why ctx has ended: then read is left to itself.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type line struct {
		text string
		err  error
	}
	got := make(chan line, 1)
	go func() {
		text, err := read()
		got <- line{text, err}
	}()
	select {
	case l := <-got:
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// converse evaluates what is typed at a terminal.
func (c *cli) converse(ctx context.Context, fd int, session *repl.Session, view views.Console) int {
	old, err := term.MakeRaw(fd)
	if err != nil {
		view.Diagnostics(tfdiags.Diagnostics{}.Append(fmt.Errorf("setting up the terminal: %w", err)))
		return 1
	}
	defer func() { _ = term.Restore(fd, old) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{c.Stdin, c.Stdout}, "> ")
	var open brackets
	for {
		line, err := await(ctx, t.ReadLine)
		if errors.Is(err, io.EOF) { // ^D or ^C
			return 0
		}
		if err != nil {
			_ = term.Restore(fd, old)
			view.Diagnostics(tfdiags.Diagnostics{}.Append(fmt.Errorf("reading from the terminal: %w", err)))
			return 1
		}
		expr, complete := open.add(strings.TrimSpace(line))
		if !complete {
			t.SetPrompt(strings.Repeat(".", open.depth()) + " ")
			continue
		}
		t.SetPrompt("> ")
		result, quit, diags := session.Handle(expr)
		_ = term.Restore(fd, old) // a view ends lines as a file has them
		if len(diags) > 0 {
			view.Diagnostics(diags)
		}
		if !quit && !diags.HasErrors() {
			view.Output(result)
		}
		if _, err := term.MakeRaw(fd); err != nil || quit {
			return 0
		}
	}
}

// brackets puts lines together while a bracket is open or a line ends in a
// backslash.
type brackets struct {
	lines                  []string
	brace, bracket, parens int
	continued              bool
}

func (b *brackets) depth() int {
	n := b.brace + b.bracket + b.parens
	if b.continued {
		n++
	}
	return n
}

// add takes a line. When the expression is complete it returns it, and starts
// anew. Too many closing brackets are the evaluation's to complain about.
func (b *brackets) add(line string) (expr string, complete bool) {
	b.continued = strings.HasSuffix(line, `\`) && !strings.HasSuffix(line, `\\`)
	if line = strings.TrimSuffix(line, `\`); line != "" {
		b.lines = append(b.lines, line)
		tokens, _ := hclsyntax.LexConfig([]byte(line), "<console-input>", hcl.InitialPos)
		for _, t := range tokens {
			switch t.Type {
			case hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
				b.brace++
			case hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd:
				b.brace--
			case hclsyntax.TokenOBrack:
				b.bracket++
			case hclsyntax.TokenCBrack:
				b.bracket--
			case hclsyntax.TokenOParen:
				b.parens++
			case hclsyntax.TokenCParen:
				b.parens--
			}
		}
	}
	if b.depth() > 0 && b.brace >= 0 && b.bracket >= 0 && b.parens >= 0 {
		return "", false
	}
	expr = strings.Join(b.lines, "\n")
	*b = brackets{}
	return expr, true
}

func (c *cli) graph(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseGraph(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewGraph(e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	diags = c.load(ctx, e, scope{vars: args.Vars, config: args.PlanPath == "", plan: args.PlanPath})
	if diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	op := e.operation(nil, nil, view.Backend().StateLocker())
	op.AllowUnsetVariables = true
	if args.PlanPath != "" {
		if more := e.openPlan(op, args.PlanPath, false); more.HasErrors() {
			return c.report(e, view, more)
		}
	}
	run, _, unlock, more := e.localRun(ctx, op)
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	defer func() { view.Diagnostics(unlock()) }()
	kind := args.GraphType
	if kind == "" {
		if kind = "plan"; run.Plan != nil {
			kind = "apply"
		}
	}
	var g *tofu.Graph
	switch kind {
	case "plan":
		g, more = run.Core.PlanGraphForUI(run.Config, run.InputState, plans.NormalMode)
	case "plan-refresh-only":
		g, more = run.Core.PlanGraphForUI(run.Config, run.InputState, plans.RefreshOnlyMode)
	case "plan-destroy":
		g, more = run.Core.PlanGraphForUI(run.Config, run.InputState, plans.DestroyMode)
	case "apply":
		plan := run.Plan
		if plan == nil {
			plan = &plans.Plan{Changes: plans.NewChanges(), UIMode: plans.NormalMode, PriorState: run.InputState, PrevRunState: run.InputState}
		}
		g, more = run.Core.ApplyGraphForUI(plan, run.Config)
	case "eval", "validate":
		more = more.Append(sourceless("Graph type no longer available", "The graph type %q is no longer available. Use -type=plan instead to get a similar result.", kind))
	default:
		more = more.Append(sourceless("Unsupported graph type", `The -type=... argument must be either "plan", "plan-refresh-only", "plan-destroy", or "apply".`))
	}
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	dot, err := tofu.GraphDot(g, &dag.DotOpts{DrawCycles: args.DrawCycles, MaxDepth: args.ModuleDepth, Verbose: args.Verbose})
	if err != nil {
		return c.report(e, view, diags.Append(sourceless("Failed generating the graph representation", "Error encountered while generating the graph representation: %s.", err)))
	}
	view.Output(dot) // warnings would be in the way of what reads this
	return 0
}

func (c *cli) providers(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseProviders(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewProviders(e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if diags = c.load(ctx, e, scope{vars: args.Vars, config: true, anyProvider: true}); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	cfg, hclDiags := e.loader.LoadConfig(ctx, configDir, e.call)
	if diags = diags.Append(hclDiags); hclDiags.HasErrors() {
		return c.report(e, view, diags)
	}
	mgr, more := e.readState(ctx)
	if more.HasErrors() {
		return c.report(e, view, diags.Append(more))
	}
	reqs, hclDiags := cfg.ProviderRequirementsByModule()
	if diags = diags.Append(hclDiags); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	view.ModuleRequirements(reqs)
	var inState getproviders.Requirements
	if state := mgr.State(); state != nil {
		inState = state.ProviderRequirements()
	}
	view.StateRequirements(inState)
	return c.report(e, view, diags)
}

func (c *cli) providersSchema(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseProvidersSchema(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions})
	view := views.NewProvidersSchema(e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if diags = c.load(ctx, e, scope{vars: args.Vars, config: true}); diags.HasErrors() {
		return c.report(e, view, diags)
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	cfg, more := e.loadConfig(ctx)
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	mgr, more := e.readState(ctx)
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	schemas, more := e.schemas(ctx, cfg, mgr.State())
	if diags = diags.Append(more); more.HasErrors() {
		return c.report(e, view, diags)
	}
	out, err := jsonprovider.Marshal(schemas)
	if err != nil {
		return c.report(e, view, diags.Append(sourceless("Failed to marshal provider schemas to json", "%s", err)))
	}
	view.Output(string(out))
	return 0
}

func (c *cli) workspaceList(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseWorkspaceList(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewWorkspace(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	if c.report(e, view, c.load(ctx, e, scope{vars: args.Vars})) != 0 {
		return 1
	}
	list, err := e.state.Workspaces(ctx)
	if err != nil {
		return c.report(e, view, diags.Append(sourceless("Error loading workspaces", "Listing workspaces failed: %s", err)))
	}
	current, overridden := workspaceOverridden()
	view.ListWorkspaces(list, current)
	if overridden {
		view.WorkspaceOverwrittenByEnvVarWarn()
	}
	return 0
}

func (c *cli) workspaceShow(_ context.Context, raw []string) int {
	args, closer, diags := arguments.ParseWorkspaceShow(raw)
	defer closer()
	e := c.engine(settings{view: args.ViewOptions, newline: true})
	view := views.NewWorkspace(args.ViewOptions, e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	name, err := currentWorkspace()
	if err != nil {
		return c.report(e, view, diags.Append(sourceless("Error getting the current workspace", "Failed getting the current workspace: %s", err)))
	}
	view.WorkspaceShow(name)
	return 0
}

// workspaceFixed says how to choose a workspace: stock tofu remembers the choice
// below .terraform, where nothing is written here.
func (c *cli) workspaceFixed(ctx context.Context, _ []string) int {
	e := c.engine(settings{view: arguments.ViewOptions{ViewType: arguments.ViewHuman}, newline: true})
	diags := c.load(ctx, e, scope{})
	if !diags.HasErrors() {
		if e.state.local == nil {
			diags = diags.Append(backend.ErrWorkspacesNotSupported)
		} else {
			diags = diags.Append(sourceless("Workspaces are chosen by the environment",
				"Nothing is written below .terraform, so no choice is remembered. TF_WORKSPACE=NAME names the workspace of each command, and an apply makes its state."))
		}
	}
	return c.report(e, e.tty.results, diags)
}
