package kill

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	faults "fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// says waits until a command has printed a text.
func says(t *testing.T, p *faults.Process, text string) {
	t.Helper()
	world.Eventually(t, fmt.Sprintf("%q", text), func() bool {
		select {
		case <-p.Ended:
			t.Fatalf("it ended before it said %q: %v", text, p.Result())
		default:
		}
		return strings.Contains(p.Stdout.String()+p.Stderr.String(), text)
	})
}

// signal sends signals and waits for the end.
func signal(t *testing.T, p *faults.Process, signals ...syscall.Signal) world.Result {
	t.Helper()
	for _, s := range signals {
		if err := p.Cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	<-p.Ended
	return p.Result()
}

// start starts a command whose standard input stays open and empty.
func (l *life) start(args ...string) *faults.Process {
	l.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { r.Close(); w.Close() })
	cmd := l.Command(args...)
	cmd.Stdin = r
	return l.Launch(cmd, nil)
}

// Who waits for somebody else's lock can be stopped, and the lock stays theirs.
func TestSignalWhileWaitingForALock(t *testing.T) {
	t.Parallel()
	l := born(t)
	l.Alone = true
	l.First()
	const theirs = `{"ID":"their-lock","Operation":"test","Who":"somebody@elsewhere"}`
	if err := l.Request("LOCK", theirs); err != nil {
		t.Fatal(err)
	}
	p := l.start("k8s", "apply", "-auto-approve", "-lock-timeout=1h")
	says(t, p, "somebody@elsewhere holds it")
	stopped(t, signal(t, p, syscall.SIGTERM), "Interrupted:")
	if err := l.Request("UNLOCK", theirs); err != nil {
		t.Error(err)
	}
	l.Unchanged()
}

// A question that gets a signal for an answer is not approved.
func TestSignalAtTheQuestion(t *testing.T) {
	t.Parallel()
	l := born(t)
	l.Alone = true
	l.First()
	p := l.start("k8s", "apply")
	says(t, p, "Enter a value:")
	stopped(t, signal(t, p, syscall.SIGINT), "Interrupted:")
	l.Free()
	l.Unchanged()
}

// The verbs that only look end at once, and so does what an operator does by
// hand.
func TestSignalWhileLooking(t *testing.T) {
	t.Parallel()
	l := born(t)
	l.Alone = true
	l.First()
	l.Must(0, faults.Apply...)
	good := l.Running("web")
	for _, args := range [][]string{{"k8s", "status"}, {"k8s", "logs", "web"}, {"k8s", "logs", "-f", "web"}, {"k8s", "rollback", "-auto-approve", "web"}, {"output"}, {"state", "list"}} {
		name := strings.Join(args, " ")
		var once sync.Once // of several requests at a time: a second signal ends it without a word
		r := l.Try(func(p *faults.Process, at proxy.Point) proxy.Harm {
			once.Do(func() { _ = p.Cmd.Process.Signal(syscall.SIGINT) })
			return proxy.Harm{Hold: true}
		}, args...)
		switch {
		case name == "k8s rollback -auto-approve web" && r.Code == -1: // it asks before it changes anything, and may end then
		case r.Code != 1 || strings.Count(strings.TrimSpace(r.Stderr), "interrupt") != 1:
			t.Errorf("%s: %v", name, r)
		}
	}
	l.Nodes(lab.Image{Behaviour: "never-ready"})
	l.Edit(func(g map[string]any) { g["rolloutTimeout"] = "1h" })
	p := l.Launch(l.Command(faults.Apply...), nil)
	says(t, p, "not ready")
	stopped(t, signal(t, p, syscall.SIGINT), "Interrupted:")
	bad := l.Running("web")
	for _, c := range []struct {
		moment proxy.Moment
		runs   string
		says   string
	}{
		{proxy.Before, bad, "web: interrupted; 'yuba k8s status' tells which image it has"},
		{proxy.After, good, "web: it was set back; waiting for its pod was interrupted"},
	} {
		r := l.Try(func(p *faults.Process, at proxy.Point) proxy.Harm {
			if at.Method == "PATCH" && at.Moment == c.moment {
				_ = p.Cmd.Process.Signal(syscall.SIGTERM)
				return proxy.Harm{Hold: true}
			}
			return proxy.Harm{}
		}, "k8s", "rollback", "-auto-approve", "web")
		stopped(t, r, c.says)
		if got := l.Running("web"); got != c.runs {
			t.Errorf("interrupted %s, web runs %s: %v", c.moment, got, r)
		}
	}
	l.Must(0, "k8s", "rollback", "-auto-approve", "web") // waits for the one that is set back already
	l.First()
	l.Must(0, faults.Apply...)
	l.Settled()
}

