// Package terminal gives tests a pseudo terminal with a screen: what a person
// sees and types at.
package terminal

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Terminal is a pseudo terminal whose screen shows what was written to it.
type Terminal struct {
	// Slave is the side on which programs write; nil once a program has it.
	Slave *os.File
	// End is closed when the last program has closed its side.
	End chan struct{}

	master *os.File
	cmd    *exec.Cmd
	t      testing.TB

	mu     sync.Mutex
	screen *screen
	raw    strings.Builder
	more   chan struct{} // closed at the next output
}

// Open opens a terminal of this size that the test's end closes.
func Open(t testing.TB, columns, rows int) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, master: master, End: make(chan struct{}), screen: newScreen(columns, rows), more: make(chan struct{})}
	var unlock, number int32
	term.ioctl(syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	term.ioctl(syscall.TIOCGPTN, unsafe.Pointer(&number))
	term.setSize(columns, rows)
	if term.Slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if term.Slave != nil {
			term.Slave.Close()
		} else {
			term.cmd.Process.Kill()
		}
		<-term.End
		master.Close()
	})
	go func() {
		defer close(term.End)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			term.mu.Lock()
			term.raw.Write(b[:n])
			term.screen.write(b[:n])
			close(term.more)
			term.more = make(chan struct{})
			term.mu.Unlock()
			if err != nil { // EIO when the last program has closed it
				return
			}
		}
	}()
	return term
}

// Start starts a command on a terminal of this size, with TERM=xterm unless the
// command has another. The test's end kills what is left of it.
func Start(t testing.TB, cmd *exec.Cmd, columns, rows int) *Terminal {
	t.Helper()
	term := Open(t, columns, rows)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = term.Slave, term.Slave, term.Slave
	cmd.Env = append([]string{"TERM=xterm"}, cmd.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term.Slave.Close()
	term.Slave, term.cmd = nil, cmd
	return term
}

func (term *Terminal) ioctl(request uintptr, arg unsafe.Pointer) {
	term.t.Helper()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, term.master.Fd(), request, uintptr(arg)); e != 0 {
		term.t.Fatal(e)
	}
}

func (term *Terminal) setSize(columns, rows int) {
	term.ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&[4]uint16{uint16(rows), uint16(columns)}))
}

// Resize gives the window another size: lines that are too long now are
// wrapped, as tmux and most others do it.
func (term *Terminal) Resize(columns, rows int) {
	term.t.Helper()
	term.mu.Lock()
	term.screen.resize(columns, rows)
	term.mu.Unlock()
	term.setSize(columns, rows) // which sends SIGWINCH
}

// Type types.
func (term *Terminal) Type(keys string) {
	term.t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// Screen is what can be seen, and what has scrolled out above it, without the
// blanks at the ends.
func (term *Terminal) Screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// Written is all that was written, sequences included.
func (term *Terminal) Written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.raw.String()
}

// patience is how long Wait waits at the most.
const patience = time.Minute

// Wait waits until the screen is as it is to be, and tells whether it became so:
// all programs may leave before, or a minute pass.
func (term *Terminal) Wait(is func(screen string) bool) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		term.mu.Lock()
		text, more := term.screen.String(), term.more
		term.mu.Unlock()
		if is(text) {
			return true
		}
		select {
		case <-more:
		case <-term.End:
			return is(term.Screen())
		case <-late.C:
			return false
		}
	}
}
