package handoff

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kubeconfig is what spire-server needs of a kubeconfig, and all that one may
// have: no program to run, no file to read, no way around TLS. The SPIRE server
// opens what it is given with its own rights, and a kubeconfig can name
// programs (client-go's exec credentials).
type Kubeconfig struct {
	Server        string // https://HOST[:PORT][/PATH]
	CA            string // certificates in PEM; empty: the authorities that the spire node trusts
	TLSServerName string // the name in the API server's certificate; empty: the host of Server
	Token         string // of the service account spire-server; a secret
}

// The form of the file (k8s.io/client-go/tools/clientcmd/api/v1), as JSON,
// which is YAML as well. Names are constants.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type cluster struct {
	Server        string `json:"server"`
	CA            []byte `json:"certificate-authority-data,omitempty"`
	TLSServerName string `json:"tls-server-name,omitempty"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	Token string `json:"token"`
}

type namedContext struct {
	Name    string     `json:"name"`
	Context contextRef `json:"context"`
}

type contextRef struct {
	Cluster string `json:"cluster"`
	User    string `json:"user"`
}

const contextName = "spire-server"

// Marshal is the kubeconfig as spire-server reads it, when it is one that
// ParseKubeconfig takes.
func (k Kubeconfig) Marshal() ([]byte, error) {
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	data, err := json.Marshal(kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: contextName,
		Clusters: []namedCluster{{contextName, cluster{k.Server, []byte(k.CA), k.TLSServerName}}},
		Users:    []namedUser{{contextName, user{k.Token}}},
		Contexts: []namedContext{{contextName, contextRef{contextName, contextName}}},
	})
	return append(data, '\n'), err
}

// ParseKubeconfig reads a kubeconfig of the form that Marshal makes and no
// other. Its errors show nothing of what is in it.
func ParseKubeconfig(data []byte) (Kubeconfig, error) {
	k, err := parseKubeconfig(data)
	if err != nil {
		return Kubeconfig{}, fmt.Errorf("kubeconfig: %w", err)
	}
	return k, nil
}

func parseKubeconfig(data []byte) (Kubeconfig, error) {
	if len(data) > MaxSize {
		return Kubeconfig{}, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	var f kubeconfig
	if err := strictly(data, &f); err != nil {
		return Kubeconfig{}, err
	}
	form := errors.New("it must have one cluster, one user and one context, all of the name " + contextName)
	if f.APIVersion != "v1" || f.Kind != "Config" || f.CurrentContext != contextName ||
		len(f.Clusters) != 1 || len(f.Users) != 1 || len(f.Contexts) != 1 {
		return Kubeconfig{}, form
	}
	if f.Clusters[0].Name != contextName || f.Users[0].Name != contextName ||
		f.Contexts[0] != (namedContext{contextName, contextRef{contextName, contextName}}) {
		return Kubeconfig{}, form
	}
	c := f.Clusters[0].Cluster
	k := Kubeconfig{Server: c.Server, CA: string(c.CA), TLSServerName: c.TLSServerName, Token: f.Users[0].User.Token}
	return k, k.check()
}

func (k Kubeconfig) check() error {
	if err := isServerURL(k.Server); err != nil {
		return err
	}
	if k.CA != "" {
		if err := areAuthorities(k.CA); err != nil {
			return fmt.Errorf("certificate authority: %w", err)
		}
	}
	if k.TLSServerName != "" && !named(k.TLSServerName, 253, letter, ".:-") {
		return errors.New("the name in the API server's certificate is not a host name")
	}
	if !within(k.Token, MaxSize, letter+"._~+/=-") {
		return errors.New("the token is missing or is not one (RFC 6750)")
	}
	return nil
}
