package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"fediversity.eu/yuba/state/server"
)

// stateCommands are the verbs on the state itself, whatever made it.
func stateCommands() []command {
	return []command{
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
			name:    "state list",
			summary: "List the addresses of the objects in the state.",
			example: "yuba state list",
			setup: func(*flag.FlagSet) action {
				return withState(0, func(ctx context.Context, p process, s *session, _ []string) error {
					list, err := s.StateList(ctx)
					for _, a := range list {
						fmt.Fprintln(p.stdout, a)
					}
					return err
				})
			},
		},
		{
			name:    "state pull",
			summary: "Print the state as it is stored, decrypted.",
			example: "yuba state pull > backup.tfstate",
			setup: func(*flag.FlagSet) action {
				return withState(0, func(ctx context.Context, p process, s *session, _ []string) error {
					return s.StatePull(ctx, p.stdout)
				})
			},
		},
		{
			name:    "state push",
			args:    "[-force] FILE",
			summary: "Store a state file, such as errored.tfstate.",
			about:   "A state with another lineage or a lower serial than the stored one is refused, unless -force.",
			example: "yuba state push errored.tfstate",
			setup: func(f *flag.FlagSet) action {
				force := f.Bool("force", false, "store it whatever the lineage and serial of the stored one")
				return withState(1, func(ctx context.Context, _ process, s *session, args []string) error {
					in, err := os.Open(args[0])
					if err != nil {
						return err
					}
					defer in.Close()
					return s.StatePush(ctx, in, *force)
				})
			},
		},
		{
			name:    "force-unlock",
			args:    "[-force] LOCK_ID",
			summary: "Release a lock that its holder left behind.",
			about:   "Nothing of the state itself is changed. Be sure that the holder is gone: it may still be writing.",
			example: "yuba force-unlock 7f0b1f6e-3f0d-4f7c-a0a3-0c9f8d0a7d5e",
			setup: func(f *flag.FlagSet) action {
				force := f.Bool("force", false, "do not ask")
				return withState(1, func(ctx context.Context, p process, s *session, args []string) error {
					if !*force {
						if err := confirm(p, fmt.Sprintf("Release the lock %s, which somebody else may hold?", args[0])); err != nil {
							return err
						}
					}
					if err := s.ForceUnlock(ctx, args[0]); err != nil {
						return err
					}
					_, err := fmt.Fprintln(p.stdout, "The state is unlocked.")
					return err
				})
			},
		},
	}
}

// withState makes an action of one that works on the state with n arguments.
func withState(n int, f func(context.Context, process, *session, []string) error) action {
	return func(ctx context.Context, p process, args []string) error {
		if len(args) != n {
			return usagef("%d arguments are needed, there are %d", n, len(args))
		}
		s, err := open(ctx, p, settings{lock: lockFlags{lock: true}})
		if err != nil {
			return err
		}
		defer s.close()
		return f(ctx, p, s, args)
	}
}

// confirm asks a question to which only "yes" is a yes.
func confirm(p process, question string) error {
	fmt.Fprintf(p.stderr, "%s\n  Only 'yes' will be accepted to approve.\n\n  Enter a value: ", question)
	var answer string
	if _, err := fmt.Fscanln(p.stdin, &answer); err != nil || answer != "yes" {
		return fmt.Errorf("not approved; nothing was changed")
	}
	return nil
}

func stateServe(f *flag.FlagSet) action {
	var c server.Config
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8390", "`address` to listen on")
	f.StringVar(&c.Dir, "dir", "", "`directory` that holds the states (required)")
	f.StringVar(&c.UsersFile, "users", "", "htpasswd `file` with bcrypt entries: who may use the server")
	f.StringVar(&c.TLSCert, "tls-cert", "", "certificate `file` in PEM")
	f.StringVar(&c.TLSKey, "tls-key", "", "private key `file` in PEM")
	f.BoolVar(&c.AllowAnonymous, "allow-anonymous", false, "serve without -users on an address other machines can reach")
	return func(ctx context.Context, p process, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if c.Dir == "" {
			return usagef("-dir is needed")
		}
		c.Log = p.stderr
		c.Ready = func(address string) { fmt.Fprintf(p.stdout, "serving states on %s\n", address) }
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-p.interrupts:
				cancel()
			case <-ctx.Done():
			}
		}()
		return server.ListenAndServe(ctx, c)
	}
}
