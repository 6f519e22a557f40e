// Package kill holds the tests that end yuba at every moment of its work, by
// kill -9 and by signals, and look at what is left.
package kill

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
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

// life is one group whose commands reach everything through a proxy.
type life struct {
	*testing.T
	*world.World
	proxy  *proxy.Proxy
	client dynamic.Interface
	alone  bool   // web has no db beside it
	images int    // that fresh has made
	good   string // the image with which web was well
}

// born makes a world whose servers are behind a proxy.
func born(t *testing.T) *life {
	t.Helper()
	l := &life{T: t, World: world.New(t), proxy: proxy.New()}
	t.Cleanup(l.proxy.Close)
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
	api := l.front(proxy.Server{Name: "api", URL: config.Host, TLS: secure, Secure: true, Comparable: path})
	kubeconfig := filepath.Join(l.Dir, "proxy.kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}]}`,
		api.URL, base64.StdEncoding.EncodeToString(api.CA)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Env["KUBE_CONFIG_PATH"] = kubeconfig

	registry := l.front(proxy.Server{Name: "registry", URL: "http://" + l.Lab.Registry, Comparable: path,
		// The nodes pull from there, too.
		Of: func(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "yuba") }})
	l.Env["K8S_REGISTRY"] = strings.TrimPrefix(registry.URL, "http://")

	l.Env["TF_HTTP_ADDRESS"] = l.front(proxy.Server{Name: "state", URL: l.Server.Address, Comparable: path}).URL + "/" + l.Namespace
	l.Env["TF_HTTP_RETRY_WAIT_MIN"] = "1"
	return l
}

func (l *life) front(s proxy.Server) *proxy.Front {
	l.Helper()
	f, err := l.proxy.Front(s)
	if err != nil {
		l.Fatal(err)
	}
	return f
}

// process is a command under way.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr world.Text
	ended          chan struct{}
}

func (p *process) result() world.Result {
	return world.Result{Code: p.cmd.ProcessState.ExitCode(), Stdout: p.stdout.String(), Stderr: p.stderr.String()}
}

// launch starts a command. At each point that it comes to, harm is asked, with
// the process; nil is none.
func (l *life) launch(cmd *exec.Cmd, harm func(*process, proxy.Point) proxy.Harm) *process {
	l.Helper()
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan struct{})
	l.proxy.Watch(func(at proxy.Point) proxy.Harm {
		<-started
		if harm == nil {
			return proxy.Harm{}
		}
		return harm(p, at)
	})
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
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
		close(p.ended)
	}()
	return p
}

// run runs a command to its end.
func (l *life) run(harm func(*process, proxy.Point) proxy.Harm, args ...string) world.Result {
	l.Helper()
	p := l.launch(l.Command(args...), harm)
	<-p.ended
	return p.result()
}

// must runs a command that has to end with this exit code.
func (l *life) must(code int, args ...string) world.Result {
	l.Helper()
	r := l.run(nil, args...)
	if r.Code != code {
		l.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

var unlockHint = regexp.MustCompile(`yuba force-unlock (\S+)`)

// unlockAsTold is the command that an error tells to release the lock with.
func (l *life) unlockAsTold(r world.Result) []string {
	l.Helper()
	hint := unlockHint.FindStringSubmatch(r.Stderr)
	if hint == nil {
		l.Fatalf("the error does not tell how to release the lock: %v", r)
	}
	return []string{"force-unlock", "-force", hint[1]}
}

// again runs a command that has to end with this exit code, after releasing the
// lock that a dead run may have left, in the way that the error tells.
func (l *life) again(code int, args ...string) world.Result {
	l.Helper()
	r := l.run(nil, args...)
	if r.Code == 1 && strings.Contains(r.Stderr, "Error acquiring the state lock") {
		l.must(0, l.unlockAsTold(r)...)
		r = l.run(nil, args...)
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
func (l *life) list(kind schema.GroupVersionResource) []unstructured.Unstructured {
	l.Helper()
	list, err := l.client.Resource(kind).Namespace(l.Namespace).List(context.Background(), meta.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// live are the objects in the group's namespace, as kind/name, without those
// that Kubernetes puts into each.
func (l *life) live() []string {
	l.Helper()
	var out []string
	for _, k := range kinds {
		for _, o := range l.list(k) {
			id := o.GetKind() + "/" + o.GetName()
			if id != "ConfigMap/kube-root-ca.crt" && id != "ServiceAccount/default" {
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
func (l *life) stored() []resource {
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
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	var state struct{ Resources []resource }
	if err := json.Unmarshal(data, &state); err != nil {
		l.Fatalf("the state: %v\n%s", err, data)
	}
	return state.Resources
}

// truthful fails unless the state says what is in the cluster and in the registry.
func (l *life) truthful() {
	l.Helper()
	var said []string
	digests := map[string]bool{}
	for _, r := range l.stored() {
		for _, i := range r.Instances {
			switch {
			case r.Mode != "managed":
			case r.Type == "kubernetes_object":
				id, _ := i.Attributes["id"].(string)
				o := identified(id)
				if o["kind"] == "Namespace" {
					continue
				}
				said = append(said, o["kind"]+"/"+o["name"])
			case r.Type == "oci_image":
				id, _ := i.Attributes["id"].(string)
				digests[id] = true
				l.intact(id)
			}
		}
	}
	slices.Sort(said)
	if live := l.live(); !slices.Equal(live, said) {
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

// machines are the machine IDs of the nodes that have a Deployment.
func (l *life) machines() map[string]string {
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

// running is the image of a Deployment.
func (l *life) running(node string) string {
	l.Helper()
	d, err := l.client.Resource(deployments).Namespace(l.Namespace).Get(context.Background(), node, meta.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return imageOf(d)
}

// intact fails unless the registry holds the whole image.
func (l *life) intact(ref string) {
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

// gone fails when there is a namespace.
func (l *life) gone() {
	l.Helper()
	_, err := l.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(context.Background(), l.Namespace, meta.GetOptions{})
	if err == nil {
		l.Errorf("the namespace is still there")
	}
	for _, r := range l.stored() {
		if r.Mode == "managed" {
			l.Errorf("the state still has a %s", r.Type)
		}
	}
}

// group writes the group file: web, and db beside it.
func (l *life) group(web lab.Image) {
	nodes := []world.Node{{Name: "web", Image: web}}
	if !l.alone {
		nodes = append(nodes, world.Node{Name: "db", Image: lab.Image{Content: "db"}})
	}
	l.Group(nodes...)
}
