package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki makes the keys, certificates and kubeconfigs of one cluster in dir. The
// first error sticks; later calls do nothing.
type pki struct {
	dir string
	err error
}

// authority is a certificate with its key; it can sign others.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *pki) write(name string, data []byte) {
	if p.err == nil {
		p.err = os.WriteFile(p.path(name), data, 0o600)
	}
}

// key makes a P-256 key and writes it as name.key.
func (p *pki) key(name string) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.fail(err)
		return nil
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		p.fail(err)
		return nil
	}
	p.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	return key
}

// issue makes a key and a certificate for it, signed by ca (by itself if nil).
func (p *pki) issue(name string, t *x509.Certificate, ca *authority) *authority {
	key := p.key(name)
	if p.err != nil {
		return nil
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		p.fail(err)
		return nil
	}
	t.SerialNumber = serial
	t.NotBefore, t.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	parent, signer := t, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		p.fail(err)
		return nil
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		p.fail(err)
		return nil
	}
	a := &authority{cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: key}
	p.write(name+".crt", a.pem)
	return a
}

// ca makes a certificate authority.
func (p *pki) ca(name string) *authority {
	return p.issue(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}, nil)
}

// leaf issues a client certificate; with hosts, it is good for a server, too.
// group may be empty.
func (p *pki) leaf(ca *authority, name, user, group string, hosts ...string) *authority {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: user},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if group != "" {
		t.Subject.Organization = []string{group}
	}
	if len(hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if p.err != nil {
		return nil
	}
	return p.issue(name, t, ca)
}

// serviceAccountKey writes the key pair that signs service account tokens.
func (p *pki) serviceAccountKey() {
	key := p.key("sa")
	if p.err != nil {
		return
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		p.fail(err)
		return
	}
	p.write("sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// kubeconfig issues a client certificate and writes name.kubeconfig, which
// holds all it needs.
func (p *pki) kubeconfig(ca *authority, name, server, user, group string) {
	leaf := p.leaf(ca, name, user, group)
	if p.err != nil {
		return
	}
	key, err := os.ReadFile(p.path(name + ".key"))
	if err != nil {
		p.fail(err)
		return
	}
	b64 := base64.StdEncoding.EncodeToString
	p.write(name+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]q
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: lab
  context:
    cluster: lab
    user: %[3]q
current-context: lab
`, server, b64(ca.pem), user, b64(leaf.pem), b64(key)))
}
