package k8s

import (
	"strings"
	"testing"
)

func withRegistry(object string) string {
	return strings.Replace(good, `"group"`, `"registry": `+object+`, "group"`, 1)
}

// The registry's keys reach the oci provider, in an apply and in a destroy.
func TestRegistryKeys(t *testing.T) {
	g := mustParse(t, withRegistry(`{"compression": "zstd", "plainHTTP": ["reg.lan:5000", "[::1]:80"], "caFile": "ca/reg.pem", "uploadHosts": ["up.example"]}`))
	g.Dir = "/srv/group"
	graph, err := g.Graph(testEnv)
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]map[string][]byte{"graph": graph, "teardown": g.Teardown()} {
		text := strings.Join(strings.Fields(string(files[GraphFile])), " ")
		for _, want := range []string{`compression = "zstd"`, `ca_file = "/srv/group/ca/reg.pem"`, `plain_http = ["reg.lan:5000", "[::1]:80"]`, `upload_hosts = ["up.example"]`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", name, want, files[GraphFile])
			}
		}
	}
}

func TestBadRegistryKeys(t *testing.T) {
	for object, want := range map[string]string{
		`{"compression": "lzma"}`:             `registry.compression: "lzma" is no compression`,
		`{"compression": ""}`:                 `registry.compression`,
		`{"plainHTTP": true}`:                 `registry.plainHTTP: is a boolean, must be an array`,
		`{"plainHTTP": ["http://reg.lan"]}`:   `registry.plainHTTP[0]: "http://reg.lan" is not the name`,
		`{"plainHTTP": ["a.example", 5]}`:     `registry.plainHTTP[1]: is a number`,
		`{"uploadHosts": ["u:p@up.example"]}`: `registry.uploadHosts[0]`,
		`{"uploadHosts": ["*"]}`:              `registry.uploadHosts[0]`,
		`{"caFile": ""}`:                      `registry.caFile`,
		`{"password": "x"}`:                   `registry.password: unknown key`,
		`{"plainHTTP": ["reg.lan:0"]}`:        `registry.plainHTTP[0]`,
		`{"uploadHosts": ["reg.lan/v2"]}`:     `registry.uploadHosts[0]`,
	} {
		if _, err := Parse("group.json", []byte(withRegistry(object))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", object, err, want)
		}
	}
}
