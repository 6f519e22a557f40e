// Package cluster is what the spire node gets to know of a Kubernetes cluster: the address and the authorities of its API
// server, and the token of one service account.
package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/spire/handoff"
)

const (
	// ServiceAccount is who the SPIRE server is in the cluster, in each namespace that is handed over.
	ServiceAccount = "spire-server"
	// SecretName is the Secret that holds its token. It ends with the service account.
	SecretName = "spire-server-token"

	tokenType = "kubernetes.io/service-account-token"
	ownerName = "kubernetes.io/service-account.name"
	ownerUID  = "kubernetes.io/service-account.uid"

	requestTimeout = 30 * time.Second
	tokenTimeout   = time.Minute
	maxAnswer      = 4 << 20 // bytes
)

// Cluster is one, as the spire node is to reach it.
type Cluster struct {
	Server        string // https://...
	CA            string // certificates in PEM; "" when the kubeconfig relies on those of the system
	TLSServerName string // the name in the API server's certificate, "" for that in Server

	http *http.Client
	base *url.URL // as this machine reaches it
}

// New takes what the spire node needs out of a kubeconfig, and leaves out what it must not have: who the operator is, by
// which proxy he goes, and that somebody doesn't look at certificates. server is the API server's address as the spire
// node reaches it, that of the kubeconfig when empty. userAgent is what audit logs show.
func New(config *rest.Config, server, userAgent string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("server address in the kubeconfig: %w", err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	if server == "" {
		server = base.String()
	}
	if config.Insecure {
		return nil, errors.New("the kubeconfig has insecure-skip-tls-verify, and the spire node must know whom it gives its token: give it certificate-authority-data in place of that")
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	ca, err := certificates(config.CAData)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of the kubeconfig: %w", err)
	}
	c := &Cluster{Server: strings.TrimSuffix(server, "/"), CA: ca, TLSServerName: config.ServerName, base: base}
	// The rules of the other side, with a token that will do.
	if _, err := c.Kubeconfig("token"); err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	// An API server never redirects; whoever does must not get our credentials.
	own := *hc
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c, nil
}

// Kubeconfig is the file for the spire node. It is a secret.
func (c *Cluster) Kubeconfig(token string) (string, error) {
	data, err := handoff.Kubeconfig{Server: c.Server, CA: c.CA, TLSServerName: c.TLSServerName, Token: token}.Marshal()
	return string(data), err
}

// CASum tells authorities apart, whatever their order and the text around them: the SHA-256 sum of the certificates, in
// hexadecimal; "" when there are none.
func (c *Cluster) CASum() string {
	if c.CA == "" {
		return ""
	}
	var all [][]byte
	for block, rest := pem.Decode([]byte(c.CA)); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block.Bytes)
	}
	slices.SortFunc(all, bytes.Compare)
	sum := sha256.Sum256(bytes.Join(all, nil))
	return hex.EncodeToString(sum[:])
}

// certificates are those in a PEM file, without what else is in it.
func certificates(file []byte) (string, error) {
	var out bytes.Buffer
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", err
		}
		if err := pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return "", err
		}
	}
	if out.Len() == 0 && len(bytes.TrimSpace(file)) > 0 {
		return "", errors.New("it has no certificate")
	}
	return out.String(), nil
}

// Token gives the token of the service account, which does not expire. Its Secret is made when it isn't there, and taken
// as it is when it is the right one.
func (c *Cluster) Token(ctx context.Context, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	var last error
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		token, err := c.token(ctx, namespace)
		var wait *waitError
		if err == nil || !errors.As(err, &wait) && ctx.Err() == nil {
			return token, err
		}
		if wait != nil {
			last = wait
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) && last != nil {
				return "", fmt.Errorf("no token within %s: %w", tokenTimeout, last)
			}
			return "", context.Cause(ctx)
		}
	}
}

