package spire_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fediversity.eu/yuba/providers/spire"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/authority"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/providertest"
	"fediversity.eu/yuba/test/sshd"
)

const machine = "0123456789abcdef0123456789abcdef"

type values = providertest.Values

// node is a spire node: a real sshd, and a program in the place of yuba that keeps what it is given.
type node struct {
	t   *testing.T
	ssh *sshd.Server
	dir string
	env map[string]string
}

func newNode(t *testing.T, config ...string) *node {
	t.Helper()
	n := &node{t: t, ssh: sshd.Start(t, config...), dir: t.TempDir(), env: map[string]string{}}
	n.env["SSH_PRIVATE_KEY_FILE"] = n.ssh.KeyFile
	// What a test puts into the files "before" and "after" is done then, by the shell.
	n.ssh.Script(t, "yuba", `cd `+n.dir+` || exit 2
echo "$@" >> calls
[ ! -f before ] || . ./before
case "$1 $2" in
"spire show") cat show ;;
"spire receive") cat > tmp && mv tmp received ;;
"spire retire") cat > retired && rm -f received ;;
*) echo "no such verb" >&2; exit 2 ;;
esac
[ ! -f after ] || . ./after
`)
	n.is(machine, "fediversity")
	return n
}

// is says what the node answers to show.
func (n *node) is(machine, trustDomain string) {
	n.t.Helper()
	doc, err := handoff.Server{MachineID: machine, TrustDomain: trustDomain, Bundle: authority.PEM(n.t)}.Marshal()
	must(n.t, err)
	n.write("show", string(doc))
}

func (n *node) write(name, text string) {
	n.t.Helper()
	must(n.t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600))
}

func (n *node) read(name string) string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, name))
	if !os.IsNotExist(err) {
		must(n.t, err)
	}
	return string(data)
}

// calls are what was run since the last time.
func (n *node) calls() string {
	n.t.Helper()
	text := n.read("calls")
	n.write("calls", "")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", ", ")
}

// received is the hand-off that the node has.
func (n *node) received() handoff.Handoff {
	n.t.Helper()
	h, err := handoff.ParseHandoff([]byte(n.read("received")))
	must(n.t, err)
	return h
}

func (n *node) config() values {
	return values{"host": "spire.example", "port": int64(n.ssh.Port), "host_keys": []string{n.ssh.HostKeys["ssh-ed25519"]},
		"options": map[string]string{"HostName": n.ssh.Host}, "user": n.ssh.User, "command": filepath.Join(n.ssh.Dir, "yuba")}
}

func (n *node) core() *providertest.Core { return n.coreWith(n.config()) }

func (n *node) coreWith(config values) *providertest.Core {
	n.t.Helper()
	return providertest.New(n.t, spire.Server("test", spire.WithEnv(func(name string) string { return n.env[name] })), config)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// account makes the service account that the graph makes before the hand-off.
func account(t *testing.T, l *lab.Lab, namespace string) {
	t.Helper()
	create(t, l, "serviceaccounts", namespace, map[string]any{"kind": "ServiceAccount", "metadata": map[string]any{"name": "spire-server"}})
}

// scene is a namespace of the lab with that service account, and a node that it can be handed over to.
func scene(t *testing.T) (l *lab.Lab, namespace string, n *node) {
	t.Helper()
	l = lab.Start(t)
	namespace = l.Namespace(t)
	account(t, l, namespace)
	n = newNode(t)
	n.env["KUBE_CONFIG_PATH"] = l.Kubeconfig
	return l, namespace, n
}

func create(t *testing.T, l *lab.Lab, resource, namespace string, object map[string]any) {
	t.Helper()
	object["apiVersion"] = "v1"
	_, err := l.Client(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(namespace).
		Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	must(t, err)
}

// secret is the Secret of the service account's token.
func secret(t *testing.T, l *lab.Lab, namespace string) *unstructured.Unstructured {
	t.Helper()
	got, err := l.Client(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace).
		Get(t.Context(), "spire-server-token", metav1.GetOptions{})
	must(t, err)
	return got
}

func wants(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it lacks %q: %s", w, text)
		}
	}
}

