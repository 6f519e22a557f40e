// Package identity gives tests a real SPIRE server and agents, built from
// test/spire, which run on loopback:
//
//	server := identity.StartServer(t, identity.ServerOptions{})
//	agent := server.StartAgent(t, identity.AgentOptions{Cluster: "shop-web", Token: path})
//	agent.UntilSVID(t, "spiffe://fediversity/host/shop-web")
//
// It also plays the pods and accounts of a cluster of test/lab that take part
// in attestation.
package identity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/spire/server"
	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/lab"
)

// Programs is the directory with spire-server and spire-agent.
var Programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("YUBA_TEST_SPIRE"); dir != "" {
		return dir, nil
	}
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("set YUBA_TEST_SPIRE, or run the test in the checkout: %w", err)
	}
	out, err := exec.Command(filepath.Join(strings.TrimSpace(string(top)), "test", "parts.sh"), "path", "spire").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("SPIRE: %s", strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
})

func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := Programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// process is a program that ends with the test, at the latest.
type process struct {
	path string
	args []string
	log  string // file
	cmd  *exec.Cmd
	done chan struct{}
}

// live starts the program for the rest of the test, which shows what it said when it fails.
func (p *process) live(t testing.TB, what string) {
	t.Helper()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", what, p.tail())
		}
	})
	p.Start(t)
}

// Start starts the program when it has ended.
func (p *process) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env = []string{"HOME=/nonexistent", "TZ=UTC"}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// Ended tells whether the program runs no longer: an agent ends when it may not
// attest, or was evicted.
func (p *process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop ends the program in good order, as systemd does.
func (p *process) Stop() { p.end(syscall.SIGTERM) }

// Kill ends the program with SIGKILL.
func (p *process) Kill() { p.end(syscall.SIGKILL) }

func (p *process) end(signal os.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(signal)
	<-p.done
}

// Log is what the program has written so far, in all its lives.
func (p *process) Log() string {
	data, _ := os.ReadFile(p.log)
	return string(data)
}

func (p *process) tail() string {
	log := p.Log()
	return log[max(0, len(log)-4000):]
}

// PID is the program's process.
func (p *process) PID() int { return p.cmd.Process.Pid }

// ServerOptions are for a server. The zero value is a good one.
type ServerOptions struct {
	TrustDomain string // default "fediversity"
	// PluginData is the path of k8s_psat's plugin data file. A file without
	// clusters is made when there is none. Default: k8s_psat.json in Dir.
	PluginData string
	// Socket is the path of the API's socket; default: api.sock in Dir.
	Socket string
	// Host is the IP address for agents, of this machine; default: that of loopback.
	Host string
}

// Server is a SPIRE server. It keeps its data and addresses when it is started
// anew.
type Server struct {
	process
	Dir         string
	TrustDomain string
	Socket      string // of its API
	Address     string // host:port for agents
	PluginData  string
}

// StartServer starts a server of this test's own and waits until it answers.
func StartServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	s := &Server{Dir: shortDir(t), TrustDomain: o.TrustDomain, Socket: o.Socket, PluginData: o.PluginData}
	s.Address = freeport.On(t, cmp.Or(o.Host, "127.0.0.1"))
	if s.TrustDomain == "" {
		s.TrustDomain = "fediversity"
	}
	if s.PluginData == "" {
		s.PluginData = filepath.Join(s.Dir, "k8s_psat.json")
	}
	if s.Socket == "" {
		s.Socket = filepath.Join(s.Dir, "api.sock")
	}
	if _, err := os.Stat(s.PluginData); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(s.PluginData, []byte("{\"clusters\":{}}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir, "server.conf")
	// Tests are many and have one address, so there is no limit of rates.
	config := fmt.Sprintf(`
server {
  bind_address = %q
  bind_port = %q
  socket_path = %q
  trust_domain = %q
  data_dir = %q
  log_level = "DEBUG"
  ca_ttl = "24h"
  default_x509_svid_ttl = "1h"
  agent_ttl = "1h"
  ratelimit { attestation = false signing = false }
  experimental { cache_reload_interval = "500ms" }
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3" connection_string = %q } }
  KeyManager "disk" { plugin_data { keys_path = %q } }
  NodeAttestor "k8s_psat" { plugin_data_file = %q }
}
`, host, port, s.Socket, s.TrustDomain, s.Dir, filepath.Join(s.Dir, "db.sqlite3"), filepath.Join(s.Dir, "keys.json"), s.PluginData)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process = process{path: program(t, "spire-server"), args: []string{"run", "-config", path}, log: filepath.Join(s.Dir, "server.log")}
	s.live(t, "the SPIRE server")
	s.untilReady(t)
	return s
}

// Start starts a server that was stopped, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.process.Start(t)
	s.untilReady(t)
}

func (s *Server) untilReady(t testing.TB) {
	t.Helper()
	lab.Eventually(t, "the SPIRE server to answer", func() error {
		if s.Ended() {
			t.Fatalf("the SPIRE server ended:\n%s", s.tail())
		}
		_, err := s.bundle()
		return err
	})
}

// Restart ends the server and starts it anew.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.Start(t)
}

