package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// settings are the flags of "kubelab up".
type settings struct {
	dir          string
	fakeNodes    int
	nodeCPU      string
	nodeMemory   string
	registry     bool
	featureGates string
	stdin        bool
	remove       bool
	runtime      string
}

const (
	podCIDR     = "10.128.0.0/10"
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1" // of the API server in the cluster
)

// Info is what DIR/lab.json says about a running cluster.
type Info struct {
	Kubeconfig string         `json:"kubeconfig"`         // path; its user may do everything
	Server     string         `json:"server"`             // URL of the API server
	CA         string         `json:"ca"`                 // path of the API server's CA certificate
	Registry   string         `json:"registry,omitempty"` // host:port, plain HTTP
	AuditLog   string         `json:"auditLog"`           // path; one JSON line for each request of the kubeconfig's user
	Admin      string         `json:"admin"`              // path of the socket described in admin.go
	Kubectl    []string       `json:"kubectl"`            // command line prefix
	Pids       map[string]int `json:"pids"`               // of each process
}

// up starts a cluster, keeps it running, and ends it.
func up() {
	runtime.LockOSThread() // see supervisor
	var s settings
	fs := flag.NewFlagSet("up", flag.ExitOnError)
	fs.StringVar(&s.dir, "dir", "", "directory of all the cluster's files; must be empty or not there (required)")
	fs.IntVar(&s.fakeNodes, "fake-nodes", 2, "number of kwok nodes")
	fs.StringVar(&s.nodeCPU, "node-cpu", "64", "CPUs of each kwok node")
	fs.StringVar(&s.nodeMemory, "node-memory", "256Gi", "memory of each kwok node")
	fs.BoolVar(&s.registry, "registry", true, "run a registry, too")
	fs.StringVar(&s.featureGates, "feature-gates", "", "Kubernetes feature gates other than default, NAME=true,...")
	fs.BoolVar(&s.stdin, "stdin", false, "end when standard input is closed: when the process at its other end is gone")
	fs.BoolVar(&s.remove, "remove", false, "remove the directory at the end")
	fs.StringVar(&s.runtime, "runtime", "", "run a real node, too, with the containerd, runc and network plugins of this directory; see isolate")
	_ = fs.Parse(os.Args[1:])
	if s.dir == "" || fs.NArg() > 0 {
		fs.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer cancel()
	if s.stdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	err := s.run(ctx)
	if s.remove {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fail(err)
	}
}

func (s *settings) run(ctx context.Context) error {
	begin := time.Now()
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.dir = dir
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		s.remove = false
		return fmt.Errorf("%s is not empty", dir)
	}
	for _, sub := range []string{"log", "pki", "volumes"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	c := &cluster{settings: *s, supervisor: supervisor{base: dir, failed: make(chan error, 1)}, pki: pki{dir: filepath.Join(dir, "pki")}}
	defer c.stopAll()
	if err := c.start(ctx); err != nil {
		return err
	}
	admin, err := c.listenAdmin()
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := c.writeInfo(); err != nil {
		return err
	}
	data, err := os.ReadFile(c.pki.path("admin.kubeconfig"))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "kubeconfig"), data); err != nil {
		return err
	}
	fmt.Printf("ready after %.1fs: export KUBECONFIG=%s\n", time.Since(begin).Seconds(), filepath.Join(dir, "kubeconfig"))
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.failed:
			return err
		case do := <-c.requests:
			do()
		}
	}
}

// cluster is the cluster that one "up" runs.
type cluster struct {
	settings
	supervisor
	pki      pki
	requests chan func() // to be run by the goroutine that owns supervisor

	api, etcd, registryAddress string // host:port
}

