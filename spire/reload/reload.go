// Package reload lets a SPIRE server read a plugin data file again.
package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fediversity.eu/yuba/spire/internal/watch"
)

// NotReadError is a server that got the signal and did not read the file.
type NotReadError struct {
	PID  int
	File string
}

func (e NotReadError) Error() string {
	return fmt.Sprintf("the SPIRE server (process %d) got SIGUSR1 and did not read %s: is that the plugin_data_file of its NodeAttestor \"k8s_psat\"?", e.PID, e.File)
}

// Signal sends SIGUSR1 to a SPIRE server until it has read the file, or for so
// long. It may be that it reads what it has read before: that changes nothing.
//
// Alive is asked once the process is held on to, and before the signal: when the
// server answers then, the process is still the server, and no other one that got
// its number since.
//
// The server has no answer to the signal, but the kernel tells that the file was
// opened and closed (inotify(7)). Go programs that don't wait for SIGUSR1 yet
// drop it (os/signal), so one signal may be too early.
func Signal(ctx context.Context, pid int, file string, patience time.Duration, alive func(context.Context) error) error {
	process, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		return fmt.Errorf("the SPIRE server's process %d: %w", pid, err)
	}
	defer process.Release()
	if err := alive(ctx); err != nil {
		return err
	}
	if err := catches(pid); err != nil {
		return err
	}
	// The file and not its name: a file that takes its place is another one's business.
	reads, err := watch.Start(filepath.Clean(file), watch.Closed)
	if err != nil {
		return err
	}
	defer reads.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(max(patience/5, time.Millisecond))
	defer again.Stop()
	for {
		switch err := process.Signal(syscall.SIGUSR1); {
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("the SPIRE server (process %d) may not be sent SIGUSR1: run sync as the server's user or as root: %w", pid, err)
		case err != nil:
			return fmt.Errorf("sending SIGUSR1 to the SPIRE server (process %d): %w", pid, err)
		}
		select {
		case <-reads.Events:
			return nil
		case <-end.C:
			return NotReadError{pid, file}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// catches fails unless the process has a handler of SIGUSR1: others would end of
// it, such as a proxy that listens in the server's place.
func catches(pid int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("the SPIRE server's process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err == nil && bits&(1<<(syscall.SIGUSR1-1)) != 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("process %d listens on the SPIRE server's socket and would end by SIGUSR1: it is no SPIRE server", pid)
}
