package main

import (
	"os"
	"slices"
	"testing"
)

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
