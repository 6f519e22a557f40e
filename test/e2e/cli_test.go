package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/terminal"
	"fediversity.eu/yuba/test/world"
)

// bare runs yuba with nothing around it: no environment, no state server.
func bare(t *testing.T, args ...string) world.Result {
	t.Helper()
	cmd := exec.Command(world.Program(t), args...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	return world.Run(t, cmd)
}

// Each command has a help page, whose example uses only flags that the page
// lists.
func TestHelp(t *testing.T) {
	t.Parallel()
	overview := bare(t)
	names := regexp.MustCompile(`(?m)^  ([a-z0-9]+(?:[ -][a-z]+)*)  +[A-Z]`).FindAllStringSubmatch(overview.Stdout, -1)
	if len(names) < 15 {
		t.Fatalf("the overview lists %d commands: %v", len(names), overview)
	}
	for _, n := range names {
		page := bare(t, append(strings.Fields(n[1]), "-h")...)
		if page.Code != 0 || page.Stderr != "" || !strings.HasPrefix(page.Stdout, "Usage: yuba "+n[1]) {
			t.Errorf("%s -h: %v", n[1], page)
		}
		if same := bare(t, append([]string{"help"}, strings.Fields(n[1])...)...); same.Stdout != page.Stdout {
			t.Errorf("help %s is another page: %v", n[1], same)
		}
		_, rest, _ := strings.Cut(page.Stdout, "\nExample:\n")
		example, flags, _ := strings.Cut(rest, "\n\n")
		for line := range strings.Lines(example) {
			line, ok := strings.CutPrefix(strings.TrimSpace(line), "yuba "+n[1])
			if !ok {
				continue
			}
			for _, f := range regexp.MustCompile(` -([a-z-]+)`).FindAllStringSubmatch(line, -1) {
				if !strings.Contains(flags, "\n  -"+f[1]) {
					t.Errorf("the example of %s uses -%s, which its page does not list:\n%s", n[1], f[1], page.Stdout)
				}
			}
		}
		if example == "" {
			t.Errorf("%s has no example", n[1])
		}
	}
}

// Asking for help does nothing else.
func TestHelpRunsNothing(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	for _, args := range [][]string{{"help", "k8s", "apply", "-auto-approve"}, {"k8s", "help", "apply", "-auto-approve"}, {"k8s", "apply", "-auto-approve", "-h"}} {
		if r := w.Must(0, args...); !strings.HasPrefix(r.Stdout, "Usage: yuba k8s apply ") {
			t.Errorf("%q: %v", args, r)
		}
	}
	w.Unchanged()
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"deploy":                               `no command "deploy"`,
		"k8s deploy":                           "it has: plan, apply,",
		"k8s aply":                             `did you mean "apply"?`,
		"verison":                              `did you mean "version"?`,
		"k8s plan -colour":                     "-colour",
		"k8s plan -chdir=infra -destroy":       "yuba -chdir=infra k8s plan -destroy",
		"plan --chdir=infra":                   "yuba -chdir=infra plan",
		"k8s plan web":                         `unexpected argument "web"`,
		"k8s plan -parallelism=0":              "1 or more",
		"k8s plan -lock-timeout=5":             "60s",
		"k8s plan -lock-timeout=-5s":           "60s",
		"k8s plan -destroy -refresh-only":      "exclude each other",
		"k8s plan -target=a.b -exclude=c.d":    "exclude each other",
		"k8s apply -target=a.b group.plan":     "-target",
		"k8s apply group.plan -group=x":        "-group",
		"k8s destroy group.plan":               "group.plan",
		"k8s output one two":                   "at most one",
		"k8s import kubernetes_object.only":    "ID",
		"state passwd":                         "one user",
		"state serve":                          "-dir",
		"k8s export -group=none -- a -group=b": "one directory",
	} {
		r := bare(t, strings.Fields(args)...)
		if r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, want) {
			t.Errorf("yuba %s: want %q, got %v", args, want, r)
		}
	}
}

