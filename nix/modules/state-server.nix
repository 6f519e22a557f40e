# `yuba state serve`: OpenTofu states over HTTP, with locks and versions.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;

  cfg = config.yuba.stateServer;
  directory = "yuba-state";
  port = lib.toInt (lib.last (lib.splitString ":" cfg.listen));
  lowPort = port < 1024;
  loopback = lib.any (host: lib.hasPrefix "${host}:" cfg.listen) [
    "127.0.0.1"
    "[::1]"
    "localhost"
  ];
  credentials =
    lib.optionalAttrs (cfg.usersFile != null) { users = cfg.usersFile; }
    // lib.optionalAttrs (cfg.accessFile != null) { access = cfg.accessFile; }
    // lib.optionalAttrs (cfg.tls.certFile != null) {
      cert = cfg.tls.certFile;
      key = cfg.tls.keyFile;
    };
in
{
  options.yuba.stateServer = {
    enable = lib.mkEnableOption "yuba's state server";

    package = mkOption {
      type = types.package;
      default = pkgs.callPackage ../package.nix { };
      defaultText = lib.literalMD "yuba, built from this source";
      description = "Package with {command}`yuba`.";
    };

    listen = mkOption {
      type = types.strMatching ".*:[0-9]+";
      default = "127.0.0.1:8390";
      example = "[::]:8390";
      description = "Address to listen on.";
    };

    usersFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/run/secrets/yuba-state-users";
      description = ''
        htpasswd file with bcrypt entries: who may use the server. Must not be in the Nix store.
        Needed unless the server listens on loopback. The server reads it when it starts.
      '';
    };

    accessFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/etc/yuba-state-access";
      description = ''
        File of lines `USER STATES RIGHT`: who may read or write which states. `null` is every user
        all states.
      '';
    };

    tls = {
      certFile = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = "/var/lib/acme/state.example.org/fullchain.pem";
        description = "Certificate in PEM. After a new one, restart {command}`yuba-state.service`.";
      };
      keyFile = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = "/var/lib/acme/state.example.org/key.pem";
        description = "Private key in PEM.";
      };
    };

    retain = mkOption {
      type = types.ints.positive;
      default = 50;
      description = "How many versions of each state are kept.";
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      description = "Whether to open the port in the firewall.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = cfg.usersFile != null || loopback;
        message = "yuba.stateServer: without usersFile everybody who reaches ${cfg.listen} could read and write the states.";
      }
      {
        assertion = (cfg.tls.certFile == null) == (cfg.tls.keyFile == null);
        message = "yuba.stateServer.tls: certFile and keyFile belong together.";
      }
      {
        assertion = cfg.tls.certFile != null || loopback;
        message = "yuba.stateServer.tls: without TLS, passwords and states could be read on the way to ${cfg.listen}.";
      }
      {
        assertion = lib.all (file: !lib.hasPrefix builtins.storeDir (toString file)) (
          lib.attrValues (removeAttrs credentials [ "access" ])
        );
        message = "yuba.stateServer: usersFile, certFile and keyFile must not be in the Nix store, which everybody can read.";
      }
    ];

    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall [ port ];

    systemd.services.yuba-state = {
      description = "OpenTofu states over HTTP";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      serviceConfig = import ./hardening.nix // {
        ExecStart = lib.concatStringsSep " " (
          [
            "${lib.getExe' cfg.package "yuba"} state serve"
            "-dir=%S/${directory}"
            "-listen=${cfg.listen}"
            "-retain=${toString cfg.retain}"
          ]
          ++ lib.optional (cfg.usersFile != null) "-users=%d/users"
          ++ lib.optional (cfg.accessFile != null) "-access=%d/access"
          ++ lib.optionals (cfg.tls.certFile != null) [
            "-tls-cert=%d/cert"
            "-tls-key=%d/key"
          ]
        );
        # Read by systemd as root, and given to the service alone.
        LoadCredential = lib.mapAttrsToList (name: file: "${name}:${toString file}") credentials;
        Restart = "on-failure";

        DynamicUser = true;
        StateDirectory = directory;
        StateDirectoryMode = "0700";
        AmbientCapabilities = lib.mkIf lowPort [ "CAP_NET_BIND_SERVICE" ];
        CapabilityBoundingSet = if lowPort then [ "CAP_NET_BIND_SERVICE" ] else "";
        ProcSubset = "pid";
      };
    };
  };
}
