package state

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"fediversity.eu/yuba/test/stateservers"
)

// authority is a certificate authority of a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	var der []byte
	der, a.key = a.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// make makes a certificate, signed by the authority or by itself.
func (a *authority) make(tmpl, parent *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl.SerialNumber, tmpl.NotBefore, tmpl.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer := key
	if parent == nil {
		parent = tmpl
	} else {
		signer = a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue makes a certificate for this machine, to serve and to ask with.
func (a *authority) issue() (certPEM, keyPEM string, pair tls.Certificate) {
	a.t.Helper()
	der, key := a.make(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	if pair, err = tls.X509KeyPair([]byte(certPEM), []byte(keyPEM)); err != nil {
		a.t.Fatal(err)
	}
	return certPEM, keyPEM, pair
}

// mutual is the TLS of a server that wants a certificate of its clients.
func (a *authority) mutual() *tls.Config {
	_, _, pair := a.issue()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestServerWithTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	h := start(t, stateservers.Flavours()[0], "the-password", ca.mutual())
	cert, key, _ := ca.issue()
	strangeCert, strangeKey, _ := stranger.issue()
	set := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			if h.env[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
				delete(h.env, pairs[i])
			}
		}
	}
	const authorities, certificate, private, skip = "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", "TF_HTTP_CLIENT_CERTIFICATE_PEM", "TF_HTTP_CLIENT_PRIVATE_KEY_PEM", "TF_HTTP_SKIP_CERT_VERIFICATION"
	for _, verb := range [][]string{{"plan"}, {"state", "lock"}, {"state", "pull"}} {
		set(authorities, "", certificate, cert, private, key)
		says(t, h.yuba(1, verb...), "failed to verify certificate")
		set(authorities, stranger.pem)
		says(t, h.yuba(1, verb...), "failed to verify certificate")
		set(authorities, "no certificate")
		says(t, h.yuba(1, verb...), authorities)
		set(authorities, ca.pem, certificate, "", private, "")
		says(t, h.yuba(1, verb...), "certificate required")
		set(certificate, strangeCert, private, strangeKey)
		says(t, h.yuba(1, verb...), "certificate")
		set(certificate, cert, private, "")
		says(t, h.yuba(1, verb...), private)
		set(private, strangeKey)
		says(t, h.yuba(1, verb...), certificate, private)
	}
	if seen := h.server.Seen(); len(seen) > 0 {
		t.Errorf("the server saw %v", seen)
	}
	set(private, key)
	h.yuba(0, "apply", "-auto-approve")
	says(t, h.yuba(0, "state", "lock"), "is not locked.")
	h.tofu(0, "init", "-input=false")
	h.tofu(0, "plan", "-detailed-exitcode")

	set(authorities, "", skip, "true")
	says(t, h.yuba(0, "apply", "-auto-approve", "-var=n=2"), "the state server's certificate is not checked")
	set(skip, "false")
	says(t, h.yuba(1, "plan"), "failed to verify certificate")
	set(skip, "perhaps")
	says(t, h.yuba(1, "plan"), skip, "true or false")
	set(skip, "")
	h.write("main.tf", skipping(configuration))
	h.yuba(0, "plan", "-detailed-exitcode", "-var=n=2")
	h.holds(2)
	h.free()
}

func skipping(configuration string) string {
	return replaced(configuration, "backend \"http\" {\n", "backend \"http\" {\n    skip_cert_verification = true\n")
}

func TestRetrySettings(t *testing.T) {
	h := newHouse(t, stateservers.Flavours()[0])
	busy := group(t, "503 with `Retry-After`")
	for retries, code := range map[string]int{"0": 1, "1": 0, "": 0} {
		if h.env["TF_HTTP_RETRY_MAX"] = retries; retries == "" {
			delete(h.env, "TF_HTTP_RETRY_MAX")
		}
		h.server.Once(stateservers.Lock, busy)
		h.yuba(code, "plan")
		locks := len(slices.DeleteFunc(h.server.Seen(), func(op stateservers.Op) bool { return op != stateservers.Lock }))
		if locks != 2-code {
			t.Errorf("with TF_HTTP_RETRY_MAX=%s it asked %d times for the lock", retries, locks)
		}
	}
	for name, value := range map[string]string{"TF_HTTP_RETRY_MAX": "-1", "TF_HTTP_RETRY_WAIT_MIN": "soon"} {
		before := h.env[name]
		h.env[name] = value
		h.yuba(1, "plan")
		h.yuba(1, "state", "lock")
		h.env[name] = before
	}
}

func TestHeadersOfTheBackend(t *testing.T) {
	f := stateservers.Flavours()[0]
	h := newHouse(t, f)
	h.server.Server = &guarded{h.server.Server}
	says(t, h.yuba(1, "plan"), "token please")
	h.write("main.tf", replaced(configuration, "backend \"http\" {\n", "backend \"http\" {\n    headers = { X-Token = \"let-me-in\" }\n"))
	h.yuba(0, "apply", "-auto-approve")
	h.yuba(0, "state", "lock")
	h.tofu(0, "init", "-input=false")
	h.tofu(0, "plan", "-detailed-exitcode")
}

// guarded is a server that wants to see a header.
type guarded struct{ stateservers.Server }

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Token") != "let-me-in" {
		http.Error(w, "token please", http.StatusForbidden)
		return
	}
	g.Server.ServeHTTP(w, r)
}
