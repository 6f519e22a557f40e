package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	emptyimage "github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nodeName is the name of the real node.
const nodeName = "node-1"

const containerdSocket = "/run/containerd/containerd.sock"

// startNode starts a real node: containerd, kubelet, kube-proxy, and what
// enforces NetworkPolicy. It must run under "kubelab isolate". runtime is the
// directory with containerd, runc and the network plugins.
func (c *cluster) startNode(ctx context.Context, ca *authority) error {
	if !isIsolated() {
		return errors.New("a real node needs namespaces of its own: run this under 'kubelab isolate'")
	}
	p, server := &c.pki, "https://"+c.api
	p.leaf(ca, "node", "system:node:"+nodeName, "system:nodes", nodeName, nodeIP)
	p.kubeconfig(ca, "node-client", server, "system:node:"+nodeName, "system:nodes")
	p.kubeconfig(ca, "kube-proxy", server, "system:kube-proxy", "")
	if p.err != nil {
		return p.err
	}
	for file, data := range map[string]string{
		"cni.template":    cniTemplate,
		"containerd.toml": c.containerdConfig(),
		"kubelet.yaml":    c.kubeletConfig(),
		"kube-proxy.yaml": c.proxyConfig(),
	} {
		if err := writeFile(filepath.Join(c.dir, file), []byte(data)); err != nil {
			return err
		}
	}
	if err := c.pushPause(ctx); err != nil {
		return err
	}
	if err := c.addProgram(filepath.Join(c.runtime, "containerd"), "--config="+filepath.Join(c.dir, "containerd.toml")); err != nil {
		return err
	}
	if err := c.wait(ctx, "containerd", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", containerdSocket)
		if err == nil {
			conn.Close()
		}
		return err
	}); err != nil {
		return err
	}
	for _, part := range [][]string{
		{"kubelet", "--config=" + filepath.Join(c.dir, "kubelet.yaml"), "--kubeconfig=" + p.path("node-client.kubeconfig"),
			"--hostname-override=" + nodeName, "--node-ip=" + nodeIP, "--root-dir=/var/lib/kubelet"},
		{"kube-proxy", "--config=" + filepath.Join(c.dir, "kube-proxy.yaml")},
		{"netpol", "-kubeconfig", p.path("kubelab.kubeconfig"), "-node", nodeName},
	} {
		if err := c.add(part[0], part[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// isIsolated says whether this process's PID namespace is one of isolate's.
func isIsolated() bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	first, err := os.Readlink("/proc/1/exe")
	return err == nil && first == self
}

// pauseImage is the image of each pod's first container.
func (c *cluster) pauseImage() string { return c.registryAddress + "/yuba.test/pause:1" }

// pushPause puts the pause program into the registry, as an image of its own.
func (c *cluster) pushPause(ctx context.Context) error {
	program, err := os.ReadFile(filepath.Join(c.runtime, "pause"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return err
	}
	if _, err := w.Write(program); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(emptyimage.Image, layer)
	if err != nil {
		return err
	}
	if image, err = mutate.Config(image, v1.Config{Entrypoint: []string{"/pause"}}); err != nil {
		return err
	}
	ref, err := name.ParseReference(c.pauseImage())
	if err != nil {
		return err
	}
	return c.wait(ctx, "the registry", func(ctx context.Context) error {
		return remote.Write(ref, image, remote.WithContext(ctx))
	})
}

const cniTemplate = `{"cniVersion": "1.0.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni", "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

func (c *cluster) containerdConfig() string {
	handler := func(name, more string) string {
		table := "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes." + name
		return table + "]\nruntime_type = 'io.containerd.runc.v2'\n" + more +
			table + ".options]\nBinaryName = '" + c.runtime + "/runc-nocgroup'\nSystemdCgroup = false\n"
	}
	return fmt.Sprintf(`version = 3
root = '%[1]s/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.internal.v1.opt', 'io.containerd.nri.v1.nri']
[grpc]
address = '%[2]s'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '%[3]s'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['%[4]s/cni']
conf_dir = '/run/cni-conf'
conf_template = '%[1]s/cni.template'
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'
`, c.dir, containerdSocket, c.pauseImage(), c.runtime) +
		handler("runc", "") +
		handler("systemd", "cgroup_writable = true\n") // what the method asks of its RuntimeClass
}

// kubeletConfig asks for no limits: the cgroup2 hierarchy of a test machine may
// have no controllers.
func (c *cluster) kubeletConfig() string {
	p := &c.pki
	return fmt.Sprintf(`kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
address: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
localStorageCapacityIsolation: false
failSwapOn: false
evictionHard: {nodefs.available: "1%%", nodefs.inodesFree: "1%%", imagefs.available: "1%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
podLogsDir: %q
resolvConf: ""
clusterDomain: cluster.local
nodeStatusUpdateFrequency: 10s
healthzPort: 0
readOnlyPort: 0
`, nodeIP, p.path("ca.crt"), p.path("node.crt"), p.path("node.key"), containerdSocket, filepath.Join(c.dir, "log", "pods"))
}

func (c *cluster) proxyConfig() string {
	return fmt.Sprintf(`kind: KubeProxyConfiguration
apiVersion: kubeproxy.config.k8s.io/v1alpha1
clientConnection: {kubeconfig: %q}
mode: nftables
clusterCIDR: %s
hostnameOverride: %s
healthzBindAddress: ""
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, c.pki.path("kube-proxy.kubeconfig"), podCIDR, nodeName)
}