// apply plans, wants the action, and applies.
func apply(t *testing.T, r *providertest.Resource, config values, action string) {
	t.Helper()
	p := r.Plan(t.Context(), config)
	if p.Err() != "" || p.Action != action {
		t.Fatalf("the plan is to %s, want %s: %s", p.Action, action, p.Err())
	}
	if errs := providertest.Errors(p.Apply(t.Context(), nil)); errs != "" {
		t.Fatal(errs)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	read := func(config values) (values, string) {
		v, diags := n.core().Read(t.Context(), "spire_server", config)
		return v, providertest.Errors(diags)
	}
	v, errs := read(values{})
	if errs != "" || v["machine_id"] != machine || v["trust_domain"] != "fediversity" || !strings.HasPrefix(fmt.Sprint(v["bundle"]), "-----BEGIN CERTIFICATE-----") {
		t.Errorf("%v %s", v, errs)
	}
	if calls := n.calls(); calls != "spire show" || n.ssh.Connections() != 1 {
		t.Errorf("%s, %d connections", calls, n.ssh.Connections())
	}
	_, errs = read(values{"trust_domain": "example.org"})
	wants(t, errs, "fediversity", "example.org", "spire.example")

	n.write("show", "Welcome to spire!\n"+n.read("show"))
	_, errs = read(values{})
	wants(t, errs, "spire.example", "not JSON", "login shell")
	n.write("before", "cat /dev/zero")
	_, errs = read(values{})
	wants(t, errs, "printed more than")
	n.write("before", "printf 'the \\033[31mserver\\033[0m is away\\n' >&2; exit 3")
	_, errs = read(values{})
	wants(t, errs, "spire.example", "exit code 3", "spire show", "it said: the server is away")

	config := n.config()
	config["command"] = "yuba-that-is-not-there"
	_, diags := n.coreWith(config).Read(t.Context(), "spire_server", values{})
	wants(t, providertest.Errors(diags), "exit code 127", "must be there", "not found")
}

// Where the spire node can't be reached there is no plan.
func TestNoWay(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	other, _ := sshd.Key(t, t.TempDir(), "other")
	_, closed, err := net.SplitHostPort(freeport.Address(t))
	must(t, err)
	port, err := strconv.ParseInt(closed, 10, 64)
	must(t, err)
	for name, c := range map[string]struct {
		change func(values, map[string]string)
		want   []string
	}{
		"nobody listens": {func(c values, _ map[string]string) { c["port"] = port }, []string{"spire.example", "refused"}},
		"no key":         {func(_ values, env map[string]string) { delete(env, "SSH_PRIVATE_KEY_FILE") }, []string{"SSH_PRIVATE_KEY_FILE is not set"}},
		"key not staged": {func(_ values, env map[string]string) { env["SSH_PRIVATE_KEY_FILE"] = "/nonexistent/key" }, []string{"SSH_PRIVATE_KEY_FILE", "/nonexistent/key", "staged"}},
		"another key":    {func(_ values, env map[string]string) { env["SSH_PRIVATE_KEY_FILE"] = other }, []string{"may not log in", n.ssh.User}},
		"another host":   {func(c values, _ map[string]string) { c["host_keys"] = []string{keyOfAnother(t)} }, []string{"must be pinned", "SHA256:"}},
		"no host key":    {func(c values, _ map[string]string) { c["host_keys"] = nil }, []string{"has no host key"}},
		"unknown option": {func(c values, _ map[string]string) { c["options"] = map[string]string{"ForwardAgent": "yes"} }, []string{"ForwardAgent", "they are", "ProxyJump"}},
		"bad SSH_NODES":  {func(_ values, env map[string]string) { env["SSH_NODES"] = "{" }, []string{"SSH_NODES"}},
		"other in layers": {func(_ values, env map[string]string) {
			env["SSH_NODES"] = `{"spire.example": {"hostKey": "` + keyOfAnother(t) + `"}}`
		}, []string{"must be pinned"}},
		"shell in it": {func(c values, _ map[string]string) { c["command"] = "yuba; reboot" }, []string{"every shell reads the same"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &node{t: t, ssh: n.ssh, dir: n.dir, env: map[string]string{}}
			for k, v := range n.env {
				m.env[k] = v
			}
			config := m.config()
			c.change(config, m.env)
			_, diags := m.coreWith(config).Read(t.Context(), "spire_server", values{})
			wants(t, providertest.Errors(diags), c.want...)
		})
	}
	// The same node by the layers alone.
	n.env["SSH_USER"] = n.ssh.User
	n.env["SSH_NODES"] = fmt.Sprintf(`{"spire.example": {"port": %d, "hostKeys": [%q], "options": {"HostName": %q}}}`, n.ssh.Port, n.ssh.HostKeys["ssh-rsa"], n.ssh.Host)
	_, diags := n.coreWith(values{"host": "spire.example", "command": filepath.Join(n.ssh.Dir, "yuba")}).Read(t.Context(), "spire_server", values{})
	if errs := providertest.Errors(diags); errs != "" {
		t.Error(errs)
	}
}

func keyOfAnother(t *testing.T) string {
	t.Helper()
	_, public := sshd.Key(t, t.TempDir(), "k")
	return public
}

// who is the user that a kubeconfig makes one in the cluster.
func who(t *testing.T, config string) string {
	t.Helper()
	rc, err := clientcmd.RESTConfigFromKubeConfig([]byte(config))
	must(t, err)
	c, err := dynamic.NewForConfig(rc)
	must(t, err)
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
	got, err := c.Resource(schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}).Create(context.Background(), review, metav1.CreateOptions{})
	must(t, err)
	name, _, _ := unstructured.NestedString(got.Object, "status", "userInfo", "username")
	return name
}

