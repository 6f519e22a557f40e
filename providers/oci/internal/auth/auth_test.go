package auth

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func auths(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, fmt.Sprintf(`%q:{"auth":%q}`, pairs[i], b64(pairs[i+1])))
	}
	return `{"auths":{` + strings.Join(parts, ",") + `}}`
}

// The table is the rules of containers-auth.json(5) and what docker writes to its config.json.
func TestLookup(t *testing.T) {
	for _, c := range []struct{ name, file, repository, user, err string }{
		{"host", auths("r.example", "u:p"), "r.example/ns/node", "u", ""},
		{"no entry is anonymous", auths("r.example", "u:p"), "other.example/ns/node", "", ""},
		{"empty file object is anonymous", `{}`, "r.example/ns/node", "", ""},
		{"longest key wins", auths("r.example", "host:p", "r.example/ns", "ns:p", "r.example/ns/node", "node:p"), "r.example/ns/node", "node", ""},
		{"namespace before host", auths("r.example", "host:p", "r.example/ns", "ns:p"), "r.example/ns/node", "ns", ""},
		{"whole segments only", auths("r.example", "host:p", "r.example/ns/no", "no:p"), "r.example/ns/node", "host", ""},
		{"a longer key is none", auths("r.example/ns/node/x", "x:p"), "r.example/ns/node", "", ""},
		{"port counts", auths("r.example:5000", "u:p"), "r.example/ns/node", "", ""},
		{"with port", auths("r.example:5000", "u:p"), "r.example:5000/ns/node", "u", ""},
		{"docker's URL keys", auths("https://r.example/v1/", "u:p"), "r.example/ns/node", "u", ""},
		{"docker hub", auths("https://index.docker.io/v1/", "u:p"), "index.docker.io/library/node", "u", ""},
		{"docker hub by its other name", auths("docker.io", "u:p"), "index.docker.io/library/node", "u", ""},
		{"trailing slash", auths("r.example/", "u:p"), "r.example/ns/node", "u", ""},
		{"NUL padding", auths("r.example", "u:p\x00\x00"), "r.example/ns/node", "u", ""},
		{"helper needed", `{"credHelpers":{"r.example":"pass"}}`, "r.example/ns/node", "", "docker-credential-pass"},
		{"helper of a namespace", `{"credHelpers":{"r.example/ns":"pass"}}`, "r.example/ns/node", "", "docker-credential-pass"},
		{"helper of another registry", `{"credHelpers":{"other.example":"pass"}}`, "r.example/ns/node", "", ""},
		{"helper not needed", `{"auths":{"r.example":{"auth":"` + b64("u:p") + `"}},"credHelpers":{"r.example":"pass"}}`, "r.example/ns/node", "u", ""},
		{"store needed", `{"auths":{"r.example":{}},"credsStore":"desktop"}`, "r.example/ns/node", "", "docker-credential-desktop"},
		{"store of nothing for us", `{"auths":{"other.example":{}},"credsStore":"desktop"}`, "r.example/ns/node", "", ""},
		{"empty entry, no store", `{"auths":{"r.example":{}}}`, "r.example/ns/node", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse([]byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			e, ok, err := f.Lookup(c.repository)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "runs no program") {
					t.Fatalf("error %v, want one that names %s", err, c.err)
				}
				return
			}
			if err != nil || ok != (c.user != "") || e.Username != c.user || ok && e.Password != "p" {
				t.Errorf("got %+v %v %v, want user %q", e, ok, err, c.user)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	f, err := Parse([]byte(`{"auths":{"r.example":{"auth":"` + b64("<token>:") + `","identitytoken":"id"},"s.example":{"registrytoken":"reg"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := f.Lookup("r.example/x"); err != nil || e.IdentityToken != "id" {
		t.Errorf("%+v %v", e, err)
	}
	if e, _, err := f.Lookup("s.example/x"); err != nil || e.RegistryToken != "reg" {
		t.Errorf("%+v %v", e, err)
	}
}

// What can't be understood is an error, and the error must not show what may be a password.
func TestBadFiles(t *testing.T) {
	const secret = "hunter2-canary"
	for name, file := range map[string]string{
		"empty":                    "",
		"no JSON":                  secret,
		"cut off":                  `{"auths":{"r.example":{"auth":"` + secret,
		"wrong type":               `{"auths":{"r.example":"` + secret + `"}}`,
		"number for auth":          `{"auths":{"r.example":{"auth":1234}}}`,
		"not base64":               `{"auths":{"r.example":{"auth":"` + secret + `!"}}}`,
		"base64 with a line break": `{"auths":{"r.example":{"auth":"` + b64("u:" + secret)[:8] + `\n` + b64("u:" + secret)[8:] + `"}}}`,
		"base64 without padding":   `{"auths":{"r.example":{"auth":"` + strings.TrimRight(b64("u:"+secret), "=") + `"}}}`,
		"base64 with loose bits":   `{"auths":{"r.example":{"auth":"dTpwYR=="}}}`,
		"no colon":                 `{"auths":{"r.example":{"auth":"` + b64(secret) + `"}}}`,
		"no user":                  `{"auths":{"r.example":{"auth":"` + b64(":"+secret) + `"}}}`,
		"two of the same key":      auths("r.example", "u:"+secret, "https://r.example", "v:"+secret),
		"trailing data":            `{} ` + secret,
		"deeply nested":            strings.Repeat(`{"auths":`, 20000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(file))
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), b64(secret)[:12]) {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

func TestNamedFileOnly(t *testing.T) {
	dir := t.TempDir()
	put := func(path, content string) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named := put("named.json", auths("named.example", "named:p"))
	put("run/containers/auth.json", auths("run.example", "run:p", "both.example", "run:p"))
	put("config/containers/auth.json", auths("both.example", "config:p", "config.example", "config:p"))
	put("home/.config/containers/auth.json", auths("homeconfig.example", "homeconfig:p"))
	put("home/.docker/config.json", auths("docker.example", "docker:p", "named.example", "docker:p"))
	put("broken/.docker/config.json", "{")
	if err := os.MkdirAll(filepath.Join(dir, "isdir"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"XDG_RUNTIME_DIR": dir + "/run", "XDG_CONFIG_HOME": dir + "/config", "HOME": dir + "/home"}
	for _, c := range []struct {
		name, file string
		env        map[string]string
		host, user string
		err        string
	}{
		{"named", named, env, "named.example", "named", ""},
		{"named is the only one", named, env, "docker.example", "", ""},
		{"runtime dir first", "", env, "both.example", "run", ""},
		{"then config", "", env, "config.example", "config", ""},
		{"then docker", "", env, "docker.example", "docker", ""},
		{"config dir of the home", "", map[string]string{"HOME": dir + "/home"}, "homeconfig.example", "homeconfig", ""},
		{"no home, no files", "", nil, "docker.example", "", ""},
		{"empty home", "", map[string]string{"HOME": ""}, "docker.example", "", ""},
		{"home without files", "", map[string]string{"HOME": dir + "/nothing"}, "docker.example", "", ""},
		{"named and missing", dir + "/none.json", env, "docker.example", "", "no such file"},
		{"named and a directory", dir + "/isdir", env, "docker.example", "", "is a directory"},
		{"named and broken", dir + "/broken/.docker/config.json", env, "docker.example", "", "not valid JSON"},
		{"default and broken", "", map[string]string{"HOME": dir + "/broken"}, "docker.example", "", "not valid JSON"},
		{"too large", put("large.json", strings.Repeat(" ", maxFileBytes+1)), env, "docker.example", "", "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := New(c.file, func(key string) string { return c.env[key] })
			repo, err := name.NewRepository(c.host + "/ns/node")
			if err != nil {
				t.Fatal(err)
			}
			a, err := k.Resolve(repo)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "REGISTRY_AUTH_FILE") {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := authn.Authorization(t.Context(), a)
			if err != nil || cfg.Username != c.user {
				t.Errorf("user %q, %v, want %q", cfg.Username, err, c.user)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(auths("r.example", "u:p", "https://docker.io/v1/", "u:p")), "r.example/ns/node")
	f.Add([]byte(`{"auths":{"r.example":{}},"credsStore":"x","credHelpers":{"a/b":"c"}}`), "a/b/c")
	f.Add([]byte(`{"auths":{"r.example":{"auth":"dTpwYR=="}}}`), "")
	f.Fuzz(func(t *testing.T, data []byte, repository string) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		e, ok, err := file.Lookup(repository)
		if ok && (err != nil || e == (Entry{})) {
			t.Errorf("ok with %+v and %v", e, err)
		}
	})
}
