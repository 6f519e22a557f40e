package minimal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"fediversity.eu/yuba/test/world"
)

// The pages that people copy jobs from name commands and flags that there are, and
// their YAML is YAML.
func TestPages(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`(?m)(?:^|[ (])(?:yuba|registry\.example\.org/yuba:1\.2\.3) ((?:k8s|state|plan|apply)[^|>;)&\n` + "`" + `]*)`)
	for _, page := range []string{"ci", "migrate", "air-gap"} {
		data, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "\\\n", " ")
		calls := call.FindAllStringSubmatch(text, -1)
		if len(calls) < 3 {
			t.Errorf("%s.md has %d calls of yuba: not what the test can read", page, len(calls))
		}
		for _, c := range calls {
			var words, flags []string
			for _, w := range strings.Fields(c[1]) {
				if flag, ok := strings.CutPrefix(w, "-"); ok {
					name, _, _ := strings.Cut(flag, "=")
					flags = append(flags, "-"+name)
				} else if len(flags) == 0 && len(words) < 2 && regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(w) {
					words = append(words, w)
				}
			}
			help := world.Run(t, exec.Command(world.Program(t), append(words, "-h")...))
			for _, flag := range flags {
				if help.Code != 0 || !regexp.MustCompile(`(?m)^\s*`+flag+`\b`).MatchString(help.Stdout) {
					t.Errorf("%s.md: %q: yuba %s has no %s", page, c[0], strings.Join(words, " "), flag)
				}
			}
		}
		for i, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			var v any
			if err := yaml.Unmarshal([]byte(block[1]), &v); err != nil {
				t.Errorf("%s.md: block %d of YAML: %v", page, i+1, err)
			}
			lines(t, v, false)
		}
	}
}

// The configurations on the pages are complete, and formatted.
func TestConfigurationsOfPages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"providers", "migrate"} {
		data, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllSubmatch(data, -1)
		if len(blocks) == 0 {
			t.Errorf("%s.md has no configuration", page)
		}
		for _, block := range blocks {
			dir := t.TempDir()
			for name, content := range map[string][]byte{"main.tf": block[1], "web.yaml": []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}\n")} {
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{{"validate"}, {"fmt", "-check"}} {
				cmd := exec.Command(world.Program(t), append([]string{"-chdir=" + dir}, args...)...)
				cmd.Env = []string{"TF_HTTP_ADDRESS=http://127.0.0.1:1/state"}
				if r := world.Run(t, cmd); r.Code != 0 {
					t.Errorf("%s.md, %q: %v", page, args, r)
				}
			}
		}
	}
}

// lines fails when a line of a script is no text: a colon makes a map of one.
func lines(t *testing.T, v any, script bool) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if script {
			t.Errorf("a line of a script is a map: %v", v)
		}
		for name, item := range v {
			lines(t, item, strings.HasSuffix(name, "script"))
		}
	case []any:
		for _, item := range v {
			lines(t, item, script)
		}
	}
}
