package k8s

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/api/resource"
)

// good is a group file that uses every key.
const good = `{
  "version": 1,
  "group": "example",
  "target": "shop",
  "submission": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "runtimeClass": "systemd.v2",
  "rolloutTimeout": "1h30m", "persistence": "45s", "removalTimeout": "5m",
  "storage": {"class": "fast", "size": "10Gi"},
  "nodes": [
    {"name": "web", "enabled": true, "image": {"archive": "images/web.tar"}, "tag": "v1",
     "storage": {"class": "slow", "size": "2Ti"},
     "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "ephemeral-storage": "1e9"}}},
    {"name": "0db", "enabled": false, "image": {"archive": "/images/db.tar"}, "tag": "_"}
  ]
}`

// hostKey is the key of a spire node.
const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFWoAOpUoJzCmlP3TxjVNAyUJGuuYZNidIqF2WhhfB5P"

// withSpire is the good group file with every key of the spire node.
var withSpire = with(`"nodes": [`, `"spire": {"host": "spire.example.org", "port": 2222, "user": "yuba", "hostKeys": ["`+hostKey+` root@spire"],
  "options": {"ProxyJump": "me@bastion.example.org"}, "command": "sudo -n yuba", "trustDomain": "example.org"}, "spiffeProviders": [], "nodes": [`)

// spire is the good group file with this about the spire node.
func spire(keys string) string { return with(`"nodes": [`, `"spire": {`+keys+`}, "nodes": [`) }

// groupFile is a group file and what Parse has to say about it.
type groupFile struct {
	name string
	data string
	// want are the lines of the error, empty if the file is good. A line may be
	// cut off at its end.
	want []string
	// schemaPasses is set when the file is bad in a way that a JSON Schema
	// can't express.
	schemaPasses bool
}

// with is the good group file with one change.
func with(old, new string) string {
	if strings.Count(good, old) != 1 {
		panic(fmt.Sprintf("%q is not in the group file just once", old))
	}
	return strings.Replace(good, old, new, 1)
}

// image is the good group file with another image of its first node.
func image(keys string) string { return with(`"archive": "images/web.tar"`, keys) }

const drv = "/nix/store/0c4p3nhsqzb5cdyxgq1yjg0a1nz8jcrb-web.tar.gz.drv"