// kubeconfig writes the lab's, changed.
func kubeconfig(t *testing.T, l *lab.Lab, change func(*clientcmdapi.Cluster)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(l.Kubeconfig)
	must(t, err)
	must(t, clientcmdapi.FlattenConfig(config))
	change(config.Clusters[config.Contexts[config.CurrentContext].Cluster])
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// The hand-off from its first apply to its end: what changes it, and what doesn't.
func TestHandoff(t *testing.T) {
	t.Parallel()
	l, ns, n := scene(t)
	r := n.core().Resource("spire_handoff")
	config := values{"machine_id": machine, "namespace": ns, "nodes": []string{"web", "db"}}
	apply(t, r, config, "create")
	if calls := n.calls(); calls != "spire receive" || n.ssh.Connections() != 1 {
		t.Errorf("%s, %d connections", calls, n.ssh.Connections())
	}
	h := n.received()
	if h.Namespace != ns || h.MachineID != machine || !slices.Equal(h.Nodes, []string{"db", "web"}) {
		t.Errorf("%s %s %q", h.MachineID, h.Namespace, h.Nodes)
	}
	if got, want := who(t, h.Kubeconfig), "system:serviceaccount:"+ns+":spire-server"; got != want {
		t.Errorf("the kubeconfig is %s's, want %s", got, want)
	}
	k, err := handoff.ParseKubeconfig([]byte(h.Kubeconfig))
	must(t, err)
	if k.Server != l.Server || r.State["api_server"] != l.Server {
		t.Errorf("%s, %v", k.Server, r.State["api_server"])
	}
	if state := fmt.Sprint(r.State); strings.Contains(state, k.Token) || strings.Contains(state, n.ssh.KeyFile) || strings.Contains(state, "127.0.0.1:"+fmt.Sprint(n.ssh.Port)) {
		t.Errorf("the state has what it must not have: %s", state)
	}

	// What changes nothing: the way to the node, and where the key is.
	key := filepath.Join(t.TempDir(), "key")
	data, err := os.ReadFile(n.ssh.KeyFile)
	must(t, err)
	must(t, os.WriteFile(key, data, 0o600))
	n.env["SSH_PRIVATE_KEY_FILE"], n.env["SSH_USER"] = key, n.ssh.User
	n.env["KUBE_CONFIG_PATH"] = kubeconfig(t, l, func(*clientcmdapi.Cluster) {})
	apply(t, r, values{"machine_id": machine, "namespace": ns, "nodes": []string{"db", "web"}}, "no-op")
	if len(r.Refresh(t.Context())) > 0 || n.calls() != "" {
		t.Error("a refresh asks the spire node")
	}

	// What replaces it, and then nothing retires the nodes in between.
	ca := fmt.Sprint(r.State["ca_sha256"])
	for name, change := range map[string]func(){
		"the nodes":      func() { config["nodes"] = []string{"web"} },
		"the machine":    func() { config["machine_id"] = strings.Repeat("f", 32) },
		"the API server": func() { n.env["K8S_SPIRE_API_SERVER"] = "https://api.example:6443/" },
		"the authorities": func() {
			n.env["KUBE_CONFIG_PATH"] = kubeconfig(t, l, func(c *clientcmdapi.Cluster) {
				c.CertificateAuthorityData = append(c.CertificateAuthorityData, authority.PEM(t)...)
			})
		},
	} {
		change()
		apply(t, r, config, "replace")
		if calls := n.calls(); calls != "spire receive" {
			t.Errorf("%s: %s", name, calls)
		}
		apply(t, r, config, "no-op")
	}
	h = n.received()
	k, err = handoff.ParseKubeconfig([]byte(h.Kubeconfig))
	must(t, err)
	if h.MachineID != strings.Repeat("f", 32) || !slices.Equal(h.Nodes, []string{"web"}) || k.Server != "https://api.example:6443" || strings.Count(k.CA, "BEGIN") != 2 || r.State["ca_sha256"] == ca {
		t.Errorf("%s %q %s %s", h.MachineID, h.Nodes, k.Server, k.CA)
	}

	// Another name in the certificate is no other hand-off, and is handed over.
	n.env["KUBE_CONFIG_PATH"] = kubeconfig(t, l, func(c *clientcmdapi.Cluster) {
		c.CertificateAuthorityData, c.TLSServerName = []byte(k.CA), "kubernetes.default.svc"
	})
	apply(t, r, config, "update")
	if k, err = handoff.ParseKubeconfig([]byte(n.received().Kubeconfig)); err != nil || k.TLSServerName != "kubernetes.default.svc" || n.calls() != "spire receive" {
		t.Errorf("%v %q", err, k.TLSServerName)
	}

	// Another namespace is another hand-off. What there is of the first one is for its spire_namespace to take back.
	second := l.Namespace(t)
	account(t, l, second)
	config["namespace"] = second
	apply(t, r, config, "replace")
	apply(t, r, nil, "delete")
	if calls := n.calls(); calls != "spire receive" {
		t.Error(calls)
	}
}

// A hand-off that fails leaves the identities that the nodes have, however often it is made again: what the spire node
// refuses, it refuses without having taken anything back.
func TestAFailedHandoffTakesNothingBack(t *testing.T) {
	t.Parallel()
	_, ns, n := scene(t)
	r := n.core().Resource("spire_handoff")
	config := values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}}
	apply(t, r, config, "create")
	config["nodes"] = []string{"web", "db"}
	n.write("before", `[ "$2" != receive ] || { cat >/dev/null; echo the nodes collide >&2; exit 1; }`)
	for range 3 {
		p := r.Plan(t.Context(), config)
		if p.Action != "replace" {
			t.Fatalf("the plan is to %s: %s", p.Action, p.Err())
		}
		wants(t, providertest.Errors(p.Apply(t.Context(), nil)), "the nodes collide")
		if got := n.received().Nodes; !slices.Equal(got, []string{"web"}) {
			t.Fatalf("the spire node has %q", got)
		}
	}
	must(t, os.Remove(filepath.Join(n.dir, "before")))
	apply(t, r, config, "replace")
	if got := n.received().Nodes; !slices.Equal(got, []string{"db", "web"}) {
		t.Errorf("the spire node has %q", got)
	}
	if calls := n.calls(); strings.Contains(calls, "retire") {
		t.Errorf("the nodes were without an identity in between: %s", calls)
	}
}

