package state

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/stateservers"
)

// chatty is a server that, while told to, answers an operation with all that
// it was sent, in every place of an answer.
type chatty struct {
	stateservers.Server
	op     stateservers.Op
	status int // 0 is not to
	met    int
}

func (c *chatty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.status == 0 || c.Op(r) != c.op {
		c.Server.ServeHTTP(w, r)
		return
	}
	c.met++
	user, password, _ := r.BasicAuth()
	all := fmt.Sprintf("%s %s %s %s", user, password, r.Header.Get("Authorization"), r.Header.Get("X-Token"))
	w.Header().Set("Location", "https://"+url.UserPassword(user, password).String()+"@elsewhere.invalid/"+url.PathEscape(password)+"?token="+url.QueryEscape(r.Header.Get("X-Token")))
	w.Header().Set("X-Said", all)
	body, err := json.Marshal(map[string]string{"ID": "0badc0de-1111-2222-3333-444444444444", "Who": all, "Operation": all, "Info": all, "Version": all, "Path": all,
		"Created": "2026-01-02T03:04:05Z", "message": all, "error": all})
	if err != nil {
		panic(err)
	}
	if c.status%2 == 0 {
		body = []byte("<html><title>" + all + "</title></html>")
	}
	w.WriteHeader(c.status)
	_, _ = w.Write(body)
}

// canaries are secrets, each with the forms in which it may come out.
type canaries map[string][]string

func (c canaries) add(name, secret string, more ...string) {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	forms := append(more, secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(secret)))
	c[name] = append(c[name], forms...)
}

// search fails if a text has one of them.
func (c canaries) search(t testing.TB, where string, text []byte) {
	t.Helper()
	for name, forms := range c {
		for _, form := range forms {
			if i := bytes.Index(text, []byte(form)); i >= 0 {
				t.Errorf("%s has the %s: ...%s...", where, name, text[max(0, i-100):min(len(text), i+len(form)+20)])
				break
			}
		}
	}
}

// file searches a file, and what is packed in it.
func (c canaries) file(t testing.TB, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, path, b)
	packed, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return
	}
	for _, f := range packed.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		c.search(t, path+": "+f.Name, b)
	}
}

// The credentials of a state server reach no plan file, state, log or error,
// also when the server repeats them.
func TestCredentialsStayOut(t *testing.T) {
	const password, token = `canary "pw" /ü+7#kq2`, "Bearer canary-token-91x7"
	ca := newAuthority(t)
	cert, key, _ := ca.issue()
	h := start(t, stateservers.Flavours()[0], password, ca.mutual())
	server := &chatty{Server: h.server.Server}
	h.server.Server = server
	trace := filepath.Join(h.dir, "trace.log")
	h.env["TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"], h.env["TF_HTTP_CLIENT_CERTIFICATE_PEM"], h.env["TF_HTTP_CLIENT_PRIVATE_KEY_PEM"] = ca.pem, cert, key
	h.env["TF_LOG"], h.env["TF_LOG_PATH"], h.env["TF_VAR_token"] = "trace", trace, token
	h.write("main.tf", replaced(configuration, "backend \"http\" {\n", "backend \"http\" {\n    headers = { X-Token = var.token }\n")+
		"\nvariable \"token\" {\n  type      = string\n  ephemeral = true\n}\n")

	block, _ := pem.Decode([]byte(key))
	secret := canaries{}
	secret.add("password", password, base64.StdEncoding.EncodeToString([]byte("basic:"+password)))
	secret.add("token", token, strings.TrimPrefix(token, "Bearer "))
	secret.add("private key", string(block.Bytes), base64.StdEncoding.EncodeToString(block.Bytes)[:48])

	run := func(code int, args ...string) {
		t.Helper()
		r := h.yuba(code, args...)
		secret.search(t, fmt.Sprintf("the standard output of yuba %q", args), []byte(r.Stdout))
		secret.search(t, fmt.Sprintf("the standard error of yuba %q", args), []byte(r.Stderr))
	}
	for _, how := range []string{"variables", "address"} {
		if how == "address" {
			u, err := url.Parse(h.env["TF_HTTP_ADDRESS"])
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("basic", password)
			for _, name := range []string{"TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS"} {
				h.env[name] = u.String()
			}
			delete(h.env, "TF_HTTP_USERNAME")
			delete(h.env, "TF_HTTP_PASSWORD")
		}
		n := map[string]string{"variables": "-var=n=2", "address": "-var=n=3"}[how]
		run(2, "plan", "-detailed-exitcode", n, "-out=tofu.plan")
		secret.file(t, filepath.Join(h.dir, "tofu.plan"))
		run(0, "show", "-json", "tofu.plan")
		for _, server.op = range []stateservers.Op{stateservers.Lock, stateservers.Get} {
			for _, server.status = range []int{200, 302, 307, 400, 401, 403, 404, 409, 413, 423, 429, 500, 503} {
				if server.op == stateservers.Get && server.status == 404 {
					continue // there is no state, says the server
				}
				h.env["TF_HTTP_RETRY_MAX"] = "1"
				run(1, "plan", n)
				if server.op == stateservers.Lock {
					run(map[bool]int{true: 2, false: 1}[server.status == 409 || server.status == 423], "state", "lock", "-json")
				}
			}
		}
		if server.met < 30 {
			t.Fatalf("the server repeated only %d requests", server.met)
		}
		server.op, server.status = stateservers.Post, 413
		run(1, "apply", "tofu.plan")
		server.status = 0
		secret.file(t, filepath.Join(h.dir, "errored.tfstate"))
		run(0, "state", "push", "errored.tfstate")
		if err := os.Remove(filepath.Join(h.dir, "errored.tfstate")); err != nil {
			t.Fatal(err)
		}
		run(0, "plan", "-detailed-exitcode", n)
		secret.search(t, "the state", h.server.State())
	}
	secret.file(t, trace)
	if b, err := os.ReadFile(trace); err != nil || !bytes.Contains(b, []byte("[TRACE]")) {
		t.Errorf("nothing is traced: %v", err)
	}
}
