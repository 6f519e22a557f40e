// Package life gives tests a group whose commands reach all servers through a
// proxy, and looks at what they left in the cluster, the registry and the state.
package life

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// Life is one group whose commands reach everything through a proxy.
type Life struct {
	*testing.T
	*world.World
	Proxy *proxy.Proxy
	// Fronts are the addresses, HOST:PORT, at which commands reach the servers,
	// by their names: "api", "registry", "state".
	Fronts map[string]string
	client dynamic.Interface // not through the proxy
	Alone  bool              // web has no db beside it
	Good   string            // the image with which web was well
	// Spire, if set, is what the group file says of the spire node.
	Spire map[string]any
	// Ours are objects, as Live has them, that are no kubernetes_object.
	Ours []string
}

// Born makes a world whose servers are behind a proxy.
func Born(t *testing.T) *Life {
	t.Helper()
	return Astray(t, nil)
}

// Astray is Born with servers whose clocks are ahead of the commands', so much;
// nil is not at all.
func Astray(t *testing.T, ahead func() time.Duration) *Life {
	t.Helper()
	l := &Life{T: t, World: world.New(t), Proxy: proxy.New(), Fronts: map[string]string{}}
	t.Cleanup(l.Proxy.Close)
	l.client = l.Lab.Client(t)

	config, err := clientcmd.BuildConfigFromFlags("", l.Lab.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	path := proxy.Comparable(l.Namespace)
	api := l.front(proxy.Server{Name: "api", URL: config.Host, TLS: secure, Secure: true, Comparable: path, Clock: ahead})
	kubeconfig := filepath.Join(l.Dir, "proxy.kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}]}`,
		api.URL, base64.StdEncoding.EncodeToString(api.CA)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Env["KUBE_CONFIG_PATH"] = kubeconfig

	registry := l.front(proxy.Server{Name: "registry", URL: "http://" + l.Lab.Registry, Comparable: path, Clock: ahead,
		// The nodes pull from there, too.
		Of: func(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "yuba") }})
	l.Env["K8S_REGISTRY"] = strings.TrimPrefix(registry.URL, "http://")

	l.Env["TF_HTTP_ADDRESS"] = l.front(proxy.Server{Name: "state", URL: l.Server.Address, Comparable: path, Clock: ahead}).URL + "/" + l.Namespace
	l.Env["TF_HTTP_RETRY_WAIT_MIN"] = "1"
	return l
}

func (l *Life) front(s proxy.Server) *proxy.Front {
	l.Helper()
	f, err := l.Proxy.Front(s)
	if err != nil {
		l.Fatal(err)
	}
	_, l.Fronts[s.Name], _ = strings.Cut(f.URL, "://")
	return f
}

// Process is a command under way.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr world.Text
	Ended          chan struct{} // closed at the end
}

// Result is what a command that has ended left behind.
func (p *Process) Result() world.Result {
	return world.Result{Code: p.Cmd.ProcessState.ExitCode(), Stdout: p.Stdout.String(), Stderr: p.Stderr.String()}
}

// Launch starts a command. At each point that it comes to, harm is asked, with
// the process; nil is none.
func (l *Life) Launch(cmd *exec.Cmd, harm func(*Process, proxy.Point) proxy.Harm) *Process {
	l.Helper()
	p := &Process{Cmd: cmd, Ended: make(chan struct{})}
	started := make(chan struct{})
	l.Proxy.Watch(func(at proxy.Point) proxy.Harm {
		<-started
		if harm == nil {
			return proxy.Harm{}
		}
		return harm(p, at)
	})
	cmd.Stdout, cmd.Stderr = &p.Stdout, &p.Stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	close(started)
	go func() {
		_ = cmd.Wait()
		close(p.Ended)
	}()
	return p
}

// Try runs a command to its end.
func (l *Life) Try(harm func(*Process, proxy.Point) proxy.Harm, args ...string) world.Result {
	l.Helper()
	p := l.Launch(l.Command(args...), harm)
	<-p.Ended
	return p.Result()
}

