package pods

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/identity"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/sshd"
	"fediversity.eu/yuba/test/world"
)

// Where a spire node has things, as yuba's defaults are. /run and /var are this
// run's own.
const (
	spireDrops  = "/var/lib/yuba-spire"
	spireSocket = "/run/spire/server/private/api.sock"
)

// spireNode makes this machine a spire node: SPIRE's server on the address that
// pods reach, "yuba spire sync", and sshd. It gives the server, and the spire node
// as a group file has it.
func spireNode(t *testing.T, w *world.World) (*identity.Server, map[string]any) {
	t.Helper()
	for _, dir := range []string{spireDrops, filepath.Dir(spireSocket)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	host := w.Kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	server := identity.StartServer(t, identity.ServerOptions{Host: host, Socket: spireSocket, PluginData: filepath.Join(spireDrops, "k8s_psat.json")})

	var said world.Text
	sync := w.Command("spire", "sync")
	sync.Stderr = &said
	sync.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sync.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sync.Process.Signal(syscall.SIGTERM)
		if err := sync.Wait(); err != nil || t.Failed() {
			t.Errorf("yuba spire sync: %v\n%s", err, said.String())
		}
	})

	ssh := sshd.Start(t)
	w.Env["SSH_PRIVATE_KEY_FILE"] = ssh.KeyFile
	return server, map[string]any{"host": "spire.example.org", "port": ssh.Port, "user": ssh.User,
		"hostKeys": []string{ssh.HostKeys["ssh-ed25519"]}, "options": map[string]any{"HostName": ssh.Host}, "command": world.Program(t)}
}

// agentFiles are, below agentRoot, what nix/modules/spire-agent.nix makes of a
// node, and a user, whom NixOS makes by itself.
//
//go:embed testdata
var agentFiles embed.FS

const agentRoot = "testdata/spire"

