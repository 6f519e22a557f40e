package minimal

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// site is a world whose commands run in rooms.
type site struct {
	*world.World
	t    *testing.T
	room room
	env  map[string]string
}

// newSite gives a room the files of a world: kubeconfig, group file, image.
func newSite(t *testing.T) *site {
	t.Helper()
	w := world.New(t)
	s := &site{World: w, t: t, room: room{Inputs: filepath.Join(t.TempDir(), "in")}, env: map[string]string{
		"KUBE_CONFIG_PATH": "/in/kubeconfig",
		"K8S_REGISTRY":     w.Lab.Registry,
		"K8S_NAMESPACE":    w.Namespace,
		"TF_HTTP_ADDRESS":  w.State,
		"HOME":             "",
	}}
	s.file("kubeconfig", string(s.read(w.Lab.Kubeconfig)))
	return s
}

func (s *site) read(path string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// file gives the room a file below /in.
func (s *site) file(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.room.Inputs, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// group gives the room a group of one node.
func (s *site) group(i lab.Image) {
	s.t.Helper()
	s.Group(world.Node{Name: "web", Image: i, More: map[string]any{"image": map[string]any{"archive": "web.tar"}}})
	s.file("group.json", string(s.read(filepath.Join(s.Dir, "group.json"))))
	s.file("web.tar", string(s.read(lab.Archive(s.t, i))))
}

// must runs yuba in the room; it has to end with this exit code.
func (s *site) must(code int, args ...string) world.Result {
	s.t.Helper()
	return must(s.t, code, s.room.command(s.t, s.env, args...))
}

func must(t *testing.T, code int, cmd *exec.Cmd) world.Result {
	t.Helper()
	r := world.Run(t, cmd)
	if r.Code != code {
		t.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(cmd.Args[1:], " "), code, r)
	}
	return r
}

// says fails unless what was written to the standard error has all of these words.
func says(t *testing.T, r world.Result, words ...string) {
	t.Helper()
	text := world.Unwrapped(r.Stderr)
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("it does not say %q:\n%s", word, r.Stderr)
		}
	}
}

func TestWithNothingAtAll(t *testing.T) {
	t.Parallel()
	if r := must(t, 0, room{}.command(t, nil, "version")); !strings.HasPrefix(r.Stdout, "yuba ") {
		t.Errorf("version: %v", r)
	}
	must(t, 0, room{}.command(t, nil, "k8s", "apply", "-h"))
	must(t, 0, room{}.command(t, nil, "completion", "bash"))
	must(t, 0, room{DevNull: true, CloseStdin: true}.command(t, nil, "version"))
	// Nothing that a Go program does can be before this.
	says(t, must(t, 2, room{CloseStdin: true}.command(t, nil, "version")), "standard file descriptor 0 closed, unable to open /dev/null")
}

func TestGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.group(lab.Image{Content: "one"})
	group := "-group=/in/group.json"
	s.must(0, "k8s", "validate", group)
	s.must(0, "k8s", "doctor", group)
	s.must(2, "k8s", "plan", group, "-detailed-exitcode")
	s.Unchanged()
	s.must(0, "k8s", "apply", group, "-auto-approve")
	s.must(0, "k8s", "plan", group, "-detailed-exitcode")
	if r := s.must(0, "k8s", "status", group); !strings.Contains(r.Stdout, "ready") {
		t.Errorf("status: %v", r)
	}
	s.must(0, "k8s", "logs", group, "web")
	// The same of a bundle.
	s.Must(0, "k8s", "bundle", "-group="+filepath.Join(s.room.Inputs, "group.json"), "-o", filepath.Join(s.Dir, "group.bundle"))
	s.file("group.bundle", string(s.read(filepath.Join(s.Dir, "group.bundle"))))
	s.must(0, "k8s", "plan", "-bundle=/in/group.bundle", "-detailed-exitcode")

	s.group(lab.Image{Content: "two"})
	s.room.DevNull, s.room.CloseStdin = true, true
	says(t, s.must(1, "k8s", "apply", group), "approves nothing")
	s.must(0, "k8s", "apply", group, "-auto-approve")
	s.Free()
	s.must(0, "k8s", "plan", group, "-detailed-exitcode")
	s.must(0, "k8s", "destroy", group, "-auto-approve")
	s.Unchanged()
}

// A configuration of one's own, and its plan file where something can be written.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.file("infra/main.tf", `
terraform {
  backend "http" {}
}

resource "random_uuid" "id" {}

resource "terraform_data" "at" {
  input = formatdate("YYYY", "2026-11-29T23:59:59Z")
}

output "id" {
  value = random_uuid.id.result
}
`)
	s.must(0, "-chdir=/in/infra", "init")
	s.must(2, "-chdir=/in/infra", "plan", "-detailed-exitcode")
	says(t, s.must(1, "-chdir=/in/infra", "plan", "-out=tofu.plan"), "tofu.plan", "read-only file system")
	s.must(0, "-chdir=/in/infra", "apply", "-auto-approve")
	if r := s.must(0, "-chdir=/in/infra", "output", "-raw", "id"); !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(r.Stdout) {
		t.Errorf("output: %v", r)
	}
	s.must(0, "-chdir=/in/infra", "plan", "-detailed-exitcode")
	s.must(0, "-chdir=/in/infra", "destroy", "-auto-approve")
	s.Free()

	// A state in a file that can't be written: nothing is made that would then be
	// in no state.
	s.file("local/main.tf", `
