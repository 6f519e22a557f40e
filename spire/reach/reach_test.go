package reach

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func TestHostKeys(t *testing.T) {
	key := newKey(t)
	for line, want := range map[string]HostKey{
		key:                              {Key: key},
		key + " root@spire":              {Key: key},
		key + " root@spire\n":            {Key: key}, // as the file has it
		"bastion.example " + key:         {Host: "bastion.example", Key: key},
		"[bastion.example]:2222 " + key:  {Host: "[bastion.example]:2222", Key: key},
		"bastion.example " + key + " me": {Host: "bastion.example", Key: key},
	} {
		if got, err := ParseHostKey(line); err != nil || got != want {
			t.Errorf("%q: got %q, %v", line, got, err)
		}
	}
	_, blob, _ := strings.Cut(key, " ")
	for _, line := range []string{
		"", "ssh-ed25519", blob, "ssh-rsa " + blob, key[:len(key)-4], key + "\n" + key, key + "\n\n", key + "\r\n", "\n" + key, "# " + key, "@cert-authority * " + key,
		"@revoked bastion.example " + key, "|1|aaaa|bbbb " + key, "*.example " + key, "a,b " + key, `command="x" ` + key, "restrict,no-pty " + key,
	} {
		if got, err := ParseHostKey(line); err == nil {
			t.Errorf("%q is %q", line, got)
		}
	}
}

func TestNodes(t *testing.T) {
	good := func() Node {
		return Node{Host: "spire.example.org", Port: 2222, User: "yuba", HostKeys: []string{newKey(t)}, Command: "sudo -n /run/current-system/sw/bin/yuba",
			Options: map[string]string{"ProxyJump": "me@bastion.example:22,other", "ConnectTimeout": "10", "Port": "22", "User": "me", "Ciphers": "aes256-ctr,aes128-gcm@openssh.com", "StrictHostKeyChecking": "yes"}}
	}
	if err := good().Check(); err != nil {
		t.Error(err)
	}
	if err := (Node{Host: "spire.example.org", HostKeys: []string{newKey(t)}}).Check(); err != nil {
		t.Errorf("the least that a node has: %v", err)
	}
	for want, change := range map[string]func(*Node){
		"name of a host":     func(n *Node) { n.Host = "Spire_1" },
		"not a port":         func(n *Node) { n.Port = 65536 },
		"name of a user":     func(n *Node) { n.User = "-oProxyCommand=x" },
		"has no host key":    func(n *Node) { n.HostKeys = nil },
		"spire.example":      func(n *Node) { n.HostKeys = []string{"bastion " + newKey(t)} },
		"not a host key":     func(n *Node) { n.HostKeys = append(n.HostKeys, "ssh-ed25519 x") },
		"they are Batch":     func(n *Node) { n.Options["ProxyCommand"] = "nc %h %p" },
		"knows \"yes\"":      func(n *Node) { n.Options["StrictHostKeyChecking"] = "no" },
		"seconds":            func(n *Node) { n.Options["ConnectTimeout"] = "0" },
		"Port: 0 is not":     func(n *Node) { n.Options["Port"] = "0" },
		"name of a user:":    func(n *Node) { n.Options["User"] = "-x" },
		"out of aes128-gcm":  func(n *Node) { n.Options["Ciphers"] = "aes256-ctr,3des-cbc" },
		"out of":             func(n *Node) { n.Options["KexAlgorithms"] = "+diffie-hellman-group1-sha1" },
		"of algorithms":      func(n *Node) { n.Options["MACs"] = "" },
		"list of algorithms": func(n *Node) { n.Options["HostKeyAlgorithms"] = "ssh-ed25519-cert-v01@openssh.com" },
		"hosts to jump by":   func(n *Node) { n.Options["ProxyJump"] = "a b" },
		"a command":          func(n *Node) { n.Command = "yuba; reboot" },
	} {
		n := good()
		change(&n)
		if err := n.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, bad := range []string{"", " yuba", "yuba  x", "-x", "$(id)", "a'b", "yuba\n", "~/yuba", "yuba ", strings.Repeat("y", 256)} {
		if CheckCommand(bad) == nil {
			t.Errorf("%q is a command", bad)
		}
	}
}