// What was handed over is taken back with its spire_namespace, which asks nobody before, also when no hand-off is known.
func TestNamespace(t *testing.T) {
	t.Parallel()
	_, ns, n := scene(t)
	r := n.core().Resource("spire_namespace")
	apply(t, r, values{"name": ns}, "create")
	apply(t, r, values{"name": ns}, "no-op")
	if len(r.Refresh(t.Context())) > 0 || n.calls() != "" {
		t.Error("the spire node was asked")
	}
	apply(t, n.core().Resource("spire_handoff"), values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}}, "create")
	n.calls()

	// Another namespace leaves nothing of the first.
	apply(t, r, values{"name": "other"}, "replace")
	if calls := n.calls(); calls != "spire retire" || n.read("received") != "" {
		t.Error(calls)
	}
	wants(t, n.read("retired"), `"`+ns+`"`)

	// A destroy needs no cluster, and the node.
	n.env["KUBE_CONFIG_PATH"] = "/nonexistent"
	n.write("before", "echo no room >&2; exit 1")
	wants(t, providertest.Errors(r.Plan(t.Context(), nil).Apply(t.Context(), nil)), "not retired namespace other", "no room")
	must(t, os.Remove(filepath.Join(n.dir, "before")))
	n.calls()
	apply(t, r, nil, "delete")
	if calls := n.calls(); calls != "spire retire" || r.State != nil {
		t.Errorf("%s, %v", calls, r.State)
	}
	wants(t, n.read("retired"), `"other"`)

	for _, bad := range []string{"", "A", "a/b", "a.b"} {
		wants(t, r.Plan(t.Context(), values{"name": bad}).Err(), "DNS label")
		wants(t, providertest.Errors(r.Import(t.Context(), bad)), "The id is the namespace", "DNS label")
	}
	if errs := providertest.Errors(r.Import(t.Context(), ns)); errs != "" {
		t.Fatal(errs)
	}
	apply(t, r, values{"name": ns}, "no-op")
}

