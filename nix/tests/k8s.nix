# The independent test of the specification's user stories 1 and 2.
{ pkgs, yuba }:
let
  node =
    extra:
    pkgs.nixos {
      imports = [
        yuba.modules.k8s-pod
        extra
      ];
      # Declared as on a machine: the pod keeps its address all the same.
      networking = {
        hostName = "web";
        useNetworkd = true;
        interfaces.eth0.ipv4.addresses = [
          {
            address = "192.0.2.1";
            prefixLength = 24;
          }
        ];
      };
      services.openssh.enable = true;
      services.nginx.enable = true;
      system.stateVersion = "25.11";
    };

  group = web: {
    group = "example";
    rolloutTimeout = "5m";
    registry.plainHTTP = [ "cluster:5000" ];
    storage.size = "1Gi";
    nodes = { inherit web; };
  };

  # A pod that connects to others.
  client = pkgs.dockerTools.buildImage {
    name = "client";
    tag = "1";
    copyToRoot = pkgs.buildEnv {
      name = "client";
      paths = [
        pkgs.busybox
        pkgs.curl
      ];
    };
    config.Cmd = [
      "/bin/sleep"
      "infinity"
    ];
  };
in
{
  name = "yuba-k8s";

  nodes = {
    cluster = {
      imports = [ ./cluster.nix ];
      services.k3s.images = [ client ];
    };
    deployer = import ./deployer.nix {
      inherit yuba;
      groups = {
        deploy-good = group (node { });
        deploy-bad = group (node {
          systemd.services.broken = {
            wantedBy = [ "multi-user.target" ];
            serviceConfig.Type = "oneshot";
            script = "exit 1";
          };
        });
      };
    };
  };

  testScript = builtins.readFile ./start.py + ''
    import json

    with subtest("a deploy makes the pod ready, from the image by its digest"):
        deployer.succeed("deploy-good doctor >&2")
        deployer.succeed("deploy-good apply -auto-approve >&2")
        image = kubectl("get deploy web -o 'jsonpath={.spec.template.spec.containers[0].image}'")
        assert image.startswith("cluster:5000/fediversity/web@sha256:"), image
        assert in_pod("systemctl is-system-running") == "running"

    with subtest("the pod keeps its address on eth0"):
        address = kubectl("get pod -l '!none' -o 'jsonpath={.items[0].status.podIP}'")
        assert address in in_pod("ip -4 -oneline address show dev eth0")
        assert "192.0.2.1" not in in_pod("ip -4 -oneline address show dev eth0")

    with subtest("pods of the namespace can connect, others can't"):
        for namespace in ["fediversity", "default"]:
            cluster.succeed(f"k3s kubectl -n {namespace} run client --image=client:1 --image-pull-policy=Never")
            cluster.wait_until_succeeds(f"k3s kubectl -n {namespace} wait --for=condition=Ready pod/client --timeout=10s")
        curl = f"exec client -- curl --silent --max-time 5 http://{address}/"
        cluster.succeed("k3s kubectl -n fediversity " + curl)
        cluster.fail("k3s kubectl -n default " + curl)
        cluster.succeed("k3s kubectl -n fediversity delete pod client --now")

    with subtest("/var/lib is the volume, and the machine ID is the pod's container_uuid"):
        assert in_pod("findmnt -n -o TARGET --target /var/lib") == "/var/lib"
        spec = json.loads(kubectl("get deploy web -o json"))["spec"]["template"]["spec"]
        uuid = next(e["value"] for e in spec["containers"][0]["env"] if e["name"] == "container_uuid")
        machine_id = in_pod("cat /etc/machine-id")
        assert machine_id == uuid.replace("-", ""), (machine_id, uuid)
        host_key = in_pod("cat /var/lib/ssh/ssh_host_ed25519_key.pub")

    with subtest("a plan shows no changes"):
        deployer.succeed("deploy-good plan -detailed-exitcode >&2")

    with subtest("an apply of the same configuration does not restart the pod"):
        pod = kubectl("get pod -o 'jsonpath={.items[0].metadata.uid}'")
        deployer.succeed("deploy-good apply -auto-approve >&2")
        assert kubectl("get pod -o 'jsonpath={.items[0].metadata.uid}'") == pod

    with subtest("a node that does not become ready is set back, with its state"):
        in_pod("echo kept >/var/lib/kept")
        output = deployer.fail("deploy-bad apply -auto-approve 2>&1")
        assert "broken.service" in output, output
        assert kubectl("get deploy web -o 'jsonpath={.spec.template.spec.containers[0].image}'") == image
        assert in_pod("systemctl is-system-running") == "running"
        assert in_pod("cat /var/lib/kept") == "kept"
        assert in_pod("cat /etc/machine-id") == machine_id
        assert in_pod("cat /var/lib/ssh/ssh_host_ed25519_key.pub") == host_key

    with subtest("a destroy removes the namespace"):
        deployer.succeed("deploy-good destroy -auto-approve >&2")
        cluster.fail("k3s kubectl get namespace fediversity")
  '';
}
