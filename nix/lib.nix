# From NixOS configurations to what yuba deploys.
{ pkgs }:
let
  inherit (pkgs) lib;

  modules = import ./modules;

  notNull = lib.filterAttrs (_: value: value != null && value != { });

  # A node of the group file.
  node =
    name: system:
    let
      inPod =
        if system ? extendModules then
          system.extendModules {
            modules = [
              modules.k8s-pod
              { yuba.pod.name = lib.mkDefault name; }
            ];
          }
        else
          throw "yuba: node ${name} of the group is not a NixOS configuration, as nixpkgs.lib.nixosSystem or pkgs.nixos makes it";
      image = inPod.config.system.build.podImage;
      inherit (inPod.config.yuba) pod;
    in
    notNull {
      inherit name;
      # The group file is made without building the images; yuba has Nix make those that the
      # registry lacks.
      image.derivation = builtins.unsafeDiscardOutputDependency image.drvPath;
      # The hash in the store path, which changes with the configuration.
      tag = builtins.substring 0 32 (baseNameOf (builtins.unsafeDiscardStringContext image.outPath));
      storage = notNull { inherit (pod.storage) class size; };
      resources = notNull { inherit (pod.resources) requests limits; };
      enabled = if pod.enabled then null else false;
    };

  # The verbs of `yuba k8s` that take a group file.
  verbs = [
    "apply"
    "bundle"
    "destroy"
    "doctor"
    "export"
    "import"
    "logs"
    "nodes"
    "plan"
    "rollback"
    "status"
    "validate"
  ];
in
rec {
  # The content of a group file: an attribute set, see docs/group-file.md. It holds the group's
  # keys as they are given, and as nodes an attribute set from names to NixOS configurations.
  #
  #   group {
  #     group = "example";
  #     storage.size = "10Gi";
  #     nodes.web = nixosConfigurations.web;
  #   }
  group = settings: { version = 1; } // settings // { nodes = lib.mapAttrsToList node settings.nodes; };

  # The group file itself. Arguments as of group.
  groupFile =
    settings: pkgs.writeText "${settings.group}.json" (builtins.toJSON (group settings));

  # A program that deploys the group, for `nix run .#deploy -- plan`: what `yuba k8s` is, without
  # -group. The cluster, the registry and the state come from the environment, see docs/k8s.md.
  # Arguments as of group, and the package of yuba.
  deploy =
    {
      package ? pkgs.callPackage ./package.nix { },
      ...
    }@args:
    let
      file = groupFile (removeAttrs args [ "package" ]);
    in
    pkgs.writeShellScriptBin "deploy" ''
      set -eu
      # The Nix of this machine, if it has one, fits its store.
      export PATH="''${PATH:+$PATH:}${lib.makeBinPath [ pkgs.nix ]}"
      verb=''${1:-apply}
      [ $# -eq 0 ] || shift
      case $verb in
        ${lib.concatStringsSep " | " verbs}) group=-group=${file} ;;
        *) group= ;;
      esac
      # A saved plan and a bundle have a group file of their own.
      last=
      for last; do
        case $last in
          -bundle* | --bundle*) group= ;;
        esac
      done
      case $verb,$last in
        apply,-* | apply,) ;;
        apply,*) group= ;;
      esac
      exec ${lib.getExe' package "yuba"} k8s "$verb" ''${group:+"$group"} "$@"
    '';
}
