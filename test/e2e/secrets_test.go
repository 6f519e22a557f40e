package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"fediversity.eu/yuba/test/canary"
	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// nodesPull gives one address to a registry that asks for TLS and a password,
// and to the cluster's nodes, which know neither: what comes in clear is a
// node that pulls, and gets the password on the way. A real
// kubelet has credentials of its own for that.
func nodesPull(t *testing.T, r *lab.Registry, user, password string) (address string) {
	t.Helper()
	pem, err := os.ReadFile(r.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: r.Address})
			p.Out.SetBasicAuth(user, password)
		},
	}
	clear := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "yuba") || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s came without TLS", r.Method, r.URL.Path)
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(clear.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				first := make([]byte, 1)
				if _, err := io.ReadFull(in, first); err != nil {
					return
				}
				to := strings.TrimPrefix(clear.URL, "http://")
				if first[0] == 22 { // a TLS handshake
					to = r.Address
				}
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				if _, err := out.Write(first); err != nil {
					return
				}
				go func() {
					io.Copy(out, in)
					out.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// The whole life of a group whose servers all ask for a secret: none of them
// gets anywhere but to its server.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	secret := canary.Secrets{
		"password of the registry":     "canary-8Qm2-registry-password",
		"password of the state server": "canary-3Vx7-state-password",
	}
	const user = "somebody"
	write := func(name string, data string) string {
		t.Helper()
		name = filepath.Join(w.Dir, name)
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	toJSON := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	type object = map[string]any

	// The registry.
	login := func(address, password string) string {
		return toJSON(object{"auths": object{address: object{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}}})
	}
	r := lab.NewRegistry(t, lab.RegistryOptions{User: user, Password: secret["password of the registry"], TLS: true})
	registry := nodesPull(t, r, user, secret["password of the registry"])
	w.Env["K8S_REGISTRY"] = registry
	w.Env["SSL_CERT_FILE"] = r.CA
	w.Env["REGISTRY_AUTH_FILE"] = write("auth.json", login(registry, secret["password of the registry"]))

	// The API server.
	w.Kubectl("create", "serviceaccount", w.Namespace, "-n", "default")
	w.Kubectl("create", "clusterrolebinding", w.Namespace, "--clusterrole=cluster-admin", "--serviceaccount=default:"+w.Namespace)
	t.Cleanup(func() {
		w.Kubectl("delete", "clusterrolebinding", w.Namespace)
		w.Kubectl("delete", "serviceaccount", w.Namespace, "-n", "default")
	})
	token := w.Kubectl("create", "token", w.Namespace, "-n", "default", "--duration=1h")
	secret["token of the API server"] = token
	secret["signature of the token"] = token[strings.LastIndexByte(token, '.')+1:]
	w.Env["KUBE_CONFIG_PATH"] = write("kubeconfig", w.Lab.TokenKubeconfig(token))

	// The state server.
	cert, key := filepath.Join(w.Dir, "state.crt"), filepath.Join(w.Dir, "state.key")
	lab.Certificate(t, cert, key)
	hash, err := bcrypt.GenerateFromPassword([]byte(secret["password of the state server"]), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := write("users", fmt.Sprintf("%s:%s\n", user, hash))
	states := filepath.Join(w.Dir, "secured-states")
	server := world.StartStateServer(t, states, "-users="+users, "-tls-cert="+cert, "-tls-key="+key)
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	w.Env["TF_HTTP_ADDRESS"] = server.Address + "/group"
	w.Env["TF_HTTP_USERNAME"] = user
	w.Env["TF_HTTP_PASSWORD"] = secret["password of the state server"]
	w.Env["TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"] = string(pem)
	w.Env["TF_HTTP_RETRY_MAX"] = "0"

	run := func(code int, args ...string) world.Result { t.Helper(); return secret.Run(t, w, code, nil, args...) }
	traced := func(code int, args ...string) world.Result {
		t.Helper()
		w.Env["TF_LOG"] = "trace"
		defer delete(w.Env, "TF_LOG")
		r := run(code, args...)
		if !strings.Contains(r.Stderr, "[TRACE]") && !strings.Contains(r.Stdout, "[TRACE]") {
			t.Errorf("yuba %q: TF_LOG=trace traces nothing", args)
		}
		return r
	}

	// What is wrong with a secret is told without it.
	w.Group(node("web", "one"))
	for name, wrong := range map[string]func(string) (variable, value, want string){
		"wrong registry password": func(c string) (string, string, string) {
			return "REGISTRY_AUTH_FILE", write("wrong-auth.json", login(registry, c)), "does not let us in"
		},
		"wrong state password": func(c string) (string, string, string) { return "TF_HTTP_PASSWORD", c, "TF_HTTP_PASSWORD" },
		"wrong token": func(c string) (string, string, string) {
			return "KUBE_CONFIG_PATH", write("wrong-kubeconfig", w.Lab.TokenKubeconfig(c)), "Unauthorized"
		},
	} {
		secret[name] = "canary-5Hd9-" + strings.ReplaceAll(name, " ", "-")
		variable, value, want := wrong(secret[name])
		right := w.Env[variable]
		w.Env[variable] = value
		says(t, traced(1, "k8s", "plan"), want)
		w.Env[variable] = right
	}

	// The life.
	traced(2, "k8s", "plan", "-detailed-exitcode", "-out=group.plan")
	run(0, "k8s", "show", "group.plan")
	run(0, "k8s", "show", "-json", "group.plan")
	secret.Files(t, filepath.Join(w.Dir, "group.plan"))
	traced(0, "k8s", "apply", "group.plan")
	run(0, "k8s", "plan", "-detailed-exitcode", "-json")
	w.Group(node("web", "two"))
	traced(0, "k8s", "apply", "-auto-approve", "-json")
	good := w.Get("deployment/web", world.ImagePath)
	w.Group(world.Node{Name: "web", Image: lab.Image{Behaviour: lab.ConfigError}})
	w.Shorten()
	says(t, traced(1, "k8s", "apply", "-auto-approve"), "set back")
	if got := w.Get("deployment/web", world.ImagePath); got != good {
		t.Errorf("web ran %s and runs %s", good, got)
	}
	for _, args := range [][]string{{"k8s", "show"}, {"k8s", "show", "-json"}, {"k8s", "output"}, {"k8s", "output", "-json"}, {"state", "pull"}} {
		run(0, args...)
	}
	run(0, "k8s", "export", "graph")
	secret.Files(t, filepath.Join(w.Dir, "graph", "main.tf"))

	// The state server dies in the middle of an apply.
	w.Group(world.Node{Name: "web", Image: lab.Image{Content: "three", ReadyAfter: 3 * time.Second}})
	w.Env["TF_LOG"] = "trace"
	dead := secret.Run(t, w, 1, func(said *world.Text) {
		world.Eventually(t, "rollout", func() bool { return strings.Contains(said.String(), ": 0/1 ready") })
		if err := server.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}, "k8s", "apply", "-auto-approve")
	delete(w.Env, "TF_LOG")
	says(t, dead, "TF_HTTP_ADDRESS="+w.Env["TF_HTTP_ADDRESS"]+" yuba state push errored.tfstate") // also from another shell
	errored := filepath.Join(w.Dir, "errored.tfstate")
	secret.Files(t, errored, server.Log)
	server = world.StartStateServer(t, states, "-users="+users, "-tls-cert="+cert, "-tls-key="+key,
		"-listen="+strings.TrimPrefix(server.Address, "https://"))
	_, id, found := strings.Cut(run(1, "k8s", "plan").Stderr, "ID:")
	if !found {
		t.Fatal("the error does not tell the lock's ID")
	}
	run(0, "force-unlock", "-force", strings.Fields(id)[0])
	run(0, "state", "push", errored)
	run(0, "k8s", "plan", "-detailed-exitcode")

	traced(0, "k8s", "destroy", "-auto-approve", "-json")
	w.Unchanged()

	// Another state, encrypted, with the password in its address.
	secret["passphrase"] = "canary-2Kt6-passphrase-of-the-state"
	w.Env["TF_ENCRYPTION"] = `key_provider "pbkdf2" "k" { passphrase = "` + secret["passphrase"] + `" }
		method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
		state { method = method.aes_gcm.m }
		plan { method = method.aes_gcm.m }`
	delete(w.Env, "TF_HTTP_USERNAME")
	delete(w.Env, "TF_HTTP_PASSWORD")
	address := func(at string) string {
		return "https://" + user + ":" + secret["password of the state server"] + "@" + at + "/encrypted"
	}
	w.Env["TF_HTTP_ADDRESS"] = address(freeport.Address(t))
	says(t, traced(1, "k8s", "plan"), "refused")
	w.Env["TF_HTTP_ADDRESS"] = address(strings.TrimPrefix(server.Address, "https://"))
	traced(0, "k8s", "plan", "-out=encrypted.plan")
	secret.Files(t, filepath.Join(w.Dir, "encrypted.plan"))
	traced(0, "k8s", "apply", "encrypted.plan")
	run(0, "k8s", "show")
	run(0, "k8s", "destroy", "-auto-approve")
	delete(w.Env, "TF_ENCRYPTION")
	w.Env["TF_LOG"] = "trace"
	w.Env["TF_HTTP_ADDRESS"] = address("no such host")
	run(1, "k8s", "plan")

	var kept []string
	err = filepath.WalkDir(states, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".state") {
			kept = append(kept, path)
		}
		return err
	})
	if err != nil || len(kept) < 5 {
		t.Errorf("the state server keeps %q (%v)", kept, err)
	}
	secret.Files(t, append(kept, server.Log)...)
}
