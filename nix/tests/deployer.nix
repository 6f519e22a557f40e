# A machine that deploys and keeps the state. The images are built before the test.
{ yuba, groups }:
{ lib, pkgs, ... }:
{
  imports = [ yuba.modules.state-server ];

  virtualisation = {
    memorySize = 2048;
    diskSize = 8192;
    writableStore = true;
  };

  yuba.stateServer = {
    enable = true;
    inherit (yuba) package;
  };

  environment.systemPackages = lib.mapAttrsToList (
    name: group:
    pkgs.runCommand name { } ''
      mkdir -p $out/bin
      ln -s ${yuba.deploy (group // { inherit (yuba) package; })}/bin/deploy $out/bin/${name}
    ''
  ) groups;
  # The images themselves, where yuba has Nix look for them.
  system.extraDependencies = lib.concatMap (
    group: map (node: node.config.system.build.podImage) (lib.attrValues group.nodes)
  ) (lib.attrValues groups);

  environment.variables = {
    KUBE_CONFIG_PATH = "/root/kubeconfig";
    K8S_REGISTRY = "cluster:5000";
    TF_HTTP_ADDRESS = "http://127.0.0.1:8390/example";
  };
}
