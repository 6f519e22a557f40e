package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"unicode"

	engine "github.com/opentofu/opentofu/yuba"
	"golang.org/x/term"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/providers/oci"
	"fediversity.eu/yuba/state"
)

// alreadyReported tells whether the engine has printed err as a diagnostic.
func alreadyReported(err error) bool { return errors.Is(err, engine.ErrReported) }

// colour says whether the terminal behind f is to get colours;
// https://no-color.org.
func (p process) colour(f *os.File, noColor bool) bool {
	return !noColor && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// terminalSize gives the columns and rows of the terminal behind f, those of
// an old one where it does not say.
func terminalSize(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 || rows == 0 { // a serial console says 0
		return 80, 24
	}
	return columns, rows
}

// width is the columns of the terminal behind f, 0 when it is none.
func (p process) width(f *os.File) int {
	if !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _ := terminalSize(f)
	return columns
}

// session is one run of the engine with what it reports.
type session struct {
	*engine.Engine
	display *live.Display
	into    *os.File // of -json-into, nil without
	sources *oci.Sources
	stdin   bool // an image comes on the standard input

	interrupts <-chan struct{} // those that the engine has not had
}

// drain reads the standard input to its end where an image comes there: when the registry had it, nobody has. With an
// error, what is left is not worth waiting for.
func (s *session) drain(err error) {
	if s.stdin && err == nil {
		s.sources.DrainStdin()
	}
}

// close ends the live display, so that the terminal is left as it was.
func (s *session) close() {
	s.display.Close()
	s.into.Close() // which a nil file refuses
	s.sources.Close()
}

// settings are what the flags of a command say about an engine.
type settings struct {
	files map[string][]byte
	// sources are where images come from; nil for those of this process.
	sources *oci.Sources
	// stdinTaken says that an image comes on the standard input: there is no asking there.
	stdinTaken  bool
	view        viewFlags
	lock        lockFlags
	parallelism int
	input       bool
	// offline leaves out the state: the command needs none.
	offline bool
}

// open starts an engine on the state that TF_HTTP_* names. The caller closes
// the session.
func open(ctx context.Context, p process, s settings) (*session, error) {
	var store engine.StateStore = noState{}
	var config state.Config
	if !s.offline {
		var err error
		if config, err = state.ConfigFromEnv(p.getenv); err != nil {
			return nil, err
		}
		config.Warn = func(text string) { fmt.Fprintln(p.stderr, "Warning: "+text) }
		client, err := state.New(config)
		if err != nil {
			return nil, err
		}
		store = client
	}
	var into *os.File
	if s.view.jsonInto != "" {
		if s.view.json {
			return nil, usagef("-json and -json-into exclude each other")
		}
		var err error
		if into, err = os.OpenFile(s.view.jsonInto, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("-json-into: %w", err)
		}
	}
	display := p.display(s.view)
	names := &lineNames{}
	if s.sources == nil {
		s.sources = p.sources()
	}
	interrupts := p.interrupts()
	o := engine.Options{
		Files: s.files, Valid: true,
		Providers: engineProviders(progress{
			object:  func(namespace, name, message string) { display.Message(names.ofObject(namespace, name), message) },
			bytes:   func(ref string, sent, total int64) { display.Bytes(names.ofImage(ref), sent, total) },
			message: func(ref, message string) { display.Message(names.ofImage(ref), message) },
			sources: s.sources,
		}),
		State: store, StateAddress: config.Address,
		StateLockAddress: config.LockAddress, StateUnlockAddress: config.UnlockAddress,
		Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr,
		JSON: s.view.json, JSONInto: into, NoColor: !p.colour(p.stdout, s.view.noColor),
		CompactWarnings: s.view.compactWarnings, ShowSensitive: s.view.showSensitive, Concise: s.view.concise,
		NoLock: !s.lock.lock, LockTimeout: s.lock.lockTimeout,
		Parallelism: s.parallelism, Input: s.input && !s.stdinTaken,
		Interrupts: interrupts,
		Precious: map[string][]string{
			"random_uuid":     {"kubernetes_object"}, // the machine IDs of the nodes
			"spire_namespace": {"spire_handoff"},     // that there is something to take back
		},
		Encryption: p.getenv("TF_ENCRYPTION"),
		Commands:   engine.Commands{Plan: "yuba k8s plan", Apply: "yuba k8s apply", StatePush: at(config.Address) + "yuba state push"},
	}
	if !s.view.json && !s.view.concise {
		o.Events = func(e engine.Event) { display.Event(names.event(e)) }
		o.Aside = display.Aside
	}
	opened := &session{display: display, into: into, sources: s.sources, stdin: s.stdinTaken, interrupts: interrupts}
	var err error
	if opened.Engine, err = engine.New(ctx, o); err != nil {
		opened.close()
		return nil, err
	}
	return opened, nil
}

// at begins a command line, for another shell, that works on the state at an address. The login is left out.
func at(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	u.User = nil
	quoted := u.String()
	if strings.ContainsFunc(quoted, func(r rune) bool {
		return !strings.ContainsRune("-._~:/%@,+[]", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		quoted = "'" + strings.ReplaceAll(quoted, "'", `'\''`) + "'"
	}
	return "TF_HTTP_ADDRESS=" + quoted + " "
}

// noState is the state of a command that has none.
type noState struct{}

var errNoState = errors.New("this command works without a state")

func (noState) Get(context.Context) ([]byte, error)  { return nil, errNoState }
func (noState) Put(context.Context, []byte) error    { return errNoState }
func (noState) Delete(context.Context) error         { return errNoState }
func (noState) Lock(context.Context, []byte) error   { return errNoState }
func (noState) Unlock(context.Context, string) error { return errNoState }
