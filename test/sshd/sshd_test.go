package sshd_test

import (
	"net"
	"os"
	"strconv"
	"testing"

	"golang.org/x/crypto/ssh"

	"fediversity.eu/yuba/test/sshd"
)

// Each of the host keys is the server's, and the user's key opens it.
func TestACommandRuns(t *testing.T) {
	s := sshd.Start(t)
	data, err := os.ReadFile(s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	script := s.Script(t, "hello", "echo hello $1\n")
	for kind, line := range s.HostKeys {
		host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		algorithms := []string{kind}
		if kind == ssh.KeyAlgoRSA {
			algorithms = []string{ssh.KeyAlgoRSASHA256}
		}
		c, err := ssh.Dial("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), &ssh.ClientConfig{
			User: s.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host), HostKeyAlgorithms: algorithms})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		session, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.Output(script + " there")
		if err != nil || string(out) != "hello there\n" {
			t.Errorf("%s: %q, %v", kind, out, err)
		}
		c.Close()
	}
	if n := s.Connections(); n != len(s.HostKeys) {
		t.Errorf("%d connections", n)
	}
}
