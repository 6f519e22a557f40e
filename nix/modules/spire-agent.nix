# The SPIRE agent of a node in a pod. It attests with k8s_psat, by a projected token of the pod's
# service account that only root can read.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;

  cfg = config.yuba.pod.spire;
  user = "spire-agent";

  # Whose copy of the token it is decides the directory, so that others don't even see the name.
  copies = "/run/spire-token";

  # Kubernetes makes the token anew when a fifth of its life is left, and the kubelet takes up to a
  # minute and a half to write it. A twentieth leaves time for both.
  interval = cfg.tokenLifetime / 20;

  settings = {
    agent = {
      data_dir = "/var/lib/${user}";
      server_address = cfg.serverAddress;
      server_port = cfg.serverPort;
      socket_path = cfg.socket;
      trust_domain = cfg.trustDomain;
      trust_bundle_path = "${cfg.directory}/bundle.pem";
      trust_bundle_format = "pem";
      # With keys in memory only, a new pod attests anew, and so does an agent that was evicted.
      rebootstrap_mode = "always";
    };
    plugins = {
      NodeAttestor = [
        {
          k8s_psat.plugin_data = {
            # One cluster for each node: the ID of an agent has only cluster and host in it, and
            # two pods of a namespace may be on one host.
            cluster = "$SPIRE_CLUSTER";
            token_path = "${copies}/token";
          };
        }
      ];
      KeyManager = [ { memory.plugin_data = { }; } ];
      WorkloadAttestor = [
        { unix.plugin_data = { }; }
        { systemd.plugin_data = { }; }
      ];
    };
  };
in
{
  options.yuba.pod.spire = {
    enable = lib.mkEnableOption "the SPIRE agent in the pod";

    package = mkOption {
      type = types.package;
      default = pkgs.spire.agent;
      defaultText = lib.literalExpression "pkgs.spire.agent";
      description = "Package with {command}`spire-agent`, version 1.13 or newer.";
    };

    serverAddress = mkOption {
      type = types.str;
      example = "spire.example.org";
      description = "Address of the SPIRE server, as the pods reach it.";
    };

    serverPort = mkOption {
      type = types.port;
      default = 8081;
      description = "Port of the SPIRE server.";
    };

    trustDomain = mkOption {
      type = types.str;
      default = "fediversity";
      example = "example.org";
      description = "Trust domain of the SPIRE server.";
    };

    socket = mkOption {
      type = types.path;
      default = "/run/${user}/api.sock";
      description = "Socket on which workloads get their identities, below {file}`/run/${user}`.";
    };

    directory = mkOption {
      type = types.path;
      default = "/run/yuba/spire";
      description = ''
        Where yuba has the cluster put what it keeps up to date: the projected {file}`token` of the
        pod's service account, the trust bundle of the server as {file}`bundle.pem`, and the
        {file}`namespace`.
      '';
    };

    tokenLifetime = mkOption {
      type = types.ints.between 600 86400;
      default = 3600;
      description = ''
        Life of the token in seconds. A copy for the agent is made 20 times in it, and whenever there
        is a new one.
      '';
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = lib.hasPrefix "/run/${user}/" cfg.socket;
        message = "yuba.pod.spire.socket: ${cfg.socket} is not below /run/${user}, where the agent may make it.";
      }
    ];

    # For people who look at it: `spire-agent api fetch`.
    environment.systemPackages = [ cfg.package ];

    users.users.${user} = {
      isSystemUser = true;
      group = user;
      description = "SPIRE agent";
    };
    users.groups.${user} = { };

    systemd.services.spire-token = {
      description = "The SPIRE agent's copy of the service account token";
      # A new token may come at any time, also when there just was one.
      unitConfig.StartLimitIntervalSec = 0;
      serviceConfig = {
        Type = "oneshot";
        # Of root's, and open to the agent.
        Group = user;
        RuntimeDirectory = baseNameOf copies;
        RuntimeDirectoryMode = "0750";
        RuntimeDirectoryPreserve = true;
        UMask = "0077";
      };
      # Byte for byte, because the agent sends what it reads, and in one step, because it may read
      # at any time.
      script = ''
        set -eu
        given=${lib.escapeShellArg cfg.directory}
        cd ${copies}
        test -s "$given/token"
        test -s "$given/namespace"

        new=$(mktemp .new.XXXXXX)
        trap 'rm -f "$new"' EXIT
        cat "$given/token" >"$new"
        chown ${user}:${user} "$new"
        chmod 0400 "$new"
        mv -f "$new" token

        namespace=$(cat "$given/namespace")
        node=$(cat /proc/sys/kernel/hostname)
        new=$(mktemp .new.XXXXXX)
        printf 'SPIRE_CLUSTER=%s-%s\n' "$namespace" "$node" >"$new"
        mv -f "$new" environment
      '';
    };

    systemd.paths.spire-token = {
      wantedBy = [ "multi-user.target" ];
      # The kubelet replaces a link in the directory.
      pathConfig.PathChanged = cfg.directory;
    };

    systemd.timers.spire-token = {
      wantedBy = [ "timers.target" ];
      timerConfig = {
        OnActiveSec = interval;
        OnUnitActiveSec = interval;
        AccuracySec = 5;
      };
    };

    systemd.services.spire-agent = {
      description = "SPIRE agent";
      wantedBy = [ "multi-user.target" ];
      requires = [ "spire-token.service" ];
      after = [
        "spire-token.service"
        "network.target"
        "dbus.socket"
      ];
      # The server may be away for long.
      unitConfig.StartLimitIntervalSec = 0;
      serviceConfig = {
        ExecStart = lib.concatStringsSep " " [
          "${lib.getExe' cfg.package "spire-agent"} run"
          "-expandEnv"
          "-config ${pkgs.writeText "spire-agent.json" (builtins.toJSON settings)}"
        ];
        # systemd reads it as root.
        EnvironmentFile = "${copies}/environment";
        User = user;
        Group = user;
        StateDirectory = user;
        StateDirectoryMode = "0700";
        RuntimeDirectory = user;
        UMask = "0027";
        Restart = "always";
        RestartSec = 5;
        CapabilityBoundingSet = "";
        NoNewPrivileges = true;
        LockPersonality = true;
        MemoryDenyWriteExecute = true;
        RestrictAddressFamilies = [
          "AF_INET"
          "AF_INET6"
          "AF_UNIX"
        ];
        RestrictRealtime = true;
        RestrictSUIDSGID = true;
        SystemCallArchitectures = "native";
      };
    };
  };
}
