package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// Kubectl runs kubectl as administrator and gives what it prints. A failure of
// kubectl is the test's.
func (l *Lab) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.kubectlRun(args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Apply is "kubectl apply -n NAMESPACE" of manifests.
func (l *Lab) Apply(t testing.TB, namespace, manifests string) {
	t.Helper()
	cmd := l.kubectlCommand("apply", "-n", namespace, "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

func (l *Lab) kubectlCommand(args ...string) *exec.Cmd {
	args = append(l.kubectl[1:len(l.kubectl):len(l.kubectl)], args...)
	cmd := exec.Command(l.kubectl[0], args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig)
	return cmd
}

func (l *Lab) kubectlRun(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := l.kubectlCommand(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// TokenKubeconfig is the text of a kubeconfig of who has a token, or with "" no
// credentials at all.
func (l *Lab) TokenKubeconfig(token string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority": %q}}],
"users": [{"name": "u", "user": {"token": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, l.Server, l.CA, token)
}

// Client is the administrator's client.
func (l *Lab) Client(t testing.TB) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Namespace makes a namespace for this test; it is deleted when the test ends.
// A pod can be made in it at once.
func (l *Lab) Namespace(t testing.TB) string {
	t.Helper()
	name := l.Name(t)
	namespaces := l.Client(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
	if _, err := namespaces.Create(context.Background(), ns, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := namespaces.Delete(context.Background(), name, meta.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	l.Until(t, accounts, name, "default", "to be there", func(*unstructured.Unstructured) bool { return true })
	return name
}

// Until watches one object until done says so, and gives the object as it is
// then. done is not asked while the object isn't there. what completes the
// sentence "waited for NAME ...".
func (l *Lab) Until(t testing.TB, kind schema.GroupVersionResource, namespace, name, what string,
	done func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	one := meta.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	return l.until(t, kind, namespace, one, name+" "+what, done)
}

// UntilPod is Until for the pod that a label selector chooses; of several, the
// first that done likes.
func (l *Lab) UntilPod(t testing.TB, namespace, selector, what string, done func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	return l.until(t, pods, namespace, meta.ListOptions{LabelSelector: selector}, "a pod of "+selector+" "+what, done)
}

// limit is how long anything may take before a test gives up on it.
const limit = 4 * time.Minute

func (l *Lab) until(t testing.TB, kind schema.GroupVersionResource, namespace string, choice meta.ListOptions, what string,
	done func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client := l.Client(t).Resource(kind).Namespace(namespace)
	var last *unstructured.Unstructured
	for ctx.Err() == nil {
		w, err := client.Watch(ctx, choice) // begins with what is there
		if err != nil {
			t.Fatalf("waited for %s: %v", what, err)
		}
		for event := range w.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type != watch.Added && event.Type != watch.Modified {
				continue
			}
			if last = o; done(o) {
				w.Stop()
				return o
			}
		}
		w.Stop()
	}
	seen := "nothing"
	if last != nil {
		data, _ := json.MarshalIndent(last.Object, "", "  ")
		seen = string(data)
	}
	t.Fatalf("waited %v for %s; seen last: %s", limit, what, seen)
	return nil
}

// Eventually asks until there is no error: for what can't be watched.
func Eventually(t testing.TB, what string, ask func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v for %s: %v", limit, what, err)
		}
	}
}

// Request is one request that the API server got with the lab's kubeconfig.
type Request struct {
	Verb       string `json:"verb"` // get, list, watch, create, patch, ...
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
}

// Requests are the requests of user agents that begin with prefix, oldest
// first, as the API server's audit log has them. A program that is to be counted
// needs a user agent of its own: tests run at the same time.
func (l *Lab) Requests(t testing.TB, prefix string) []Request {
	t.Helper()
	data, err := os.ReadFile(l.audit)
	if err != nil {
		t.Fatal(err)
	}
	var all []Request
	for line := range bytes.Lines(data) {
		var r Request
		if json.Unmarshal(line, &r) == nil && strings.HasPrefix(r.UserAgent, prefix) {
			all = append(all, r)
		}
	}
	return all
}
