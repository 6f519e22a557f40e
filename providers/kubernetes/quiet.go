package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/internal/quiet"
	"fediversity.eu/yuba/providers/kubernetes/internal/client"
	"fediversity.eu/yuba/providers/kubernetes/internal/wire"
)

// quietServer answers for resources that nothing happens to, which in most
// plans are all, and plans and makes those that are new, before the framework
// takes their values apart: for a Deployment each of these costs it 3 to 18 ms
// of CPU, and here a tenth of that at most. Everything that is uncommon goes on to
// the framework, as does what is wrong with a configuration.
type quietServer struct {
	tfprotov6.ProviderServer
	provider *kubernetesProvider
	wire     *wire.Reader // one for all servers
	asking   calls
}

// PlanResourceChange answers plans of what isn't to change, and of what is new.
func (s *quietServer) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if unchanged(req.TypeName, req.PriorState, req.ProposedNewState) && wirePrivate(req.PriorPrivate).quiet(ctx) {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: req.PriorState, PlannedPrivate: req.PriorPrivate}, nil
	}
	if resp := s.planNew(ctx, req); resp != nil {
		return resp, nil
	}
	return s.ProviderServer.PlanResourceChange(ctx, req)
}

// StopProvider ends what is asked here as well as what the framework does.
func (s *quietServer) StopProvider(ctx context.Context, req *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	s.asking.stop()
	return s.ProviderServer.StopProvider(ctx, req)
}

// planNew plans what isn't in state. For that the framework and ModifyPlan only
// fill in the attributes that are computed, and take away what is write-only.
// It is nil, and nobody has been asked, when the framework has to plan.
func (s *quietServer) planNew(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) *tfprotov6.PlanResourceChangeResponse {
	if !quiet.Absent(req.PriorState) || len(req.PriorPrivate) > 0 {
		return nil
	}
	a, whole, ok := s.attributes(req.TypeName, req.Config)
	if !ok {
		return nil
	}
	if req.TypeName == "kubernetes_rollout" {
		return planNewRollout(a, req)
	}
	r := &objectResource{s.provider.session}
	want := wanted{force: r.forced(a["force_conflicts"])}
	switch m := a["manifest"].(type) {
	case unknown:
	case map[string]any:
		var err error
		if want.id, want.known, err = identify(m); err != nil {
			return nil
		}
		// Other attributes needn't be known for the manifest to be.
		want.manifest, want.whole = m, whole || len(unknownFields(m, "")) == 0
	default:
		return nil
	}
	id := wire.NotYet
	if want.known {
		id = wire.Text(want.id.String())
	}
	resp := filled(req, a, map[string]string{"id": id, "uid": wire.NotYet, "generation": wire.NotYet}, "unless")
	if resp == nil {
		return nil
	}
	ctx, done := s.asking.begin(ctx)
	defer done()
	var diags diag.Diagnostics
	r.planNew(ctx, want, false, &diags)
	resp.Diagnostics = words(diags)
	return resp
}

// planNewRollout plans a rollout. There is nothing to ask.
func planNewRollout(a map[string]any, req *tfprotov6.PlanResourceChangeRequest) *tfprotov6.PlanResourceChangeResponse {
	for _, name := range []string{"namespace", "name", "uid"} {
		if a[name] == nil {
			return nil
		}
	}
	switch a["generation"].(type) {
	case unknown, int64:
		return filled(req, a, map[string]string{"id": wire.NotYet})
	}
	return nil // the framework knows the words for what is no integer
}

// filled plans what the configuration says, a, with other values for the
// attributes that are computed and null for those that are write-only; nil when
// the configuration has some that are computed, or core proposes anything else.
func filled(req *tfprotov6.PlanResourceChangeRequest, a map[string]any, computed map[string]string, writeOnly ...string) *tfprotov6.PlanResourceChangeResponse {
	values := maps.Clone(computed)
	for name := range computed {
		if a[name] != nil {
			return nil
		}
	}
	for _, name := range writeOnly {
		values[name] = wire.Null
	}
	planned, ok := wire.Fill(req.Config.MsgPack, values)
	if !ok || req.ProposedNewState == nil || req.ProposedNewState.JSON != nil {
		return nil
	}
	if !bytes.Equal(req.Config.MsgPack, req.ProposedNewState.MsgPack) {
		if proposed, ok := wire.Fill(req.ProposedNewState.MsgPack, values); !ok || !bytes.Equal(proposed, planned) {
			return nil
		}
	}
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: &tfprotov6.DynamicValue{MsgPack: planned}}
}

