package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

// netpol enforces NetworkPolicy on the real node: the controller of
// kube-network-policies decides on each new connection, in user space.
func netpol() {
	fs := flag.NewFlagSet("netpol", flag.ExitOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig file (required)")
	node := fs.String("node", "", "name of the node (required)")
	queue := fs.Int("queue", 100, "number of the netfilter queue")
	klog.InitFlags(fs)
	_ = fs.Parse(os.Args[1:])
	if *kubeconfig == "" || *node == "" {
		fs.Usage()
		os.Exit(2)
	}
	// The first packet of a connection is judged: of those that the node
	// forwards, and of those from pods to the node itself. The node reaches all
	// of its pods. The controller's own nftables rules need CONFIG_NFT_QUEUE,
	// which not every kernel has.
	for _, chain := range []string{"FORWARD", "INPUT -i cni0"} {
		args := strings.Fields("-A " + chain + " -m conntrack --ctstate NEW -j NFQUEUE --queue-num " + strconv.Itoa(*queue))
		if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
			fail(fmt.Errorf("iptables: %w: %s", err, out))
		}
	}
	ctx, client := connect(*kubeconfig)
	f := informers.NewSharedInformerFactory(client, 0)
	c, err := networkpolicy.NewController(client, f.Networking().V1().NetworkPolicies(), f.Core().V1().Namespaces(),
		f.Core().V1().Pods(), nil, nil, nil, nil, networkpolicy.Config{NodeName: *node, QueueID: *queue})
	if err != nil {
		fail(err)
	}
	f.Start(ctx.Done())
	if err := c.Run(ctx); err != nil {
		fail(err)
	}
}
