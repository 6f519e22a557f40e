package kubernetes

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/internal/quiet"
	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/wire"
)

// quietServer answers for resources that nothing happens to, which in most
// plans are all, before the framework takes their values apart: for a
// Deployment that costs it 3 ms of CPU, and here a tenth of that. Everything
// that isn't quiet goes on to the framework, errors of all kinds included.
type quietServer struct {
	tfprotov6.ProviderServer
	provider *kubernetesProvider
	wire     *wire.Reader // one for all servers
}

// PlanResourceChange answers plans of what isn't to change.
func (s *quietServer) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if unchanged(req.TypeName, req.PriorState, req.ProposedNewState) && wirePrivate(req.PriorPrivate).quiet(ctx) {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: req.PriorState, PlannedPrivate: req.PriorPrivate}, nil
	}
	return s.ProviderServer.PlanResourceChange(ctx, req)
}

// unchanged compares what core sends. It encodes equal values equally; and no
// attribute of this provider has a default that would make a difference of them.
// What is write-only is proposed and never prior, and is no change.
func unchanged(typeName string, prior, proposed *tfprotov6.DynamicValue) bool {
	return quiet.Unchanged(prior, proposed) ||
		typeName == "kubernetes_object" && quiet.Exists(prior) && proposed != nil && wire.EqualBut(prior.MsgPack, proposed.MsgPack, "unless")
}

// UpgradeResourceState answers with a state of the current schema as it is.
func (s *quietServer) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	if names := stateAttributes[req.TypeName]; req.Version == 0 && names != nil {
		if resp := quiet.Upgraded(req.RawState, names); resp != nil {
			return resp, nil
		}
	}
	return s.ProviderServer.UpgradeResourceState(ctx, req)
}

// ValidateResourceConfig answers for what is right. What is wrong goes to the
// framework, which finds the words.
func (s *quietServer) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if s.valid(req) {
		return &tfprotov6.ValidateResourceConfigResponse{}, nil
	}
	return s.ProviderServer.ValidateResourceConfig(ctx, req)
}

func (s *quietServer) valid(req *tfprotov6.ValidateResourceConfigRequest) bool {
	a, _, ok := s.attributes(req.TypeName, req.Config)
	if !ok {
		return false
	}
	if a["unless"] != nil && (req.ClientCapabilities == nil || !req.ClientCapabilities.WriteOnlyAttributesAllowed) {
		return false
	}
	for _, name := range []string{"timeout", "persistence"} {
		if t, ok := a[name].(string); ok && t != "" {
			if _, err := parseTimeout(t); err != nil {
				return false
			}
		}
	}
	if req.TypeName != "kubernetes_object" {
		for _, part := range []string{"namespace", "name"} {
			if name, ok := a[part].(string); a[part] == nil || ok && checkName(part, name) != nil {
				return false
			}
		}
		return true
	}
	switch m := a["manifest"].(type) {
	case unknown:
		return true
	case map[string]any:
		_, _, err := identify(m)
		return err == nil
	}
	return false
}

// ReadResource answers reads of objects that are as they were, when the list
// that has them is there already. The first of each list, and what has
// changed, goes to the framework.
func (s *quietServer) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	if s.readsSame(ctx, req) {
		return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private}, nil
	}
	return s.ProviderServer.ReadResource(ctx, req)
}

func (s *quietServer) readsSame(ctx context.Context, req *tfprotov6.ReadResourceRequest) bool {
	ses := s.provider.session
	if ses == nil || ses.client == nil {
		return false
	}
	a, whole, ok := s.attributes(req.TypeName, req.CurrentState)
	if !whole || !ok {
		return false
	}
	uid, _ := a["uid"].(string)
	if req.TypeName == "kubernetes_rollout" {
		namespace, _ := a["namespace"].(string)
		name, _ := a["name"].(string)
		live, ok := ses.client.Listed(client.Builtin("apps/v1", "Deployment"), namespace, name)
		return ok && metaString(live, "uid") == uid
	}
	manifest, ok := a["manifest"].(map[string]any)
	if !ok {
		return false
	}
	text, _ := a["id"].(string)
	id, err := parseID(text)
	if err != nil {
		return false
	}
	k, ok := ses.client.KnownKind(id.gvk())
	if !ok {
		return false
	}
	live, ok := ses.client.Listed(k, id.namespace, id.name)
	if !ok {
		return false
	}
	ending := false
	if k.Namespaced {
		if ending, ok = ses.client.KnownNamespaceEnding(id.namespace); !ok {
			return false
		}
	}
	seen := compare(ctx, wirePrivate(req.Private), manifest, uid, live, ending)
	return !seen.changed() && !seen.noteChanged
}

// Types of the resources' values, in the JSON form of the protocol, and their
// attributes. A test holds them against the schemas.
var (
	stateTypes = map[string]string{
		"kubernetes_object": `["object",{"manifest":"dynamic","force_conflicts":"bool","unless":"string","timeout":"string",` +
			`"id":"string","uid":"string","generation":"number"}]`,
		"kubernetes_rollout": `["object",{"namespace":"string","name":"string","uid":"string","generation":"number",` +
			`"timeout":"string","persistence":"string","id":"string"}]`,
	}
	stateAttributes = map[string][]string{
		"kubernetes_object":  {"manifest", "force_conflicts", "unless", "timeout", "id", "uid", "generation"},
		"kubernetes_rollout": {"namespace", "name", "uid", "generation", "timeout", "persistence", "id"},
	}
)

// attributes reads a value of a resource, without those that are null; whole
// is false when something in it isn't known.
func (s *quietServer) attributes(typeName string, v *tfprotov6.DynamicValue) (a map[string]any, whole, ok bool) {
	form, ok := stateTypes[typeName]
	if !ok || v == nil || len(v.MsgPack) == 0 {
		return nil, false, false
	}
	t, err := s.wire.ParseType([]byte(form))
	if err != nil {
		return nil, false, false
	}
	got, whole, ok := s.wire.Read(v.MsgPack, t)
	a, isObject := got.(map[string]any)
	return a, whole, ok && isObject
}

// wirePrivate is private state as it comes over the protocol: the framework
// writes a JSON object of the values that were set.
type wirePrivate []byte

// GetKey is the framework's, of one key.
func (w wirePrivate) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	var m map[string][]byte
	if len(w) == 0 || json.Unmarshal(w, &m) != nil {
		return nil, nil
	}
	return m[key], nil
}

// quiet is true when the last refresh found nothing to note.
func (w wirePrivate) quiet(ctx context.Context) bool {
	var n note
	private(ctx, w, keyNote, &n)
	return n.equal(note{})
}

var _ privateState = wirePrivate(nil)
