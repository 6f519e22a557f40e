package k8s

import "testing"

func TestPartsOfNodes(t *testing.T) {
	for address, want := range map[string]struct {
		node string
		part Part
	}{
		`oci_image.node["web"]`:            {"web", PartImage},
		"random_uuid.node_0-db":            {"0-db", PartMachineID},
		"kubernetes_object.claim_web":      {"web", PartClaim},
		"kubernetes_object.account_web":    {"web", PartAccount},
		"kubernetes_object.deployment_a-b": {"a-b", PartDeployment},
		"kubernetes_rollout.node_web":      {"web", PartRollout},
		"kubernetes_object.namespace":      {"", PartShared},
		`kubernetes_object.spire["agent"]`: {"", PartShared},
		"data.kubernetes_runtime_class.x":  {"", PartShared},
		`oci_image.node["web"`:             {"", PartShared},
		"kubernetes_rollout.node_":         {"", PartShared},
	} {
		if node, part := PartOf(address); node != want.node || part != want.part {
			t.Errorf("%s: got %q, %d", address, node, part)
		}
	}
}

// Each object of a graph but those that are shared is known for a part of its node.
func TestEveryObjectOfANodeIsAPart(t *testing.T) {
	n := target{Node: Node{Name: "web"}}
	for part, address := range map[Part][]string{
		PartMachineID: n.uuidAddr(), PartClaim: n.claimAddr(), PartAccount: n.accountAddr(), PartDeployment: n.deploymentAddr(), PartRollout: n.rolloutAddr(),
	} {
		if node, got := PartOf(address[0] + "." + address[1]); node != "web" || got != part {
			t.Errorf("%s: got %q, %d", address, node, got)
		}
	}
}
