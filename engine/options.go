package engine

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/opentofu/opentofu/internal/command/arguments"
)

// Options says what an [Engine] runs on. Only Files, State and the three
// streams must be set.
type Options struct {
	// Files is the root module: file name (main.tf, x.tf.json) to content.
	Files map[string][]byte
	// Valid says that Files were made by a program that makes no mistakes which
	// only a validation would find. A plan or an apply then doesn't begin with
	// one: OpenTofu evaluates each block for it and asks the providers, which it
	// does again when it plans.
	Valid bool
	// Variables are the values of input variables as -var takes them.
	Variables map[string]string
	// Providers are the ones a configuration may name, besides
	// terraform.io/builtin/terraform with its terraform_data.
	Providers []Provider

	// State is where the state lives. The engine doesn't close it.
	State StateStore
	// StateAddress is the URL of the state. It goes into plan files, so that
	// stock tofu can apply them, and a plan file is refused when it was made
	// for another. Credentials in it are cut off.
	StateAddress string
	// StateLockAddress and StateUnlockAddress go into plan files likewise.
	// Empty ones are left to the TF_HTTP_* of whoever applies the plan.
	StateLockAddress, StateUnlockAddress string

	// Stdin is where approval is read from; nil is an empty one.
	Stdin *os.File
	// Stdout takes results: plans, outputs, states, the JSON stream.
	Stdout *os.File
	// Stderr takes progress, questions and diagnostics.
	Stderr *os.File

	// JSON prints what stock tofu prints with -json, all of it on Stdout.
	JSON bool
	// JSONInto takes what stock tofu prints with -json, besides what is printed
	// for humans. Plan and Apply heed it. The engine doesn't close it.
	JSONInto *os.File
	// NoColor prints no colours. Without it, colours are printed when the
	// stream is a terminal.
	NoColor bool
	// CompactWarnings prints only the summaries of warnings, as
	// -compact-warnings does.
	CompactWarnings bool
	// ShowSensitive prints sensitive values, as -show-sensitive does.
	ShowSensitive bool
	// Concise prints no progress lines, as -concise does.
	Concise bool

	// NoLock leaves the state unlocked, as -lock=false does.
	NoLock bool
	// LockTimeout is for how long to try to get the lock, again and again.
	LockTimeout time.Duration
	// Parallelism is how many operations run at once; 0 means 10.
	Parallelism int
	// Input lets the engine ask for approval and for missing variables. Without
	// it nothing is asked, and an apply that would have asked fails; TF_INPUT=false
	// in the environment is the same.
	Input bool

	// Precious are types of resources whose values nobody has but the state, each
	// with the types of what may be made from it. An apply stores the state
	// between the two.
	Precious map[string][]string

	// Interrupts stops what is running: the first one lets running operations
	// finish, saves the state and releases the lock; the second one waits for
	// nothing, and still releases the lock. A nil channel never interrupts.
	Interrupts <-chan struct{}
	// Events, if set, is told what happens to each object, and the progress
	// lines are not printed. It is called from several goroutines at once and
	// must not block.
	Events func(Event)
	// Aside, if set, runs what prints while objects are being worked on, so
	// that whoever shows the events on the same terminal can make room.
	Aside func(print func())

	// Encryption is the body of an encryption block, as TF_ENCRYPTION has it.
	// It is merged with the configuration's own.
	Encryption string

	// Commands are named in hints to the user.
	Commands Commands

	// stock, if set, prints on the streams on which stock tofu prints, and as
	// these flags of it say.
	stock *arguments.View
}

// Commands are the command lines that the engine's hints name. Empty ones have
// the default given here.
type Commands struct {
	Plan        string // "yuba plan"
	Apply       string // "yuba apply"
	StatePush   string // "yuba state push"
	ForceUnlock string // "yuba force-unlock"
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.State == nil && o.stock == nil:
		return o, errors.New("engine: Options.State is not set")
	case o.Stdout == nil || o.Stderr == nil:
		return o, errors.New("engine: Options.Stdout and Options.Stderr must be set")
	case o.Parallelism < 0:
		return o, fmt.Errorf("parallelism must be at least 1, not %d", o.Parallelism)
	case o.LockTimeout < 0:
		return o, fmt.Errorf("the lock timeout must not be negative: %s", o.LockTimeout)
	}
	if o.Parallelism == 0 {
		o.Parallelism = 10
	}
	if ask, err := strconv.ParseBool(os.Getenv("TF_INPUT")); err == nil && !ask {
		o.Input = false
	}
	var err error
	for _, a := range []*string{&o.StateAddress, &o.StateLockAddress, &o.StateUnlockAddress} {
		if *a, err = withoutUserinfo(*a); err != nil {
			return o, err
		}
	}
	if o.Aside == nil {
		o.Aside = func(print func()) { print() }
	}
	set := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	set(&o.Commands.Plan, "yuba plan")
	set(&o.Commands.Apply, "yuba apply")
	set(&o.Commands.StatePush, "yuba state push")
	set(&o.Commands.ForceUnlock, "yuba force-unlock")
	return o, checkPersistInterval(os.Getenv(persistIntervalEnv))
}

func withoutUserinfo(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	u, err := url.Parse(address)
	if err != nil { // url's error would repeat the address, password and all
		return "", errors.New("the state's address is not a URL")
	}
	u.User = nil
	return u.String(), nil
}

const persistIntervalEnv = "TF_STATE_PERSIST_INTERVAL"

// checkPersistInterval refuses values at which OpenTofu panics, with the lock
// held, when an apply starts.
func checkPersistInterval(v string) error {
	if v == "" {
		return nil
	}
	if n, err := strconv.Atoi(v); err != nil || n < 20 {
		return fmt.Errorf("%s must be a number of seconds, 20 or more, not %q", persistIntervalEnv, v)
	}
	return nil
}

// stdin is o.Stdin as a reader, an empty one if there is none.
func (o Options) stdin() io.Reader {
	if o.Stdin == nil {
		return eof{}
	}
	return o.Stdin
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
