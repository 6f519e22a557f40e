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
	"strings"
	"syscall"
)

// version is yuba's own version, stamped by the build.
var version = "0.1.0-dev"

// process is what a command sees of the world outside, so that tests can
// stand in for it.
type process struct {
	stdin, stdout, stderr *os.File
	getenv                func(string) string
	// interrupts has a value for each SIGINT or SIGTERM.
	interrupts <-chan struct{}
}

func main() {
	if address, ok := pluginAddress(os.Args[0]); ok {
		os.Exit(servePlugin(address))
	}
	// Memory that is never touched, so it costs address space only. To the
	// garbage collector it is live: it collects when as much has come on top,
	// not for each few megabytes of a plan's garbage. Unlike a higher GOGC, it
	// does not multiply the memory of a large group.
	ballast := make([]byte, 32<<20)
	code := run(context.Background(), os.Args[1:], process{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv:     os.Getenv,
		interrupts: interrupts(),
	})
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// interrupts turns signals into values of a channel. The default action of a
// signal, ending the process at once, would leave the state locked.
func interrupts() <-chan struct{} {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	out := make(chan struct{}, 2)
	go func() {
		for range signals {
			select {
			case out <- struct{}{}:
			default: // two are known already; a third says nothing new
			}
		}
	}()
	return out
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
	cmd, rest, err := find(args)
	if err != nil {
		fmt.Fprintf(p.stderr, "yuba: %v\n", err)
		return 1
	}
	if cmd == nil {
		overview(p.stdout)
		return 0
	}
	flags := flag.NewFlagSet("yuba "+cmd.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its own reports lack the program's manners
	action := cmd.setup(flags)
	switch err := flags.Parse(rest); {
	case errors.Is(err, flag.ErrHelp):
		cmd.help(p.stdout, flags)
		return 0
	case err != nil:
		return report(p.stderr, cmd, usageError{err})
	}
	return report(p.stderr, cmd, action(ctx, p, flags.Args()))
}

// report says what went wrong, unless that has been said, and returns the
// exit code.
func report(w io.Writer, cmd *command, err error) int {
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case alreadyReported(err):
		return 1
	}
	fmt.Fprintf(w, "yuba %s: %v\n", cmd.name, err)
	if errors.As(err, &usage) {
		fmt.Fprintf(w, "See 'yuba %s -h'.\n", cmd.name)
	}
	return 1
}

// find returns the command that args name and the arguments that are left;
// no command at all when help is asked for.
func find(args []string) (*command, []string, error) {
	for len(args) > 0 && isHelp(args[0]) {
		args = args[1:]
		if len(args) == 0 {
			return nil, nil, nil
		}
	}
	if len(args) == 0 {
		return nil, nil, nil
	}
	if v := strings.TrimLeft(args[0], "-"); v == "version" || args[0] == "-v" {
		args = append([]string{"version"}, args[1:]...)
	}
	var best *command
	var used int
	all := commands()
	for i := range all {
		words := strings.Fields(all[i].name)
		if len(words) > used && len(words) <= len(args) && strings.Join(args[:len(words)], " ") == all[i].name {
			best, used = &all[i], len(words)
		}
	}
	if best != nil {
		return best, args[used:], nil
	}
	// A group of commands by itself ("yuba k8s") lists what is in it.
	var in []string
	for _, c := range all {
		if first, rest, ok := strings.Cut(c.name, " "); ok && first == args[0] {
			in = append(in, rest)
		}
	}
	if len(in) > 0 {
		if len(args) == 1 || isHelp(args[1]) {
			return groupHelp(args[0]), nil, nil
		}
		return nil, nil, fmt.Errorf("%s has no command %q; it has: %s", args[0], args[1], strings.Join(in, ", "))
	}
	return nil, nil, fmt.Errorf("there is no command %q; 'yuba -h' lists the commands", args[0])
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}