// waitError is a reason that can pass.
type waitError struct{ err error }

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// object is what is looked at of a ServiceAccount and a Secret.
type object struct {
	Metadata struct {
		UID               string            `json:"uid"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Type string `json:"type"`
	Data struct {
		Token []byte `json:"token"`
	} `json:"data"`
}

func (c *Cluster) token(ctx context.Context, namespace string) (string, error) {
	path := "/api/v1/namespaces/" + url.PathEscape(namespace)
	label := namespace + "/" + SecretName
	var account, secret object
	switch err := c.do(ctx, http.MethodGet, path+"/serviceaccounts/"+ServiceAccount, nil, &account); {
	case notFound(err):
		return "", fmt.Errorf("there is no service account %s in namespace %s: it must be there before the hand-off", ServiceAccount, namespace)
	case err != nil:
		return "", fmt.Errorf("service account %s/%s: %w", namespace, ServiceAccount, err)
	}
	err := c.do(ctx, http.MethodGet, path+"/secrets/"+SecretName, nil, &secret)
	if notFound(err) {
		err = c.do(ctx, http.MethodPost, path+"/secrets", map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": tokenType,
			"metadata": map[string]any{"name": SecretName, "annotations": map[string]string{ownerName: ServiceAccount},
				"labels": map[string]string{"app.kubernetes.io/managed-by": "yuba"}},
		}, &secret)
		if status := statusOf(err); status != nil && status.Reason == metav1.StatusReasonAlreadyExists {
			err = &waitError{err} // somebody else makes it, or it is being replaced
		}
	}
	if err != nil {
		return "", fmt.Errorf("the Secret %s: %w", label, err)
	}
	switch owner := secret.Metadata.Annotations[ownerName]; {
	case secret.Metadata.DeletionTimestamp != "":
		return "", &waitError{fmt.Errorf("the Secret %s is being deleted", label)}
	case secret.Type != tokenType:
		return "", fmt.Errorf("the Secret %s is of type %.80q, and it must be of type %s: it isn't yuba's, so delete or rename it", label, secret.Type, tokenType)
	case owner != ServiceAccount:
		return "", fmt.Errorf("the Secret %s is for the service account %.80q, and it must be for %s: it isn't yuba's, so delete or rename it", label, owner, ServiceAccount)
	case len(secret.Data.Token) == 0, secret.Metadata.Annotations[ownerUID] != account.Metadata.UID:
		// Empty, or of a service account of this name that is gone: the cluster fills one and deletes the other.
		return "", &waitError{fmt.Errorf("the Secret %s has no token of the service account: the token controller, a part of kube-controller-manager, gives it one", label)}
	}
	return string(secret.Data.Token), nil
}

// statusError is an answer of the API server that is no success.
type statusError struct {
	metav1.Status
	server string
}

func (e *statusError) Error() string {
	switch e.Code {
	case http.StatusUnauthorized:
		return fmt.Sprintf("the API server %s does not accept the credentials of the kubeconfig", e.server)
	case http.StatusForbidden:
		return fmt.Sprintf("the kubeconfig's user may not do that: %s", e.Message)
	}
	return e.Message
}

func statusOf(err error) *statusError {
	var s *statusError
	errors.As(err, &s)
	return s
}

// notFound is the API server's word that there is no such object; a proxy's 404 isn't.
func notFound(err error) bool {
	s := statusOf(err)
	return s != nil && s.Reason == metav1.StatusReasonNotFound
}

// do is one request and its answer. Its errors show nothing of either.
func (c *Cluster) do(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u := *c.base
	u.Path += path
	server := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: c.base.Path}).String()
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return &waitError{fmt.Errorf("no answer from the API server %s: %w", server, err)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return &waitError{fmt.Errorf("the answer of the API server %s was cut: %w", server, err)}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		s := &statusError{server: server}
		if json.Unmarshal(data, &s.Status) != nil || s.Kind != "Status" || s.Message == "" {
			s.Status = metav1.Status{Message: "the API server " + server + " answered " + resp.Status}
		}
		s.Code, s.Message = int32(resp.StatusCode), text.Plain(s.Message)
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			return &waitError{s}
		}
		return s
	}
	if len(data) > maxAnswer || json.Unmarshal(data, into) != nil {
		return fmt.Errorf("the answer of the API server %s is no object", server)
	}
	return nil
}