// A connection that is cut, before the spire node has done something or after, is made again; a hand-off of which nothing
// is known is in the state, to be made again.
func TestCuts(t *testing.T) {
	t.Parallel()
	l, ns, n := scene(t)
	config := values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}}
	for _, moment := range []string{"before", "after"} {
		t.Run(moment, func(t *testing.T) {
			once := "rm " + moment + "; kill -9 $PPID; exit"
			r := n.core().Resource("spire_handoff")
			n.write(moment, once)
			apply(t, r, config, "create")
			if calls := n.calls(); calls != "spire receive, spire receive" || n.received().Namespace != ns {
				t.Error(calls)
			}
			namespace := n.core().Resource("spire_namespace")
			apply(t, namespace, values{"name": ns}, "create")
			n.write(moment, once)
			apply(t, namespace, nil, "delete")
			if calls := n.calls(); calls != "spire retire, spire retire" || n.read("received") != "" {
				t.Error(calls)
			}

			r = n.core().Resource("spire_handoff")
			n.write(moment, "kill -9 $PPID; exit")
			p := r.Plan(t.Context(), config)
			errs := providertest.Errors(p.Apply(t.Context(), nil))
			wants(t, errs, "not taken the hand-off", "the connection was cut", "Apply again")
			if r.State == nil || n.calls() != "spire receive, spire receive, spire receive" {
				t.Errorf("the state is %v", r.State)
			}
			must(t, os.Remove(filepath.Join(n.dir, moment)))
			apply(t, r, config, "replace")
			if calls := n.calls(); calls != "spire receive" || n.received().Namespace != ns {
				t.Error(calls)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := n.core().Resource("spire_handoff")
		n.write("before", "echo the nodes collide >&2; exit 1")
		defer os.Remove(filepath.Join(n.dir, "before"))
		errs := providertest.Errors(r.Plan(t.Context(), config).Apply(t.Context(), nil))
		wants(t, errs, "exit code 1", "the nodes collide")
		if calls := n.calls(); calls != "spire receive" {
			t.Errorf("a refusal is not the last word: %s", calls)
		}
	})
	// A program that isn't yuba may write what it is given where it is seen.
	t.Run("echo", func(t *testing.T) {
		r := n.core().Resource("spire_handoff")
		n.write("before", "cat >&2; exit 1")
		defer os.Remove(filepath.Join(n.dir, "before"))
		errs := providertest.Errors(r.Plan(t.Context(), config).Apply(t.Context(), nil))
		wants(t, errs, "isn't shown")
		encoded, _, _ := unstructured.NestedString(secret(t, l, ns).Object, "data", "token")
		token, err := base64.StdEncoding.DecodeString(encoded)
		must(t, err)
		for i := 0; i+16 <= len(token); i++ {
			if strings.Contains(errs, string(token[i:i+16])) {
				t.Fatalf("the error shows the token: %s", errs)
			}
		}
	})
}

// The Secret is made once and never taken from others.
func TestSecrets(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	n := newNode(t)
	n.env["KUBE_CONFIG_PATH"] = l.Kubeconfig
	make := func(t *testing.T, ns, kind, owner string) {
		account(t, l, ns)
		create(t, l, "secrets", ns, map[string]any{"kind": "Secret", "type": kind, "metadata": map[string]any{
			"name": "spire-server-token", "annotations": map[string]any{"kubernetes.io/service-account.name": owner}}})
	}
	handOver := func(t *testing.T, ns string) string {
		r := n.core().Resource("spire_handoff")
		p := r.Plan(t.Context(), values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}})
		if p.Err() != "" {
			t.Fatal(p.Err())
		}
		errs := providertest.Errors(p.Apply(t.Context(), nil))
		if calls := n.calls(); errs != "" && (calls != "" || r.State != nil) {
			t.Errorf("after an error there is something: %s, %v", calls, r.State)
		}
		return errs
	}
	t.Run("one that is right", func(t *testing.T) {
		ns := l.Namespace(t)
		make(t, ns, "kubernetes.io/service-account-token", "spire-server")
		uid := secret(t, l, ns).GetUID()
		for range 2 {
			if errs := handOver(t, ns); errs != "" {
				t.Fatal(errs)
			}
		}
		if secret(t, l, ns).GetUID() != uid {
			t.Error("there is another one")
		}
	})
	t.Run("of another type", func(t *testing.T) {
		ns := l.Namespace(t)
		make(t, ns, "Opaque", "spire-server")
		wants(t, handOver(t, ns), ns+"/spire-server-token", `"Opaque"`, "delete or rename")
	})
	t.Run("of another account", func(t *testing.T) {
		ns := l.Namespace(t)
		make(t, ns, "kubernetes.io/service-account-token", "default")
		wants(t, handOver(t, ns), ns+"/spire-server-token", `"default"`, "delete or rename")
	})
	t.Run("no account", func(t *testing.T) {
		ns := l.Namespace(t)
		wants(t, handOver(t, ns), "no service account spire-server", ns, "Nothing was handed over")
	})
	t.Run("no namespace", func(t *testing.T) {
		wants(t, handOver(t, "nowhere"), "no service account spire-server", "nowhere")
	})
}

