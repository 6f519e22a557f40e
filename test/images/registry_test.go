package images

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/world"
)

// certificate makes one for 127.0.0.1 that is its own CA.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(k)
	must(t, err)
	cert, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	return cert, key
}

// debianRegistry starts Debian's docker-registry with TLS and the user u with the password p.
func debianRegistry(t *testing.T) (host, ca string) {
	t.Helper()
	dir := t.TempDir()
	ca, key := certificate(t, dir)
	users := filepath.Join(dir, "htpasswd")
	must(t, os.WriteFile(users, []byte("u:$2y$05$3BhrMhh5LIEI09kbO56zBeSfYmcJTEByYwA2DslK3Nsx5CxD8jZBi\n"), 0o600))
	host = freeport.Address(t)
	config := filepath.Join(dir, "config.yml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %q, secret: s, tls: {certificate: %s, key: %s}}
auth: {htpasswd: {realm: test, path: %s}}
`, dir, host, ca, key, users), 0o600))
	cmd := exec.Command("docker-registry", "serve", config)
	var log bytes.Buffer
	cmd.Stderr = &log
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", host)
		if err == nil {
			c.Close()
			return host, ca
		}
		if time.Now().After(until) {
			t.Fatalf("docker-registry does not start: %v\n%s", err, log.Bytes())
		}
	}
}

// cutter passes connections on to a host, and cuts those of the first ones that send more than so many bytes.
func cutter(t *testing.T, to string, after int64, cuts int32) (host string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	var done atomic.Int32
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() {
				io.Copy(in, out)
				in.Close()
			}()
			go func() {
				if _, err := io.CopyN(out, in, after); err == nil && done.Add(1) > cuts {
					io.Copy(out, in)
				}
				in.Close()
				out.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// On Debian's registry with TLS and passwords: who may, what arrives, and what becomes of an upload that is cut again and again.
func TestDebianRegistry(t *testing.T) {
	const size = 24 << 20
	host, ca := debianRegistry(t)
	dir := t.TempDir()
	noise := make([]byte, size)
	mathrand.NewChaCha8([32]byte{1}).Read(noise)
	write(t, filepath.Join(dir, "node.tar"), image.Spec{Files: map[string][]byte{"noise": noise}, Layers: 3})

	apply := func(host, password, compression string) world.Result {
		t.Helper()
		auth := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host+"/ns", base64.StdEncoding.EncodeToString([]byte("u:"+password)))
		must(t, os.WriteFile(filepath.Join(dir, "auth.json"), []byte(auth), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "main.tf"), fmt.Appendf(nil, `
terraform {
  required_providers {
    oci = { source = "fediversity/oci" }
  }
}
provider "oci" {
  ca_file     = %q
  compression = %q
}
resource "oci_image" "node" {
  source     = "node.tar"
  repository = "%s/ns/%s"
  tag        = "1"
}
output "digest" {
  value = oci_image.node.digest
}
`, ca, compression, host, compression), 0o600))
		must(t, os.RemoveAll(filepath.Join(dir, "terraform.tfstate")))
		cmd := exec.Command(world.Program(t), "apply", "-auto-approve", "-input=false", "-no-color")
		cmd.Dir, cmd.Env = dir, []string{"REGISTRY_AUTH_FILE=" + filepath.Join(dir, "auth.json")}
		return world.Run(t, cmd)
	}
	digest := func(r world.Result) string {
		t.Helper()
		_, after, ok := strings.Cut(r.Stdout, `digest = "`)
		d, _, _ := strings.Cut(after, `"`)
		if r.Code != 0 || !ok {
			t.Fatalf("apply: %v", r)
		}
		return d
	}
	if r := apply(host, "wrong-canary", "gzip"); r.Code != 1 || strings.Contains(r.Stderr+r.Stdout, "wrong-canary") {
		t.Errorf("with a wrong password: %v", r)
	} else {
		says(t, r, "401", host, "auth.json")
	}
	certs := filepath.Dir(ca)
	for _, compression := range []string{"gzip", "zstd"} {
		want := digest(apply(host, "p", compression))
		// skopeo verifies each blob against manifest and config.
		ref := "docker://" + host + "/ns/" + compression + ":1"
		out := filepath.Join(t.TempDir(), "out")
		skopeo(t, dir, ref, "oci:"+out+":x", "--src-creds", "u:p", "--src-cert-dir", certs)
		if got := run(t, dir, "skopeo", "inspect", "--creds", "u:p", "--cert-dir", certs, "--format", "{{.Digest}}", ref); got != want {
			t.Errorf("%s: the registry has %s, yuba says %s", compression, got, want)
		}
	}
	want := digest(apply(host, "p", "gzip"))
	// This registry (distribution 2.8) can't say how much it has of an upload that was cut: it begins again each time.
	other, otherCA := debianRegistry(t)
	ca = otherCA
	if got := digest(apply(cutter(t, other, size/2, 3), "p", "gzip")); got != want {
		t.Errorf("with cuts the image is %s, without %s", got, want)
	}
}
