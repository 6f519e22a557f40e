# How a test script begins: machines cluster (cluster.nix) and deployer (deployer.nix) are ready for
# a deploy of the node web.
import shlex

def kubectl(arguments):
    return cluster.succeed("k3s kubectl -n fediversity " + arguments).strip()

def in_pod(command):
    return kubectl("exec deploy/web -- /run/current-system/sw/bin/sh -c " + shlex.quote(command))

start_all()
cluster.wait_for_unit("k3s.service")
cluster.wait_for_open_port(5000)
cluster.wait_until_succeeds("k3s kubectl wait --for=condition=Ready node/cluster --timeout=10s")
cluster.wait_until_succeeds("k3s kubectl get runtimeclass systemd")
deployer.wait_for_unit("yuba-state.service")
kubeconfig = cluster.succeed("cat /etc/rancher/k3s/k3s.yaml").replace("127.0.0.1", "cluster")
deployer.succeed("umask 077; printf %s " + shlex.quote(kubeconfig) + " >/root/kubeconfig")

