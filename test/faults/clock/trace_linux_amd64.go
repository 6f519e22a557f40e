package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"fediversity.eu/yuba/test/world"
)

// Process is a program under way whose clock is ours to set.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	ahead  func() time.Duration
	reads  int         // of the time of day, so far
	out    [2]*os.File // stdout and stderr
	failed error       // of the tracing
	status unix.WaitStatus
	ended  chan struct{}
}

// Start starts cmd, which has neither Stdout nor Stderr, and asks ahead at each of
// its reads of the time of day how far its clock is ahead of ours. ahead is
// called by one goroutine. The program is killed when the test ends.
func Start(t testing.TB, cmd *exec.Cmd, ahead func() time.Duration) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, ahead: ahead, ended: make(chan struct{})}
	dir := t.TempDir()
	for i, name := range []string{"stdout", "stderr"} {
		var err error
		if p.out[i], err = os.Create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Stdout, cmd.Stderr = p.out[0], p.out[1]
	started := make(chan error)
	go p.trace(started)
	if err := <-started; err != nil {
		t.Fatalf("%s can't be traced: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		_ = cmd.Process.Release()
		for _, f := range p.out {
			f.Close()
		}
	})
	return p
}

// Signal sends the program a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Stdout is what it has written so far.
func (p *Process) Stdout() string { return p.written(0) }

// Stderr is what Stdout is for the other one.
func (p *Process) Stderr() string { return p.written(1) }

func (p *Process) written(i int) string {
	p.t.Helper()
	text, err := os.ReadFile(p.out[i].Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// Wait gives what the program left behind. A test whose program did not ask
// for the time of day has tested nothing, and fails.
func (p *Process) Wait() world.Result {
	p.t.Helper()
	<-p.ended
	if p.failed != nil {
		p.t.Fatalf("tracing %s: %v", p.cmd.Path, p.failed)
	}
	if p.reads == 0 {
		p.t.Fatalf("%s has not read the time of day by a system call", p.cmd.Path)
	}
	return world.Result{Code: p.status.ExitStatus(), Stdout: p.Stdout(), Stderr: p.Stderr()}
}

// trace is the life of the thread that traces: ptrace is between threads. It never
// returns. The filter stays on the thread, so nobody else may have it, and with
// the thread would end the programs that were started on it before, if they end
// with their parent: PR_SET_PDEATHSIG takes the thread for that.
func (p *Process) trace(started chan<- error) {
	runtime.LockOSThread()
	defer func() {
		close(p.ended)
		select {}
	}()
	// By the monotonic clock from here on: a program that reads the time of day
	// by a system call is what the filter is for, and this thread has it, too.
	began := time.Now()
	now := func() time.Time { return began.Add(time.Since(began)) }
	err := filter()
	if err == nil {
		if p.cmd.SysProcAttr == nil {
			p.cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		// The group is what is waited for: the test has other children.
		p.cmd.SysProcAttr.Ptrace, p.cmd.SysProcAttr.Setpgid = true, true
		err = p.cmd.Start()
	}
	if err == nil {
		if err = p.begin(); err != nil {
			_ = p.cmd.Process.Kill()
		}
	}
	started <- err
	if err == nil {
		p.failed = p.follow(now)
	}
}

// filter has this thread, and what it starts, stop at clock_gettime(CLOCK_REALTIME) for
// its tracer. Everything else is as fast as ever.
func filter() error {
	const (
		number, architecture, firstArgument = 0, 4, 16 // offsets in struct seccomp_data
		load                                = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal                               = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer                              = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: unix.AUDIT_ARCH_X86_64, Jf: 5},
		{Code: load, K: number},
		{Code: equal, K: unix.SYS_CLOCK_GETTIME, Jf: 3},
		{Code: load, K: firstArgument},
		{Code: equal, K: unix.CLOCK_REALTIME, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_TRACE},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	list := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&list)), 0, 0); err != nil {
		return fmt.Errorf("the seccomp filter: %w", err)
	}
	runtime.KeepAlive(&list)
	return nil
}

// begin makes the program, which has not run a single instruction yet, one that
// asks the kernel for the time of day, and lets it run.
func (p *Process) begin() error {
	pid := p.cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := wait(pid, &ws); err != nil {
		return err
	}
	if !ws.Stopped() || ws.StopSignal() != unix.SIGTRAP {
		return fmt.Errorf("it did not stop at its start, but with status %#x", uint32(ws))
	}
	if err := hideVDSO(pid); err != nil {
		return fmt.Errorf("its auxiliary vector: %w", err)
	}
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return err
	}
	return unix.PtraceCont(pid, 0)
}

// hideVDSO takes the address of the vDSO out of what the kernel left on the stack of
// a program that begins: the runtime of Go then reads clocks by system calls.
func hideVDSO(pid int) error {
	const (
		ignore = 1 // AT_IGNORE
		vdso   = 33
	)
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return err
	}
	at := uintptr(regs.Rsp)
	word := func() (uint64, error) {
		var buf [8]byte
		_, err := unix.PtracePeekData(pid, at, buf[:])
		at += 8
		return binary.LittleEndian.Uint64(buf[:]), err
	}
	argc, err := word()
	if err != nil {
		return err
	}
	at += uintptr(argc+1) * 8 // and the null after the arguments
	for {                     // the environment
		v, err := word()
		if err != nil {
			return err
		}
		if v == 0 {
			break
		}
	}
	for {
		here := at
		tag, err := word()
		if err != nil {
			return err
		}
		switch tag {
		case 0:
			return errors.New("it has no vDSO")
		case vdso:
			_, err := unix.PtracePokeData(pid, here, binary.LittleEndian.AppendUint64(nil, ignore))
			return err
		}
		at += 8
	}
}

// wait waits for a process, a thread or, if negative, a group.
func wait(id int, ws *unix.WaitStatus) (int, error) {
	for {
		pid, err := unix.Wait4(id, ws, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return pid, err
		}
	}
}

// follow answers until the program has ended.
func (p *Process) follow(now func() time.Time) error {
	leader := p.cmd.Process.Pid
	known := map[int]bool{leader: true}
	for {
		var ws unix.WaitStatus
		tid, err := wait(-leader, &ws)
		switch {
		case err != nil:
			return err
		case tid == leader && (ws.Exited() || ws.Signaled()):
			p.status = ws
			return nil
		case !ws.Stopped():
			delete(known, tid)
			continue
		}
		signal := ws.StopSignal()
		switch {
		case signal == unix.SIGTRAP:
			signal = 0
			if ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP {
				err = p.tell(tid, now())
			}
		case !known[tid] && signal == unix.SIGSTOP:
			known[tid], signal = true, 0 // a new thread begins with it
		}
		if err == nil {
			err = unix.PtraceCont(tid, int(signal))
		}
		// Its end may come at any time, and is told next.
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
}

// tell answers clock_gettime(CLOCK_REALTIME, timespec) in the kernel's place.
func (p *Process) tell(tid int, now time.Time) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	p.reads++
	now = now.Add(p.ahead())
	answer := binary.LittleEndian.AppendUint64(nil, uint64(now.Unix()))
	answer = binary.LittleEndian.AppendUint64(answer, uint64(now.Nanosecond()))
	if _, err := unix.PtracePokeData(tid, uintptr(regs.Rsi), answer); err != nil {
		return err
	}
	regs.Orig_rax, regs.Rax = ^uint64(0), 0 // no system call, and success
	return unix.PtraceSetRegs(tid, &regs)
}