// An API server that breaks at any request for the token is asked again, and the Secret is made once.
func TestTheAPIServerBreaks(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	account(t, l, ns)
	n := newNode(t)
	rc, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig)
	must(t, err)
	tls, err := rest.TLSConfigFor(rc)
	must(t, err)
	p := proxy.New()
	t.Cleanup(p.Close)
	front, err := p.Front(proxy.Server{Name: "api", URL: l.Server, TLS: tls, Secure: true})
	must(t, err)
	n.env["KUBE_CONFIG_PATH"] = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": {}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: front.URL, CertificateAuthorityData: front.CA}},
	}, n.env["KUBE_CONFIG_PATH"]))
	secrets := l.Client(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(ns)
	for name, c := range map[string]struct {
		method, path string
		moment       proxy.Moment
		harm         proxy.Harm
	}{
		"cut before the Secret is made":   {"POST", "/secrets", proxy.Before, proxy.Harm{Cut: true}},
		"cut after the Secret is made":    {"POST", "/secrets", proxy.After, proxy.Harm{Cut: true}},
		"half of an answer":               {"GET", "/secrets/spire-server-token", proxy.After, proxy.Harm{Truncate: true}},
		"no server behind a proxy":        {"GET", "/serviceaccounts/spire-server", proxy.Before, proxy.Harm{Status: 503, Body: "<html>"}},
		"too many requests":               {"POST", "/secrets", proxy.Before, proxy.Harm{Status: 429}},
		"somebody else makes one as well": {"POST", "/secrets", proxy.After, proxy.Harm{Status: 409, Body: `{"kind": "Status", "reason": "AlreadyExists", "message": "there is one", "code": 409}`}},
	} {
		t.Run(name, func(t *testing.T) {
			harmed, made := 0, 0
			var mu sync.Mutex
			p.Watch(func(at proxy.Point) proxy.Harm {
				mu.Lock()
				defer mu.Unlock()
				if at.Method == "POST" && at.Moment == proxy.After {
					made++
				}
				if at.Method == c.method && at.Path == "/api/v1/namespaces/"+ns+c.path && at.Moment == c.moment && harmed == 0 {
					harmed++
					return c.harm
				}
				return proxy.Harm{}
			})
			r := n.core().Resource("spire_handoff")
			apply(t, r, values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}}, "create")
			if harmed != 1 || made != 1 || n.received().Namespace != ns {
				t.Errorf("harmed %d times, %d Secrets made", harmed, made)
			}
			must(t, secrets.Delete(t.Context(), "spire-server-token", metav1.DeleteOptions{}))
		})
	}
}

