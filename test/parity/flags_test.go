package parity

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hidden are the verbs and aliases of stock tofu that its help doesn't list.
var hidden = []string{"push", "state ls", "state remove", "state move", "env list", "env new", "env select", "env delete"}

var (
	listedVerb = regexp.MustCompile(`(?m)^ {2,4}([a-z]+(?:-[a-z]+)*) {2,}\S`)
	listedFlag = regexp.MustCompile(`(?m)^ {2,6}-([a-z]+(?:-[a-z]+)*)(?:=(\S+))?`)
)

// help is what a program answers to VERB -h.
func help(t *testing.T, program string, verb ...string) string {
	t.Helper()
	cmd := exec.Command(program, append(slices.Clone(verb), "-h")...)
	cmd.Env = []string{"TF_CLI_CONFIG_FILE=" + os.DevNull, "HOME=/nonexistent"}
	out, _ := cmd.CombinedOutput() // the exit code of help differs from verb to verb
	return string(out)
}

// stockVerbs are all verbs of stock tofu.
func stockVerbs(t *testing.T, tofu string) (verbs []string) {
	t.Helper()
	for _, m := range listedVerb.FindAllStringSubmatch(help(t, tofu), -1) {
		verb := m[1]
		_, below, has := strings.Cut(help(t, tofu, verb), "\nSubcommands:\n")
		if verb == "metadata" {
			below, has = "    functions  \n", true // it lists none
		}
		if !has || verb == "providers" {
			verbs = append(verbs, verb)
		}
		if has {
			for line := range strings.Lines(below) {
				if words := strings.Fields(line); len(words) > 0 {
					verbs = append(verbs, verb+" "+words[0])
				}
			}
		}
	}
	if verbs = append(verbs, hidden...); len(verbs) < 45 {
		t.Fatalf("stock tofu's help lists only %q", verbs)
	}
	return verbs
}

// everyFlag holds yuba to having each verb and each flag that stock tofu's help
// lists, or to having it in docs/tofu.md with the reason why not.
func everyFlag(t *testing.T, p programs) {
	docs, err := os.ReadFile("../../docs/tofu.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(what string) bool { return bytes.Contains(docs, []byte("`"+what)) }
	for _, verb := range stockVerbs(t, p.tofu) {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(verb)
			ours := help(t, p.yuba, words...)
			if strings.Contains(ours, "there is no command") || strings.Contains(ours, "has no command") {
				if !documented(verb + "`") {
					t.Errorf("yuba doesn't have it, and docs/tofu.md doesn't say so: %s", ours)
				}
				return
			}
			if words[0] == "workspace" && len(words) > 1 && slices.Contains([]string{"new", "select", "delete"}, words[1]) || words[0] == "env" {
				return // which say to set TF_WORKSPACE, whatever the flags
			}
			flags := map[string]string{}
			for _, m := range listedFlag.FindAllStringSubmatch(help(t, p.tofu, words...), -1) {
				flags[m[1]] = m[2]
			}
			for name, value := range flags {
				if documented(verb + " -" + name) {
					continue
				}
				if !regexp.MustCompile(`(?m)^ +-` + regexp.QuoteMeta(name) + `\b`).MatchString(ours) {
					t.Errorf("-%s is not in yuba's help", name)
				}
				arg := "-" + name
				switch {
				case value == "n":
					arg += "=1"
				case strings.HasPrefix(value, "duration"):
					arg += "=0s"
				case value != "":
					arg += "=" + value
				case name == "state" && verb == "show": // here it is a switch
				case slices.Contains([]string{"state", "state-out", "backup", "var", "var-file", "exclude", "plugin-dir"}, name):
					arg += "=x"
				}
				cmd := exec.Command(p.yuba, append(slices.Clone(words), arg)...)
				cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=/nonexistent"}
				if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), "flag provided but not defined") || strings.Contains(string(out), "parse command-line") {
					t.Errorf("%s is refused: %s", arg, out)
				}
			}
		})
	}
}

// withoutMeaning are the flags of stock tofu's plan that the verbs on a group
// don't have: the graph has no variables, no configuration to generate, and its
// state is always on a server.
var withoutMeaning = []string{"var", "var-file", "state", "generate-config-out", "consolidate-warnings", "consolidate-errors", "deprecation"}

// everyFlagOfGroups holds "yuba k8s plan" and its siblings to the same flags.
func everyFlagOfGroups(t *testing.T, p programs) {
	for _, verb := range []string{"plan", "apply", "destroy"} {
		ours := help(t, p.yuba, "k8s", verb)
		for _, m := range listedFlag.FindAllStringSubmatch(help(t, p.tofu, "plan"), -1) {
			name := m[1]
			switch {
			case slices.Contains(withoutMeaning, name):
			case verb != "plan" && (name == "out" || name == "detailed-exitcode"):
			case verb == "destroy" && slices.Contains([]string{"destroy", "refresh-only", "replace"}, name):
			case !regexp.MustCompile(`(?m)^ +-` + regexp.QuoteMeta(name) + `\b`).MatchString(ours):
				t.Errorf("k8s %s has no -%s", verb, name)
			}
		}
	}
}