// groupFiles is what users get wrong, and what looks wrong but is not.
func groupFiles() []groupFile {
	long := strings.Repeat("a", 64)
	return []groupFile{
		{name: "every key", data: good},
		{name: "only what must be", data: `{"version":1,"group":"g","storage":{"size":"1"},"nodes":[{"name":"n","image":{"archive":"a"},"tag":"t"}]}`},
		{name: "a version is a number", data: with(`"version": 1`, `"version": 1.0`)},
		{name: "all nodes off", data: with(`true`, `false`)},
		{name: "63 bytes of a name", data: with(`"web"`, `"`+long[:63]+`"`)},
		{name: "same archive twice", data: with(`images/web.tar`, `/images/db.tar`)},
		{name: "request equals limit", data: with(`"500m"`, `"2000m"`)},

		{name: "empty", data: ``, want: []string{`group.json: is not JSON: line 1, column 1: unexpected end of JSON input`}},
		{name: "no object", data: `[]`, want: []string{`group.json: is an array, must be an object`, `group.json: version is missing`, ``, ``, ``}},
		{name: "cut off", data: good[:len(good)-1], want: []string{`group.json: is not JSON: line 14, column 4: unexpected end`}},
		{name: "trailing data", data: good + "\n{}", want: []string{`group.json: is not JSON: line 16, column 1: invalid character '{' after top-level value`}},
		{name: "trailing comma", data: with(`"tag": "_"}`, `"tag": "_",}`), want: []string{`group.json: is not JSON: line 13, column 90`}},
		{name: "comment", data: "// hello\n" + good, want: []string{`group.json: is not JSON: line 1, column 1`}},
		{name: "byte order mark", data: "\xef\xbb\xbf" + good, want: []string{`group.json: is not JSON`}},
		{name: "Latin-1", data: with(`images/web.tar`, "images/caf\xe9.tar"), want: []string{`group.json: is not UTF-8`}},
		{name: "too deep", data: with(`"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`, strings.Repeat("[", 50)+strings.Repeat("]", 50)), want: []string{`group.json: is nested deeper than 16 levels at submission[0][0]`}},

		{name: "unknown key", data: with(`"group"`, `"colour": "red", "group"`), want: []string{`group.json: colour: unknown key; the keys here are version, group, target`}},
		{name: "key in the wrong case", data: with(`"runtimeClass"`, `"runtimeclass"`), want: []string{`group.json: runtimeclass: unknown key`}},
		{name: "unknown key of a node", data: with(`"tag": "v1"`, `"tag": "v1", "replicas": 2`), want: []string{`group.json: nodes[0].replicas: unknown key; the keys here are name, enabled, image, tag, storage, resources`}},
		{name: "unknown source of an image", data: image(`"archive": "a", "registry": "x"`), want: []string{`group.json: nodes[0].image.registry: unknown key; the keys here are archive, layout, rootfs, stream, derivation, output, architecture`}},
		{name: "layout", data: image(`"layout": "images/web"`)},
		{name: "rootfs", data: image(`"rootfs": "/srv/rootfs"`)},
		{name: "rootfs with an architecture", data: image(`"rootfs": "rootfs.tar.zst", "architecture": "arm64"`)},
		{name: "stream", data: image(`"stream": "-"`)},
		{name: "stream of a file", data: image(`"stream": "web.tar"`), want: []string{`group.json: nodes[0].image.stream: is "web.tar", must be "-"`}},
		{name: "two streams, one of them off", data: strings.Replace(image(`"stream": "-"`), `"archive": "/images/db.tar"`, `"stream": "-"`, 1)},
		{name: "two streams", data: strings.NewReplacer(`"archive": "/images/db.tar"`, `"stream": "-"`, `"enabled": false, `, ``).Replace(image(`"stream": "-"`)),
			want: []string{`group.json: nodes[1].image.stream: nodes[0] has its image on the standard input`}, schemaPasses: true},
		{name: "derivation", data: image(`"derivation": "` + drv + `"`)},
		{name: "derivation with everything", data: image(`"derivation": "` + drv + `", "output": "image", "architecture": "arm64"`)},
		{name: "derivation elsewhere", data: image(`"derivation": "/srv/my nix/store/` + drv[len("/nix/store/"):] + `"`)},
		{name: "derivation is an option", data: image(`"derivation": "--option` + drv + `"`), want: []string{`group.json: nodes[0].image.derivation: "--option`}},
		{name: "derivation with an output in it", data: image(`"derivation": "` + drv + `!out"`), want: []string{`group.json: nodes[0].image.derivation: "/nix`}},
		{name: "store path that is no derivation", data: image(`"derivation": "` + strings.TrimSuffix(drv, ".drv") + `"`), want: []string{`group.json: nodes[0].image.derivation: "/nix`}},
		{name: "derivation by detours", data: image(`"derivation": "/nix/..` + drv + `"`), want: []string{`group.json: nodes[0].image.derivation: "/nix`}, schemaPasses: true},
		{name: "output of something else", data: image(`"rootfs": "x", "output": "out"`), want: []string{`group.json: nodes[0].image.output: is for a derivation only`}},
		{name: "bad output", data: image(`"derivation": "` + drv + `", "output": "a b"`), want: []string{`group.json: nodes[0].image.output: "a b" is not the name`}},
		{name: "architecture of an archive", data: image(`"archive": "x", "architecture": "amd64"`), want: []string{`group.json: nodes[0].image.architecture: is for a rootfs or a derivation only`}},
		{name: "bad architecture", data: image(`"rootfs": "x", "architecture": "x86_64"`), want: []string{`group.json: nodes[0].image.architecture: "x86_64" is not an architecture`}},
		{name: "two sources", data: image(`"rootfs": "x", "archive": "y"`), want: []string{`group.json: nodes[0].image: has 2 sources (archive, rootfs), must have one`}},
		{name: "key with odd characters", data: with(`"group"`, `"a.b\n": 1, "group"`), want: []string{`group.json: ["a.b\n"]: unknown key`}},
		{name: "SPIRE", data: withSpire},
		{name: "SPIRE, only what must be", data: spire(`"host": "spire.example.org", "hostKeys": ["` + hostKey + `"]`)},
		{name: "SPIRE, a host key with its line end", data: spire(`"host": "spire.example.org", "hostKeys": ["` + hostKey + ` root@spire\n"]`)},
		{name: "SPIRE, a jump host's key", data: spire(`"host": "spire.example.org", "hostKeys": ["` + hostKey + `", "[bastion]:22 ` + hostKey + `"]`)},
		{name: "no SPIRE", data: spire(``), want: []string{`group.json: spire: host is missing`, `group.json: spire: hostKeys is missing`}},
		{name: "SPIRE by its URL", data: spire(`"host": "https://spire", "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.host: "https://spire" is not the name of a host`}},
		{name: "SPIRE, no host key", data: spire(`"host": "s", "hostKeys": []`), want: []string{`group.json: spire.hostKeys: has no key of the spire node itself`}},
		{name: "SPIRE, only a jump host's key", data: spire(`"host": "s", "hostKeys": ["bastion ` + hostKey + `"]`), want: []string{`group.json: spire.hostKeys: has no key of the spire node itself`}, schemaPasses: true},
		{name: "SPIRE, a bad host key", data: spire(`"host": "s", "hostKeys": ["ssh-ed25519 AAAA"]`), want: []string{`group.json: spire.hostKeys[0]: "ssh-ed25519 AAAA" is not a host key`}, schemaPasses: true},
		{name: "SPIRE, a fingerprint", data: spire(`"host": "s", "hostKeys": ["SHA256:abc"]`), want: []string{`group.json: spire.hostKeys[0]: "SHA256:abc" is not a host key`}},
		{name: "SPIRE, one host key", data: spire(`"host": "s", "hostKeys": "` + hostKey + `"`), want: []string{`group.json: spire.hostKeys: is a string, must be an array`}},
		{name: "SPIRE, port 0", data: spire(`"host": "s", "port": 0, "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.port: is "0", must be a port: 1 to 65535`}},
		{name: "SPIRE, a part of a port", data: spire(`"host": "s", "port": 22.5, "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.port: is "22.5", must be a port`}},
		{name: "SPIRE, user is an option", data: spire(`"host": "s", "user": "-x", "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.user: "-x" is not the name of a user`}},
		{name: "SPIRE, unknown option", data: spire(`"host": "s", "options": {"ProxyCommand": "nc"}, "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.options.ProxyCommand: unknown key; the keys here are BatchMode`}},
		{name: "SPIRE, bad option", data: spire(`"host": "s", "options": {"StrictHostKeyChecking": "no"}, "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.options.StrictHostKeyChecking: is "no", yuba knows "yes" only`}, schemaPasses: true},
		{name: "SPIRE, private key", data: spire(`"host": "s", "privateKeyFile": "k", "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.privateKeyFile: unknown key; the keys here are host, port`}},
		{name: "SPIRE, shell in the command", data: spire(`"host": "s", "command": "yuba;id", "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.command: "yuba;id" is not a command`}},
		{name: "SPIRE, trust domain as an ID", data: spire(`"host": "s", "trustDomain": "spiffe://x", "hostKeys": ["` + hostKey + `"]`), want: []string{`group.json: spire.trustDomain: "spiffe://x" is not a trust domain`}},
		{name: "SPIFFE provider in the group", data: with(`"nodes": [`, `"spiffeProviders": ["spire0"], "nodes": [`), want: []string{`group.json: spiffeProviders: the roster of group "example" has "spire0" as spiffe provider: `}},
		{name: "SPIFFE provider, not a list", data: with(`"nodes": [`, `"spiffeProviders": "spire0", "nodes": [`), want: []string{`group.json: spiffeProviders: is a string, must be an array`}},

		{name: "duplicate key", data: with(`"group"`, `"target": "all", "group"`), want: []string{`group.json: target: duplicate key`}, schemaPasses: true},
		{name: "duplicate key in a node", data: with(`"tag": "v1"`, `"tag": "v1", "tag": "v2"`), want: []string{`group.json: nodes[0].tag: duplicate key`}, schemaPasses: true},
		{name: "duplicate key, written differently", data: with(`"tag": "v1"`, `"tag": "v1", "t\u0061g": "v2"`), want: []string{`group.json: nodes[0].tag: duplicate key`}, schemaPasses: true},
		{name: "duplicate node", data: with(`"0db"`, `"web"`), want: []string{`group.json: nodes[1].name: duplicate node "web", nodes[0] has this name too`}, schemaPasses: true},

		{name: "missing version", data: with(`"version": 1,`, ``), want: []string{`group.json: version is missing`}},
		{name: "future version", data: with(`"version": 1`, `"version": 2`), want: []string{`group.json: version: is "2", but this yuba reads version 1 only`}},
		{name: "version as a string", data: with(`"version": 1`, `"version": "1"`), want: []string{`group.json: version: is a string, must be a number`}},
		{name: "missing group", data: with(`"group": "example",`, ``), want: []string{`group.json: group is missing`}},
		{name: "null", data: with(`"v1"`, `null`), want: []string{`group.json: nodes[0].tag: is null, must be a string; leave the key out`}},
		{name: "nodes as a map", data: `{"version":1,"group":"g","storage":{"size":"1"},"nodes":{"n":{}}}`, want: []string{`group.json: nodes: is an object, must be an array`}},
		{name: "no nodes", data: `{"version":1,"group":"g","storage":{"size":"1"},"nodes":[]}`, want: []string{`group.json: nodes: is empty`}},
		{name: "node as a string", data: `{"version":1,"group":"g","storage":{"size":"1"},"nodes":["n"]}`, want: []string{`group.json: nodes[0]: is a string, must be an object`, `group.json: nodes[0]: name is missing`, ``, ``}},
		{name: "enabled as a string", data: with(`true`, `"true"`), want: []string{`group.json: nodes[0].enabled: is a string, must be a boolean`}},
		{name: "image as a path", data: with(`{"archive": "images/web.tar"}`, `"images/web.tar"`), want: []string{`group.json: nodes[0].image: is a string, must be an object`}},
		{name: "image without a source", data: with(`"archive": "images/web.tar"`, ``), want: []string{`group.json: nodes[0].image: has no source: one of archive, layout, rootfs, stream, derivation must be there`}},
		{name: "quantity as a number", data: with(`"2"`, `2`), want: []string{`group.json: nodes[0].resources.limits.cpu: is a number, must be a string`}},

		{name: "bad DNS name", data: with(`"web"`, `"Web_1"`), want: []string{`group.json: nodes[0].name: "Web_1" is not a DNS label (RFC 1123)`}},
		{name: "empty name", data: with(`"web"`, `""`), want: []string{`group.json: nodes[0].name: "" is not a DNS label`}},
		{name: "dash at the end", data: with(`"web"`, `"web-"`), want: []string{`group.json: nodes[0].name: "web-" is not a DNS label`}},
		{name: "name with a newline", data: with(`"web"`, `"web\n"`), want: []string{`group.json: nodes[0].name: "web\n" is not a DNS label`}},
		{name: "name in a different alphabet", data: with(`"web"`, `"wеb"`), want: []string{`group.json: nodes[0].name: "w\u0435b" is not a DNS label`}},
		{name: "64 bytes of a name", data: with(`"web"`, `"`+long+`"`), want: []string{`group.json: nodes[0].name: "aaa`}},
		{name: "group with a dot", data: with(`"example"`, `"a.b"`), want: []string{`group.json: group: "a.b" is not a DNS label`}},
		{name: "target with a slash", data: with(`"shop"`, `"a/b"`), want: []string{`group.json: target: "a/b" is not a DNS label`}},
		{name: "RuntimeClass with a space", data: with(`"systemd.v2"`, `"a b"`), want: []string{`group.json: runtimeClass: "a b" is not a DNS subdomain`}},
		{name: "digest in capitals", data: with(`e3b0c442`, `E3B0C442`), want: []string{`group.json: submission: "sha256:E3B0`}},
		{name: "digest of another algorithm", data: with(`sha256:`, `sha512:`), want: []string{`group.json: submission: "sha512:e3b0`}},

		{name: "tag with a slash", data: with(`"v1"`, `"a b/c"`), want: []string{`group.json: nodes[0].tag: "a b/c" is not a tag of an image`}},
		{name: "tag that starts with a dot", data: with(`"v1"`, `".v1"`), want: []string{`group.json: nodes[0].tag: ".v1" is not a tag`}},
		{name: "tag that is too long", data: with(`"v1"`, `"`+long+long+`a"`), want: []string{`group.json: nodes[0].tag: "aaa`}},

		{name: "empty archive", data: with(`"images/web.tar"`, `""`), want: []string{`group.json: nodes[0].image.archive: is empty`}},
		{name: "NUL in an archive", data: with(`"images/web.tar"`, `"a\u0000b"`), want: []string{`group.json: nodes[0].image.archive: "a\x00b" holds a NUL character`}},
		{name: "decomposed archive", data: with(`"images/web.tar"`, `"e\u0301"`), want: []string{`group.json: nodes[0].image.archive: "e\u0301" is not in Unicode normal form C`}, schemaPasses: true},
		{name: "half a surrogate", data: with(`"images/web.tar"`, `"\ud800"`), want: []string{`group.json: nodes[0].image.archive: "\ufffd" is not`}},

		{name: "duration without a unit", data: with(`"1h30m"`, `"600"`), want: []string{`group.json: rolloutTimeout: "600" is not a duration`}},
		{name: "duration as a number", data: with(`"1h30m"`, `600`), want: []string{`group.json: rolloutTimeout: is a number, must be a string`}},
		{name: "negative duration", data: with(`"1h30m"`, `"-10m"`), want: []string{`group.json: rolloutTimeout: "-10m" is not a duration`}},
		{name: "empty duration", data: with(`"1h30m"`, `""`), want: []string{`group.json: rolloutTimeout: "" is not a duration`}},
		{name: "no time at all", data: with(`"1h30m"`, `"0s"`), want: []string{`group.json: rolloutTimeout: "0s" is not between 1s and 24h`}, schemaPasses: true},
		{name: "persistence without a unit", data: with(`"45s"`, `"45"`), want: []string{`group.json: persistence: "45" is not a duration`}},
		{name: "no time for a removal", data: with(`"5m"`, `"0s"`), want: []string{`group.json: removalTimeout: "0s" is not between 1s and 24h`}, schemaPasses: true},
		{name: "a week", data: with(`"1h30m"`, `"168h"`), want: []string{`group.json: rolloutTimeout: "168h" is not between 1s and 24h`}, schemaPasses: true},

		{name: "missing storage", data: with(`"storage": {"class": "fast", "size": "10Gi"},`, ``), want: []string{`group.json: storage is missing`}},
		{name: "missing size", data: with(`{"class": "fast", "size": "10Gi"}`, `{"class": "fast"}`), want: []string{`group.json: storage: size is missing`}},
		{name: "empty class", data: with(`"fast"`, `""`), want: []string{`group.json: storage.class: "" is not a DNS subdomain`}},
		{name: "size with a space", data: with(`"10Gi"`, `"10 Gi"`), want: []string{`group.json: storage.size: "10 Gi" is not a Kubernetes quantity`}},
		{name: "size in bytes of a different unit", data: with(`"10Gi"`, `"10GB"`), want: []string{`group.json: storage.size: "10GB" is not a Kubernetes quantity`}},
		{name: "no size", data: with(`"10Gi"`, `"0"`), want: []string{`group.json: storage.size: "0" is not the size of a volume`}, schemaPasses: true},
		{name: "a part of a byte", data: with(`"10Gi"`, `"500m"`), want: []string{`group.json: storage.size: "500m" is not the size of a volume`}, schemaPasses: true},
		{name: "more than there is", data: with(`"10Gi"`, `"100E"`), want: []string{`group.json: storage.size: "100E" is more than Kubernetes can count`}, schemaPasses: true},
		{name: "negative request", data: with(`"500m"`, `"-1"`), want: []string{`group.json: nodes[0].resources.requests.cpu: "-1" is not a Kubernetes quantity`}},
		{name: "unknown resource", data: with(`"cpu": "500m"`, `"cpus": "1"`), want: []string{`group.json: nodes[0].resources.requests.cpus: unknown key; the keys here are cpu, memory, ephemeral-storage`}},
		{name: "request above the limit", data: with(`"500m"`, `"2001m"`), want: []string{`group.json: nodes[0].resources: the request of cpu (2001m) is more than its limit (2)`}, schemaPasses: true},

		{name: "all at once", data: `{"version":1,"group":"G","color":1,"storage":{"size":"x"},"nodes":[{"name":"n_","image":{"archive":"a"},"tag":"/"}]}`, want: []string{
			`group.json: color: unknown key`,
			`group.json: group: "G" is not`,
			`group.json: storage.size: "x" is not`,
			`group.json: nodes[0].name: "n_" is not`,
			`group.json: nodes[0].tag: "/" is not`,
		}},
	}
}

