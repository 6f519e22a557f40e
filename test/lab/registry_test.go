package lab_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"fediversity.eu/yuba/test/lab"
)

func TestRegistryWithTLSAndPassword(t *testing.T) {
	t.Parallel()
	r := lab.NewRegistry(t, lab.RegistryOptions{User: "push", Password: "secret", TLS: true})
	ca, err := os.ReadFile(r.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer client.CloseIdleConnections()

	get := func(user, password string) int {
		req, err := http.NewRequest(http.MethodGet, "https://"+r.Address+"/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		resp, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := get("", ""); got != http.StatusUnauthorized {
		t.Errorf("without a password: %d", got)
	}
	if got := get("push", "wrong"); got != http.StatusUnauthorized {
		t.Errorf("with a wrong password: %d", got)
	}
	if got := get("push", "secret"); got != http.StatusOK {
		t.Errorf("with the password: %d", got)
	}
}

func TestRegistryWithPasswordTakesImagesFromWhoHasIt(t *testing.T) {
	t.Parallel()
	r := lab.NewRegistry(t, lab.RegistryOptions{User: "push", Password: "secret"})
	img, err := tarball.ImageFromPath(lab.Archive(t, lab.Image{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(r.Address + "/web:1")
	if err != nil {
		t.Fatal(err)
	}
	var answer *transport.Error
	if err := remote.Write(ref, img); !errors.As(err, &answer) || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a password: %v", err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "push", Password: "secret"})); err != nil {
		t.Error(err)
	}
}
