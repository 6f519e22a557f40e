package identity

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
)

// AgentOptions are for an agent.
type AgentOptions struct {
	Cluster string // of k8s_psat, which the agent claims to be in
	Token   string // path of the file with the projected token
	Bundle  string // PEM; default: the server's now
}

// Agent is a SPIRE agent, as it runs in a node's pod: it has its keys in
// memory and its data in a directory that stays.
type Agent struct {
	process
	Dir    string
	Socket string // of the workload API
}

// StartAgent starts an agent of the server. It doesn't wait: see UntilSVID and
// UntilRefused.
func (s *Server) StartAgent(t testing.TB, o AgentOptions) *Agent {
	t.Helper()
	a := &Agent{Dir: shortDir(t)}
	a.Socket = filepath.Join(a.Dir, "agent.sock")
	if o.Bundle == "" {
		o.Bundle = s.Bundle(t)
	}
	bundle := filepath.Join(a.Dir, "bundle.pem")
	if err := os.WriteFile(bundle, []byte(o.Bundle), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.Dir, "agent.conf")
	config := fmt.Sprintf(`
agent {
  data_dir = %q
  log_level = "DEBUG"
  server_address = %q
  server_port = %q
  socket_path = %q
  trust_bundle_path = %q
  trust_bundle_format = "pem"
  trust_domain = %q
  rebootstrap_mode = "always"
  rebootstrap_delay = "30s"
  experimental { sync_interval = "1s" }
}
plugins {
  NodeAttestor "k8s_psat" { plugin_data { cluster = %q token_path = %q } }
  KeyManager "memory" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`, a.Dir, host, port, a.Socket, bundle, s.TrustDomain, o.Cluster, o.Token)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a.process = process{path: program(t, "spire-agent"), args: []string{"run", "-config", path}, log: filepath.Join(a.Dir, "agent.log")}
	a.live(t, "the SPIRE agent of "+o.Cluster)
	return a
}

var spiffeLine = regexp.MustCompile(`(?m)^SPIFFE ID:\s+(\S+)$`)

// SVIDs are the identities that the agent gives this process.
func (a *Agent) SVIDs() ([]string, error) {
	dir, err := Programs()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(dir, "spire-agent"), "api", "fetch", "x509", "-socketPath", a.Socket, "-timeout", "5s")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("no SVID: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var ids []string
	for _, m := range spiffeLine.FindAllStringSubmatch(stdout.String(), -1) {
		ids = append(ids, m[1])
	}
	return ids, nil
}

// UntilSVID waits until the agent gives this process that identity and no other.
func (a *Agent) UntilSVID(t testing.TB, id string) {
	t.Helper()
	lab.Eventually(t, "the SVID of "+id, func() error {
		if a.Ended() {
			t.Fatalf("the SPIRE agent ended:\n%s", a.tail())
		}
		ids, err := a.SVIDs()
		if err != nil {
			return err
		}
		for _, got := range ids {
			if got != id {
				t.Fatalf("the agent gives the identity %s, must be %s only", got, id)
			}
		}
		if len(ids) == 0 {
			return fmt.Errorf("it gives no identity yet")
		}
		return nil
	})
}

// UntilRefused waits until the agent has ended because the server refused it with
// those words.
func (a *Agent) UntilRefused(t testing.TB, words string) {
	t.Helper()
	lab.Eventually(t, "the server to refuse the agent", func() error {
		if strings.Contains(a.Log(), words) {
			return nil
		}
		if a.Ended() {
			t.Fatalf("the agent was not refused with %q:\n%s", words, a.tail())
		}
		return fmt.Errorf("it was not refused yet")
	})
}
