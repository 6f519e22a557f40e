package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
)

const (
	maxStdout = 64 << 20 // an answer becomes a value in a state
	maxStderr = 64 << 10 // its end becomes a message
	// killAfter is the time that an interrupted program has to end by itself.
	killAfter = 5 * time.Second
)

// run gives what the program writes. When the context ends, the program is interrupted as if by Ctrl-C, and killed if
// that doesn't help. The log gets neither arguments nor output, which may be secrets.
func run(ctx context.Context, argv []string, dir string, stdin []byte) (stdout []byte, stderr string, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = killAfter
	cmd.Dir, cmd.Env = dir, environment(os.Environ())
	cmd.Stdin = bytes.NewReader(stdin)
	var out head
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	tflog.Trace(ctx, "external program starts", map[string]any{"program": argv[0]})
	err = cmd.Run()
	stderr = said.String()
	tflog.Trace(ctx, "external program has ended", map[string]any{"program": argv[0], "error": err != nil})
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it has ended well; another that it has left behind keeps its output open
	}
	if out.over { // it then ends by SIGPIPE
		err = fmt.Errorf("it has written more than %d bytes", maxStdout)
	}
	if ended := context.Cause(ctx); ended != nil && err != nil {
		err = fmt.Errorf("it was interrupted (%w): %w", ended, err)
	}
	return out.b.Bytes(), stderr, err
}

// secrets are the variables of the environment that are meant for the engine
// alone: the password and key of the state server, and the state's encryption.
var secrets = []string{"TF_HTTP_PASSWORD", "TF_HTTP_CLIENT_PRIVATE_KEY_PEM", "TF_ENCRYPTION"}

// environment is what the program gets of the environment: all but the
// engine's own secrets, which it could print into the state.
func environment(all []string) []string {
	return slices.DeleteFunc(all, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(secrets, name)
	})
}

// head takes no more than maxStdout bytes.
type head struct {
	b    bytes.Buffer
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	if h.b.Len()+len(p) > maxStdout {
		h.over = true
		return 0, io.ErrShortWrite
	}
	return h.b.Write(p)
}

// tail keeps the last maxStderr bytes.
type tail struct {
	b   []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxStderr; over > 0 {
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	if t.cut {
		return "[...]" + string(t.b)
	}
	return string(t.b)
}
