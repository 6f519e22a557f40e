# The NixOS modules by name. As paths, so that a module that is imported twice counts once.
{
  # A node that runs as the pod of a Deployment.
  k8s-pod = ./k8s-pod.nix;
  # The machine outside of the cluster that runs the SPIRE server.
  spire-node = ./spire-node.nix;
  # `yuba state serve`.
  state-server = ./state-server.nix;
}
