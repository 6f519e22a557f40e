# A machine with a cluster of one node and a registry, as docs/runtime-class.md wants it.
{ config, pkgs, ... }:
{
  virtualisation = {
    memorySize = 4096;
    diskSize = 12288;
    cores = 2;
  };

  services.dockerRegistry = {
    enable = true;
    listenAddress = "0.0.0.0";
    port = 5000;
  };

  services.k3s = {
    enable = true;
    extraFlags = [
      "--disable=traefik"
      "--disable=metrics-server"
      "--node-name=cluster"
      "--write-kubeconfig-mode=0600"
      "--tls-san=cluster"
    ];
    # Nothing is pulled from the network.
    images = [ config.services.k3s.package.airgap-images ];
    manifests.systemd.content = {
      apiVersion = "node.k8s.io/v1";
      kind = "RuntimeClass";
      metadata.name = "systemd";
      handler = "systemd";
    };
  };
  # NixOS's own option writes the template of containerd 1.
  systemd.tmpfiles.rules =
    let
      template = pkgs.writeText "config-v3.toml.tmpl" ''
        {{ template "base" . }}

        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.systemd]
          runtime_type = 'io.containerd.runc.v2'
          cgroup_writable = true
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.systemd.options]
          SystemdCgroup = true
      '';
    in
    [ "L+ /var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl - - - - ${template}" ];
  # The registry has no TLS.
  environment.etc."rancher/k3s/registries.yaml".text = builtins.toJSON {
    mirrors."cluster:5000".endpoint = [ "http://cluster:5000" ];
  };

  networking.firewall.enable = false;
  environment.systemPackages = [ pkgs.kubectl ];
}
