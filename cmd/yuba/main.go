// Command yuba deploys groups of NixOS nodes to Kubernetes. It links
// OpenTofu's core and its providers into its own process; see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	engine "github.com/opentofu/opentofu/yuba"
)

// version is yuba's own version, stamped by the build.
var version = "0.1.0-dev"

// process is what a command sees of the world outside, so that tests can
// stand in for it.
type process struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	// interrupts begins to catch SIGINT, SIGTERM and SIGHUP: the channel has a value
	// for each. Until then they end the process at once, as is right while
	// there is nothing to clean up.
	interrupts func() <-chan struct{}
	// startDir is the working directory before -chdir.
	startDir string
}

func main() {
	if address, ok := pluginAddress(os.Args[0]); ok {
		os.Exit(servePlugin(address))
	}
	// Memory that is never touched, so it costs address space only. To the
	// garbage collector it is live: a small plan is over before anything is
	// collected, and a larger one is collected less often than its own size
	// would have it. docs/performance.md has the figures. Whoever sets one of
	// Go's own variables decides in our place.
	var ballast []byte
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		ballast = make([]byte, 128<<20)
		debug.SetGCPercent(50)
	}
	stdout, stderr, finish := watch(os.Stdout, os.Stderr)
	code := run(context.Background(), os.Args[1:], process{
		stdin: os.Stdin, stdout: stdout, stderr: stderr,
		getenv:     os.Getenv,
		interrupts: interrupts,
	})
	code = delivered(code, os.Stderr, finish())
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// interrupts turns signals into values of a channel. The default action of a
// signal, ending the process at once, would leave the state locked. That goes
// for SIGPIPE, too: a reader that has seen enough (| head) must not stop an
// apply in the middle.
//
// The first signal starts a clock, and the second one another: what does not
// end by itself within the time that help promises is ended here.
func interrupts() <-chan struct{} {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	out := make(chan struct{}, 2)
	go func() {
		for _, limit := range []time.Duration{engine.StopLimit, engine.CancelLimit} {
			<-signals
			out <- struct{}{}
			time.AfterFunc(limit, func() {
				fmt.Fprintf(os.Stderr, "yuba: it did not end within %v after the signal, and is ended now; the next run says if the state is still locked.\n", limit)
				os.Exit(1)
			})
		}
		for range signals { // it is releasing the lock: impatience must not keep it from that
		}
	}()
	return out
}

// cancelOnInterrupt cancels what there is nothing to clean up after.
func cancelOnInterrupt(ctx context.Context, interrupts <-chan struct{}, cancel context.CancelFunc) {
	go func() {
		select {
		case <-interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
}

// errInterrupted is the end of a command that holds no lock, when a signal
// came. Requests that the signal cuts short end with it, and not with
// context.Canceled: it is the cause of the context's end.
var errInterrupted = errors.New("interrupted")

// interruptible ends the context with errInterrupted at the first signal, and
// the process at the second. It is for commands that may end at any moment.
func (p process) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	interrupts := p.interrupts()
	signal.Reset(syscall.SIGPIPE)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-interrupts:
			cancel(errInterrupted)
		}
		<-interrupts
		os.Exit(1)
	}()
	return ctx, func() { cancel(nil) }
}

// interrupted is errInterrupted for an error that comes from a signal: what a
// request was in the middle of is of no interest then.
func interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}

// exitCode is an error that says no more than the code to exit with: what
// there was to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run carries out one command line and returns the process's exit code.
func run(ctx context.Context, args []string, p process) int {
	p.startDir, _ = os.Getwd() // without one, "" is as good as any other
	args, err := changeDir(args)
	if err != nil {
		return report(p, &command{}, nil, err)
	}
	cmd, rest, help, err := find(args)
	if err != nil {
		fmt.Fprintf(p.stderr, "yuba: %v\n", err)
		return 1
	}
	if cmd == nil {
		return report(p, &command{}, nil, overview(p.stdout))
	}
	if before, after := misplaced(rest); before != "" {
		return report(p, cmd, rest, usagef("-chdir stands before the command: yuba %s %s", before, strings.Join(append(strings.Fields(cmd.name), after...), " ")))
	}
	flags := flag.NewFlagSet("yuba "+cmd.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its own reports lack the program's manners
	action := cmd.setup(flags)
	if cmd.stock || cmd.loose {
		help = help || asksHelp(rest)
		switch {
		case help:
			return report(p, cmd, nil, cmd.help(p.stdout, flags))
		case cmd.stock:
			return stockVerb(ctx, p, cmd.name, rest)
		}
		return report(p, cmd, rest, action(ctx, p, rest))
	}
	words, err := parse(flags, rest)
	switch {
	case help || errors.Is(err, flag.ErrHelp):
		return report(p, cmd, nil, cmd.help(p.stdout, flags))
	case err != nil:
		return report(p, cmd, rest, usageError{err})
	}
	return report(p, cmd, rest, action(ctx, p, words))
}

// misplaced finds a -chdir behind the command, and gives it and the other arguments.
func misplaced(args []string) (chdir string, others []string) {
	for i, a := range args {
		if a == "--" {
			break
		}
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); name == "chdir" && a[0] == '-' {
			return "-" + strings.TrimLeft(a, "-"), slices.Concat(args[:i], args[i+1:])
		}
	}
	return "", nil
}

