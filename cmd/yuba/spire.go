package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/node"
	"fediversity.eu/yuba/spire/sync"
)

// Where things are on a spire node when nothing else is said.
const (
	spireDir    = "/var/lib/yuba-spire"
	spireSocket = "/run/spire/server/private/api.sock"
)

// spireCommands are the verbs that run on the spire node.
func spireCommands() []command {
	return []command{
		{
			name:    "spire show",
			args:    "[FLAGS]",
			summary: "Print what this spire node is: machine id, trust domain, trust bundle.",
			about:   "It runs on the spire node; a plan runs it there over ssh. It prints one JSON object.",
			example: "yuba spire show",
			setup:   spireShow,
		},
		{
			name:    "spire receive",
			args:    "[FLAGS]",
			summary: "Take over the nodes of a namespace, from standard input.",
			about: `It runs on the spire node; an apply runs it there over ssh. What it reads is a secret: it has the kubeconfig that the SPIRE
server reviews tokens with. It puts the kubeconfig and a drop-file for each node in place of those that the namespace had, and
refuses nodes that would have the identity of another namespace's.`,
			example: "yuba spire receive < handoff.json",
			setup:   spireReceive,
		},
		{
			name:    "spire retire",
			args:    "[FLAGS]",
			summary: "Take back the nodes of a namespace, named on standard input.",
			about: `It runs on the spire node; a destroy runs it there over ssh. The namespace's kubeconfig and drop-files are removed;
'spire sync' then deletes the entries and evicts the agents. A namespace that has none is no error.`,
			example: `echo '{"version":1,"namespace":"example"}' | yuba spire retire`,
			setup:   spireRetire,
		},
		{
			name:    "spire sync",
			args:    "[FLAGS]",
			summary: "Keep the SPIRE server in step with what was handed over.",
			about: `It runs on the spire node, as the SPIRE server's user or root, until a signal ends it. From the drop directory it writes the
plugin data file of the server's NodeAttestor "k8s_psat", lets the server read it (SIGUSR1 to the process that listens on
the socket), keeps the registration entries whose id begins with "k8s.", and evicts agents of nodes that were retired.

With -once it makes one pass: exit code 1 when something could not be brought in step; files that are no good are logged and
left out. With -once and an empty -server-socket it only writes the plugin data file, for before the server's start.`,
			example: "yuba spire sync\nyuba spire sync -once -server-socket=",
			setup:   spireSync,
		},
	}
}

func spireShow(f *flag.FlagSet) action {
	socket := spireSocketFlag(f)
	machineID := spireMachineFlag(f)
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		ctx, stop := p.interruptible(ctx)
		defer stop()
		about, err := node.Describe(ctx, *socket, *machineID)
		if err != nil {
			return interrupted(ctx, err)
		}
		data, err := about.Marshal()
		if err != nil {
			return fmt.Errorf("what the SPIRE server answers: %w", err)
		}
		_, err = p.stdout.Write(data)
		return err
	}
}

func spireReceive(f *flag.FlagSet) action {
	dir, machineID := spireDirFlag(f), spireMachineFlag(f)
	return func(ctx context.Context, p process, args []string) error {
		data, err := spireInput(p, args)
		if err != nil {
			return err
		}
		h, err := handoff.ParseHandoff(data)
		if err != nil {
			return err
		}
		if h.MachineID != "" {
			if err := node.Is(h.MachineID, *machineID); err != nil {
				return err
			}
		}
		ctx, stop := p.interruptible(ctx)
		defer stop()
		return interrupted(ctx, drop.Receive(ctx, *dir, h))
	}
}

func spireRetire(f *flag.FlagSet) action {
	dir := spireDirFlag(f)
	return func(ctx context.Context, p process, args []string) error {
		data, err := spireInput(p, args)
		if err != nil {
			return err
		}
		r, err := handoff.ParseRetirement(data)
		if err != nil {
			return err
		}
		ctx, stop := p.interruptible(ctx)
		defer stop()
		return interrupted(ctx, drop.Retire(ctx, *dir, r.Namespace))
	}
}

// spireInput is the document on the standard input.
func spireInput(p process, args []string) ([]byte, error) {
	if err := noArgs(args); err != nil {
		return nil, err
	}
	data, err := handoff.Read(p.stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}

func spireSync(f *flag.FlagSet) action {
	dir, socket := spireDirFlag(f), spireSocketFlag(f)
	file := f.String("plugin-data", "", "the `file` that is plugin_data_file of the server's NodeAttestor \"k8s_psat\" (default DIR/k8s_psat.json)")
	interval := duration(time.Minute)
	f.Var(&interval, "interval", "look at everything again after this `duration` also when nothing has happened")
	once := f.Bool("once", false, "make one pass")
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if time.Duration(interval) < time.Second {
			return usagef("-interval must be 1s or more")
		}
		if *socket == "" && !*once {
			return usagef("-server-socket can be empty only with -once")
		}
		o := sync.Options{PluginData: *file, Socket: *socket, Interval: time.Duration(interval), Log: slog.New(slog.NewTextHandler(p.stderr, nil))}
		var err error
		if o.Dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
		if o.PluginData == "" {
			o.PluginData = filepath.Join(o.Dir, "k8s_psat.json")
		}
		if o.PluginData, err = filepath.Abs(o.PluginData); err != nil {
			return err
		}
		ctx, stop := p.interruptible(ctx)
		defer stop()
		if *once {
			return interrupted(ctx, sync.Once(ctx, o))
		}
		if err := sync.Run(ctx, o); ctx.Err() == nil {
			return err
		}
		return nil // a signal is how it ends
	}
}

func spireDirFlag(f *flag.FlagSet) *string {
	return f.String("dir", spireDir, "the `directory` of what was handed over; it must be there")
}

func spireMachineFlag(f *flag.FlagSet) *string {
	return f.String("machine-id", "/etc/machine-id", "the `file` with the machine's id, machine-id(5)")
}

func spireSocketFlag(f *flag.FlagSet) *string {
	return f.String("server-socket", spireSocket, "the `socket` of the SPIRE server's API")
}
