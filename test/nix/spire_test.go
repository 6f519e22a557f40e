package nix

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/sync"
	"fediversity.eu/yuba/test/identity"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/nixstore"
)

// spirePrograms is the folder of SPIRE's real programs in a namespace of
// isolated: unlike the one where they are, it is open to all users.
const spirePrograms = "/run/spire-programs"

// spirePackage is a package with one of them.
func spirePackage(name string) string {
	return fmt.Sprintf(`(pkgs.writeShellScriptBin "%[1]s" ''exec %[2]s/%[1]s "$@"'')`, name, spirePrograms)
}

// The commands of the spire node's units, run by the real SPIRE server and yuba
// in namespaces of their own, with the directories that systemd makes for them:
// a hand-off over ssh ends in registration entries of the server, and what a
// deploy reads while planning is there.
func TestSpireNodeRuns(t *testing.T) {
	t.Parallel()
	dir := units(t, nixstore.New(t), `with' "spire-node" { yuba.spireNode = {
		enable = true;
		package = `+spirePackage("spire-server")+`;
		yubaPackage = program ''exec `+os.Getenv("YUBA_TEST_YUBA")+` "$@"'';
		bindAddress = "127.0.0.1";
	}; }`)
	server, syncer := settings(t, dir, "spire-server.service"), settings(t, dir, "yuba-spire-sync.service")
	kubeconfig, err := handoff.Kubeconfig{Server: "https://127.0.0.1:6443", Token: "x.y.z"}.Marshal()
	must(t, err)
	hand, err := handoff.Handoff{Namespace: "shop", Kubeconfig: string(kubeconfig), Nodes: []string{"web"}}.Marshal()
	must(t, err)
	input := filepath.Join(t.TempDir(), "handoff.json")
	must(t, os.WriteFile(input, hand, 0o600))

	script := `
		ip link set lo up
		mount -t tmpfs none /var/lib
		mkdir -m ` + server["RuntimeDirectoryMode"][0] + ` -p /run/` + strings.Join(server["RuntimeDirectory"], " /run/") + `
		mkdir -m ` + server["StateDirectoryMode"][0] + ` /var/lib/` + strings.Join(server["StateDirectory"], " /var/lib/") + `
		umask ` + server["UMask"][0] + `
		` + server["ExecStartPre"][0] + `
		` + server["ExecStart"][0] + ` >/run/server.log 2>&1 &
		server=$!
		trap 'cat /run/*.log >&2; kill $server ${sync:-} || :' EXIT
		` + syncer["ExecStart"][0] + ` >/run/sync.log 2>&1 &
		sync=$!
		yuba="` + strings.Fields(syncer["ExecStart"][0])[0] + `"
		until "$yuba" spire show >/run/show.json 2>/run/show.log; do kill -0 $server; sleep 0.1; done
		"$yuba" spire receive <"$1"
		entries="` + strings.Fields(server["ExecStart"][0])[0] + ` entry show -socketPath /run/spire/server/private/api.sock"
		until $entries | grep -q host/shop-web; do kill -0 $server $sync; sleep 0.1; done
		cat /run/show.json
		$entries`
	out := isolated(t, []string{"--net"}, script, input)
	for _, want := range []string{`"trustDomain":"fediversity"`, "BEGIN CERTIFICATE", "spiffe://fediversity/host/shop-web", "k8s_psat:cluster:shop-web"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %s:\n%s", want, out)
		}
	}
}

