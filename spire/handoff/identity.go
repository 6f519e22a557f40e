package handoff

import (
	"fmt"
	"strings"
)

// Identity is a node, of which SPIRE makes an identity. Both are DNS labels,
// so that neither has a "." or "/".
type Identity struct{ Namespace, Node string }

// String is how people are shown it: it is unambiguous, unlike Cluster.
func (i Identity) String() string { return i.Namespace + "/" + i.Node }

// Cluster is the name of the node's cluster in the configuration of k8s_psat.
// Each node has one of its own: the agent's id is made of the cluster and the
// Kubernetes node alone, so that two pods of one cluster on one Kubernetes node
// would get one identity (spiffe/spire#4459).
func (i Identity) Cluster() string { return i.Namespace + "-" + i.Node }

// ServiceAccount is the node's, in its namespace.
func (i Identity) ServiceAccount() string { return "node-" + i.Node }

// AllowListed is the service account as k8s_psat's allow list has it.
func (i Identity) AllowListed() string { return i.Namespace + ":" + i.ServiceAccount() }

// AliasID is the SPIFFE ID that stands for the node's agent.
func (i Identity) AliasID(trustDomain string) string {
	return "spiffe://" + trustDomain + "/k8s/" + i.Namespace + "/" + i.Namespace + "/" + i.ServiceAccount()
}

// HostID is the SPIFFE ID of root on the node.
func (i Identity) HostID(trustDomain string) string {
	return "spiffe://" + trustDomain + "/host/" + i.Cluster()
}

// AliasEntry and HostEntry are the ids of the registration entries: fixed, so
// that one that is there is recognised, and with a prefix, so that what is
// somebody else's is.
func (i Identity) AliasEntry() string { return EntryPrefix + i.Namespace + "." + i.Node + ".alias" }

// HostEntry is described at AliasEntry.
func (i Identity) HostEntry() string { return EntryPrefix + i.Namespace + "." + i.Node + ".host" }

// DropFile is the name of the node's drop-file in the drop directory.
func (i Identity) DropFile() string { return i.Namespace + "." + i.Node + ".json" }

// EntryPrefix is what the ids of all registration entries of the nodes begin with.
const EntryPrefix = "k8s."

// KubeconfigFile is the name of a namespace's kubeconfig in the drop directory.
func KubeconfigFile(namespace string) string { return namespace + ".kubeconfig" }

// ServerID is the SPIFFE ID of the SPIRE server, the parent of all aliases.
func ServerID(trustDomain string) string { return "spiffe://" + trustDomain + "/spire/server" }

// ParseDropFile is the node whose drop-file has that name.
func ParseDropFile(name string) (Identity, bool) {
	rest, ok := strings.CutSuffix(name, ".json")
	namespace, node, both := strings.Cut(rest, ".")
	ok = ok && both && dnsLabel(namespace) && dnsLabel(node)
	if !ok {
		return Identity{}, false
	}
	return Identity{namespace, node}, true
}

// ParseKubeconfigFile is the namespace whose kubeconfig has that name.
func ParseKubeconfigFile(name string) (namespace string, _ bool) {
	namespace, ok := strings.CutSuffix(name, ".kubeconfig")
	if !ok || !dnsLabel(namespace) {
		return "", false
	}
	return namespace, true
}

// ParseEntry is the node whose entry, alias or host, has that id.
func ParseEntry(id string) (Identity, bool) {
	words := strings.Split(id, ".")
	if len(words) != 4 || words[0]+"." != EntryPrefix || (words[3] != "alias" && words[3] != "host") ||
		!dnsLabel(words[1]) || !dnsLabel(words[2]) {
		return Identity{}, false
	}
	return Identity{words[1], words[2]}, true
}

// Collide says which two of the nodes would have one identity, nil if none do:
// node b-c of namespace a and node c of namespace a-b. Their aliases differ, but
// not their clusters and hosts.
func Collide(all []Identity) error {
	by := map[string]Identity{}
	for _, id := range all {
		if other, ok := by[id.Cluster()]; ok && other != id {
			return CollisionError{other, id}
		}
		by[id.Cluster()] = id
	}
	return nil
}

// CollisionError is two nodes that would have one identity.
type CollisionError struct{ A, B Identity }

func (e CollisionError) Error() string {
	return fmt.Sprintf("node %s of namespace %s and node %s of namespace %s would both have the identity %s: rename one of them",
		e.A.Node, e.A.Namespace, e.B.Node, e.B.Namespace, e.A.Cluster())
}