func (s *Server) bundle() (string, error) {
	c, err := server.New(s.Socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, pem, err := c.Bundle(ctx)
	return pem, err
}

// Bundle is the server's trust bundle in PEM.
func (s *Server) Bundle(t testing.TB) string {
	t.Helper()
	pem, err := s.bundle()
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

// CLI runs spire-server's own command line and gives what it prints, as JSON
// where it can.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.cli(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *Server) cli(args ...string) (string, error) {
	dir, err := Programs()
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(dir, "spire-server"), append(args, "-socketPath", s.Socket, "-output", "json")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("spire-server %s: %w: %s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// ask runs spire-server's own command line and decodes what it prints.
func (s *Server) ask(t testing.TB, into any, args ...string) {
	t.Helper()
	said := s.CLI(t, args...)
	if err := json.Unmarshal([]byte(said), into); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// RotateCA makes a new authority, signs with it from now on, and leaves the old
// one in the bundle.
func (s *Server) RotateCA(t testing.TB) {
	t.Helper()
	var prepared struct {
		Authority struct {
			ID string `json:"authority_id"`
		} `json:"prepared_authority"`
	}
	s.ask(t, &prepared, "localauthority", "x509", "prepare")
	s.CLI(t, "localauthority", "x509", "activate", "-authorityID", prepared.Authority.ID)
}

// spiffeID is how spire-server's JSON has an id.
type spiffeID struct {
	TrustDomain string `json:"trust_domain"`
	Path        string `json:"path"`
}

func (i spiffeID) String() string { return "spiffe://" + i.TrustDomain + i.Path }

// AgentInfo is an agent as the server lists it.
type AgentInfo struct {
	ID, Attestor string
	Banned       bool
	Selectors    []string // type:value
}

// Agents are the agents that the server lists, sorted by id.
func (s *Server) Agents(t testing.TB) []AgentInfo {
	t.Helper()
	var list struct {
		Agents []struct {
			ID              spiffeID `json:"id"`
			AttestationType string   `json:"attestation_type"`
			Banned          bool     `json:"banned"`
			Selectors       []struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"selectors"`
		} `json:"agents"`
	}
	s.ask(t, &list, "agent", "list")
	var out []AgentInfo
	for _, a := range list.Agents {
		info := AgentInfo{ID: a.ID.String(), Attestor: a.AttestationType, Banned: a.Banned}
		for _, sel := range a.Selectors {
			info.Selectors = append(info.Selectors, sel.Type+":"+sel.Value)
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b AgentInfo) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Entry is a registration entry as the server shows it.
type Entry struct {
	ID, SPIFFEID, ParentID string
	Selectors              []string // type:value, sorted
}

// Entries are the registration entries of the server, sorted by id.
func (s *Server) Entries(t testing.TB) []Entry {
	t.Helper()
	var list struct {
		Entries []struct {
			ID        string   `json:"id"`
			SPIFFEID  spiffeID `json:"spiffe_id"`
			ParentID  spiffeID `json:"parent_id"`
			Selectors []struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"selectors"`
		} `json:"entries"`
	}
	s.ask(t, &list, "entry", "show")
	var out []Entry
	for _, e := range list.Entries {
		entry := Entry{ID: e.ID, SPIFFEID: e.SPIFFEID.String(), ParentID: e.ParentID.String()}
		for _, sel := range e.Selectors {
			entry.Selectors = append(entry.Selectors, sel.Type+":"+sel.Value)
		}
		slices.Sort(entry.Selectors)
		out = append(out, entry)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// shortDir is a directory of this test whose path is short enough for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spire-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
