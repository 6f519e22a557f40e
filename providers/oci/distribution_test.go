package oci

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/providertest"
)

// distribution is the distribution project's registry, which most others are built on, as a process of its own.
type distribution struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	Dir  string
	Host string
}

func startDistribution(t *testing.T, args ...string) *distribution {
	t.Helper()
	d := &distribution{t: t, args: args, Dir: t.TempDir()}
	t.Cleanup(d.kill)
	if err := d.start(freeport.Address(t)); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *distribution) start(listen string) error {
	program, err := lab.Program()
	if err != nil {
		return err
	}
	d.cmd = exec.Command(program, append([]string{"registry", "-dir", d.Dir, "-listen", listen}, d.args...)...)
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	// It says its address once it listens.
	if _, err := fmt.Fscanln(out, &d.Host); err != nil {
		return fmt.Errorf("the registry does not start: %w", err)
	}
	return nil
}

// kill ends the registry as a power cut would.
func (d *distribution) kill() {
	if d.cmd != nil && d.cmd.Process != nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
}

// files counts the registry's files whose path contains part.
func (d *distribution) files(part string) (paths []string) {
	err := filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.Contains(path, part) {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return paths
}

// certificate makes one for 127.0.0.1 that is its own CA.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	err = errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// The whole life of an image on a registry with TLS and passwords.
func TestDistribution(t *testing.T) {
	users := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(users, []byte("u:$2y$05$3BhrMhh5LIEI09kbO56zBeSfYmcJTEByYwA2DslK3Nsx5CxD8jZBi\n"), 0o600); err != nil { // u, p
		t.Fatal(err)
	}
	cert, key := certificate(t)
	d := startDistribution(t, "-htpasswd", users, "-tls-cert", cert, "-tls-key", key)
	config := providertest.Values{"source": archiveOf(t, image.Spec{Zeros: 1 << 20, Gzip: true, Layout: image.BuildImage}), "repository": d.Host + "/ns/node", "tag": "1"}
	s := &setup{config: providertest.Values{"ca_file": cert, "auth_file": authFile(t, d.Host+"/ns", "u", "p")}}
	img := s.image(t)
	p := img.Plan(t.Context(), config)
	if p.Err() != "" || p.After["digest"] != unknownDigest {
		t.Fatalf("plan: %v %s", p.After, p.Err())
	}
	ok(t, p.Apply(t.Context(), nil))
	digest := img.State["digest"].(string)
	if n := len(d.files("/_manifests/tags/1/current/link")); n != 1 {
		t.Errorf("%d tags", n)
	}
	ok(t, img.Refresh(t.Context()))
	if p := img.Plan(t.Context(), config); p.Action != "no-op" {
		t.Errorf("second plan is %s %v", p.Action, p.After)
	}

	other := newImage(t)
	wantErr(t, other.Plan(t.Context(), config).Err(), d.Host, "authority that is not known", "ca_file")
	wantErr(t, (&setup{config: providertest.Values{"ca_file": cert}}).image(t).Plan(t.Context(), config).Err(), d.Host, "401", "REGISTRY_AUTH_FILE")
	wantErr(t, (&setup{config: providertest.Values{"ca_file": cert, "auth_file": authFile(t, d.Host, "u", "wrong-canary")}}).image(t).Plan(t.Context(), config).Err(), "401")

	// The registry loses the image: the link of the tag and of the manifest, as its garbage collection would.
	for _, link := range d.files("/_manifests/") {
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, img.Refresh(t.Context()))
	p = img.Plan(t.Context(), config)
	if img.State["present"] != false || p.Action != "update" || p.After["digest"] != digest {
		t.Fatalf("state %v, plan %s %v %s", img.State, p.Action, p.After, p.Err())
	}
	ok(t, p.Apply(t.Context(), nil))
	if len(d.files("/_manifests/tags/1/current/link")) != 1 || img.State["present"] != true {
		t.Errorf("not pushed again: %v", img.State)
	}
}

// A registry that is killed in the middle of an upload and comes back gets the whole image.
func TestDistributionIsKilledInTheMiddle(t *testing.T) {
	d := startDistribution(t)
	target, err := url.Parse("http://" + d.Host)
	if err != nil {
		t.Fatal(err)
	}
	// The proxy holds back the end of the layer until the registry has died and come back at its address.
	var once sync.Once
	proxy := newRegistry(t)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	killed := false
	proxy.setFault(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method == http.MethodPatch {
			once.Do(func() {
				killed = true
				start, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
				if err != nil {
					t.Error(err)
				}
				body := r.Body
				r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(start), readerFunc(func(b []byte) (int, error) {
					d.kill()
					return body.Read(b)
				})))
				defer func() {
					if err := d.start(d.Host); err != nil {
						t.Error(err)
					}
				}()
				defer func() { recover() }() // the abort, which the client must see once the registry is back
				forward.ServeHTTP(w, r)
			})
			if killed {
				killed = false
				panic(http.ErrAbortHandler)
			}
		}
		forward.ServeHTTP(w, r)
		return true
	})
	config := pushConfig(t, proxy)
	img := newImage(t)
	p := img.Plan(t.Context(), config)
	if p.Err() != "" {
		t.Fatal(p.Err())
	}
	ok(t, p.Apply(t.Context(), nil))
	if n := proxy.count("PATCH", ""); n != 3 { // the layer twice, the config once
		t.Errorf("%d uploads, want 3", n)
	}
	ok(t, img.Refresh(t.Context()))
	if img.State["present"] != true {
		t.Errorf("state %v", img.State)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
