package reload

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server plays the SPIRE server in this process: at a signal it reads the file,
// from the n-th one on.
func server(t *testing.T, file string, n int) {
	t.Helper()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1)
	t.Cleanup(func() { signal.Stop(signals); close(signals) })
	go func() {
		for range signals {
			if n--; n <= 0 {
				os.ReadFile(file)
			}
		}
	}()
}

func fine(context.Context) error { return nil }

func file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheServerReadsTheFile(t *testing.T) {
	path := file(t)
	server(t, path, 1)
	if err := Signal(t.Context(), os.Getpid(), path, time.Minute, fine); err != nil {
		t.Fatal(err)
	}
}

// A server that is just starting drops the first signals.
func TestASignalThatIsLostIsSentAgain(t *testing.T) {
	path := file(t)
	server(t, path, 3)
	if err := Signal(t.Context(), os.Getpid(), path, 2*time.Second, fine); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatReadsAnotherFileIsTold(t *testing.T) {
	path := file(t)
	server(t, file(t), 1)
	err := Signal(t.Context(), os.Getpid(), path, 50*time.Millisecond, fine)
	if got := (NotReadError{}); !errors.As(err, &got) || !strings.Contains(err.Error(), "plugin_data_file") {
		t.Errorf("%v", err)
	}
}

func TestNoSignalForAProcessThatIsNotTheServer(t *testing.T) {
	path := file(t)
	gone := errors.New("it is gone")
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	defer signal.Stop(got)
	if err := Signal(t.Context(), os.Getpid(), path, time.Minute, func(context.Context) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if len(got) > 0 {
		t.Error("it got the signal")
	}
	if err := Signal(t.Context(), os.Getpid(), filepath.Join(t.TempDir(), "none"), time.Minute, fine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// Something else may listen in the server's place; SIGUSR1 would end it.
func TestAProcessThatWouldEndBySIGUSR1DoesNotGetIt(t *testing.T) {
	cat := exec.Command("cat")
	stdin, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	// It runs, and what Go does before it is over.
	if _, err := stdin.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := Signal(t.Context(), cat.Process.Pid, file(t), time.Minute, fine); err == nil || !strings.Contains(err.Error(), "no SPIRE server") {
		t.Errorf("%v", err)
	}
	stdin.Close()
	if err := cat.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