// Must runs a command that has to end with this exit code.
func (l *Life) Must(code int, args ...string) world.Result {
	l.Helper()
	r := l.Try(nil, args...)
	if r.Code != code {
		l.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

// UnlockHint is how an error tells to release a lock, whose ID is the submatch.
var UnlockHint = regexp.MustCompile(`yuba force-unlock (\S+)`)

// UnlockAsTold is the command that an error tells to release the lock with.
func (l *Life) UnlockAsTold(r world.Result) []string {
	l.Helper()
	hint := UnlockHint.FindStringSubmatch(r.Stderr)
	if hint == nil {
		l.Fatalf("the error does not tell how to release the lock: %v", r)
	}
	return []string{"force-unlock", "-force", hint[1]}
}

// Again runs a command that has to end with this exit code, after releasing the
// lock that a dead run may have left, in the way that the error tells.
func (l *Life) Again(code int, args ...string) world.Result {
	l.Helper()
	r := l.Try(nil, args...)
	if r.Code == 1 && strings.Contains(r.Stderr, "Error acquiring the state lock") {
		l.Must(0, l.UnlockAsTold(r)...)
		r = l.Try(nil, args...)
	}
	if r.Code != code {
		l.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// kinds are those of which a group has objects.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "services"},
	deployments,
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// list are the objects of a kind in the group's namespace.
func (l *Life) list(kind schema.GroupVersionResource) []unstructured.Unstructured {
	l.Helper()
	list, err := l.client.Resource(kind).Namespace(l.Namespace).List(context.Background(), meta.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// Live are the objects in the group's namespace, as kind/name, without those
// that Kubernetes puts into each.
func (l *Life) Live() []string {
	l.Helper()
	var out []string
	for _, k := range kinds {
		for _, o := range l.list(k) {
			id := o.GetKind() + "/" + o.GetName()
			if id != "ConfigMap/kube-root-ca.crt" && id != "ServiceAccount/default" && !slices.Contains(l.Ours, id) {
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out
}

// resource is an entry of the state.
type resource struct {
	Type      string
	Mode      string
	Instances []struct {
		Attributes map[string]any
	}
}

// stored are the entries of the state.
func (l *Life) stored() []resource {
	l.Helper()
	resp, err := http.Get(l.State)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		l.Fatal(err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent, http.StatusNotFound:
		return nil
	default:
		l.Fatalf("the state: %s\n%s", resp.Status, data)
	}
	var state struct{ Resources []resource }
	if err := json.Unmarshal(data, &state); err != nil {
		l.Fatalf("the state: %v\n%s", err, data)
	}
	return state.Resources
}

// Said are the objects that the state has, as Live gives them.
func (l *Life) Said() []string {
	l.Helper()
	var said []string
	for _, r := range l.stored() {
		for _, i := range r.Instances {
			id, _ := i.Attributes["id"].(string)
			if o := identified(id); r.Mode == "managed" && r.Type == "kubernetes_object" && o["namespace"] != "" {
				said = append(said, o["kind"]+"/"+o["name"])
			}
		}
	}
	slices.Sort(said)
	return said
}

// Truthful fails unless the state says what is in the cluster and in the registry.
func (l *Life) Truthful() {
	l.Helper()
	digests := map[string]bool{}
	for _, r := range l.stored() {
		for _, i := range r.Instances {
			if r.Mode == "managed" && r.Type == "oci_image" {
				id, _ := i.Attributes["id"].(string)
				digests[id] = true
				l.intact(id)
			}
		}
	}
	said := l.Said()
	if live := l.Live(); !slices.Equal(live, said) {
		l.Errorf("the state says  %v\nthe cluster has %v", said, live)
	}
	for _, d := range l.list(deployments) {
		if image := imageOf(&d); !digests[image] {
			l.Errorf("%s runs %s, which the state does not have", d.GetName(), image)
		}
	}
}

// identified reads an ID: apiVersion=...,kind=...,namespace=...,name=...
func identified(id string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(id, ",") {
		key, value, _ := strings.Cut(part, "=")
		out[key] = value
	}
	return out
}

func imageOf(deployment *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return image
}

// Machines are the machine IDs of the nodes that have a Deployment.
func (l *Life) Machines() map[string]string {
	l.Helper()
	ids := map[string]string{}
	for _, d := range l.list(deployments) {
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		env, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "env")
		for _, v := range env {
			if v := v.(map[string]any); v["name"] == "container_uuid" {
				ids[d.GetName()], _ = v["value"].(string)
			}
		}
	}
	return ids
}

// Kept fails unless nodes that had these machine IDs have them still. It gives
// the ones that there are.
func (l *Life) Kept(ids map[string]string) map[string]string {
	l.Helper()
	now := l.Machines()
	for node, id := range ids {
		if now[node] != id {
			l.Errorf("the machine ID of %s was %s and is now %s", node, id, now[node])
		}
	}
	return now
}

// Running is the image of a Deployment.
func (l *Life) Running(node string) string {
	l.Helper()
	d, err := l.client.Resource(deployments).Namespace(l.Namespace).Get(context.Background(), node, meta.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return imageOf(d)
}

// intact fails unless the registry holds the whole image.
func (l *Life) intact(ref string) {
	l.Helper()
	digest, err := name.NewDigest(ref)
	if err != nil {
		l.Fatalf("the state's image %q: %v", ref, err)
	}
	img, err := remote.Image(digest)
	if err == nil {
		err = validate.Image(img)
	}
	if err != nil {
		l.Errorf("the registry's %s: %v", ref, err)
	}
}

// Gone fails when there is a namespace.
func (l *Life) Gone() {
	l.Helper()
	_, err := l.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(context.Background(), l.Namespace, meta.GetOptions{})
	if !apierrors.IsNotFound(err) {
		l.Errorf("the namespace is still there: %v", err)
	}
	for _, r := range l.stored() {
		if r.Mode == "managed" {
			l.Errorf("the state still has a %s", r.Type)
		}
	}
}

// Nodes writes the group file: web, and db beside it.
func (l *Life) Nodes(web lab.Image) {
	nodes := []world.Node{{Name: "web", Image: web}}
	if !l.Alone {
		nodes = append(nodes, world.Node{Name: "db", Image: lab.Image{Content: "db"}})
	}
	l.Group(nodes...)
	l.Edit(func(g map[string]any) {
		g["rolloutTimeout"] = "3m" // a busy machine's pods take their time
		if l.Spire != nil {
			g["spire"] = l.Spire
		}
	})
}

// First writes the group file with which a life begins. A life may come to each
// file many times.
func (l *Life) First() { l.Nodes(lab.Image{Content: "one"}) }

// Second writes one with another image.
func (l *Life) Second() { l.Nodes(lab.Image{Content: "two"}) }

// The command lines of a life.
var (
	Apply   = []string{"k8s", "apply", "-auto-approve"}
	Destroy = []string{"k8s", "destroy", "-auto-approve"}
	Plan    = []string{"k8s", "plan", "-detailed-exitcode"}
)

// Settled fails unless the last apply left nothing to do, and the state tells
// what there is. It keeps in Good what runs.
func (l *Life) Settled() {
	l.Helper()
	l.Must(0, Plan...)
	l.Truthful()
	l.Good = l.Running("web")
}

// Seed chooses what differs from run to run: YUBA_TEST_SEED, or another one each
// time, which is reported.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(os.Getpid())
	if s := os.Getenv("YUBA_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("YUBA_TEST_SEED: %v", err)
		}
	}
	Report(t, fmt.Sprintf("%s: YUBA_TEST_SEED=%d\n", t.Name(), seed))
	return seed
}

// Report tells what a test that passes has to say: "go test" keeps that to itself,
// so it goes into the file that YUBA_TEST_REPORT names, too.
func Report(t *testing.T, text string) {
	t.Helper()
	t.Log(text)
	path := os.Getenv("YUBA_TEST_REPORT")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
