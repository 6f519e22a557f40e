package k8s

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Names of the environment variables that the method reads.
const (
	envKubeconfig = "KUBE_CONFIG_PATH"
	envRegistry   = "K8S_REGISTRY"
	envNamespace  = "K8S_NAMESPACE"
)

// defaultNamespace is the namespace of the target "all" when K8S_NAMESPACE is
// unset.
const defaultNamespace = "fediversity"

// maxRepository is the longest name of a repository, host included, that
// registries and container runtimes take.
const maxRepository = 255

// Env is what the environment says about this run; none of it is in the group
// file.
type Env struct {
	// Registry is the registry, and the path in it, below which the images
	// are, such as "registry.example:5000/yuba".
	Registry string
	// Namespace is the namespace of the target "all" and the start of the
	// namespaces of other targets.
	Namespace string
}

// Needs are what a run does not do without.
type Needs uint

const (
	// NeedsCluster is KUBE_CONFIG_PATH. Only the kubernetes provider reads it;
	// a run that can't reach the cluster ends before it does anything.
	NeedsCluster Needs = 1 << iota
	// NeedsRegistry is K8S_REGISTRY, which names the images.
	NeedsRegistry
)

// EnvFrom reads K8S_NAMESPACE and what is needed with getenv (os.Getenv, as a
// rule). A variable that is empty counts as unset. The Registry is empty unless
// it is needed.
func EnvFrom(getenv func(string) string, needs Needs) (Env, error) {
	var errs []error
	if needs&NeedsCluster != 0 && getenv(envKubeconfig) == "" {
		errs = append(errs, errors.New(envKubeconfig+" is not set: it names the kubeconfig file of the cluster"))
	}
	env := Env{Namespace: getenv(envNamespace)}
	if needs&NeedsRegistry != 0 {
		env.Registry = getenv(envRegistry)
		if env.Registry == "" {
			errs = append(errs, errors.New(envRegistry+` is not set: it is the address of the registry that the images go to, such as "registry.example/nodes"`))
		} else if err := isRegistry(env.Registry); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", envRegistry, err))
		}
	}
	if env.Namespace == "" {
		env.Namespace = defaultNamespace
	} else if err := isLabel(env.Namespace); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", envNamespace, err))
	}
	if err := errors.Join(errs...); err != nil {
		return Env{}, err
	}
	return env, nil
}

// Namespace returns the namespace of the group's target.
func (g *Group) Namespace(env Env) (string, error) {
	namespace := env.Namespace
	if g.Target != TargetAll {
		namespace += "-" + g.Target
	}
	if err := isLabel(namespace); err != nil {
		return "", fmt.Errorf("the namespace of target %s (%s and target of %s): %w", quote(g.Target), envNamespace, g.File, err)
	}
	// A destroy removes the namespace with all that is in it.
	if namespace == "default" || strings.HasPrefix(namespace, "kube-") {
		return "", fmt.Errorf("the namespace %s belongs to Kubernetes itself; choose a different %s", quote(namespace), envNamespace)
	}
	return namespace, nil
}

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)
	repoPart = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
)

// isRegistry is the rule of K8S_REGISTRY: host[:port][/path].
func isRegistry(s string) error {
	// Nothing of the value is shown here: there may be a password in it.
	if strings.Contains(s, "@") {
		return errors.New("must not hold a user or a password; credentials of the registry go into the file that REGISTRY_AUTH_FILE names")
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		return fmt.Errorf("%s starts with a scheme; leave out %s and write %s", quote(s), quote(scheme+"://"), quote(strings.TrimRight(rest, "/")))
	}
	if len(s) > maxRepository {
		return fmt.Errorf("%s is longer than %d bytes", quote(s), maxRepository)
	}
	address, repo, hasPath := strings.Cut(s, "/")
	host, port, hasPort := address, "", false
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		host, port, hasPort = address[:i], address[i+1:], true
	}
	if v6, ok := strings.CutPrefix(host, "["); ok {
		v6, closed := strings.CutSuffix(v6, "]")
		if ip, err := netip.ParseAddr(v6); !closed || err != nil || !ip.Is6() || ip.Zone() != "" {
			return fmt.Errorf("%s does not start with an IPv6 address in brackets", quote(s))
		}
	} else if len(host) > 253 || !hostName.MatchString(host) {
		return fmt.Errorf("%s does not start with the name or address of a host; the form is host[:port][/path]", quote(s))
	}
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0) {
		return fmt.Errorf("%s has a bad port", quote(s))
	}
	// Container runtimes read such a name as a path on docker.io.
	if !hasPort && host != "localhost" && !strings.ContainsAny(host, ".[") {
		return fmt.Errorf("%s is not the address of a registry to a container runtime: give the host its domain or a port, such as %s", quote(s), quote(host+":443"))
	}
	if !hasPath {
		return nil
	}
	for part := range strings.SplitSeq(repo, "/") {
		if !repoPart.MatchString(part) {
			return fmt.Errorf(`%s has a bad path after the host: its parts are made of a-z and 0-9, and ".", "_", "__" and "-" between them`, quote(s))
		}
	}
	return nil
}

// repository returns where the image of a node goes.
func repository(env Env, namespace, node string) (string, error) {
	name := env.Registry + "/" + namespace + "/" + node
	if len(name) > maxRepository {
		return "", fmt.Errorf("the image repository %s of node %s is longer than %d bytes; choose a shorter path in %s", quote(name), node, maxRepository, envRegistry)
	}
	return name, nil
}
