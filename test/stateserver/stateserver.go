// Package stateserver starts `yuba state serve` for tests.
package stateserver

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Server is a running `yuba state serve`.
type Server struct {
	Cmd     *exec.Cmd
	Address string
	Log     string // path of what it writes to stderr
}

// Start runs the program's own state server on a free port until
// the test ends.
func Start(t testing.TB, program, dir string, args ...string) *Server {
	t.Helper()
	cmd := exec.Command(program, append([]string{"state", "serve", "-dir=" + dir, "-listen=127.0.0.1:0"}, args...)...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "state-server.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("the state server said nothing: %v\n%s", err, text)
	}
	go io.Copy(io.Discard, out)
	s := &Server{Cmd: cmd, Log: log.Name(), Address: strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])}
	if !strings.Contains(s.Address, "://") {
		s.Address = "http://" + s.Address
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("state server, the end of its log:\n%s", text[max(0, len(text)-(32<<10)):])
		}
	})
	return s
}
