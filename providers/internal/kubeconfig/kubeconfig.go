// Package kubeconfig reads the one kubeconfig that the providers use.
package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
)

// EnvPath is the environment variable that names the kubeconfig.
const EnvPath = "KUBE_CONFIG_PATH"

// maxSize bounds what is read of a kubeconfig, in bytes. A kubeconfig
// with a handful of embedded certificates has some ten kilobytes.
const maxSize = 1 << 20

// Clients made of a kubeconfig write to standard error, which isn't ours, when
// a token or certificate file can't be read again. klog's logger belongs to the
// process and has no lock: providers that work beside each other find it set.
func init() { klog.SetLogger(klog.Logger{}) }

// Load reads the kubeconfig at path and makes its current context a
// client configuration. Nothing but that file is looked at: neither the
// cluster that the process may run in, nor ~/.kube/config, nor localhost.
// Errors name the path and EnvPath; no credential is in them.
func Load(path string) (*rest.Config, error) {
	if path == "" {
		return nil, fmt.Errorf("no kubeconfig: set %s to the path of the cluster's kubeconfig", EnvPath)
	}
	where := fmt.Sprintf("kubeconfig %s (%s)", path, EnvPath)
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		// The parser quotes what it could not read, and that may be a token.
		return nil, fmt.Errorf("%s: is no valid kubeconfig in YAML or JSON", where)
	}
	if cfg.CurrentContext == "" {
		return nil, fmt.Errorf("%s: has no current-context: set one with `kubectl config use-context`", where)
	}
	kctx, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok || kctx == nil {
		return nil, fmt.Errorf("%s: has no context %q, which its current-context names", where, cfg.CurrentContext)
	}
	if user := cfg.AuthInfos[kctx.AuthInfo]; user != nil {
		switch {
		case user.Exec != nil:
			return nil, fmt.Errorf("%s: user %q gets its credentials from a program (exec), and yuba starts no program: use a client certificate, a token or a tokenFile", where, kctx.AuthInfo)
		case user.AuthProvider != nil:
			return nil, fmt.Errorf("%s: user %q uses the auth-provider %q, which Kubernetes has removed: use a client certificate, a token or a tokenFile", where, kctx.AuthInfo, user.AuthProvider.Name)
		}
	}
	if cluster := cfg.Clusters[kctx.Cluster]; cluster == nil || cluster.Server == "" {
		return nil, fmt.Errorf("%s: context %q has no cluster with a server address", where, cfg.CurrentContext)
	}
	if err := resolvePaths(cfg, path); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	rc, err := clientcmd.NewNonInteractiveClientConfig(*cfg, cfg.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return rc, nil
}

// resolvePaths makes the file names in cfg relative to the kubeconfig, as
// kubectl does.
func resolvePaths(cfg *clientcmdapi.Config, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for _, c := range cfg.Clusters {
		c.LocationOfOrigin = abs
	}
	for _, u := range cfg.AuthInfos {
		u.LocationOfOrigin = abs
	}
	for _, c := range cfg.Contexts {
		c.LocationOfOrigin = abs
	}
	return clientcmd.ResolveLocalPaths(cfg)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is in the caller's words already
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a directory, not a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("is larger than %d bytes", maxSize)
	}
	if strings.TrimSpace(string(data)) == "" {
		return nil, errors.New("is empty")
	}
	return data, nil
}
