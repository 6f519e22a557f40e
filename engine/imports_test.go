package engine_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What is linked decides what the program can do and how large it is.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}} {{with .Replace}}{{.Path}}{{end}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	const tofu = "github.com/opentofu/opentofu/"
	forbidden := map[string]string{
		tofu + "internal/command":      "the command line of tofu",
		tofu + "internal/backend/init": "all backends",
		tofu + "internal/plugin":       "plugin processes",
		tofu + "internal/plugin6":      "plugin processes, and protobuf types that the framework registers too",
	}
	stubbed := []string{"github.com/aws/", "github.com/Azure/", "cloud.google.com/", "google.golang.org/api", "github.com/hashicorp/go-getter", "github.com/hashicorp/aws-sdk-go-base"}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for path, what := range forbidden {
			below := path != tofu+"internal/command" && strings.HasPrefix(fields[0], path+"/")
			if fields[0] == path || below {
				t.Errorf("%s is linked: %s", fields[0], what)
			}
		}
		for _, prefix := range stubbed {
			if strings.HasPrefix(fields[0], prefix) && (len(fields) < 3 || !strings.HasPrefix(fields[2], "./stubs/")) {
				t.Errorf("%s is linked, and not as a stub", fields[0])
			}
		}
	}
}
