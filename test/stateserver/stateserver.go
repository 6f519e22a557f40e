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

	"fediversity.eu/yuba/test/freeport"
)

// Server is a running `yuba state serve`.
type Server struct {
	Cmd     *exec.Cmd
	Address string
	Log     string // path of what it writes to stderr

	log *os.File
}

// Start runs the program's own state server on a free port until
// the test ends.
func Start(t testing.TB, program, dir string, args ...string) *Server {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "state-server.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Log: log.Name(), log: log}
	s.Cmd = exec.Command(program, append([]string{"state", "serve", "-dir=" + dir, "-listen=" + freeport.Address(t)}, args...)...)
	s.start(t)
	t.Cleanup(func() {
		s.Cmd.Process.Signal(syscall.SIGTERM)
		s.Cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("state server, the end of its log:\n%s", text[max(0, len(text)-(32<<10)):])
		}
	})
	return s
}

// start starts Cmd and reads its Address.
func (s *Server) start(t testing.TB) {
	t.Helper()
	s.Cmd.Env = []string{}
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Cmd.Stderr = s.log
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(s.Log)
		t.Fatalf("the state server said nothing: %v\n%s", err, text)
	}
	go io.Copy(io.Discard, out)
	s.Address = strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
	if !strings.Contains(s.Address, "://") {
		s.Address = "http://" + s.Address
	}
}

// Kill ends it by SIGKILL, and returns when it has ended.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Cmd.Wait()
}

// Restart starts one that was killed, at its old address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	args := s.Cmd.Args
	_, listen, _ := strings.Cut(s.Address, "://")
	// The last flag wins.
	s.Cmd = exec.Command(args[0], append(args[1:len(args):len(args)], "-listen="+listen)...)
	s.start(t)
}
