package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// grace is how long a part may take to end after SIGTERM.
const grace = 5 * time.Second

// supervisor runs the parts of a cluster as children of this process. All its
// methods must be called from one goroutine that is locked to its thread: the
// kernel kills a part when the *thread* that started it ends.
type supervisor struct {
	base   string // directory with log in it
	parts  []*part
	failed chan error // a part ended by itself
}

// part is one process of the cluster; it can be stopped and started again.
type part struct {
	name    string
	program string // path
	args    []string
	cmd     *exec.Cmd
	// end is closed once the process is gone. meant is set before, when
	// somebody wanted that; it is written before the signal is sent.
	end   chan struct{}
	meant chan struct{}
}

// running says whether p's process is there.
func (p *part) running() bool {
	if p.end == nil {
		return false
	}
	select {
	case <-p.end:
		return false
	default:
		return true
	}
}

// add starts a new part: this program under the given name. Its output goes to
// DIR/log/NAME.log.
func (s *supervisor) add(name string, args ...string) error {
	return s.addPart(&part{name: name, program: "/proc/self/exe", args: args})
}

// addProgram starts another program as a new part with the program's name.
func (s *supervisor) addProgram(path string, args ...string) error {
	return s.addPart(&part{name: filepath.Base(path), program: path, args: args})
}

func (s *supervisor) addPart(p *part) error {
	s.parts = append(s.parts, p)
	return s.start(p)
}

func (s *supervisor) start(p *part) error {
	if p.running() {
		return fmt.Errorf("%s runs already", p.name)
	}
	path := filepath.Join(s.base, "log", p.name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Args[0] = p.name
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.base, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	end, meant := make(chan struct{}), make(chan struct{})
	p.cmd, p.end, p.meant = cmd, end, meant
	go func() {
		err := cmd.Wait()
		close(end)
		select {
		case <-meant:
		default:
			select {
			case s.failed <- fmt.Errorf("%s ended by itself (%v), it said:\n%s", p.name, err, tail(path)):
			default: // one such error is enough
			}
		}
	}()
	return nil
}

// signal tells p to end; wait for p.end.
func (p *part) signal(sig syscall.Signal) {
	if !p.running() {
		return
	}
	select {
	case <-p.meant:
	default:
		close(p.meant)
	}
	_ = p.cmd.Process.Signal(sig)
}

// stop ends parts together: by SIGTERM, and by SIGKILL if they linger.
func (s *supervisor) stop(parts ...*part) {
	for _, p := range parts {
		p.signal(syscall.SIGTERM)
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	for _, p := range parts {
		if !p.running() {
			continue
		}
		select {
		case <-p.end:
		case <-late.C:
			for _, p := range parts {
				p.signal(syscall.SIGKILL)
			}
			<-p.end
		}
	}
}

// stopAll ends everything, what others depend on last.
func (s *supervisor) stopAll() {
	var base, rest []*part
	for _, p := range s.parts {
		if p.name == "etcd" || p.name == "kube-apiserver" {
			base = append(base, p)
		} else {
			rest = append(rest, p)
		}
	}
	s.stop(rest...)
	slices.Reverse(base)
	for _, p := range base {
		s.stop(p)
	}
}

// find gives the part with that name.
func (s *supervisor) find(name string) (*part, error) {
	for _, p := range s.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, errors.New("this cluster has no part " + name)
}

// pids gives the process id of each part that runs.
func (s *supervisor) pids() map[string]int {
	pids := map[string]int{"up": os.Getpid()}
	for _, p := range s.parts {
		if p.running() {
			pids[p.name] = p.cmd.Process.Pid
		}
	}
	return pids
}

// tail gives the last lines of a log.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-15):], "\n  ")
}
