package k8s

import (
	"maps"
	"testing"
)

func TestAddressesOfWhatADeployWaitsFor(t *testing.T) {
	g, err := Parse("group.json", []byte(`{"version":1,"group":"g","storage":{"size":"1Gi"},"nodes":[
		{"name":"web","image":{"archive":"web.tar"},"tag":"v1"},
		{"name":"off","image":{"archive":"off.tar"},"tag":"v1","enabled":false}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Addresses(Env{Registry: "reg.example:5000/x", Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ns/web":                       "kubernetes_rollout.node_web",
		"reg.example:5000/x/ns/web:v1": `oci_image.node["web"]`,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
