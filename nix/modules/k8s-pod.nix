# A NixOS node as the one pod of a Deployment: systemd as PID 1 of a container that has a user
# namespace of its own, is not privileged and has no capability added; above all neither
# CAP_SYS_ADMIN (no mounts, no host name) nor CAP_NET_ADMIN (no addresses, no firewall). A unit that
# fails makes systemd "degraded" and the pod not ready, so what can't work there is off.
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  inherit (lib) mkDefault mkForce mkOption types;

  cfg = config.yuba.pod;

  # The volume of the node. All else starts anew with each pod.
  state = "/var/lib";
  persists = path: path == state || lib.hasPrefix "${state}/" path;

  quantities =
    example: description:
    mkOption {
      type = types.attrsOf types.str;
      default = { };
      inherit example description;
    };

  # The scripts that NixOS configures networks with where there is no networkd, and what sets a
  # domain name: the cluster has done it, and the pod may not.
  notInAPod =
    [
      "domainname"
      "network-setup"
    ]
    ++ lib.concatMap (name: [
      "network-addresses-${name}"
      "network-link-${name}"
    ]) (lib.unique ([ "eth0" ] ++ lib.attrNames config.networking.interfaces));

  # Units that systemd can't start in the pod, because it rearranges the file system for them.
  dynamicUsers = lib.attrNames (
    lib.filterAttrs (
      _: service: service.enable && builtins.elem (service.serviceConfig.DynamicUser or false) [
        true
        "true"
        "yes"
        1
      ]
    ) config.systemd.services
  );
in
{
  imports = [ ./spire-agent.nix ];

  options.yuba.pod = {
    name = mkOption {
      type = types.strMatching "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
      default = config.networking.hostName;
      defaultText = lib.literalExpression "config.networking.hostName";
      example = "web";
      description = "Name of the node, a DNS label, for the name of its image's file.";
    };

    enabled = mkOption {
      type = types.bool;
      default = true;
      description = ''
        Whether the node is deployed. `false` is for a node that the submission turns off: the next
        apply removes it **with its volume**.
      '';
    };

    storage = {
      size = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "200Gi";
        description = ''
          Size of the volume of {file}`/var/lib`, as a Kubernetes quantity. `null` is what the group
          says.
        '';
      };
      class = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "fast";
        description = "StorageClass of the volume. `null` is what the group says.";
      };
    };

    resources = {
      requests = quantities {
        cpu = "500m";
        memory = "1Gi";
      } "What the pod is scheduled for: quantities of `cpu`, `memory` and `ephemeral-storage`.";
      limits = quantities {
        memory = "4Gi";
      } "What the pod may take: quantities of `cpu`, `memory` and `ephemeral-storage`.";
    };

    persistentPaths = mkOption {
      type = types.listOf types.path;
      default = [ ];
      example = [ "/var/lib/postgresql" ];
      description = ''
        Paths that must stay when the pod is replaced. Only {file}`/var/lib` does, so the evaluation
        fails for a path that is not below it.
      '';
    };
  };

  config = {
    assertions =
      map (path: {
        assertion = persists path;
        message = "yuba.pod.persistentPaths: ${path} is not below ${state}, the only path of a pod that stays when it is replaced.";
      }) cfg.persistentPaths
      ++ map (key: {
        assertion = persists key.path;
        message = "services.openssh.hostKeys: ${key.path} is not below ${state}: the node would get another host key with each pod.";
      }) config.services.openssh.hostKeys
      ++ [
        {
          assertion = !(config.services.openbao.enable or false);
          message = "services.openbao: OpenBao seals its unseal key to the TPM, and a pod has none. Run it on a node that is deployed by another method.";
        }
        {
          assertion = !(config.yuba.spireNode.enable or false);
          message = "yuba.spireNode: the SPIRE server stays outside of the cluster whose pods it gives identities to. Run it on a node that is deployed by another method.";
        }
      ];

    # systemd's exec_needs_mount_namespace and insist_on_sandboxing: other sandboxing is left out
    # silently where mounts are not allowed, that of DynamicUser= is not.
    warnings = map (
      name:
      "systemd.services.${name} has DynamicUser=, which systemd can't set up in a pod: it would fail, and the pod not become ready. Give it a user of its own."
    ) dynamicUsers;

    system.build.podImage = pkgs.callPackage ../image.nix { } {
      inherit (cfg) name;
      inherit (config.system.build) toplevel;
    };

    boot =
      {
        isContainer = true;
        # The pod has them mounted.
        specialFileSystems = mkForce { };
      }
      # The store can't be mounted again. The image is a copy of the pod's own in any case.
      // (
        if options.boot ? nixStoreMountOpts then
          { nixStoreMountOpts = mkForce [ ]; }
        else
          { readOnlyNixStore = mkForce false; }
      );
    fileSystems = mkForce { };
    swapDevices = mkForce [ ];
    # A change of the node is another image.
    nix.enable = mkDefault false;
    system.switch.enable = mkDefault false;

    # Kubernetes makes memory volumes writable for everybody, and sshd refuses to work below such a directory.
    systemd.tmpfiles.rules = [ "z /run 0755 root root -" ];

    # Sandboxing that systemd would fail on, taken off from all services at once: as the last of the
    # drop-ins for every service.
    systemd.packages = [
      (pkgs.writeTextDir "lib/systemd/system/service.d/zz-pod.conf" (builtins.readFile ./pod-services.conf))
    ];

    # The kubelet sees to the memory of its pods.
    systemd.oomd.enable = mkDefault false;

    # The cluster has configured eth0, and the kubelet writes these files.
    networking = {
      useDHCP = mkForce false;
      dhcpcd.enable = mkForce false;
      networkmanager.unmanaged = [ "interface-name:eth0" ];
      useHostResolvConf = mkForce false;
      resolvconf.enable = mkForce false;

      # The NetworkPolicy of the namespace says who may connect; a firewall could not be set up. Who
      # has one all the same must let pass what comes from the pod network.
      firewall.enable = mkForce false;
      firewall.trustedInterfaces = [ "eth0" ];
      nftables.enable = mkForce false;
    };
    services.resolved.enable = mkForce false;
    environment.etc = {
      hosts.enable = mkForce false;
      hostname.enable = mkForce false;
    };

    # networkd takes the first file that matches: before 40-eth0, which NixOS makes of
    # networking.interfaces.eth0.
    systemd.network = {
      networks."00-eth0" = {
        matchConfig.Name = "eth0";
        linkConfig = {
          Unmanaged = true;
          RequiredForOnline = false;
        };
      };
      wait-online.enable = mkForce false;
    };

    systemd.services = lib.genAttrs notInAPod (_: { enable = mkForce false; }) // {
      # Nobody sits at the console, which is the log of the container.
      console-getty.enable = lib.mkOverride 900 false;
      # Not on a mount of their own, but in a directory of /run, which is a memory volume.
      suid-sgid-wrappers.unitConfig.RequiresMountsFor = mkForce [ "/nix/store" ];
    };

    services.openssh = {
      hostKeys = [
        {
          type = "ed25519";
          path = "${state}/ssh/ssh_host_ed25519_key";
        }
      ];
      # Not by a socket, which a container would have on demand.
      startWhenNeeded = false;
    };
  };
}
