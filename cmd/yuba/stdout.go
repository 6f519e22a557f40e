package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// watch returns the streams that a command prints on instead of the process's
// own, and what to call when it has ended: that delivers the rest and returns
// the first error of writing to stdout. OpenTofu's views print without a look at
// what became of it, so results on a full disk would be lost with exit code 0.
//
// A terminal is left as it is. Streams that are one and the same file stay one,
// so that their lines keep their order.
func watch(stdout, stderr *os.File) (out, err *os.File, finish func() error) {
	asIs := func() (*os.File, *os.File, func() error) { return stdout, stderr, func() error { return nil } }
	if term.IsTerminal(int(stdout.Fd())) {
		return asIs()
	}
	r, w, pipeErr := os.Pipe()
	if pipeErr != nil {
		return asIs() // out of files: then more important things fail
	}
	lost := make(chan error, 1)
	go func() {
		_, err := io.Copy(stdout, r)
		if err != nil {
			_, _ = io.Copy(io.Discard, r) // what runs must not be held up
		}
		if errors.Is(err, syscall.EPIPE) {
			err = nil // a reader that leaves, such as head, has what it wanted
		}
		lost <- err
	}()
	if sameFile(stdout, stderr) {
		stderr = w
	}
	return w, stderr, func() error {
		return errors.Join(w.Close(), <-lost)
	}
}

func sameFile(a, b *os.File) bool {
	ai, errA := a.Stat()
	bi, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(ai, bi)
}

// delivered is the exit code of a command that ended with code, given what
// became of its results.
func delivered(code int, stderr io.Writer, err error) int {
	if err == nil {
		return code
	}
	fmt.Fprintf(stderr, "yuba: not everything could be written to the standard output: %v\n", err)
	if code == 0 || code == 2 { // 2 is no failure either: a plan has changes
		return 1
	}
	return code
}
