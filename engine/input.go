package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/opentofu/opentofu/internal/tofu"
	"golang.org/x/term"
)

// asker asks the user. It is always there: with no asker at all, OpenTofu
// applies without approval.
type asker struct {
	enabled bool
	apply   string // the command that a hint names
	tty     *tty
	stdin   *os.File // nil if there is none

	withdrawn context.Context // done: nobody is asked any more
	withdraw  context.CancelFunc

	mu    sync.Mutex
	in    *bufio.Reader
	lines chan answer // of the read that is under way; nil if none is
}

type answer struct {
	line string
	err  error
}

var _ tofu.UIInput = (*asker)(nil)

func newAsker(opts Options, t *tty) *asker {
	a := &asker{enabled: opts.Input, apply: opts.Commands.Apply, tty: t, stdin: opts.Stdin, in: bufio.NewReader(opts.stdin())}
	a.withdrawn, a.withdraw = context.WithCancel(context.Background())
	return a
}

// Input asks and reads one line. Only a whole line is an answer: an input that
// ends is not one. When ctx ends, or the engine is interrupted, the question is
// withdrawn.
func (a *asker) Input(ctx context.Context, q *tofu.InputOpts) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.enabled {
		if q.Id == approvalID {
			return "", fmt.Errorf("input is disabled, so nobody can approve; nothing was changed. To go on without asking, use %[1]s -auto-approve, or save a plan and give it to %[1]s", a.apply)
		}
		return "", errors.New("input is disabled")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[bold]%s[reset]\n", q.Query)
	for line := range strings.Lines(q.Description) {
		fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
	if q.Default != "" {
		fmt.Fprintf(&b, "\n  [bold]Default:[reset] %s\n", q.Default)
	}
	b.WriteString("\n  [bold]Enter a value:[reset] ")
	a.tty.ask(b.String())

	restore := func() {}
	if a.lines == nil {
		a.lines = make(chan answer, 1)
		read := a.readLine
		if fd, ok := a.terminal(); ok && q.Secret {
			if old, err := term.GetState(fd); err == nil {
				restore = func() { _ = term.Restore(fd, old) }
			}
			read = func() (string, error) { // without echo
				b, err := term.ReadPassword(fd)
				return string(b), err
			}
		}
		go func(out chan<- answer) {
			line, err := read()
			out <- answer{line, err}
		}(a.lines)
	}
	ctx, done := context.WithCancel(ctx) // OpenTofu's may be one that nothing ends
	defer done()
	defer context.AfterFunc(a.withdrawn, done)()
	select {
	case <-ctx.Done():
		restore()
		a.tty.ask("\n")
		return "", errors.New("interrupted; nothing was changed")
	case got := <-a.lines:
		a.lines = nil
		a.tty.ask("\n")
		switch {
		case errors.Is(got.err, io.EOF):
			return "", errors.New("the standard input ended without an answer, which approves nothing; nothing was changed")
		case got.err != nil:
			return "", got.err
		}
		if got.line = strings.TrimSpace(got.line); got.line == "" {
			return q.Default, nil
		}
		return got.line, nil
	}
}

// quit withdraws the question that is asked, and all that follow. When it
// returns, the terminal is as it was.
func (a *asker) quit() {
	a.withdraw()
	a.mu.Lock()
	defer a.mu.Unlock()
}

func (a *asker) readLine() (string, error) { return a.in.ReadString('\n') }

// terminal is the descriptor that is typed at, if it is one.
func (a *asker) terminal() (fd int, ok bool) {
	if a.stdin == nil {
		return 0, false
	}
	fd = int(a.stdin.Fd())
	return fd, term.IsTerminal(fd)
}

// approvalID is OpenTofu's ID of the question whether to apply.
const approvalID = "approve"
