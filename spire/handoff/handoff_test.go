package handoff

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/authority"
)

const secret = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"

func kubeconfigOf(t testing.TB, k Kubeconfig) string {
	t.Helper()
	data, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func sample(t testing.TB) Handoff {
	t.Helper()
	return Handoff{Version: Version, Namespace: "shop", Nodes: []string{"web", "db"},
		Kubeconfig: kubeconfigOf(t, Kubeconfig{Server: "https://127.0.0.1:6443", CA: authority.PEM(t), Token: secret})}
}

func TestWhatOneEndWritesTheOtherReads(t *testing.T) {
	s := Server{Version: Version, MachineID: "0123456789abcdef0123456789abcdef", TrustDomain: "fediversity", Bundle: authority.PEM(t) + authority.PEM(t)}
	data, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseServer(data); err != nil || got != s {
		t.Errorf("server: %+v, %v", got, err)
	}
	h := sample(t)
	if data, err = h.Marshal(); err != nil {
		t.Fatal(err)
	}
	if got, err := ParseHandoff(data); err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("hand-off: %+v, %v", got, err)
	}
	r := Retirement{Version: Version, Namespace: "shop"}
	if data, err = r.Marshal(); err != nil {
		t.Fatal(err)
	}
	if got, err := ParseRetirement(data); err != nil || got != r {
		t.Errorf("retirement: %+v, %v", got, err)
	}
	d := NewDrop(Identity{"shop", "web"})
	if data, err = d.Marshal(); err != nil {
		t.Fatal(err)
	}
	if got, err := ParseDrop("shop.web.json", data); err != nil || got != d {
		t.Errorf("drop-file: %+v, %v", got, err)
	}
	k := Kubeconfig{Server: "https://[::1]:6443/prefix", CA: authority.PEM(t), TLSServerName: "kubernetes", Token: secret}
	if got, err := ParseKubeconfig([]byte(kubeconfigOf(t, k))); err != nil || got != k {
		t.Errorf("kubeconfig: %+v, %v", got, err)
	}
}