// parse sets the flags, which may stand before, between and after the words,
// and returns the words. All behind "--" are words.
func parse(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		rest := flags.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(words, rest...), nil
		}
		if len(rest) == 0 {
			return words, nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// report says what went wrong, unless that has been said, and returns the
// exit code. Args are the command's, as they were given.
func report(p process, cmd *command, args []string, err error) int {
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case alreadyReported(err):
		return 1
	case cmd.json != nil && asksJSON(args):
		if err = engine.ReportJSON(p.stdout, p.stderr, *cmd.json, err); alreadyReported(err) {
			return 1
		}
	}
	name := strings.TrimSpace("yuba " + cmd.name)
	fmt.Fprintf(p.stderr, "%s: %v\n", name, err)
	if errors.As(err, &usage) {
		fmt.Fprintf(p.stderr, "See '%s -h'.\n", name)
	}
	return 1
}

// asksJSON looks for -json in arguments that may be no good otherwise.
func asksJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "-json", "--json", "-json=true", "--json=true":
			return true
		case "--":
			return false
		}
	}
	return false
}

// asksHelp looks for -help in arguments that are not parsed here.
func asksHelp(args []string) bool {
	for _, a := range args {
		switch a {
		case "-h", "-help", "--help":
			return true
		case "--":
			return false
		}
	}
	return false
}

// find returns the command that args name, the arguments that are left, and
// whether only its help is asked for; no command at all when the overview is.
func find(args []string) (_ *command, rest []string, help bool, _ error) {
	for len(args) > 0 && isHelp(args[0]) {
		args, help = args[1:], true
	}
	if len(args) == 0 {
		return nil, nil, true, nil
	}
	if v := strings.TrimLeft(args[0], "-"); v == "version" || args[0] == "-v" {
		args = append([]string{"version"}, args[1:]...)
	}
	args = expandAlias(args)
	var best *command
	var used int
	all := commands()
	for i := range all {
		words := strings.Fields(all[i].name)
		if len(words) > used && len(words) <= len(args) && strings.Join(args[:len(words)], " ") == all[i].name {
			best, used = &all[i], len(words)
		}
	}
	for n := min(len(args), 2); n > used; n-- {
		if name := strings.Join(args[:n], " "); absent[name] != "" {
			return nil, nil, false, fmt.Errorf("there is no command %q: %s", name, absent[name])
		}
	}
	if best != nil {
		return best, args[used:], help, nil
	}
	// A group of commands by itself ("yuba k8s") lists what is in it.
	var in []string
	for _, c := range all {
		if first, rest, ok := strings.Cut(c.name, " "); ok && first == args[0] {
			in = append(in, rest)
		}
	}
	switch {
	case len(in) == 0:
		return nil, nil, false, fmt.Errorf("there is no command %q%s; 'yuba -h' lists the commands", args[0], didYouMean(args[0], firstWords(all)))
	case len(args) == 1 || isHelp(args[1]) && len(args) == 2:
		return groupHelp(args[0]), nil, false, nil
	case isHelp(args[1]):
		return find(append([]string{"help", args[0]}, args[2:]...))
	}
	return nil, nil, false, fmt.Errorf("%s has no command %q%s; it has: %s", args[0], args[1], didYouMean(args[1], in), strings.Join(in, ", "))
}

// firstWords are those with which commands begin.
func firstWords(all []command) []string {
	var out []string
	for _, c := range all {
		first, _, _ := strings.Cut(c.name, " ")
		out = append(out, first)
	}
	return out
}

// expandAlias puts the name of a command in the place of an alias.
func expandAlias(args []string) []string {
	if len(args) > 1 {
		if name, ok := aliases[args[0]+" "+args[1]]; ok {
			return append(strings.Fields(name), args[2:]...)
		}
	}
	return args
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}