// configure writes a configuration for the stock verbs.
func (l *life) configure(text string) string {
	l.Helper()
	dir := l.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("terraform {\n backend \"http\" {}\n}\n"+text), 0o600); err != nil {
		l.Fatal(err)
	}
	return "-chdir=" + dir
}

// lives says whether there is a process.
func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

// pidIn waits for a process to have written its ID to a file.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	world.Eventually(t, "process that the configuration starts", func() bool {
		data, _ := os.ReadFile(path)
		var err error
		pid, err = strconv.Atoi(string(bytes.TrimSpace(data)))
		return err == nil
	})
	return pid
}

// What a configuration starts is ended, and what was done before is in the
// state.
func TestSignalWhileAProgramRuns(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"local-exec": `resource "terraform_data" "b" {
  input = terraform_data.a.id
  provisioner "local-exec" { command = "echo $$ > %s; exec sleep 3600" }
}`,
		"local-exec that won't": `resource "terraform_data" "b" {
  input = terraform_data.a.id
  provisioner "local-exec" { command = "trap '' INT TERM; echo $$ > %s; while :; do sleep 0.1; done" }
}`,
		"external": `data "external" "b" {
  program = ["/bin/sh", "-c", "echo $$ > %s; exec sleep 3600 # ${terraform_data.a.id}"]
}`,
	} {
		for _, signals := range [][]syscall.Signal{{syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGTERM}} {
			t.Run(fmt.Sprint(name, len(signals)), func(t *testing.T) {
				t.Parallel()
				l := born(t)
				l.Env["PATH"] = os.Getenv("PATH")
				pidFile := filepath.Join(t.TempDir(), "pid")
				dir := l.configure("resource \"terraform_data\" \"a\" {}\n" + fmt.Sprintf(config, pidFile))
				p := l.start(dir, "apply", "-auto-approve")
				pid := pidIn(t, pidFile)
				r := signal(t, p, signals...)
				stopped(t, r, "Interrupt received")
				world.Eventually(t, "end of the program", func() bool { return !lives(pid) })
				l.Free()
				if s := l.Must(0, dir, "state", "list"); !strings.Contains(s.Stdout, "terraform_data.a") {
					t.Errorf("the state has only %q: %v", s.Stdout, r)
				}
			})
		}
	}
}

// Verbs that hold the lock while they wait for somebody to type.
func TestSignalWhileSomebodyTypes(t *testing.T) {
	t.Parallel()
	l := born(t)
	for _, c := range []struct {
		verb, config string
		args         []string
		ready        string
	}{
		{"console", "", nil, ""},
		{"plan", "variable \"v\" { type = string }\noutput \"o\" { value = var.v }", nil, "Enter a value:"},
		{"apply", "output \"o\" { value = 1 }", nil, "Enter a value:"},
		{"force-unlock", "", []string{"their-lock"}, "Enter a value:"},
	} {
		dir := l.configure(c.config)
		p := l.start(append([]string{dir, c.verb}, c.args...)...)
		if c.ready != "" {
			says(t, p, c.ready)
		} else {
			world.Eventually(t, "lock of "+c.verb, func() bool {
				return len(l.Proxy.Points()) >= 4 // the lock is taken, the state read
			})
		}
		r := signal(t, p, syscall.SIGTERM)
		if r.Code != 1 || !strings.Contains(strings.ToLower(r.Stdout+r.Stderr), "interrupt") {
			t.Errorf("%s: %v", c.verb, r)
		}
		l.Free()
	}
}

// A state server that is told to end answers what it was asked, and keeps the
// locks.
func TestSignalToTheStateServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := world.StartStateServer(t, dir)
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Cmd.Wait(); err != nil {
		t.Errorf("a state server that was told to end: %v", err)
	}
}

// Help states the bounds that the tests here hold to.
func TestHelpTellsOfSignals(t *testing.T) {
	t.Parallel()
	l := born(t)
	for _, verb := range [][]string{{"k8s", "plan"}, {"k8s", "apply"}, {"k8s", "destroy"}, {"plan"}, {"apply"}, {"destroy"}, {"refresh"}, {"import"}} {
		r := l.Must(0, append(verb, "-h")...)
		for _, bound := range []string{"within 30s", "within 20s", "SIGTERM"} {
			if !strings.Contains(r.Stdout, bound) {
				t.Errorf("%s -h does not say %q", strings.Join(verb, " "), bound)
			}
		}
	}
}
