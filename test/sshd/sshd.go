// Package sshd starts the OpenSSH server of the system (Debian: openssh-server) for one test, on loopback, with host
// keys and a user key of its own. Who logs in is the user that runs the test.
package sshd

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// program is where Debian has it.
const program = "/usr/sbin/sshd"

// Server is a server that ends with the test.
type Server struct {
	Host string // 127.0.0.1
	Port int
	User string
	// HostKeys are its public host keys as authorized_keys has them, by the type: ssh-ed25519, ssh-rsa,
	// ecdsa-sha2-nistp256.
	HostKeys map[string]string
	// KeyFile is a private key with which the user may log in.
	KeyFile string
	Dir     string // what belongs to the server; gone after the test

	mu    sync.Mutex
	count int
	open  map[net.Conn]bool
}

// Key writes a new ed25519 key to a file in dir, 0600, and gives its public half as authorized_keys has it.
func Key(t testing.TB, dir, name string) (file, public string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	return write(t, dir, name, key)
}

func write(t testing.TB, dir, name string, key crypto.Signer) (file, public string) {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	must(t, err)
	file = filepath.Join(dir, name)
	must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	pub, err := ssh.NewPublicKey(key.Public())
	must(t, err)
	return file, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
}

// rsaKey is one for all servers of a test program: it takes long to make.
var rsaKey = sync.OnceValues(func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Start starts a server with further lines of sshd_config(5), which come first and so win.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: as root, run test/packages.sh openssh-server", err)
	}
	me, err := user.Current()
	must(t, err)
	if me.Uid == "0" {
		// The service's unit makes it; without it sshd doesn't start as root.
		must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	s := &Server{Host: "127.0.0.1", User: me.Username, HostKeys: map[string]string{}, Dir: t.TempDir(), open: map[net.Conn]bool{}}
	for name, make := range map[string]func() (crypto.Signer, error){
		"ssh-ed25519":         func() (crypto.Signer, error) { _, k, err := ed25519.GenerateKey(rand.Reader); return k, err },
		"ssh-rsa":             rsaKey,
		"ecdsa-sha2-nistp256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	} {
		key, err := make()
		must(t, err)
		file, public := write(t, s.Dir, "host_"+name, key)
		s.HostKeys[name] = public
		config = append(config, "HostKey "+file)
	}
	file, public := Key(t, s.Dir, "id")
	s.KeyFile = file
	authorized := filepath.Join(s.Dir, "authorized_keys")
	must(t, os.WriteFile(authorized, []byte(public+"\n"), 0o600))
	config = append(config, "AuthorizedKeysFile "+authorized, "StrictModes no", "UsePAM no", "PidFile none", "LogLevel VERBOSE",
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "PrintMotd no",
		// bash reads ~/.bashrc when sshd starts it, and that is nobody's business here.
		"SetEnv HOME="+s.Dir)
	path := filepath.Join(s.Dir, "sshd_config")
	must(t, os.WriteFile(path, []byte(strings.Join(config, "\n")+"\n"), 0o600))

	log, err := os.Create(s.log())
	must(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(s.Host, "0"))
	must(t, err)
	s.Port = listener.Addr().(*net.TCPAddr).Port
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		s.Cut()
		all.Wait()
		log.Close()
		if t.Failed() {
			t.Logf("sshd on port %d:\n%s", s.Port, s.Log(t))
		}
	})
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(conn, path, log) })
		}
	})
	return s
}

// serve is one connection: a process of sshd whose standard input and output it is (-i, as inetd starts it). So
// there is no moment in which the server isn't up yet, and none of its processes is left behind.
func (s *Server) serve(conn net.Conn, config string, log *os.File) {
	s.mu.Lock()
	s.count++
	s.open[conn] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, conn)
		s.mu.Unlock()
		conn.Close()
	}()
	socket, err := conn.(*net.TCPConn).File()
	if err != nil {
		fmt.Fprintln(log, err)
		return
	}
	defer socket.Close()
	cmd := exec.Command(program, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, log
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(log, err)
	}
}

// Cut ends all connections that are open. Those who log in from now on are served.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		// Not Close: sshd's processes have the socket too.
		_ = conn.(*net.TCPConn).CloseRead()
		_ = conn.(*net.TCPConn).CloseWrite()
	}
}

// Connections is how many there have been.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *Server) log() string { return filepath.Join(s.Dir, "log") }

// Log is what the server has written.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(s.log())
	must(t, err)
	return string(bytes.ReplaceAll(data, []byte("\r"), nil))
}

// Script writes a program for the shell of the user that logs in, and gives its path: what stands in for the
// program that is meant to be called, or before it.
func (s *Server) Script(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
