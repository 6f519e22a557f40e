package k8s

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocs: the page on the group file shows a good one, names every key of the
// schema, and quotes errors as they are.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/group-file.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(page)
	if example == nil {
		t.Fatal("there is no example")
	}
	g, err := Parse("group.json", []byte(example[1]))
	if err != nil {
		t.Fatalf("the example is refused: %v", err)
	}
	checkGraph(t, g, mustGraph(t, g))

	for _, m := range regexp.MustCompile(`"([A-Za-z-]+)": \{`).FindAllStringSubmatch(string(Schema()), -1) {
		switch key := m[1]; key {
		case "properties", "items", "$defs", "node", "quantity", "label", "host", "subdomain", "storageClass", "volumeSize", "duration", "path", "dependentSchemas":
		default:
			if !regexp.MustCompile("`([a-z]+\\.)?" + key + "[`.]").MatchString(page) {
				t.Errorf("the page does not name %s", key)
			}
		}
	}

	_, err = Parse("group.json", []byte(`{"version":1,"group":"g","storage":{"size":"1"},"nodes":[
		{"name":"web","image":{"archive":"a"},"tag":"t"},
		{"name":"Web_1","image":{"archive":"a"},"tag":"t","storage":{"class":""}}]}`))
	if err == nil || !strings.Contains(page, "    "+strings.ReplaceAll(err.Error(), "\n", "\n    ")+"\n") {
		t.Errorf("the page quotes other errors than\n%v", err)
	}
}