// ApplyResourceChange makes what is new.
func (s *quietServer) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if resp := s.create(ctx, req); resp != nil {
		return resp, nil
	}
	return s.ProviderServer.ApplyResourceChange(ctx, req)
}

// create makes an object that isn't in state, and answers with its plan, in which
// it has filled in what is known now. It is nil, and nobody has been asked, when
// the framework has to.
func (s *quietServer) create(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) *tfprotov6.ApplyResourceChangeResponse {
	ses := s.provider.session
	if req.TypeName != "kubernetes_object" || !quiet.Absent(req.PriorState) || len(req.PlannedPrivate) > 0 || ses == nil || ses.client == nil {
		return nil
	}
	plan, _, ok := s.attributes(req.TypeName, req.PlannedState)
	config, _, okToo := s.attributes(req.TypeName, req.Config)
	manifest, isObject := plan["manifest"].(map[string]any)
	if !ok || !okToo || !isObject || len(unknownFields(manifest, "")) > 0 || plan["uid"] != any(unknown{}) || plan["generation"] != any(unknown{}) {
		return nil
	}
	id, known, err := identify(manifest)
	if err != nil || !known {
		return nil
	}
	timeout := ses.timeout
	if t, ok := plan["timeout"].(string); ok && t != "" {
		if timeout, err = parseTimeout(t); err != nil {
			return nil
		}
	}
	values := map[string]string{"id": wire.Text(id.String()), "uid": wire.Null, "generation": wire.Null, "unless": wire.Null}
	if _, ok := wire.Fill(req.PlannedState.MsgPack, values); !ok {
		return nil // before anything is made
	}
	ctx, done := s.asking.begin(ctx)
	defer done()
	r := &objectResource{ses}
	x := &applied{id: id, manifest: manifest, force: r.forced(plan["force_conflicts"])}
	resp := &tfprotov6.ApplyResourceChangeResponse{NewState: &tfprotov6.DynamicValue{MsgPack: []byte(wire.Null)}}
	var diags diag.Diagnostics
	reason, _ := config["unless"].(string)
	if x.stop(reason, &diags); !diags.HasError() {
		p := newPrivate{}
		if live, ok := r.createNew(ctx, ses.client, x, timeout, p, &diags); ok {
			values["uid"] = wire.Text(metaString(live, "uid"))
			if g, ok := generationOf(live); ok {
				values["generation"] = wire.Int(g)
			}
			resp.NewState.MsgPack, _ = wire.Fill(req.PlannedState.MsgPack, values)
			resp.Private, _ = json.Marshal(p)
		}
	}
	resp.Diagnostics = words(diags)
	return resp
}

// newPrivate is private state that is written: the JSON object that wirePrivate reads.
type newPrivate map[string][]byte

// GetKey is the framework's, of one key.
func (p newPrivate) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return p[key], nil
}

// SetKey is the framework's, of one key.
func (p newPrivate) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	p[key] = value
	return nil
}

// words are diagnostics as the protocol carries them. None may be of an attribute.
func words(diags diag.Diagnostics) []*tfprotov6.Diagnostic {
	var out []*tfprotov6.Diagnostic
	for _, d := range diags {
		severity := tfprotov6.DiagnosticSeverityError
		if d.Severity() == diag.SeverityWarning {
			severity = tfprotov6.DiagnosticSeverityWarning
		}
		out = append(out, &tfprotov6.Diagnostic{Severity: severity, Summary: d.Summary(), Detail: d.Detail()})
	}
	return out
}

// calls are those that a server may be told to end. The zero value is ready.
type calls struct {
	mu      sync.Mutex
	running map[*context.CancelFunc]bool
}

// begin gives the context of a call that begins, and what to do when it is over.
func (c *calls) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[*context.CancelFunc]bool{}
	}
	c.running[&cancel] = true
	return ctx, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, &cancel)
	}
}

// stop ends the calls that run now, not those that begin later.
func (c *calls) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.running {
		(*cancel)()
	}
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
	if !ok || v == nil || v.JSON != nil || len(v.MsgPack) == 0 {
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

var (
	_ privateState = wirePrivate(nil)
	_ privateStore = newPrivate(nil)
)
