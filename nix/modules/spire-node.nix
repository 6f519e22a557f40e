# The spire node: a machine outside of the cluster on which the SPIRE server runs, and yuba, which
# gets the names of the groups over ssh (`yuba spire receive`, `retire`, `show`) and tells the server
# of them (`yuba spire sync`).
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;

  cfg = config.yuba.spireNode;
  json = pkgs.formats.json { };
  user = "spire-server";
  yuba = lib.getExe' cfg.yubaPackage "yuba";

  # Where yuba expects them when it is told nothing else, as over ssh.
  socket = "/run/spire/server/private/api.sock";
  dropDir = "/var/lib/yuba-spire";
  clusters = "${dropDir}/k8s_psat.json";

  hardening = import ./hardening.nix;
in
{
  options.yuba.spireNode = {
    enable = lib.mkEnableOption "the SPIRE server for yuba's groups";

    package = mkOption {
      type = types.package;
      default = pkgs.spire.server;
      defaultText = lib.literalExpression "pkgs.spire.server";
      description = "Package with {command}`spire-server`, version 1.13 or newer.";
    };

    yubaPackage = mkOption {
      type = types.package;
      default = pkgs.callPackage ../package.nix { };
      defaultText = lib.literalMD "yuba, built from this source";
      description = "Package with {command}`yuba`. It is in the search path of everybody, also of ssh sessions.";
    };

    trustDomain = mkOption {
      type = types.str;
      default = "fediversity";
      example = "example.org";
      description = "Trust domain of the server.";
    };

    bindAddress = mkOption {
      type = types.str;
      default = "0.0.0.0";
      description = "Address on which agents reach the server.";
    };

    port = mkOption {
      type = types.port;
      default = 8081;
      description = "Port on which agents reach the server.";
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      description = "Whether to open the port in the firewall.";
    };

    settings = mkOption {
      inherit (json) type;
      default = { };
      example = lib.literalExpression ''
        {
          server.ca_ttl = "72h";
          plugins.NodeAttestor = [ { tpm_devid.plugin_data.devid_ca_path = "/etc/spire/devid.pem"; } ];
        }
      '';
      description = ''
        More of the server's configuration, as JSON: see the
        [reference](https://spiffe.io/docs/latest/deploying/spire_server/). Node attestors are added
        to `k8s_psat`, which yuba needs; for another database or key manager, replace
        `plugins.DataStore` or `plugins.KeyManager`.
      '';
    };
  };

  config = lib.mkIf cfg.enable {
    yuba.spireNode.settings = {
      server = {
        bind_address = cfg.bindAddress;
        bind_port = cfg.port;
        socket_path = socket;
        trust_domain = cfg.trustDomain;
        data_dir = "/var/lib/${user}";
      };
      plugins = {
        # The file has the clusters. yuba makes it, and has the server read it again.
        NodeAttestor = [ { k8s_psat.plugin_data_file = clusters; } ];
        DataStore = lib.mkDefault [
          {
            sql.plugin_data = {
              database_type = "sqlite3";
              connection_string = "/var/lib/${user}/datastore.sqlite3";
            };
          }
        ];
        KeyManager = lib.mkDefault [ { disk.plugin_data.keys_path = "/var/lib/${user}/keys.json"; } ];
      };
    };

    environment.systemPackages = [
      cfg.yubaPackage
      cfg.package
    ];

    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall [ cfg.port ];

    users.users.${user} = {
      isSystemUser = true;
      group = user;
      description = "SPIRE server";
    };
    users.groups.${user} = { };

    # There before the first hand-off. For root and the server alone: it holds tokens of clusters.
    systemd.tmpfiles.rules = [ "d ${dropDir} 0700 ${user} ${user} -" ];

    systemd.services.spire-server = {
      description = "SPIRE server";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      serviceConfig = hardening // {
        # The server does not start without the file.
        ExecStartPre = "${yuba} spire sync -once -server-socket= -dir=${dropDir}";
        ExecStart = "${lib.getExe' cfg.package "spire-server"} run -config ${json.generate "spire-server.json" cfg.settings}";
        User = user;
        Group = user;
        StateDirectory = [
          user
          (baseNameOf dropDir)
        ];
        StateDirectoryMode = "0700";
        RuntimeDirectory = [
          "spire/server"
          "spire/server/private"
        ];
        RuntimeDirectoryMode = "0700";
        Restart = "always";
        RestartSec = 5;
      };
    };

    systemd.services.yuba-spire-sync = {
      description = "Names of the groups for the SPIRE server";
      wantedBy = [ "multi-user.target" ];
      after = [ "spire-server.service" ];
      # As long as the server is away, there is nobody to tell.
      unitConfig.StartLimitIntervalSec = 0;
      serviceConfig = hardening // {
        Type = "exec";
        ExecStart = "${yuba} spire sync -dir=${dropDir} -server-socket=${socket}";
        # The server's: it sends it a signal, and reads what root was given over ssh.
        User = user;
        Group = user;
        ReadWritePaths = [ dropDir ];
        # It finds the server's process by the socket, and nothing beyond this machine.
        RestrictAddressFamilies = [ "AF_UNIX" ];
        IPAddressDeny = "any";
        Restart = "always";
        RestartSec = 5;
      };
    };
  };
}
