package route

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"fediversity.eu/yuba/providers/spire/internal/ssh"
	"fediversity.eu/yuba/spire/reach"
)

func authorized(t testing.TB, public any) string {
	t.Helper()
	k, err := xssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(k)))
}

func newKey(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return authorized(t, public)
}

func env(nodes, user string) func(string) string {
	return func(name string) string { return map[string]string{EnvNodes: nodes, EnvUser: user}[name] }
}

// text is a way in a line that a test can compare.
func text(hops []ssh.Hop, names map[string]string) string {
	var all []string
	for _, h := range hops {
		var keys []string
		for _, k := range h.HostKeys {
			keys = append(keys, names[strings.TrimSpace(string(xssh.MarshalAuthorizedKey(k)))])
		}
		all = append(all, fmt.Sprintf("%s=%s@%s[%s]", h.Name, h.User, h.Address, strings.Join(keys, " ")))
	}
	return strings.Join(all, " > ")
}

func TestLayers(t *testing.T) {
	a, b, j, k := newKey(t), newKey(t), newKey(t), newKey(t)
	names := map[string]string{a: "A", b: "B", j: "J", k: "K"}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		node        reach.Node
		nodes, user string
		want        string
	}{
		"the least": {reach.Node{HostKeys: []string{a}}, "", "", "spire.example=" + me.Username + "@spire.example:22[A]"},
		"all from the group": {reach.Node{Port: 2222, User: "g", HostKeys: []string{a, b + " comment"}, Options: map[string]string{"HostName": "10.0.0.7"}},
			"", "", "spire.example=g@10.0.0.7:2222[A B]"},
		"options as ssh has them": {reach.Node{HostKeys: []string{a}, Options: map[string]string{"port": "23", "USER": "o"}}, "", "", "spire.example=o@spire.example:23[A]"},
		"before options":          {reach.Node{HostKeys: []string{a}, Port: 24, User: "g", Options: map[string]string{"Port": "23", "User": "o"}}, "", "", "spire.example=g@spire.example:24[A]"},
		"SSH_NODES": {reach.Node{HostKeys: []string{a}, Port: 24, User: "g", Options: map[string]string{"HostName": "h"}},
			`{"spire.example": {"user": "n", "port": 25, "hostKey": "` + b + `"}}`, "", "spire.example=n@h:25[B]"},
		"SSH_NODES, its options": {reach.Node{HostKeys: []string{a}, Port: 24, User: "g"},
			`{"Spire.Example.": {"options": {"Port": 26, "User": "n", "HostName": "h", "BatchMode": true}}}`, "", "spire.example=n@h:26[A]"},
		"SSH_NODES, words": {reach.Node{HostKeys: []string{a}},
			`{"spire.example": {"options": ["-o", "HostName=h", "-oUser=n", "-p", "27", "StrictHostKeyChecking yes"]}}`, "", "spire.example=n@h:27[A]"},
		"SSH_NODES alone has the keys": {reach.Node{}, `{"spire.example": {"hostKeys": ["` + a + `", "` + b + `"]}}`, "u", "spire.example=u@spire.example:22[A B]"},
		"SSH_NODES, ssh-keyscan":       {reach.Node{}, `{"spire.example": {"hostKey": "# spire.example:22 SSH-2.0\nspire.example ` + a + `\n\nother.example ` + b + `\n"}}`, "u", "spire.example=u@spire.example:22[A]"},
		"SSH_USER":                     {reach.Node{HostKeys: []string{a}, User: "g"}, `{"spire.example": {"user": "n"}}`, "u", "spire.example=u@spire.example:22[A]"},
		"others don't matter": {reach.Node{HostKeys: []string{a}, User: "g"},
			`{"other.example": {"options": ["-A", "-o", "ForwardAgent=yes", "-i"], "hostKeys": ["x", 1], "port": "22", "site": "B"}, "web_1": {"options": "-A"}, "OTHER.example": 7}`, "",
			"spire.example=g@spire.example:22[A]"},
		"jump host of the group": {reach.Node{HostKeys: []string{a, "jump.example " + j}, User: "g", Options: map[string]string{"ProxyJump": "jump.example"}},
			"", "", "jump.example=g@jump.example:22[J] > spire.example=g@spire.example:22[A]"},
		"jump hosts, user and port": {reach.Node{HostKeys: []string{a, "[jump.example]:2222 " + j, "jump.example " + k, "two.example " + k}, User: "g", Options: map[string]string{"ProxyJump": "me@jump.example:2222,two.example"}},
			"", "u", "jump.example=me@jump.example:2222[J] > two.example=u@two.example:22[K] > spire.example=u@spire.example:22[A]"},
		"jump host in SSH_NODES": {reach.Node{HostKeys: []string{a, "jump.example " + k}, User: "g"},
			`{"spire.example": {"options": {"ProxyJump": "jump.example"}}, "jump.example": {"user": "n", "port": 28, "hostKey": "` + j + `", "options": {"HostName": "10.0.0.1"}}}`, "",
			"jump.example=n@10.0.0.1:28[J] > spire.example=g@spire.example:22[A]"},
		"no jump host": {reach.Node{HostKeys: []string{a}, User: "g", Options: map[string]string{"ProxyJump": "jump.example"}},
			`{"spire.example": {"options": {"ProxyJump": "none"}}}`, "", "spire.example=g@spire.example:22[A]"},
	} {
		t.Run(name, func(t *testing.T) {
			c.node.Host = "spire.example"
			hops, err := Hops(c.node, env(c.nodes, c.user))
			if err != nil {
				t.Fatal(err)
			}
			if got := text(hops, names); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTimesAndAlgorithms(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ed, old := newKey(t), authorized(t, weak.Public())
	one := func(o map[string]string, keys ...string) ssh.Hop {
		t.Helper()
		hops, err := Hops(reach.Node{Host: "spire.example", User: "u", HostKeys: keys, Options: o}, env("", ""))
		if err != nil {
			t.Fatal(err)
		}
		return hops[len(hops)-1]
	}
	h := one(nil, ed, old)
	if !slices.Equal(h.HostKeyAlgorithms, []string{"ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"}) || h.Ciphers != nil || h.MACs != nil || h.KeyExchanges != nil {
		t.Errorf("%+v", h)
	}
	if h.ConnectTimeout != 30*time.Second || h.AliveInterval != 15*time.Second || h.AliveCount != 3 {
		t.Errorf("%+v", h)
	}
	h = one(map[string]string{"ConnectTimeout": "5", "ServerAliveInterval": "7", "ServerAliveCountMax": "2", "HostKeyAlgorithms": "rsa-sha2-256,ecdsa-sha2-nistp256",
		"Ciphers": "aes256-ctr,aes128-ctr", "MACs": "hmac-sha2-256", "KexAlgorithms": "curve25519-sha256"}, ed, old)
	if h.ConnectTimeout != 5*time.Second || h.AliveInterval != 7*time.Second || h.AliveCount != 2 ||
		!slices.Equal(h.HostKeyAlgorithms, []string{"rsa-sha2-256"}) || !slices.Equal(h.Ciphers, []string{"aes256-ctr", "aes128-ctr"}) ||
		!slices.Equal(h.MACs, []string{"hmac-sha2-256"}) || !slices.Equal(h.KeyExchanges, []string{"curve25519-sha256"}) {
		t.Errorf("%+v", h)
	}
	hops, err := Hops(reach.Node{Host: "spire.example", User: "u", HostKeys: []string{ed, "jump " + ed}, Options: map[string]string{"ProxyJump": "jump", "ConnectTimeout": "5"}}, env("", ""))
	if err != nil || hops[0].ConnectTimeout != 5*time.Second {
		t.Errorf("%+v, %v", hops, err)
	}
}

func TestRefused(t *testing.T) {
	key := newKey(t)
	for want, c := range map[string]struct {
		change      func(*reach.Node)
		nodes, user string
	}{
		"has no host key, so that anybody":                  {func(n *reach.Node) { n.HostKeys = nil }, "", ""},
		"jump.example has no host key":                      {func(n *reach.Node) { n.Options = map[string]string{"ProxyJump": "jump.example"} }, "", ""},
		"is not an ssh option that yuba knows; they are":    {func(n *reach.Node) { n.Options = map[string]string{"ProxyCommand": "nc"} }, "", ""},
		"SSH_NODES, spire.example: option ForwardAgent: \"": {nil, `{"spire.example": {"options": {"ForwardAgent": "yes"}}}`, ""},
		"option Port is there twice":                        {func(n *reach.Node) { n.Options = map[string]string{"Port": "1", "port": "2"} }, "", ""},
		"StrictHostKeyChecking: is \"no\"":                  {nil, `{"spire.example": {"options": {"StrictHostKeyChecking": false}}}`, ""},
		"need one of ssh-ed25519":                           {func(n *reach.Node) { n.Options = map[string]string{"HostKeyAlgorithms": "rsa-sha2-256"} }, "", ""},
		"SSH_USER: \"-x\"":                                  {nil, "", "-x"},
		"is not a port":                                     {nil, `{"spire.example": {"port": 70000}}`, ""},
		"name of a user":                                    {nil, `{"spire.example": {"user": "a b"}}`, ""},
		"has a ProxyJump of its own":                        {func(n *reach.Node) { n.Options = map[string]string{"ProxyJump": "jump"} }, `{"jump": {"options": {"ProxyJump": "x"}}}`, ""},
		"not a host key":                                    {nil, `{"spire.example": {"hostKey": "ssh-ed25519"}}`, ""},
		"it is not JSON: wrong at byte":                     {nil, `{"spire.example": {`, ""},
		"it is not a JSON object":                           {nil, `["spire.example"]`, ""},
		"spire.example is there twice":                      {nil, `{"spire.example": {}, "SPIRE.example": {}}`, ""},
		"duplicate field":                                   {nil, `{"spire.example": {}, "spire.example": {}}`, ""},
		"SSH_NODES, spire.example: unknown field":           {nil, `{"spire.example": {"hostkeys": []}}`, ""},
		"SSH_NODES, jump.example: option \"-A\" is not one": {func(n *reach.Node) { n.Options = map[string]string{"ProxyJump": "jump.example"} }, `{"jump.example": {"options": ["-A"]}}`, ""},
		"neither a text nor a list":                         {nil, `{"spire.example": {"hostKeys": 1}}`, ""},
		"not UTF-8":                                         {nil, "{\"\xff\": {}}", ""},
		"larger than":                                       {nil, strings.Repeat(" ", maxNodes) + "{}", ""},
		"options end with \"-o\"":                           {nil, `{"spire.example": {"options": ["-o"]}}`, ""},
		"option \"-A\" is not one that yuba knows":          {nil, `{"spire.example": {"options": ["-A", "x"]}}`, ""},
		"option \"Port\" has no value":                      {nil, `{"spire.example": {"options": ["Port"]}}`, ""},
		"option \"Port\" is there twice":                    {nil, `{"spire.example": {"options": ["-p1", "-oPort=2"]}}`, ""},
		"options: duplicate field":                          {nil, `{"spire.example": {"options": {"Port": 1, "Port": 2}}}`, ""},
		"neither text nor number":                           {nil, `{"spire.example": {"options": {"Port": [1]}}}`, ""},
		"neither an object nor a list":                      {nil, `{"spire.example": {"options": "-p 1"}}`, ""},
		"which it can't be":                                 {nil, `{"spire.example": {"port": "22"}}`, ""},
	} {
		n := reach.Node{Host: "spire.example", User: "u", HostKeys: []string{key}}
		if c.change != nil {
			c.change(&n)
		}
		if _, err := Hops(n, env(c.nodes, c.user)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Whatever SSH_NODES holds, either it is refused, or each hop has a user, an address and a key to look for.
func FuzzNodes(f *testing.F) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGBwZ0TqmkeiURVGEhEaHDBDMBdPMYVcLP8O9i4sKvhr"
	f.Add(`{"spire.example": {"user": "n", "port": 25, "hostKey": "` + key + `"}}`)
	f.Add(`{"Spire.Example.": {"hostKeys": ["# x\n` + key + ` c\n"], "options": {"Port": 26, "BatchMode": true, "ProxyJump": "me@jump:22,none"}}}`)
	f.Add(`{"spire.example": {"options": ["-o", "HostName=h", "-oUser=n", "-p", "27", "-J", "jump"]}, "jump": {"hostKey": "jump ` + key + `"}}`)
	f.Add(`{"spire.example": null, "x": {"options": null, "hostKeys": null}}`)
	f.Fuzz(func(t *testing.T, nodes string) {
		hops, err := Hops(reach.Node{Host: "spire.example", HostKeys: []string{key, "jump " + key}}, env(nodes, ""))
		if err != nil {
			if len(err.Error()) > 8<<10 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, h := range hops {
			if h.User == "" || strings.HasPrefix(h.Address, ":") || len(h.HostKeys) == 0 || len(h.HostKeyAlgorithms) == 0 || h.ConnectTimeout <= 0 || h.AliveCount < 1 {
				t.Errorf("%+v", h)
			}
		}
	})
}