// The names are the specification's; only the cluster's differs from it.
func TestNames(t *testing.T) {
	id := Identity{"shop", "web"}
	for _, c := range []struct{ got, want string }{
		{id.Cluster(), "shop-web"},
		{id.AllowListed(), "shop:node-web"},
		{id.AliasID("fediversity"), "spiffe://fediversity/k8s/shop/shop/node-web"},
		{id.HostID("fediversity"), "spiffe://fediversity/host/shop-web"},
		{ServerID("fediversity"), "spiffe://fediversity/spire/server"},
		{id.AliasEntry(), "k8s.shop.web.alias"},
		{id.HostEntry(), "k8s.shop.web.host"},
		{id.DropFile(), "shop.web.json"},
		{KubeconfigFile("shop"), "shop.kubeconfig"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	for _, entry := range []string{id.AliasEntry(), id.HostEntry()} {
		if got, ok := ParseEntry(entry); !ok || got != id {
			t.Errorf("%s is of %v, %v", entry, got, ok)
		}
	}
	if got, ok := ParseDropFile(id.DropFile()); !ok || got != id {
		t.Errorf("%s is of %v, %v", id.DropFile(), got, ok)
	}
	for _, foreign := range []string{"", "k8s.shop.web", "k8s.shop.web.other", "k8s.Shop.web.host", "k8s.shop.web.x.host", "x.shop.web.host", "k8s..web.host"} {
		if got, ok := ParseEntry(foreign); ok {
			t.Errorf("entry %q is taken for one of %v", foreign, got)
		}
	}
	for _, foreign := range []string{"", "shop.json", "shop.web.json.tmp", ".shop.web.json", "shop.kubeconfig", "shop.web.db.json", "../shop.web.json"} {
		if got, ok := ParseDropFile(foreign); ok {
			t.Errorf("file %q is taken for the drop-file of %v", foreign, got)
		}
	}
}

func TestTwoNodesThatWouldShareAnIdentityAreNamed(t *testing.T) {
	all := []Identity{{"shop", "web"}, {"a", "b-c"}, {"shop", "db"}, {"a-b", "c"}, {"shop", "web"}}
	err := Collide(all)
	want := CollisionError{Identity{"a", "b-c"}, Identity{"a-b", "c"}}
	if got := (CollisionError{}); !errors.As(err, &got) || got != want {
		t.Fatalf("%v, want %v", err, want)
	}
	if err := Collide(all[:3]); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotTheContractIsRefused(t *testing.T) {
	h := sample(t)
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	good := `{"version":1,"namespace":"shop","nodes":["web"],"kubeconfig":` + quoted(h.Kubeconfig) + `}`
	if _, err := ParseHandoff([]byte(good)); err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		if strings.Count(good, old) != 1 {
			t.Fatalf("%q is there %d times", old, strings.Count(good, old))
		}
		return strings.Replace(good, old, new, 1)
	}
	kubeconfig := func(old, new string) string {
		return with(quoted(h.Kubeconfig), quoted(strings.Replace(h.Kubeconfig, old, new, 1)))
	}
	for name, c := range map[string]struct{ data, want string }{
		"no JSON":                   {"}", "not JSON"},
		"nothing":                   {"", "not JSON"},
		"a list":                    {"[1]", "wrong type"},
		"null":                      {"null", "no version"},
		"no version":                {with(`"version":1,`, ``), "no version"},
		"another version":           {with(`"version":1`, `"version":2,"more":true`), "version 2"},
		"unknown key":               {with(`"version":1`, `"version":1,"more":true`), "more"},
		"key in another case":       {with(`"namespace"`, `"Namespace"`), "Namespace"},
		"duplicate key":             {with(`"version":1`, `"version":1,"namespace":"x"`), "duplicate"},
		"trailing data":             {good + "{}", "not JSON"},
		"not UTF-8":                 {with(`"shop"`, "\"\xff\""), "UTF-8"},
		"too large":                 {good + strings.Repeat(" ", MaxSize), "larger"},
		"no namespace":              {with(`"shop"`, `null`), "namespace"},
		"namespace leaves the room": {with(`"shop"`, `"../etc"`), "DNS label"},
		"namespace with a dot":      {with(`"shop"`, `"a.b"`), "DNS label"},
		"namespace too long":        {with(`"shop"`, `"`+strings.Repeat("a", 64)+`"`), "DNS label"},
		"line end in a node":        {with(`"web"`, `"web\n"`), "DNS label"},
		"no node":                   {with(`["web"]`, `[]`), "retired"},
		"null for nodes":            {with(`["web"]`, `null`), "retired"},
		"a node twice":              {with(`["web"]`, `["web","web"]`), "twice"},
		"too many nodes":            {with(`["web"]`, `["web"`+strings.Repeat(`,"x"`, MaxNodes)+`]`), "more than"},
		"a wrong type":              {with(`["web"]`, `"web"`), "wrong type"},
		"no kubeconfig":             {with(quoted(h.Kubeconfig), `""`), "kubeconfig"},
		"a program to run":          {kubeconfig(`"user":{`, `"user":{"exec":{"command":"/bin/sh"},`), "exec"},
		"a file to read":            {kubeconfig(`"user":{`, `"user":{"tokenFile":"/etc/shadow",`), "tokenFile"},
		"no TLS":                    {kubeconfig(`https://`, `http://`), "https"},
		"TLS without a check":       {kubeconfig(`"cluster":{`, `"cluster":{"insecure-skip-tls-verify":true,`), "insecure"},
		"a proxy":                   {kubeconfig(`"cluster":{`, `"cluster":{"proxy-url":"http://192.0.2.1",`), "proxy"},
		"two users":                 {kubeconfig(`"users":[`, `"users":[{"name":"x","user":{"token":"x"}},`), "one user"},
		"another context":           {kubeconfig(`"current-context":"spire-server"`, `"current-context":"x"`), "one context"},
		"no token":                  {kubeconfig(secret, ""), "token"},
		"a token of two lines":      {kubeconfig(secret, secret+`\n`), "token"},
		"a user in the address":     {kubeconfig(`https://`, `https://u:p@`), "no user"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseHandoff([]byte(c.data))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || len(err.Error()) > 1000) {
				t.Errorf("the error shows too much: %v", err)
			}
		})
	}
}

