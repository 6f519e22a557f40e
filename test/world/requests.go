package world

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Requests are the requests that commands have sent to the API server since
// the last Reset.
type Requests struct {
	mu   sync.Mutex
	list []string
}

// Reset forgets the requests so far.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}

// List returns the requests so far, each as its method and path.
func (r *Requests) List() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

// CountRequests lets the world's commands reach the API server through a
// proxy that writes down what they ask.
func (w *World) CountRequests() *Requests {
	w.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.Lab.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	requests := &Requests{}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // watches
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		requests.mu.Lock()
		requests.list = append(requests.list, r.Method+" "+r.URL.Path)
		requests.mu.Unlock()
		proxy.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(s.Close)
	name := filepath.Join(w.Dir, "proxy.kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":"` + s.URL + `"}}]}`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.Env["KUBE_CONFIG_PATH"] = name
	return requests
}
