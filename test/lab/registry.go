package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Registry is a registry of one test's own, without a cluster.
type Registry struct {
	Address string // 127.0.0.1:port
	CA      string // path of the certificate that its TLS is to be checked with; empty without TLS
}

// RegistryOptions say how a registry is reached. The zero value is plain HTTP
// without a password.
type RegistryOptions struct {
	User, Password string // asks for basic authentication
	TLS            bool
}

// NewRegistry starts a registry; it is stopped when the test ends.
func NewRegistry(t testing.TB, o RegistryOptions) *Registry {
	t.Helper()
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"registry", "-dir", file("data"), "-address-file", file("address")}
	if o.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(o.Password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file("htpasswd"), fmt.Appendf(nil, "%s:%s\n", o.User, hash))
		args = append(args, "-htpasswd", file("htpasswd"))
	}
	r := &Registry{}
	if o.TLS {
		r.CA = file("tls.crt")
		Certificate(t, r.CA, file("tls.key"))
		args = append(args, "-tls-cert", r.CA, "-tls-key", file("tls.key"))
	}
	log, err := os.Create(file("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, err := os.ReadFile(file("log")); err == nil && t.Failed() {
			t.Logf("the registry said:\n%s", said)
		}
	})
	Eventually(t, "the registry", func() error {
		address, err := os.ReadFile(file("address"))
		r.Address = string(address)
		return err
	})
	return r
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Certificate writes a self-signed certificate for loopback, and its key, to
// files of these names.
func Certificate(t testing.TB, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}