resource "terraform_data" "made" {
  provisioner "local-exec" {
    interpreter = ["/yuba", "version"]
    command     = "made"
  }
}
`)
	r := s.must(1, "-chdir=/in/local", "apply", "-auto-approve")
	says(t, r, "read-only file system")
	if strings.Contains(r.Stdout, "Creating...") {
		t.Errorf("something was made: %v", r)
	}
}

// What could not be saved is printed when there is no place for errored.tfstate.
func TestStateThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.group(lab.Image{Content: "one"})
	target, err := url.Parse(s.Server.Address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var saved atomic.Bool // once: what is made before anything that depends on it
	var lock atomic.Value
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "LOCK" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			lock.Store(string(body))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if r.Method == http.MethodPost && saved.Swap(true) {
			http.Error(rw, "the disk is full", http.StatusInsufficientStorage)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	direct := s.env["TF_HTTP_ADDRESS"]
	s.env["TF_HTTP_ADDRESS"], s.env["TF_HTTP_RETRY_MAX"] = front.URL+"/"+s.Namespace, "0"
	r := s.must(1, "k8s", "apply", "-group=/in/group.json", "-auto-approve")
	says(t, r, "read-only file system", "the disk is full", "yuba state push errored.tfstate")
	state := regexp.MustCompile(`(?m)^\{"version".*\}$`).FindString(r.Stdout + "\n" + r.Stderr)
	if !json.Valid([]byte(state)) || !strings.Contains(state, "kubernetes_rollout") {
		t.Fatalf("no state with what was made is printed: %v", r)
	}
	// The user has no name, and is told by number who holds a lock.
	if who, _ := lock.Load().(string); !strings.Contains(who, `"Who":"uid 65534@`) {
		t.Errorf("the lock is %s", who)
	}
	// It is worth what was promised.
	s.env["TF_HTTP_ADDRESS"] = direct
	s.file("errored.tfstate", state)
	s.must(0, "state", "push", "/in/errored.tfstate")
	s.must(0, "k8s", "apply", "-group=/in/group.json", "-auto-approve")
	s.must(0, "k8s", "destroy", "-group=/in/group.json", "-auto-approve")
	s.Unchanged()
}

// secured is a server with TLS before another one, and the certificate to trust
// for it, as PEM.
func secured(t *testing.T, to string) (address, certificate string) {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(s.Close)
	return s.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// Servers of a private authority are trusted through SSL_CERT_FILE; a machine
// that has no authorities at all is told so.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.group(lab.Image{Content: "one"})
	state, stateCA := secured(t, s.Server.Address)
	registry, _ := secured(t, "http://"+s.Lab.Registry) // its certificate is the same
	config := regexp.MustCompile(`(?m)^\s*certificate-authority(-data)?:.*\n`).ReplaceAllString(string(s.read(s.Lab.Kubeconfig)), "")
	s.file("without-authority", config)
	s.file("ca.pem", stateCA+string(s.read(s.Lab.CA)))
	secure := map[string]string{
		"TF_HTTP_ADDRESS": state + "/" + s.Namespace, "K8S_REGISTRY": strings.TrimPrefix(registry, "https://"), "KUBE_CONFIG_PATH": "/in/without-authority",
	}
	const group = "-group=/in/group.json"
	none := "let SSL_CERT_FILE name a PEM file of all authorities to trust; this machine has no certificate authorities"
	for name, instead := range map[string]string{
		"TF_HTTP_ADDRESS": "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", "K8S_REGISTRY": "registry.caFile", "KUBE_CONFIG_PATH": "certificate-authority in the kubeconfig",
	} {
		before := s.env[name]
		s.env[name] = secure[name]
		says(t, s.must(1, "k8s", "plan", group), "authority", instead, none)
		s.env[name] = before
	}
	maps.Copy(s.env, secure)
	s.env["SSL_CERT_FILE"] = "/in/nowhere.pem"
	says(t, s.must(1, "k8s", "plan", group), "now it names /in/nowhere.pem, which is missing or has none")

	s.env["SSL_CERT_FILE"] = "/in/ca.pem"
	// The pods' simulated kubelet pulls from the registry itself.
	s.env["K8S_REGISTRY"] = s.Lab.Registry
	s.must(0, "k8s", "apply", group, "-auto-approve")
	s.env["K8S_REGISTRY"] = secure["K8S_REGISTRY"]
	s.must(0, "k8s", "plan", group) // of the registry it asks the image
	s.must(0, "k8s", "destroy", group, "-auto-approve")
}

// A name is found only where something knows names, be it localhost: container
// runtimes give /etc/hosts and /etc/resolv.conf to each image.
func TestNames(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.file("infra/main.tf", "terraform {\n  backend \"http\" {}\n}\n")
	s.env["TF_HTTP_ADDRESS"] = strings.Replace(s.env["TF_HTTP_ADDRESS"], "127.0.0.1", "localhost", 1)
	s.env["TF_HTTP_RETRY_MAX"] = "0"
	says(t, s.must(1, "-chdir=/in/infra", "plan"), "lookup localhost")
}
