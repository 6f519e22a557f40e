package sweep

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/authority"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/sshd"
)

// ssh is the name of the spire node's server.
const ssh = "ssh"

// spireNode gives the group a spire node: a real sshd behind the proxy, and a
// program in the place of yuba there, which keeps what it is given.
func (s *swept) spireNode() {
	s.Helper()
	server := sshd.Start(s.T)
	show, err := handoff.Server{MachineID: "0123456789abcdef0123456789abcdef", TrustDomain: "fediversity", Bundle: authority.PEM(s)}.Marshal()
	if err != nil {
		s.Fatal(err)
	}
	s.spire = s.TempDir()
	if err := os.WriteFile(filepath.Join(s.spire, "show"), show, 0o600); err != nil {
		s.Fatal(err)
	}
	program := server.Script(s.T, "yuba", `cd `+s.spire+` || exit 2
case "$1 $2" in
"spire show") cat show ;;
"spire receive") cat > tmp.$$ && mv tmp.$$ received ;;
"spire retire") cat > retired && rm -f received ;;
*) exit 2 ;;
esac
`)
	front, err := s.Proxy.Stream(proxy.Server{Name: ssh, URL: net.JoinHostPort(server.Host, strconv.Itoa(server.Port))})
	if err != nil {
		s.Fatal(err)
	}
	host, port, err := net.SplitHostPort(front)
	if err != nil {
		s.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		s.Fatal(err)
	}
	s.Fronts[ssh] = "spire.example" // as errors call it
	s.Life.Spire = map[string]any{"host": "spire.example", "port": number, "user": server.User, "command": program,
		"hostKeys": []string{server.HostKeys["ssh-ed25519"]}, "options": map[string]any{"HostName": host}}
	s.Env["SSH_PRIVATE_KEY_FILE"] = server.KeyFile
	s.Ours = []string{"Secret/spire-server-token"}
}

// handedOver fails unless the spire node has the group's nodes, or nothing.
func (s *swept) handedOver(nodes ...string) {
	s.Helper()
	if s.spire == "" {
		return
	}
	data, err := os.ReadFile(filepath.Join(s.spire, "received"))
	if len(nodes) == 0 {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Errorf("the spire node still has %q, %v", data, err)
		}
		if left := strings.TrimSpace(s.Kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")); strings.Contains(left, s.Namespace) {
			s.Errorf("of the cluster's roles there are still %s", left)
		}
		return
	}
	h, err := handoff.ParseHandoff(data)
	if err != nil || h.Namespace != s.Namespace || !slices.Equal(h.Nodes, nodes) {
		s.Errorf("the spire node has %q of %q, %v", h.Nodes, h.Namespace, err)
	}
}
