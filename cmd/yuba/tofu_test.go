package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fediversity.eu/yuba/test/terminal"
)

// An interrupt at a question without echo, which comes before anything else, ends
// the command, and what is typed can be seen again.
func TestInterruptAtASecretQuestion(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("main.tf", []byte(`
variable "passphrase" { sensitive = true }
terraform {
  encryption {
    key_provider "pbkdf2" "k" { passphrase = var.passphrase }
    method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
    state { method = method.aes_gcm.m }
  }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"plan", "apply", "console"} {
		tty := terminal.Open(t, 80, 24)
		echoes := func() bool {
			state, err := unix.IoctlGetTermios(int(tty.Slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			return state.Lflag&unix.ECHO != 0
		}
		interrupts := make(chan struct{}, 1)
		go func() {
			tty.Wait(func(screen string) bool { return strings.Contains(screen, "Enter a value") })
			for echoes() {
				time.Sleep(time.Millisecond)
			}
			interrupts <- struct{}{}
		}()
		code := stockVerb(t.Context(), process{
			stdin: tty.Slave, stdout: tty.Slave, stderr: tty.Slave,
			getenv: func(string) string { return "" }, interrupts: func() <-chan struct{} { return interrupts },
		}, verb, nil)
		if code != 1 || !echoes() {
			t.Errorf("%s: exit code %d, and what is typed is seen: %v", verb, code, echoes())
		}
		tty.Type("\n") // for the reader that was left alone
		tty.Wait(func(screen string) bool { return strings.Contains(screen, "Interrupted") })
		if screen := tty.Screen(); !strings.Contains(screen, "Interrupted") || strings.Contains(screen, "No value for required") {
			t.Errorf("%s says\n%s", verb, screen)
		}
	}
}

// What -h of a verb of stock tofu's lists is taken, with two dashes and so with
// one.
func TestFlagsOfHelpAreTaken(t *testing.T) {
	t.Chdir(t.TempDir())
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	said, err := os.Create("said")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	p := process{stdin: null, stdout: said, stderr: said, getenv: func(string) string { return "" }, interrupts: func() <-chan struct{} { return nil }}
	for _, cmd := range tofuCommands() {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		cmd.setup(flags)
		flags.VisitAll(func(f *flag.Flag) {
			arg := "--" + f.Name
			switch b, ok := f.Value.(interface{ IsBoolFlag() bool }); {
			case ok && b.IsBoolFlag():
			case f.Name == "deprecation":
				arg += "=module:all"
			default:
				arg += "=1"
			}
			if err := said.Truncate(0); err != nil {
				t.Fatal(err)
			}
			stockVerb(t.Context(), p, cmd.name, []string{arg})
			out, err := os.ReadFile("said")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), "flag provided but not defined") || strings.Contains(string(out), "json is not allowed") {
				t.Errorf("%s %s is refused: %s", cmd.name, arg, strings.Trim(string(out), "\x00"))
			}
		})
	}
}

func TestArgumentsFromTheEnvironment(t *testing.T) {
	env := map[string]string{
		"TF_CLI_ARGS":            "-no-color",
		"TF_CLI_ARGS_plan":       `-var 'a=b c' -var="d=\"e\"" -out=x\ y`,
		"TF_CLI_ARGS_state_list": "-id=x",
	}
	getenv := func(name string) string { return env[name] }
	for _, c := range []struct {
		verb string
		want []string
	}{
		{"plan", []string{"-var", "a=b c", "-var=d=\"e\"", "-out=x y", "-no-color", "given"}},
		{"state list", []string{"-id=x", "-no-color", "given"}},
		{"apply", []string{"-no-color", "given"}},
	} {
		got, err := withEnvArgs(getenv, c.verb, []string{"given"})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.verb, got, err, c.want)
		}
	}
	for _, bad := range []string{`"open`, `'open`, `end\`} {
		env["TF_CLI_ARGS"] = bad
		if got, err := withEnvArgs(getenv, "apply", nil); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		}
	}
}

func TestChangeDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("sub", 0o755); err != nil {
		t.Fatal(err)
	}
	rest, err := changeDir([]string{"plan", "-chdir=sub"}) // not before the command: the command's own business
	if err != nil || !slices.Equal(rest, []string{"plan", "-chdir=sub"}) {
		t.Errorf("got %q, %v", rest, err)
	}
	for _, bad := range []string{"-chdir", "-chdir=", "-chdir=none"} {
		if _, err := changeDir([]string{bad, "plan"}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	rest, err = changeDir([]string{"-chdir=sub", "plan", "-out=x"})
	if err != nil || !slices.Equal(rest, []string{"plan", "-out=x"}) {
		t.Errorf("got %q, %v", rest, err)
	}
	if _, err := os.Stat("../sub"); err != nil {
		t.Error("the directory was not changed")
	}
}