func TestParse(t *testing.T) {
	for _, f := range groupFiles() {
		t.Run(f.name, func(t *testing.T) {
			_, err := Parse("group.json", []byte(f.data))
			if err == nil {
				if len(f.want) > 0 {
					t.Fatalf("accepted, want %q", f.want)
				}
				return
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(f.want) {
				t.Fatalf("got:\n%v\nwant %q", err, f.want)
			}
			for i, line := range got {
				if !strings.HasPrefix(line, f.want[i]) {
					t.Errorf("got  %s\nwant %s...", line, f.want[i])
				}
			}
		})
	}
}

// TestSchemaAgrees fails when the published schema refuses what yuba takes, or
// takes what yuba refuses and a schema could refuse.
func TestSchemaAgrees(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft4) // so that only $schema makes it 2020-12
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if schema.DraftVersion != 2020 {
		t.Errorf("the schema is of draft %d", schema.DraftVersion)
	}
	for _, f := range groupFiles() {
		t.Run(f.name, func(t *testing.T) {
			_, parseErr := Parse("group.json", []byte(f.data))
			instance, err := jsonschema.UnmarshalJSON(strings.NewReader(f.data))
			if err != nil {
				return // not JSON, nothing to compare
			}
			schemaErr := schema.Validate(instance)
			if parses, valid := parseErr == nil, schemaErr == nil; valid != (parses || f.schemaPasses) {
				t.Errorf("Parse says: %v\nthe schema says: %v", parseErr, schemaErr)
			}
		})
	}
}

