# As much of NixOS as yuba's modules define, with the definitions that they have to win against, and
# a system that has units but no programs.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;

  option =
    type: default:
    mkOption {
      inherit type default;
    };
  bool = option types.bool;
  list = option (types.listOf types.unspecified) [ ];
  set = option (types.attrsOf types.unspecified) { };

  values = types.attrsOf (
    types.oneOf [
      types.bool
      types.int
      types.str
      (types.listOf types.str)
    ]
  );

  unit = {
    options = {
      enable = bool true;
      description = option types.str "";
      wantedBy = list;
      requires = list;
      wants = list;
      after = list;
      script = option types.lines "";
      unitConfig = option values { };
      serviceConfig = option values { };
      pathConfig = option values { };
      timerConfig = option values { };
    };
  };
  units = option (types.attrsOf (types.submodule unit)) { };

  # The text of a unit, as NixOS makes it.
  section =
    name: attrs:
    let
      value = v: if builtins.isBool v then (if v then "true" else "false") else toString v;
      line = key: v: map (v: "${key}=${value v}\n") (if builtins.isList v then v else [ v ]);
    in
    lib.optionalString (attrs != { }) (
      "[${name}]\n" + lib.concatStringsSep "" (builtins.concatLists (lib.mapAttrsToList line attrs)) + "\n"
    );
  common =
    u:
    section "Unit" (
      {
        Description = u.description;
        Requires = u.requires;
        Wants = u.wants;
        After = u.after;
      }
      // u.unitConfig
    )
    + section "Install" { WantedBy = u.wantedBy; };
  start =
    name: u:
    lib.optionalAttrs (u.script != "") {
      ExecStart = "${pkgs.writeShellScriptBin "unit-${name}" "set -e\n${u.script}"}/bin/unit-${name}";
    };
  unitFiles =
    lib.mapAttrs' (name: u: {
      name = "${name}.service";
      value = if u.enable then common u + section "Service" (u.serviceConfig // start name u) else null;
    }) config.systemd.services
    // lib.mapAttrs' (name: u: {
      name = "${name}.path";
      value = common u + section "Path" u.pathConfig;
    }) config.systemd.paths
    // lib.mapAttrs' (name: u: {
      name = "${name}.timer";
      value = common u + section "Timer" u.timerConfig;
    }) config.systemd.timers;

  interfaces = config.networking.interfaces;
  networkd = config.networking.useNetworkd;
in
{
  options = {
    assertions = list;
    warnings = list;
    system.build = set;
    system.switch.enable = bool true;
    boot = {
      isContainer = bool false;
      specialFileSystems = set;
      nixStoreMountOpts = list;
    };
    fileSystems = set;
    swapDevices = list;
    nix.enable = bool true;
    environment.etc = option (types.attrsOf (
      types.submodule {
        options = {
          enable = bool true;
          text = option (types.nullOr types.str) null;
        };
      }
    )) { };
    environment.systemPackages = list;
    users.users = set;
    users.groups = set;
    networking = {
      hostName = option types.str "nixos";
      useDHCP = bool true;
      useNetworkd = bool false;
      dhcpcd.enable = bool true;
      interfaces = set;
      networkmanager.unmanaged = list;
      useHostResolvConf = bool false;
      resolvconf.enable = bool true;
      firewall = {
        enable = bool true;
        trustedInterfaces = list;
        allowedTCPPorts = list;
      };
      nftables.enable = bool false;
    };
    services.resolved.enable = bool false;
    services.openbao.enable = bool false;
    services.openssh = {
      enable = bool false;
      startWhenNeeded = bool false;
      hostKeys = list;
    };
    systemd = {
      services = units;
      paths = units;
      timers = units;
      tmpfiles.rules = list;
      packages = list;
      oomd.enable = bool true;
      network.enable = bool false;
      network.wait-online.enable = bool true;
      network.networks = set;
    };
  };

  config = lib.mkMerge [
    {
      boot.specialFileSystems."/proc" = { };
      boot.nixStoreMountOpts = [ "ro" ];
      environment.etc.hosts.text = "127.0.0.1 localhost\n";
      environment.etc.hostname.text = config.networking.hostName;
      systemd.network.enable = lib.mkDefault networkd;
      services.resolved.enable = lib.mkDefault networkd;
      systemd.services = {
        console-getty.enable = lib.mkDefault config.boot.isContainer;
        suid-sgid-wrappers.unitConfig.RequiresMountsFor = [
          "/nix/store"
          "/run/wrappers"
        ];
      };

      system.build.toplevel = pkgs.runCommand "nixos-system-${config.networking.hostName}" { } ''
        mkdir -p "$out/units"
        ${lib.concatStringsSep "\n" (
          lib.mapAttrsToList (
            name: text:
            if text == null then
              "ln -s /dev/null $out/units/${name}"
            else
              "cp ${pkgs.writeText name text} $out/units/${name}"
          ) unitFiles
        )}
        ${lib.concatStringsSep "\n" (
          map (package: "cp -r ${package}/lib/systemd/system/. $out/units/") config.systemd.packages
        )}
        printf '#!/bin/sh\nexec systemd\n' >"$out/init"
        chmod +x "$out/init"
      '';
    }
    (lib.mkIf networkd {
      systemd.network.networks = lib.mapAttrs' (name: _: {
        name = "40-${name}";
        value.matchConfig.Name = name;
      }) interfaces;
    })
    (lib.mkIf (!networkd) {
      systemd.services = {
        network-setup.script = "ip route replace default via 192.0.2.1";
      }
      // lib.mapAttrs' (name: _: {
        name = "network-addresses-${name}";
        value.script = "ip link set dev ${name} up";
      }) interfaces;
    })
    (lib.mkIf config.boot.isContainer {
      networking.useHostResolvConf = lib.mkDefault true;
      services.openssh.startWhenNeeded = lib.mkDefault true;
    })
  ];
}