// Whoever reads -json gets JSON and nothing else, whatever goes wrong.
func TestJSONOnlyIsJSON(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	if err := os.WriteFile(filepath.Join(w.Dir, "bad.json"), []byte(`{"version":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		unset string
		args  string
		code  int
	}{
		{"", "k8s plan -json -colour", 1},
		{"", "k8s plan --json surplus", 1},
		{"", "k8s plan -json -group=nowhere.json", 1},
		{"", "k8s apply -json -auto-approve -group=bad.json", 1},
		{"", "k8s apply -json", 1},
		{"", "k8s apply group.json -json", 1},
		{"KUBE_CONFIG_PATH", "k8s plan -json", 1},
		{"TF_HTTP_ADDRESS", "k8s destroy -json -auto-approve", 1},
		{"", "k8s plan -json -out=x", 0},
		{"", "k8s apply -json x", 0},
		{"", "k8s apply -json x", 1}, // stale now
	} {
		env := w.Env[c.unset]
		delete(w.Env, c.unset)
		r := w.Must(c.code, strings.Fields(c.args)...)
		if c.unset != "" {
			w.Env[c.unset] = env
		}
		if r.Stderr != "" {
			t.Errorf("yuba %s: %v", c.args, r)
		}
		told := false
		for line := range strings.Lines(r.Stdout) {
			var m struct {
				Type       string
				Diagnostic struct{ Severity string }
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Type == "" {
				t.Errorf("yuba %s: %v: %s", c.args, err, line)
			}
			told = told || m.Type == "diagnostic" && m.Diagnostic.Severity == "error"
		}
		if told != (c.code == 1) {
			t.Errorf("yuba %s: an error is told: %v", c.args, r)
		}
	}
	for args, code := range map[string]int{
		"k8s validate -json": 0, "k8s validate -json -group=bad.json": 1, "k8s output -json": 0, "k8s output nodes -json": 0,
		"k8s show -json": 0, "k8s show x -json": 0, "k8s nodes -json": 0, "version -json": 0, "k8s schema": 0,
	} {
		if r := w.Must(code, strings.Fields(args)...); !json.Valid([]byte(r.Stdout)) || r.Stderr != "" {
			t.Errorf("yuba %s: %v", args, r)
		}
	}
	w.Free()
}

// "| head -1" ends the output, not the run: that would leave the state locked
// or half applied.
func TestReaderThatLeaves(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	for _, args := range [][]string{{"k8s", "plan"}, {"k8s", "apply", "-auto-approve"}, {"k8s", "apply", "-auto-approve", "-json"}} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		cmd := w.Command(args...)
		cmd.Stdout, cmd.Stderr = write, write
		if err := cmd.Run(); err != nil {
			t.Errorf("yuba %q: %v", args, err)
		}
		write.Close()
		w.Free()
	}
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// While nothing is locked, a signal ends the program as it ends any other.
func TestSignalBeforeAnythingIsLocked(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	fifo := filepath.Join(w.Dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := w.Command("k8s", "plan", "-group=fifo")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // when it has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() {
		t.Errorf("it ended with %s", cmd.ProcessState)
	}
}

// A terminal that is closed, like a CI job that is ended, is no reason to
// leave the state locked.
func TestHangUpDuringRollout(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if signal.Ignored(s) {
			continue // the tests run under nohup
		}
		w := world.New(t)
		cmd, out := waiting(t, w)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "Interrupted while waiting for the rollout") {
			t.Errorf("%s: %s\n%s", s, cmd.ProcessState, out)
		}
		w.Free()
	}
}

// shows waits until the terminal shows some text.
func shows(t *testing.T, term *terminal.Terminal, what string) {
	t.Helper()
	if !term.Wait(func(screen string) bool { return strings.Contains(screen, what) }) {
		t.Fatalf("it has not shown %q:\n%s", what, term.Screen())
	}
}

// A job that was told not to ask takes no answer from its standard input.
func TestNothingIsAskedWithoutInput(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	apply := func(args ...string) {
		t.Helper()
		cmd := w.Command(append([]string{"k8s", "apply"}, args...)...)
		cmd.Stdin = strings.NewReader("yes\n")
		if r := world.Run(t, cmd); r.Code != 1 || !strings.Contains(r.Stderr, "input is disabled") || !strings.Contains(r.Stderr, "yuba k8s apply -auto-approve") {
			t.Errorf("%q: %v", args, r)
		}
	}
	apply("-input=false")
	w.Env["TF_INPUT"] = "0"
	apply()
	w.Unchanged()
	w.Free()
}

// A password is typed twice and not shown.
func TestPasswordOnATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want string }{
		{"correct horse\r", "correct horse\r", "ci:$2"},
		{"correct horse\r", "corect horse\r", "not the same"},
		{"correct horse\r", "\x03", "no password"},
	} {
		cmd := exec.Command(world.Program(t), "state", "passwd", "ci")
		term := terminal.Start(t, cmd, 80, 24)
		shows(t, term, "Password:")
		term.Type(c.first)
		shows(t, term, "Once more:")
		term.Type(c.second)
		<-term.End
		cmd.Wait()
		if out := term.Written(); strings.Contains(out, "horse") || !strings.Contains(out, c.want) {
			t.Errorf("want %q, got\n%s", c.want, out)
		}
	}
}

// On a terminal one is asked, and sees how far it is, in lines that fit, also
// after the window was made smaller.
func TestApplyOnATerminal(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "db", Image: lab.Image{Content: "one"}}, world.Node{Name: "web", Image: lab.Image{Behaviour: "never-ready"}})
	w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "1h" })

	cmd := w.Command("k8s", "apply")
	term := terminal.Start(t, cmd, 200, 24)
	shows(t, term, "Enter a value:")
	term.Type("\x03")
	<-term.End
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(term.Screen(), "nothing was changed") {
		t.Errorf("^C at the question: %s\n%s", cmd.ProcessState, term.Screen())
	}
	w.Unchanged()
	w.Free()

	cmd = w.Command("k8s", "apply")
	term = terminal.Start(t, cmd, 200, 24)
	shows(t, term, "Enter a value:")
	term.Type("yes\n")
	shows(t, term, "✓ db: ready after ")
	wide := regexp.MustCompile(`(?m)^  web  rolling out +[0-9ms]+  0/1 ready: running, not ready.*degraded$`)
	if !term.Wait(wide.MatchString) {
		t.Fatalf("no line of web:\n%s", term.Screen())
	}
	term.Resize(40, 24)
	narrow := regexp.MustCompile(`(?m)^  web  rolling out +[0-9ms]+  0/1 ready: r.*…$`)
	if !term.Wait(narrow.MatchString) {
		t.Fatalf("no shorter line of web:\n%s", term.Screen())
	}
	if strings.Count(term.Screen(), "  web  rolling out") != 1 {
		t.Errorf("traces of the wider line:\n%s", term.Screen())
	}
	term.Resize(200, 24)
	term.Type("\x03")
	<-term.End
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("^C during the rollout: %s\n%s", cmd.ProcessState, term.Screen())
	}
	screen := term.Screen()
	has(t, screen, "✓ db: its image is in the registry after ", "Interrupted: ", "✗ web: not ready after ")
	if strings.Contains(screen, "  web  rolling out") {
		t.Errorf("the live lines stay after the end:\n%s", screen)
	}
	w.Free()
}

// A terminal that can't move its cursor, and a job of CI that has one, get lines
// that stay.
func TestTerminalsWithoutALiveView(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "one"}})
	for _, env := range []string{"TERM=dumb", "TERM=", "CI=true"} {
		cmd := w.Command("k8s", "apply", "-auto-approve", "-replace=kubernetes_rollout.node_web")
		cmd.Env = append(cmd.Env, env)
		term := terminal.Start(t, cmd, 80, 24)
		<-term.End
		cmd.Wait()
		out := term.Written()
		if !strings.Contains(out, "web: ready after ") || strings.Contains(out, "✓") || strings.Contains(out, "\x1b[?7l") || env == "TERM=dumb" && strings.Contains(out, "\x1b") {
			t.Errorf("%s: %q", env, out)
		}
	}
}