func TestParsedValues(t *testing.T) {
	g, err := Parse("some/group.json", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := &Group{
		File: "some/group.json", Dir: "some", Name: "example", Target: "shop",
		Submission:   "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		RuntimeClass: "systemd.v2", RolloutTimeout: 90 * time.Minute, Persistence: 45 * time.Second, RemovalTimeout: 5 * time.Minute,
		Nodes: []Node{
			{Name: "0db", Image: Image{Archive: "/images/db.tar"}, Tag: "_", Storage: Storage{Class: "fast", Size: "10Gi"}},
			{Name: "web", Enabled: true, Image: Image{Archive: "images/web.tar"}, Tag: "v1", Storage: Storage{Class: "slow", Size: "2Ti"}, Resources: Resources{
				Requests: map[string]string{"cpu": "500m", "memory": "1Gi"},
				Limits:   map[string]string{"cpu": "2", "ephemeral-storage": "1e9"},
			}},
		},
	}
	if d := cmp.Diff(want, g, cmpopts.IgnoreUnexported(Group{}, Node{})); d != "" {
		t.Error(d)
	}
	if got := g.NodeNames(); !cmp.Equal(got, []string{"web"}) {
		t.Errorf("a node that is turned off is published: %q", got)
	}
	if got := g.Source(g.Nodes[1]); got != "some/images/web.tar" {
		t.Errorf("a relative archive is %s", got)
	}
	if got := g.Source(g.Nodes[0]); got != "/images/db.tar" {
		t.Errorf("an absolute archive is %s", got)
	}
}

func TestParseDefaults(t *testing.T) {
	g, err := Parse("group.json", []byte(`{"version":1,"group":"g","storage":{"size":"1Gi"},"nodes":[{"name":"n","image":{"archive":"a"},"tag":"t"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Group{File: "group.json", Dir: ".", Name: "g", Target: "all", RuntimeClass: "systemd",
		RolloutTimeout: 10 * time.Minute, Persistence: 20 * time.Second, RemovalTimeout: 10 * time.Minute,
		Nodes: []Node{{Name: "n", Enabled: true, Image: Image{Archive: "a"}, Tag: "t", Storage: Storage{Size: "1Gi"}}}}
	if d := cmp.Diff(want, g, cmpopts.IgnoreUnexported(Group{}, Node{})); d != "" {
		t.Error(d)
	}
}

func TestParseTooLarge(t *testing.T) {
	data := append([]byte(good), bytes.Repeat([]byte(" "), MaxSize)...)
	_, err := Parse("group.json", data)
	if err == nil || err.Error() != "group.json: is larger than 16 MiB, no group file is" {
		t.Errorf("got %v", err)
	}
}

// TestErrorsAreBounded: a file of garbage doesn't flood a terminal or a log.
func TestErrorsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"version":1,"group":"g","storage":{"size":"1"},"nodes":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":%q,"image":{"archive":"a"},"tag":"t"}`, strings.Repeat("X", 5000))
	}
	b.WriteString(`]}`)
	_, err := Parse("group.json", []byte(b.String()))
	var bad *FileError
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	if len(bad.Problems) != 20 || bad.More != 980 {
		t.Errorf("got %d problems and %d more", len(bad.Problems), bad.More)
	}
	if text := err.Error(); len(text) > 10_000 || !strings.HasSuffix(text, "group.json: and 980 more") {
		t.Errorf("got %d bytes that end with %q", len(text), text[len(text)-50:])
	}
}

// TestQuantities: what yuba takes, Kubernetes takes too, and counts the same.
func TestQuantities(t *testing.T) {
	for _, s := range []string{"0", "1", "007", "1.", "1.5", "0.001", "250m", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1.5Mi", "3Gi", "1Ti", "1Pi", "7Ei", "1e3", "1E3", "12e-3", "1e+18", "9223372036854775807"} {
		mine, err := parseQuantity(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		theirs, err := resource.ParseQuantity(s)
		if err != nil {
			t.Errorf("%s: Kubernetes refuses it: %v", s, err)
			continue
		}
		if got, _ := mine.Float64(); got != theirs.AsApproximateFloat64() {
			t.Errorf("%s: %v, Kubernetes counts %v", s, got, theirs.AsApproximateFloat64())
		}
	}
	for _, s := range []string{"", "Gi", "-1", "+1", "1 ", "1K", "1ki", "1KB", "0x10", "1e", "1e1000", "1/2", "½", "1_000", "1n", "9223372036854775808", "8Ei", "1e99"} {
		if _, err := parseQuantity(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range groupFiles() {
		if len(g.data) < 4096 {
			f.Add([]byte(g.data))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // a path that is just short enough is too long with /srv
		}
		g, err := Parse("/srv/group.json", data)
		if err != nil {
			if len(err.Error()) > 32<<10 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		files, err := g.Graph(Env{Registry: "registry.example", Namespace: "fediversity"})
		if err != nil {
			// The one thing that Parse can't know: namespace and target together.
			if _, nsErr := g.Namespace(Env{Namespace: "fediversity"}); nsErr == nil {
				t.Fatalf("%v\n%s", err, data)
			}
			return
		}
		checkGraph(t, g, files)
	})
}
