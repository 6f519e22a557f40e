package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"golang.org/x/term"

	"fediversity.eu/yuba/state/server"
)

// stateCommands are the verbs on the state itself, whatever made it.
func stateCommands() []command {
	return []command{
		stockCommand("state lock", "[FLAGS]", "Show who holds the lock of the state.",
			`Exit codes: 0 nobody holds it, 2 somebody does, 1 it could not be found out.

A state server has no question for that: the lock is asked for, and what is taken so is given back at once. A run that
begins in that moment finds it held for "state lock"; -lock-timeout lets it wait. A state in a file is only looked at.

`+stateWhere,
			"yuba -chdir=infra state lock\nTF_HTTP_ADDRESS=https://state.example.org/group yuba state lock -json",
			varFlags, stateFlag, onOff("json", "print JSON")),
		{
			name:    "state serve",
			args:    "[FLAGS]",
			summary: "Serve states over OpenTofu's HTTP backend protocol.",
			about: `A small state server: locks, kept versions of each state, basic authentication, TLS.
Each path is a state of its own: http://HOST:PORT/NAME.`,
			example: "yuba state serve -dir=/var/lib/yuba-state -listen=127.0.0.1:8390\n" +
				"export TF_HTTP_ADDRESS=http://127.0.0.1:8390/example",
			setup: stateServe,
		},
		{
			name:    "state passwd",
			args:    "USER",
			summary: "Make a line for the users file of 'state serve'.",
			about:   "Asks for the password, or reads it from standard input, and prints USER and its bcrypt hash.",
			example: "yuba state passwd ci < password >> users",
			setup: func(*flag.FlagSet) action {
				return func(_ context.Context, p process, args []string) error {
					if len(args) != 1 {
						return usagef("one user is needed")
					}
					password, err := secretLine(p)
					if err != nil {
						return err
					}
					line, err := server.HashPassword(args[0], password)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintln(p.stdout, line)
					return err
				}
			},
		},
	}
}

// secretLine reads a password: from a terminal twice, without showing it, else
// the first line of the standard input.
func secretLine(p process) (string, error) {
	if term.IsTerminal(int(p.stdin.Fd())) {
		return typedTwice(p)
	}
	line, err := bufio.NewReader(io.LimitReader(p.stdin, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("standard input has no password")
	}
	return line, nil
}

// typedTwice asks at the terminal. It is raw meanwhile, so that ^C is a key
// like others and the terminal is left as it was.
func typedTwice(p process) (_ string, err error) {
	fd := int(p.stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.stdin, p.stderr}, "")
	var typed [2]string
	for i, prompt := range []string{"Password: ", "Once more: "} {
		if typed[i], err = t.ReadPassword(prompt); err != nil {
			return "", errors.New("no password was typed")
		}
	}
	switch {
	case typed[0] != typed[1]:
		return "", errors.New("the two are not the same")
	case typed[0] == "":
		return "", errors.New("a password is needed")
	}
	return typed[0], nil
}

func stateServe(f *flag.FlagSet) action {
	var c server.Config
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8390", "`address` to listen on")
	f.StringVar(&c.Dir, "dir", "", "`directory` that holds the states (required)")
	f.StringVar(&c.UsersFile, "users", "", "htpasswd `file` with bcrypt entries: who may use the server")
	f.StringVar(&c.AccessFile, "access", "", "`file` of lines USER STATES RIGHT: who may read or write which states")
	f.StringVar(&c.TLSCert, "tls-cert", "", "certificate `file` in PEM")
	f.StringVar(&c.TLSKey, "tls-key", "", "private key `file` in PEM")
	f.IntVar(&c.Retain, "retain", server.DefaultRetain, "how many versions of each state are kept, a `number`")
	f.BoolVar(&c.AllowAnonymous, "allow-anonymous", false, "serve without -users on an address other machines can reach")
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if c.Dir == "" {
			return usagef("-dir is needed")
		}
		c.Log = slog.New(slog.NewTextHandler(p.stderr, nil))
		c.Ready = func(baseURL string, _ net.Addr) { fmt.Fprintf(p.stdout, "serving states on %s\n", baseURL) }
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cancelOnInterrupt(ctx, p.interrupts(), cancel)
		return server.ListenAndServe(ctx, c)
	}
}