// start brings everything up; then a pod can be made and will run.
func (c *cluster) start(ctx context.Context) error {
	var free ports
	var scheduler, manager, peer, kubelet, kwok string
	for _, address := range []*string{&c.api, &c.etcd, &peer, &scheduler, &manager, &kubelet, &kwok, &c.registryAddress} {
		var err error
		if *address, err = free.next(); err != nil {
			return err
		}
	}
	if !c.registry {
		c.registryAddress = ""
	}
	if c.runtime != "" { // its pods reach the API server
		c.api = net.JoinHostPort(nodeIP, portOf(c.api))
	}
	p := &c.pki
	ca, etcdCA, proxyCA := p.ca("ca"), p.ca("etcd-ca"), p.ca("proxy-ca")
	p.leaf(etcdCA, "etcd", "etcd", "", "127.0.0.1")
	p.leaf(ca, "apiserver", "kube-apiserver", "", hostOf(c.api), "localhost", serviceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	p.leaf(ca, "apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters")
	p.leaf(proxyCA, "proxy", "front-proxy-client", "")
	p.leaf(ca, "kubelet", "kubelet", "", "127.0.0.1")
	p.serviceAccountKey()
	server := "https://" + c.api
	p.kubeconfig(ca, "admin", server, "kubernetes-admin", "system:masters")
	p.kubeconfig(ca, "kube-controller-manager", server, "system:kube-controller-manager", "")
	p.kubeconfig(ca, "kube-scheduler", server, "system:kube-scheduler", "")
	p.kubeconfig(ca, "kubelab", server, "kubelab", "system:masters") // of the parts that play nodes
	if p.err != nil {
		return p.err
	}

	if err := c.add("etcd", c.etcdFlags(peer)...); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(c.dir, "audit.yaml"), []byte(auditPolicy)); err != nil {
		return err
	}
	if err := c.add("kube-apiserver", c.apiserverFlags()...); err != nil {
		return err
	}
	if c.registry {
		if err := c.add("registry", "-dir", filepath.Join(c.dir, "registry"), "-listen", c.registryAddress); err != nil {
			return err
		}
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	// The controller manager would give up on a missing API server.
	if err := c.wait(ctx, "the API server to be ready", func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	}); err != nil {
		return err
	}
	config := filepath.Join(c.dir, "kwok.yaml")
	kwokConfig, err := stages()
	if err == nil {
		err = writeFile(config, kwokConfig)
	}
	if err != nil {
		return err
	}
	for _, part := range [][]string{
		append([]string{"kube-controller-manager"}, c.managerFlags(manager)...),
		append([]string{"kube-scheduler"}, c.schedulerFlags(scheduler)...),
		{"storage", "-kubeconfig", p.path("kubelab.kubeconfig"), "-root", filepath.Join(c.dir, "volumes")},
	} {
		if err := c.add(part[0], part[1:]...); err != nil {
			return err
		}
	}
	nodes := c.fakeNodes
	if nodes > 0 {
		if err := c.add("kwok", c.kwokFlags(config, kubelet, kwok)...); err != nil {
			return err
		}
		if err := c.add("pods", c.podsFlags(kubelet)...); err != nil {
			return err
		}
	}
	if err := c.createObjects(ctx, client); err != nil {
		return err
	}
	if c.runtime != "" {
		if err := c.startNode(ctx, ca); err != nil {
			return err
		}
		nodes++
	}
	return c.wait(ctx, "nodes and service accounts", func(ctx context.Context) error { return usable(ctx, client, nodes) })
}

// client is one with the kubeconfig that the parts use: what it does is not in
// the audit log.
func (c *cluster) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.pki.path("kubelab.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// wait asks until there is no error. It ends early when a part does.
func (c *cluster) wait(ctx context.Context, what string, ask func(context.Context) error) error {
	const limit = 3 * time.Minute // on a loaded machine; usually it is seconds
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("waited %v for %s: %w; logs are in %s", limit, what, err, filepath.Join(c.dir, "log"))
			}
			return ctx.Err()
		}
	}
}

// writeInfo writes DIR/lab.json.
func (c *cluster) writeInfo() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(Info{
		Kubeconfig: filepath.Join(c.dir, "kubeconfig"),
		Server:     "https://" + c.api,
		CA:         c.pki.path("ca.crt"),
		Registry:   c.registryAddress,
		AuditLog:   filepath.Join(c.dir, "audit.log"),
		Admin:      c.adminSocket(),
		Kubectl:    []string{self, "kubectl"},
		Pids:       c.pids(),
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.dir, "lab.json"), append(data, '\n'))
}

// ignoreExists makes creating what is there no error.
func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