// What is imported is handed over again, in place. Destroyed at once, without the spire_namespace that no plan has made
// yet, it is taken back; so is a hand-off from before there was that resource.
func TestImport(t *testing.T) {
	t.Parallel()
	_, ns, n := scene(t)
	r := n.core().Resource("spire_handoff")
	for _, bad := range []string{"", "A", "a/b", "a.b"} {
		wants(t, providertest.Errors(r.Import(t.Context(), bad)), "id of a hand-off is its namespace")
	}
	if errs := providertest.Errors(r.Import(t.Context(), ns)); errs != "" {
		t.Fatal(errs)
	}
	r.Refresh(t.Context())
	config := values{"machine_id": machine, "namespace": ns, "nodes": []string{"web"}}
	apply(t, r, config, "update")
	apply(t, r, config, "no-op")
	if calls := n.calls(); calls != "spire receive" {
		t.Error(calls)
	}
	apply(t, r, nil, "delete")
	if calls := n.calls(); calls != "" {
		t.Error(calls)
	}
	r.Import(t.Context(), ns)
	apply(t, r, nil, "delete")
	if calls := n.calls(); calls != "spire retire" {
		t.Error(calls)
	}
	wants(t, n.read("retired"), `"`+ns+`"`)
}

// What the plan can know to be wrong, it says.
func TestBadPlans(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	ca := authority.PEM(t)
	write := func(cluster string) {
		data := strings.NewReplacer("\n", `\n`).Replace(cluster)
		must(t, os.WriteFile(config, []byte(`{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "s3cret"}}],
			"clusters": [{"name": "c", "cluster": {`+data+`}}]}`), 0o600))
	}
	n.env["KUBE_CONFIG_PATH"] = config
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, []byte("my CA:\n"+ca), 0o600))
	good := `"server": "https://api.example:6443", "certificate-authority": "` + file + `"`
	for name, c := range map[string]struct {
		cluster, env string
		change       func(values)
		want         string
	}{
		"good":                {good, "", nil, ""},
		"no authorities":      {`"server": "https://api.example:6443"`, "", nil, ""},
		"by a proxy":          {good + `, "proxy-url": "http://proxy.example"`, "", nil, ""},
		"insecure":            {`"server": "https://api.example:6443", "insecure-skip-tls-verify": true`, "", nil, "insecure-skip-tls-verify"},
		"plain":               {`"server": "http://127.0.0.1:8080"`, "", nil, "must begin with https"},
		"plain, not there":    {`"server": "http://127.0.0.1:8080"`, "https://api.example", nil, ""},
		"plain for the node":  {good, "http://api.example", nil, "address by K8S_SPIRE_API_SERVER"},
		"password":            {good, "https://u:s3cret@api.example", nil, "must have no user"},
		"not a URL":           {good, "api.example:6443", nil, "K8S_SPIRE_API_SERVER"},
		"in the config":       {good, "", func(v values) { v["api_server"] = "ftp://x" }, "address by api_server"},
		"no certificate":      {strings.Replace(good, file, config, 1), "", nil, "has no certificate"},
		"no node":             {good, "", func(v values) { v["nodes"] = []string{} }, "no node"},
		"bad node":            {good, "", func(v values) { v["nodes"] = []string{"Web"} }, "DNS label"},
		"bad namespace":       {good, "", func(v values) { v["namespace"] = "a.b" }, "DNS label"},
		"bad machine":         {good, "", func(v values) { v["machine_id"] = "x" }, "machine id"},
		"no machine":          {good, "", func(v values) { v["machine_id"] = "" }, "machine_id is empty"},
		"machine to be known": {good, "", func(v values) { v["machine_id"] = providertest.Unknown }, ""},
		"API to be known":     {good, "", func(v values) { v["api_server"] = providertest.Unknown }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			write(c.cluster)
			n.env["K8S_SPIRE_API_SERVER"] = c.env
			v := values{"machine_id": machine, "namespace": "ns", "nodes": []string{"web"}}
			if c.change != nil {
				c.change(v)
			}
			err := n.core().Resource("spire_handoff").Plan(t.Context(), v).Err()
			if c.want == "" && err != "" || !strings.Contains(err, c.want) {
				t.Errorf("%q lacks %q", err, c.want)
			}
			if strings.Contains(err, "s3cret") {
				t.Errorf("the error has a secret: %s", err)
			}
		})
	}
	if calls := n.calls(); calls != "" {
		t.Errorf("a plan of the hand-off asks the spire node: %s", calls)
	}
	// A kubeconfig, or the way to the spire node, that the same apply makes.
	for _, name := range []string{"config_path", "host"} {
		c := n.config()
		c[name] = providertest.Unknown
		v := values{"machine_id": machine, "namespace": "ns", "nodes": []string{"web"}}
		if p := n.coreWith(c).Resource("spire_handoff").Plan(t.Context(), v); p.Err() != "" || p.After["api_server"] != providertest.Unknown {
			t.Errorf("%s: %s, %v", name, p.Err(), p.After)
		}
		_, diags := n.coreWith(c).Read(t.Context(), "spire_server", values{})
		if errs := providertest.Errors(diags); (errs == "") != (name == "config_path") || errs != "" && !strings.Contains(errs, "not known yet") {
			t.Errorf("%s: %q", name, errs)
		}
	}
}

// What the schema promises to configurations and to other tools.
func TestSchema(t *testing.T) {
	t.Parallel()
	got := providertest.Describe(newNode(t).core().Schema())
	want := `provider version 0
  command String optional
  config_path String optional
  host String optional
  host_keys List[String] optional
  options Map[String] optional
  port Number optional
  user String optional
resource spire_handoff version 0
  api_server String optional computed
  ca_sha256 String computed
  machine_id String required
  namespace String required
  nodes Set[String] required
  tls_server_name String computed
resource spire_namespace version 0
  name String required
data spire_server version 0
  bundle String computed
  machine_id String computed
  trust_domain String optional computed
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
