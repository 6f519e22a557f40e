# Success criterion 5 of the specification: the agent of a node has the identity of its host, and the
# server lists it with the attestor k8s_psat.
{ pkgs, yuba }:
let
  # For this test alone: who has it can log in on a machine that ends with the test.
  keys =
    pkgs.runCommand "ssh-keys" { nativeBuildInputs = [ pkgs.openssh ]; } ''
      mkdir $out
      ssh-keygen -q -t ed25519 -N "" -f $out/host
      ssh-keygen -q -t ed25519 -N "" -f $out/deployer
    '';

  # Pods don't know the names of the test's machines.
  web =
    serverAddress:
    pkgs.nixos {
      imports = [ yuba.modules.k8s-pod ];
      networking.hostName = "web";
      yuba.pod.spire = {
        enable = true;
        inherit serverAddress;
      };
      system.stateVersion = "25.11";
    };
in
{
  name = "yuba-spire";

  nodes = {
    cluster = ./cluster.nix;

    spire = {
      imports = [ yuba.modules.spire-node ];
      yuba.spireNode = {
        enable = true;
        openFirewall = true;
        yubaPackage = yuba.package;
      };
      services.openssh = {
        enable = true;
        hostKeys = [
          {
            type = "ed25519";
            path = "/etc/ssh/host";
          }
        ];
      };
      environment.etc."ssh/host" = {
        source = "${keys}/host";
        mode = "0600";
      };
      users.users.root.openssh.authorizedKeys.keyFiles = [ "${keys}/deployer.pub" ];
    };

    deployer =
      { nodes, ... }:
      {
        imports = [
          (import ./deployer.nix {
            inherit yuba;
            groups.deploy = {
              group = "example";
              rolloutTimeout = "5m";
              registry.plainHTTP = [ "cluster:5000" ];
              storage.size = "1Gi";
              nodes.web = web nodes.spire.networking.primaryIPAddress;
              spire = {
                host = "spire";
                user = "root";
                hostKeys = [ (builtins.readFile "${keys}/host.pub") ];
              };
            };
          })
        ];
        environment.variables.SSH_PRIVATE_KEY_FILE = "/root/key";
      };
  };

  testScript = builtins.readFile ./start.py + ''
    spire.wait_for_unit("spire-server.service")
    spire.wait_for_unit("yuba-spire-sync.service")
    deployer.succeed("install -m 0600 ${keys}/deployer /root/key")

    with subtest("the agent has the identity of its host"):
        deployer.succeed("deploy apply -auto-approve >&2")
        spire.wait_until_succeeds(
            "spire-server agent list -socketPath /run/spire/server/private/api.sock | grep -w k8s_psat"
        )
        kubectl("wait --for=condition=Ready pod --all")
        cluster.wait_until_succeeds(
            "k3s kubectl -n fediversity exec deploy/web -- /run/current-system/sw/bin/sh -c "
            + "'/run/current-system/sw/bin/spire-agent api fetch x509 -socketPath /run/spire-agent/api.sock'"
            + " | grep spiffe://fediversity/host/fediversity-web"
        )

    with subtest("only root reads the token, and the agent its copy"):
        assert in_pod("stat -L -c '%a %U' /run/yuba/spire/token") == "400 root"
        assert in_pod("stat -c '%a %U' /run/spire-token/token") == "400 spire-agent"
        in_pod("cmp /run/yuba/spire/token /run/spire-token/token")

    with subtest("a plan shows no changes"):
        deployer.succeed("deploy plan -detailed-exitcode >&2")

    with subtest("without the spire node there is no plan"):
        spire.succeed("systemctl stop sshd.service")
        deployer.fail("deploy plan >&2")
        deployer.fail("deploy destroy -auto-approve >&2")
        spire.succeed("systemctl start sshd.service")

    with subtest("a destroy retires the names and the kubeconfig"):
        deployer.succeed("deploy destroy -auto-approve >&2")
        spire.succeed("test -z \"$(find /var/lib/yuba-spire -name 'fediversity*')\"")
        spire.wait_until_succeeds(
            "! spire-server entry show -socketPath /run/spire/server/private/api.sock | grep fediversity-web"
        )
  '';
}