func TestServerIsRefusedUnlessItIsWhole(t *testing.T) {
	good := Server{MachineID: strings.Repeat("0a", 16), TrustDomain: "fediversity", Bundle: authority.PEM(t)}
	for name, c := range map[string]struct {
		change func(*Server)
		want   string
	}{
		"no machine id":          {func(s *Server) { s.MachineID = "uninitialized" }, "machine id"},
		"machine id, line end":   {func(s *Server) { s.MachineID += "\n" }, "machine id"},
		"trust domain as an id":  {func(s *Server) { s.TrustDomain = "spiffe://fediversity" }, "trust domain"},
		"no bundle":              {func(s *Server) { s.Bundle = "\n" }, "no certificate"},
		"text before the bundle": {func(s *Server) { s.Bundle = "x" + s.Bundle }, "something else"},
		"text in the bundle":     {func(s *Server) { s.Bundle += "x\n" + s.Bundle }, "something else"},
		"a key in the bundle": {func(s *Server) {
			s.Bundle += "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
		}, "something else"},
		"half a bundle": {func(s *Server) { s.Bundle = s.Bundle[:100] }, "not PEM"},
		"no certificate in it": {func(s *Server) {
			s.Bundle = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		}, "certificate 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			if _, err := s.Marshal(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			s.Version = Version
			data, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseServer(data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestADropFileSpeaksOfTheNodeInItsName(t *testing.T) {
	good := NewDrop(Identity{"shop", "web"})
	for name, c := range map[string]struct {
		file   string
		change func(*Drop)
		want   string
	}{
		"another name":       {"shop.db.json", func(*Drop) {}, "shop.web.json"},
		"another audience":   {"shop.web.json", func(d *Drop) { d.Audience = "" }, "audience"},
		"another kubeconfig": {"shop.web.json", func(d *Drop) { d.Kubeconfig = "../shop.kubeconfig" }, "kubeconfig"},
		"another namespace's": {"shop.web.json", func(d *Drop) {
			d.Kubeconfig = "bank.kubeconfig"
		}, "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			c.change(&d)
			data, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseDrop(c.file, data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	if _, err := Read(strings.NewReader(strings.Repeat(" ", MaxSize+1))); err == nil {
		t.Error("no error")
	}
	if data, err := Read(strings.NewReader(strings.Repeat(" ", MaxSize))); err != nil || len(data) != MaxSize {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// again checks that what a parser took can be written and gives the same.
func again[T any](t *testing.T, first T, marshal func(T) ([]byte, error), parse func([]byte) (T, error)) {
	t.Helper()
	data, err := marshal(first)
	if err != nil {
		t.Fatalf("taken, but cannot be written: %v", err)
	}
	second, err := parse(data)
	if err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("%+v became %+v, %v", first, second, err)
	}
}

func FuzzServer(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseServer(data); err == nil {
			again(t, s, Server.Marshal, ParseServer)
		}
	})
}

func FuzzHandoff(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := ParseHandoff(data); err == nil {
			again(t, h, Handoff.Marshal, ParseHandoff)
		}
	})
}

func FuzzRetirement(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := ParseRetirement(data); err == nil {
			again(t, r, Retirement.Marshal, ParseRetirement)
		}
	})
}

func FuzzDrop(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if d, err := ParseDrop(name, data); err == nil {
			again(t, d, Drop.Marshal, func(b []byte) (Drop, error) { return ParseDrop(name, b) })
		}
	})
}

func FuzzKubeconfig(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := ParseKubeconfig(data); err == nil {
			again(t, k, Kubeconfig.Marshal, ParseKubeconfig)
		}
	})
}