// The agent of the module, run by the commands of its units in namespaces of its
// own, with the files that the cluster puts into the pod: it attests as a pod
// of the test cluster, and root of the node has the identity of the host
// (SC-005).
func TestSpireAgentHasItsIdentity(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	id := handoff.Identity{Namespace: l.Namespace(t), Node: "web"}
	server := identity.StartServer(t, identity.ServerOptions{})
	kubeconfig, err := identity.Kubeconfig(t, l, id.Namespace).Marshal()
	must(t, err)
	drops := t.TempDir()
	must(t, drop.Receive(t.Context(), drops, handoff.Handoff{Namespace: id.Namespace, Kubeconfig: string(kubeconfig), Nodes: []string{id.Node}}))
	must(t, sync.Once(t.Context(), sync.Options{Dir: drops, PluginData: server.PluginData, Socket: server.Socket, Interval: time.Minute, Log: slog.New(slog.DiscardHandler)}))
	given := t.TempDir()
	must(t, os.WriteFile(filepath.Join(given, "bundle.pem"), []byte(server.Bundle(t)), 0o644))
	must(t, os.WriteFile(filepath.Join(given, "namespace"), []byte(id.Namespace), 0o400))
	token, err := os.ReadFile(identity.Pod(t, l, id, identity.KubernetesNodes(t, l)[0]))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(given, "token"), token, 0o400))

	_, port, err := net.SplitHostPort(server.Address)
	must(t, err)
	s := nixstore.New(t)
	must(t, os.Chmod(filepath.Dir(s.Dir), 0o711)) // the agent's user has to reach it
	dir := units(t, s, `pod { yuba.pod.spire = {
		enable = true;
		serverAddress = "127.0.0.1";
		serverPort = `+port+`;
		package = `+spirePackage("spire-agent")+`;
	}; }`)
	copier, agent := settings(t, dir, "spire-token.service"), settings(t, dir, "spire-agent.service")
	script := withAgentUser + `
		hostname ` + id.Node + `
		mkdir -p /run/yuba/spire
		cp -p "$1"/* /run/yuba/spire
		install -d -m ` + copier["RuntimeDirectoryMode"][0] + ` -g spire-agent /run/spire-token
		` + copier["ExecStart"][0] + `
		mount -t tmpfs none /var/lib
		install -d -m ` + agent["StateDirectoryMode"][0] + ` -o spire-agent -g spire-agent /var/lib/` + agent["StateDirectory"][0] + `
		install -d -m 0755 -o spire-agent -g spire-agent /run/` + agent["RuntimeDirectory"][0] + `
		(
			umask ` + agent["UMask"][0] + `
			. ` + agent["EnvironmentFile"][0] + `
			export SPIRE_CLUSTER
			exec setpriv --reuid=spire-agent --regid=spire-agent --clear-groups --bounding-set=-all --no-new-privs ` + agent["ExecStart"][0] + ` >/run/agent.log 2>&1
		) &
		agent=$!
		trap 'cat /run/agent.log >&2; kill $agent || :' EXIT
		fetch="` + strings.Fields(agent["ExecStart"][0])[0] + ` api fetch x509 -socketPath /run/spire-agent/api.sock"
		until $fetch 2>/dev/null; do kill -0 $agent; sleep 0.1; done`
	out := isolated(t, []string{"--uts"}, script, given)
	if !strings.Contains(out, id.HostID("fediversity")) {
		t.Errorf("without %s:\n%s", id.HostID("fediversity"), out)
	}
	if agents := server.Agents(t); len(agents) != 1 || agents[0].Attestor != "k8s_psat" {
		t.Errorf("the server lists %+v", agents)
	}
}

// withAgentUser begins a script for isolated: there is a user spire-agent.
const withAgentUser = `
	{ cat /etc/passwd; echo spire-agent:x:4242:4242::/:/bin/false; } >/run/passwd
	{ cat /etc/group; echo spire-agent:x:4242:; } >/run/group
	mount --bind /run/passwd /etc/passwd
	mount --bind /run/group /etc/group`

// isolated runs a script in namespaces of its own, where /run is empty as in a
// pod, and returns what it prints. What it started ends with it.
func isolated(t testing.TB, namespaces []string, script, argument string) string {
	t.Helper()
	programs, err := identity.Programs()
	must(t, err)
	script = "set -eu\nmount -t tmpfs none /run\nmkdir " + spirePrograms + "\nmount --bind " + programs + " " + spirePrograms + "\n" + script
	args := append(namespaces, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh", argument)
	cmd := exec.Command("unshare", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.Bytes())
	}
	return string(out)
}
