package k8s

import "strings"

// Part is what an object of a graph is to its node.
type Part int

// The parts of a node, in the order in which they are made; PartShared is what
// belongs to no node alone.
const (
	PartShared Part = iota
	PartImage
	PartMachineID
	PartClaim
	PartAccount
	PartDeployment
	PartRollout
)

// PartOf tells of which node the object at an address of a graph is which part.
// It needs no group: a state also has nodes that are in no group any more.
func PartOf(address string) (node string, part Part) {
	for _, p := range []struct {
		part            Part
		opening, ending string
	}{
		{PartImage, `oci_image.node["`, `"]`},
		{PartMachineID, "random_uuid.node_", ""},
		{PartClaim, "kubernetes_object.claim_", ""},
		{PartAccount, "kubernetes_object.account_", ""},
		{PartDeployment, "kubernetes_object.deployment_", ""},
		{PartRollout, "kubernetes_rollout.node_", ""},
	} {
		node, opens := strings.CutPrefix(address, p.opening)
		node, ends := strings.CutSuffix(node, p.ending)
		if opens && ends && isLabel(node) == nil {
			return node, p.part
		}
	}
	return "", PartShared
}