// withAgent are the files of a node with the SPIRE agent: agentFiles, and the
// agent's program and configuration.
func withAgent(t *testing.T, server *identity.Server) map[string]string {
	t.Helper()
	const units = "etc/systemd/system/"
	programs, err := identity.Programs()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(server.Address, ":")
	type object = map[string]any
	config, err := json.Marshal(object{
		"agent": object{"data_dir": "/var/lib/spire-agent", "server_address": host, "server_port": port, "trust_domain": server.TrustDomain,
			"socket_path": agentSocket, "trust_bundle_path": "/run/yuba/spire/bundle.pem", "trust_bundle_format": "pem", "rebootstrap_mode": "always"},
		"plugins": object{
			"NodeAttestor":     []any{object{"k8s_psat": object{"plugin_data": object{"cluster": "$SPIRE_CLUSTER", "token_path": "/run/spire-token/token"}}}},
			"KeyManager":       []any{object{"memory": object{"plugin_data": object{}}}},
			"WorkloadAttestor": []any{object{"unix": object{"plugin_data": object{}}}, object{"systemd": object{"plugin_data": object{}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"usr/bin/spire-agent":  "<-" + filepath.Join(programs, "spire-agent"),
		"etc/spire-agent.json": string(config),
		// Sooner than a test has patience for.
		units + "spire-token.timer.d/often.conf":              "[Timer]\nOnActiveSec=\nOnActiveSec=2\nOnUnitActiveSec=2\nAccuracySec=1\n",
		units + "timers.target.wants/spire-token.timer":       "->" + "/" + units + "spire-token.timer",
		units + "multi-user.target.wants/spire-token.path":    "->" + "/" + units + "spire-token.path",
		units + "multi-user.target.wants/spire-agent.service": "->" + "/" + units + "spire-agent.service",
	}
	err = fs.WalkDir(agentFiles, agentRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := agentFiles.ReadFile(path)
		files[strings.TrimPrefix(path, agentRoot+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

const agentSocket = "/run/spire-agent/api.sock"

// svids are the identities that root of a node gets from the agent there.
func svids(w *world.World, node string) ([]string, error) {
	said, err := tryIn(w, w.Namespace, "deployment/"+node, "spire-agent", "api", "fetch", "x509", "-socketPath", agentSocket, "-timeout", "5s")
	if err != nil {
		return nil, err
	}
	var ids []string
	for line := range strings.Lines(said) {
		if id, ok := strings.CutPrefix(line, "SPIFFE ID:"); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids, nil
}

// FR-015, SC-005: two nodes on one Kubernetes node, each of which gets its own
// identity, and gets it again when its pod is replaced.
func TestEachNodeGetsItsIdentity(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	server, spire := spireNode(t, w)
	agent := withServices(t, withAgent(t, server))
	group(w, node("a", "one", rootfs(t, systemd252, agent)), node("b", "one", rootfs(t, systemd257, agent)))
	w.Edit(func(g map[string]any) { g["spire"] = spire })
	t.Cleanup(func() {
		for _, name := range []string{"a", "b"} {
			if t.Failed() {
				said, err := tryIn(w, w.Namespace, "deployment/"+name, "journalctl", "--no-pager", "-n", "30", "-u", "spire-agent", "-u", "spire-token")
				t.Logf("the units of %s said (%v):\n%s", name, err, said)
			}
		}
	})
	w.Must(0, "k8s", "apply", "-auto-approve")

	identified := func(name string) {
		t.Helper()
		want := []string{handoff.Identity{Namespace: w.Namespace, Node: name}.HostID(server.TrustDomain)}
		lab.Eventually(t, "identity of "+name, func() error {
			ids, err := svids(w, name)
			if err == nil && len(ids) == 0 {
				err = errors.New("it has none")
			}
			if err == nil && !slices.Equal(ids, want) {
				t.Fatalf("%s has the identities %q, want %q", name, ids, want)
			}
			return err
		})
	}
	const token, kept = "/run/yuba/spire/token", "/run/spire-token/token"
	for _, name := range []string{"a", "b"} {
		identified(name)
		// The token is root's, and the copy is the agent's, byte for byte.
		if got := in(t, w, name, "stat", "-L", "-c", "%U %a", token, kept); got != "root 400\nspire-agent 400" {
			t.Errorf("token and copy in %s are of %q", name, got)
		}
		in(t, w, name, "cmp", token, kept)
		if got := in(t, w, name, "od", "-A", "n", "-t", "c", "-j", fmt.Sprint(len(in(t, w, name, "cat", token))-1), kept); strings.Contains(got, `\n`) {
			t.Errorf("the copy in %s ends with %s", name, got)
		}
		for _, file := range []string{token, kept} {
			if _, err := tryIn(w, w.Namespace, "deployment/"+name, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", file); err == nil || !strings.Contains(err.Error(), "Permission denied") {
				t.Errorf("nobody may read %s of %s: %v", file, name, err)
			}
		}
	}
	agents := server.Agents(t)
	if len(agents) != 2 || agents[0].Attestor != "k8s_psat" || agents[1].Attestor != "k8s_psat" {
		t.Errorf("the server lists %+v, want two of k8s_psat", agents)
	}
	w.Must(0, "k8s", "plan", "-detailed-exitcode")

	// The copy is made again and again, thus also when there is another token.
	in(t, w, "a", "rm", kept)
	lab.Eventually(t, "another copy of the token", func() error {
		_, err := tryIn(w, w.Namespace, "deployment/a", "cmp", token, kept)
		return err
	})

	// Another pod has other keys and another token, and is the same node.
	before := in(t, w, "b", "cat", token)
	w.Kubectl("delete", "pod", "-n", w.Namespace, podOf(t, w, "b").Metadata.Name, "--wait=true")
	untilReady(t, w, "b")
	identified("b")
	identified("a")
	if after := in(t, w, "b", "cat", token); after == before {
		t.Error("the new pod of b has the token of the old one")
	}
	in(t, w, "b", "cmp", token, kept)
	if agents := server.Agents(t); len(agents) != 2 {
		t.Errorf("after a pod was replaced, the server lists %+v", agents)
	}

	w.Must(0, "k8s", "destroy", "-auto-approve")
	lab.Eventually(t, "no agent and no entry on the server", func() error {
		if agents, entries := server.Agents(t), server.Entries(t); len(agents)+len(entries) > 0 {
			return fmt.Errorf("there are still %+v %+v", agents, entries)
		}
		return nil
	})
}
