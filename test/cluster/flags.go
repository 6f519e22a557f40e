package main

import "path/filepath"

// auditPolicy logs the requests of the kubeconfig that a test uses, so that the
// test can count them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [kubernetes-admin]
- level: None
`

func (c *cluster) etcdFlags(peer string) []string {
	p := &c.pki
	return []string{
		"--name=lab", "--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=https://" + c.etcd, "--advertise-client-urls=https://" + c.etcd,
		"--listen-peer-urls=https://" + peer, "--initial-advertise-peer-urls=https://" + peer, "--initial-cluster=lab=https://" + peer,
		"--cert-file=" + p.path("etcd.crt"), "--key-file=" + p.path("etcd.key"),
		"--client-cert-auth", "--trusted-ca-file=" + p.path("etcd-ca.crt"),
		"--peer-cert-file=" + p.path("etcd.crt"), "--peer-key-file=" + p.path("etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + p.path("etcd-ca.crt"),
		"--log-level=warn",
		"--unsafe-no-fsync", // the data dies with the cluster
	}
}

func (c *cluster) apiserverFlags() []string {
	p := &c.pki
	flags := []string{
		"--etcd-servers=https://" + c.etcd, "--etcd-cafile=" + p.path("etcd-ca.crt"),
		"--etcd-certfile=" + p.path("etcd.crt"), "--etcd-keyfile=" + p.path("etcd.key"),
		"--bind-address=" + hostOf(c.api), "--secure-port=" + portOf(c.api),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--tls-cert-file=" + p.path("apiserver.crt"), "--tls-private-key-file=" + p.path("apiserver.key"),
		"--client-ca-file=" + p.path("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + p.path("sa.key"), "--service-account-key-file=" + p.path("sa.pub"),
		"--kubelet-certificate-authority=" + p.path("ca.crt"),
		"--kubelet-client-certificate=" + p.path("apiserver-kubelet.crt"), "--kubelet-client-key=" + p.path("apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + p.path("proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + p.path("proxy.crt"), "--proxy-client-key-file=" + p.path("proxy.key"),
		"--audit-policy-file=" + filepath.Join(c.dir, "audit.yaml"), "--audit-log-path=" + filepath.Join(c.dir, "audit.log"),
		"--allow-privileged", "--profiling=false",
	}
	if c.runtime == "" {
		// Nothing reaches the API server through its Service, and Endpoints
		// must not name a loopback address.
		flags = append(flags, "--endpoint-reconciler-type=none", "--advertise-address=192.0.2.254")
	}
	return append(flags, c.gates()...)
}

func (c *cluster) managerFlags(address string) []string {
	p := &c.pki
	kubeconfig := p.path("kube-controller-manager.kubeconfig")
	flags := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + p.path("sa.key"), "--root-ca-file=" + p.path("ca.crt"),
		"--cluster-signing-cert-file=" + p.path("ca.crt"), "--cluster-signing-key-file=" + p.path("ca.key"),
		"--use-service-account-credentials", "--leader-elect=false",
		"--allocate-node-cidrs", "--cluster-cidr=" + podCIDR, "--node-cidr-mask-size=22", "--service-cluster-ip-range=" + serviceCIDR,
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--bind-address=127.0.0.1", "--secure-port=" + portOf(address), "--profiling=false",
	}
	return append(flags, c.gates()...)
}

func (c *cluster) schedulerFlags(address string) []string {
	kubeconfig := c.pki.path("kube-scheduler.kubeconfig")
	flags := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400",
		"--bind-address=127.0.0.1", "--secure-port=" + portOf(address), "--profiling=false",
	}
	return append(flags, c.gates()...)
}

func (c *cluster) kwokFlags(config, kubelet, own string) []string {
	p := &c.pki
	return []string{
		"--config=" + config, "--kubeconfig=" + p.path("kubelab.kubeconfig"), "--enable-crds=",
		"--manage-nodes-with-annotation-selector=" + fakeNode + "=fake",
		"--node-lease-duration-seconds=40", "--node-ip=127.0.0.1", "--node-port=" + portOf(kubelet),
		"--server-address=" + own, // the nodes' API is another part's
		"--tls-cert-file=" + p.path("kubelet.crt"), "--tls-private-key-file=" + p.path("kubelet.key"),
	}
}

// podsFlags are those of the part that pulls, and that serves the nodes' API.
func (c *cluster) podsFlags(kubelet string) []string {
	p := &c.pki
	return []string{
		"-kubeconfig", p.path("kubelab.kubeconfig"), "-listen", kubelet,
		"-tls-cert", p.path("kubelet.crt"), "-tls-key", p.path("kubelet.key"),
	}
}

func (c *cluster) gates() []string {
	if c.featureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + c.featureGates}
}
