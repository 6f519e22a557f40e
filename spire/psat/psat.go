// Package psat makes the plugin data file of SPIRE's node attestor k8s_psat:
// a cluster for each node, with the node's service account alone on its allow
// list. See handoff.Identity for the reason.
package psat

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/hashicorp/hcl"

	"fediversity.eu/yuba/spire/handoff"
)

// Cluster is one cluster of the file, as the plugin of SPIRE 1.13 decodes it
// (pkg/server/plugin/nodeattestor/k8spsat).
type Cluster struct {
	ServiceAccountAllowList []string  `hcl:"service_account_allow_list" json:"service_account_allow_list"`
	Audience                *[]string `hcl:"audience" json:"audience,omitempty"`
	KubeConfigFile          string    `hcl:"kube_config_file" json:"kube_config_file"`
	AllowedNodeLabelKeys    []string  `hcl:"allowed_node_label_keys" json:"allowed_node_label_keys,omitempty"`
	AllowedPodLabelKeys     []string  `hcl:"allowed_pod_label_keys" json:"allowed_pod_label_keys,omitempty"`
}

type config struct {
	Clusters map[string]*Cluster `hcl:"clusters" json:"clusters"`
}

// Render is the file for these nodes, whose kubeconfigs are in dir, an absolute
// path. It has been read back in the way of the plugin: with a file that
// the plugin cannot read, the server would not start.
func Render(dir string, nodes []handoff.Identity) ([]byte, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s is not an absolute path", dir)
	}
	if err := handoff.Collide(nodes); err != nil {
		return nil, err
	}
	want := config{Clusters: map[string]*Cluster{}}
	for _, id := range nodes {
		want.Clusters[id.Cluster()] = &Cluster{
			ServiceAccountAllowList: []string{id.AllowListed()},
			Audience:                &[]string{handoff.Audience},
			KubeConfigFile:          filepath.Join(dir, handoff.KubeconfigFile(id.Namespace)),
		}
	}
	data, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	got, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(got, want.Clusters) {
		return nil, errors.New("SPIRE would read the plugin data otherwise than it is meant: is the drop directory's path an odd one?")
	}
	return data, nil
}

// Parse reads a file as the plugin does, and refuses what it refuses.
func Parse(data []byte) (map[string]*Cluster, error) {
	c := config{Clusters: map[string]*Cluster{}}
	if err := hcl.Decode(&c, string(data)); err != nil {
		return nil, fmt.Errorf("the plugin data of k8s_psat: %w", err)
	}
	for name, cluster := range c.Clusters {
		if cluster == nil || len(cluster.ServiceAccountAllowList) == 0 {
			return nil, fmt.Errorf("the plugin data of k8s_psat: cluster %q allows no service account", name)
		}
	}
	return c.Clusters, nil
}
