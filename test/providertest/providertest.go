// Package providertest drives one resource of a provider through plan, apply, refresh, import, upgrade and destroy, and
// reads its data sources and the like, in the order and with the values that OpenTofu's core gives, each walk on a
// server of its own. It's for the tests of providers, which must not need an engine.
package providertest

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Unknown is a value that is known after apply.
const Unknown = unknown("(known after apply)")

type unknown string

// Values are attributes by name: string, bool, int64, []string, map[string]string, nil or Unknown.
type Values map[string]any

// Core stands in for OpenTofu's core.
type Core struct {
	t      testing.TB
	server func() tfprotov6.ProviderServer
	config Values
	schema *tfprotov6.GetProviderSchemaResponse
}

// New makes a Core for the provider, configured with config in each walk.
func New(t testing.TB, server func() tfprotov6.ProviderServer, config Values) *Core {
	t.Helper()
	s, err := server().GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || len(s.Diagnostics) > 0 {
		t.Fatalf("schema: %v %s", err, Text(s.Diagnostics))
	}
	return &Core{t: t, server: server, config: config, schema: s}
}

// Schema is what the provider says of itself.
func (c *Core) Schema() *tfprotov6.GetProviderSchemaResponse { return c.schema }

// Resource is one resource instance and its state.
type Resource struct {
	core   *Core
	name   string
	schema *tfprotov6.Schema
	typ    tftypes.Object
	// State is nil while there is none.
	State   Values
	private []byte
	// tainted: it was to be made, which failed and left a state. The next plan replaces it.
	tainted bool
}

// Resource makes an instance without a state.
func (c *Core) Resource(name string) *Resource {
	c.t.Helper()
	s := c.schema.ResourceSchemas[name]
	if s == nil {
		c.t.Fatalf("the provider has no %s", name)
	}
	return &Resource{core: c, name: name, schema: s, typ: s.ValueType().(tftypes.Object)}
}

// Plan is a planned change.
type Plan struct {
	// Action is create, update, replace, delete or no-op.
	Action string
	// After are the planned values.
	After Values
	// Diagnostics of severity error make Err.
	Diagnostics []*tfprotov6.Diagnostic

	resource *Resource
	config   Values
	private  []byte
}

// Err is what the errors say, "" if there are none.
func (p *Plan) Err() string { return Errors(p.Diagnostics) }

// Plan validates and plans. A nil config plans a destroy.
func (r *Resource) Plan(ctx context.Context, config Values) *Plan {
	r.core.t.Helper()
	p := &Plan{resource: r, config: config}
	s := r.core.walk(ctx, &p.Diagnostics)
	if p.Err() != "" {
		return p
	}
	if config != nil {
		v, err := s.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{TypeName: r.name, Config: r.encode(config),
			ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true}})
		r.core.must(err)
		p.Diagnostics = append(p.Diagnostics, v.Diagnostics...)
		if p.Err() != "" {
			return p
		}
	}
	prior, private := r.State, r.private
	if r.tainted && config != nil {
		prior, private = nil, nil // core proposes as if there were none
	}
	resp := r.plan(ctx, s, prior, config, private)
	switch {
	case r.tainted && config != nil:
		p.Action = "replace"
	case config == nil:
		p.Action = "delete"
	case prior == nil:
		p.Action = "create"
	case len(resp.RequiresReplace) > 0:
		p.Action = "replace"
		if Errors(resp.Diagnostics) == "" {
			resp = r.plan(ctx, s, nil, config, resp.PlannedPrivate)
		}
	}
	p.Diagnostics = append(p.Diagnostics, resp.Diagnostics...)
	if p.Err() != "" {
		return p
	}
	p.After, p.private = r.decode(resp.PlannedState), resp.PlannedPrivate
	for name, value := range p.After {
		if r.attribute(name).WriteOnly && value != nil {
			r.core.t.Fatalf("write-only %s is in the plan", name)
		}
	}
	if p.Action == "" {
		p.Action = "update"
		if fmt.Sprint(p.After) == fmt.Sprint(prior) {
			p.Action = "no-op"
		}
	}
	return p
}

func (r *Resource) plan(ctx context.Context, s tfprotov6.ProviderServer, prior, config Values, private []byte) *tfprotov6.PlanResourceChangeResponse {
	var proposed Values
	if config != nil {
		proposed = Values{}
		for _, a := range r.schema.Block.Attributes {
			switch {
			case a.WriteOnly:
			case a.Computed && config[a.Name] == nil:
				proposed[a.Name] = prior[a.Name]
			default:
				proposed[a.Name] = config[a.Name]
			}
		}
	}
	resp, err := s.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{TypeName: r.name, PriorState: r.encode(prior),
		ProposedNewState: r.encode(proposed), Config: r.encode(config), PriorPrivate: private})
	r.core.must(err)
	return resp
}

// Apply applies the plan, with config in place of the planned one where a per-run value differs (nil: the same).
// It returns the diagnostics, and checks what core checks: that what was planned as known came out so.
func (p *Plan) Apply(ctx context.Context, config Values) []*tfprotov6.Diagnostic {
	r := p.resource
	r.core.t.Helper()
	if p.Err() != "" {
		r.core.t.Fatalf("apply of a failed plan: %s", p.Err())
	}
	if config == nil {
		config = p.config
	}
	var diags []*tfprotov6.Diagnostic
	s := r.core.walk(ctx, &diags)
	if Errors(diags) != "" {
		return diags
	}
	apply := func(prior, planned, config Values, private []byte) bool {
		resp, err := s.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{TypeName: r.name, PriorState: r.encode(prior),
			PlannedState: r.encode(planned), Config: r.encode(config), PlannedPrivate: private})
		r.core.must(err)
		diags = append(diags, resp.Diagnostics...)
		r.State, r.private, r.tainted = r.decode(resp.NewState), resp.Private, false
		if Errors(resp.Diagnostics) != "" {
			r.tainted = prior == nil && r.State != nil
			return false
		}
		for name, want := range planned {
			got := r.State[name]
			if got == Unknown || want != Unknown && fmt.Sprint(got) != fmt.Sprint(want) {
				r.core.t.Fatalf("%s: planned %v, got %v", name, want, got)
			}
			if r.attribute(name).WriteOnly && got != nil {
				r.core.t.Fatalf("write-only %s is in the state", name)
			}
		}
		return true
	}
	switch p.Action {
	case "no-op":
	case "replace":
		if apply(r.State, nil, nil, p.private) {
			apply(nil, p.After, config, p.private)
		}
	case "create":
		apply(nil, p.After, config, p.private)
	default:
		apply(r.State, p.After, config, p.private)
	}
	return diags
}

// Refresh reads the state again.
func (r *Resource) Refresh(ctx context.Context) []*tfprotov6.Diagnostic {
	r.core.t.Helper()
	var diags []*tfprotov6.Diagnostic
	s := r.core.walk(ctx, &diags)
	if Errors(diags) != "" {
		return diags
	}
	resp, err := s.ReadResource(ctx, &tfprotov6.ReadResourceRequest{TypeName: r.name, CurrentState: r.encode(r.State), Private: r.private})
	r.core.must(err)
	if Errors(resp.Diagnostics) == "" {
		r.State, r.private = r.decode(resp.NewState), resp.Private
	}
	return append(diags, resp.Diagnostics...)
}

// Import makes the state from an id.
func (r *Resource) Import(ctx context.Context, id string) []*tfprotov6.Diagnostic {
	r.core.t.Helper()
	var diags []*tfprotov6.Diagnostic
	s := r.core.walk(ctx, &diags)
	resp, err := s.ImportResourceState(ctx, &tfprotov6.ImportResourceStateRequest{TypeName: r.name, ID: id})
	r.core.must(err)
	if Errors(resp.Diagnostics) == "" && len(resp.ImportedResources) == 1 {
		r.State, r.private = r.decode(resp.ImportedResources[0].State), resp.ImportedResources[0].Private
	}
	return append(diags, resp.Diagnostics...)
}

// Upgrade makes the state from what another release has written with the given version of the schema.
func (r *Resource) Upgrade(ctx context.Context, version int64, json string) []*tfprotov6.Diagnostic {
	r.core.t.Helper()
	resp, err := r.core.server().UpgradeResourceState(ctx, &tfprotov6.UpgradeResourceStateRequest{TypeName: r.name, Version: version,
		RawState: &tfprotov6.RawState{JSON: []byte(json)}})
	r.core.must(err)
	if Errors(resp.Diagnostics) == "" {
		r.State, r.private = r.decode(resp.UpgradedState), nil
	}
	return resp.Diagnostics
}

// Read validates and reads a data source. The values are nil after an error.
func (c *Core) Read(ctx context.Context, name string, config Values) (Values, []*tfprotov6.Diagnostic) {
	c.t.Helper()
	schema := c.schema.DataSourceSchemas[name]
	if schema == nil {
		c.t.Fatalf("the provider has no data source %s", name)
	}
	typ := schema.ValueType().(tftypes.Object)
	var diags []*tfprotov6.Diagnostic
	s := c.walk(ctx, &diags)
	v, err := s.ValidateDataResourceConfig(ctx, &tfprotov6.ValidateDataResourceConfigRequest{TypeName: name, Config: c.encode(typ, config)})
	c.must(err)
	if diags = append(diags, v.Diagnostics...); Errors(diags) != "" {
		return nil, diags
	}
	resp, err := s.ReadDataSource(ctx, &tfprotov6.ReadDataSourceRequest{TypeName: name, Config: c.encode(typ, config)})
	c.must(err)
	if diags = append(diags, resp.Diagnostics...); Errors(diags) != "" {
		return nil, diags
	}
	return c.decode(typ, resp.State), diags
}

// Open validates and opens an ephemeral resource. The values are nil after an error.
func (c *Core) Open(ctx context.Context, name string, config Values) (Values, []*tfprotov6.Diagnostic) {
	c.t.Helper()
	schema := c.schema.EphemeralResourceSchemas[name]
	if schema == nil {
		c.t.Fatalf("the provider has no ephemeral resource %s", name)
	}
	typ := schema.ValueType().(tftypes.Object)
	var diags []*tfprotov6.Diagnostic
	s := c.walk(ctx, &diags)
	v, err := s.ValidateEphemeralResourceConfig(ctx, &tfprotov6.ValidateEphemeralResourceConfigRequest{TypeName: name, Config: c.encode(typ, config)})
	c.must(err)
	if diags = append(diags, v.Diagnostics...); Errors(diags) != "" {
		return nil, diags
	}
	resp, err := s.OpenEphemeralResource(ctx, &tfprotov6.OpenEphemeralResourceRequest{TypeName: name, Config: c.encode(typ, config)})
	c.must(err)
	if diags = append(diags, resp.Diagnostics...); Errors(diags) != "" {
		return nil, diags
	}
	return c.decode(typ, resp.Result), diags
}

// Call calls a function, on a server that isn't configured. The error is "" if there is none.
func (c *Core) Call(ctx context.Context, name string, args ...any) (any, string) {
	c.t.Helper()
	f := c.schema.Functions[name]
	if f == nil || len(f.Parameters) != len(args) {
		c.t.Fatalf("the provider has no function %s of %d arguments", name, len(args))
	}
	req := &tfprotov6.CallFunctionRequest{Name: name}
	for i, a := range args {
		d, err := tfprotov6.NewDynamicValue(f.Parameters[i].Type, toValue(f.Parameters[i].Type, a))
		c.must(err)
		req.Arguments = append(req.Arguments, &d)
	}
	resp, err := c.server().CallFunction(ctx, req)
	c.must(err)
	if resp.Error != nil {
		return nil, resp.Error.Text
	}
	v, err := resp.Result.Unmarshal(f.Return.Type)
	c.must(err)
	return fromValue(c.t, v), ""
}

// walk makes a configured server.
func (c *Core) walk(ctx context.Context, diags *[]*tfprotov6.Diagnostic) tfprotov6.ProviderServer {
	c.t.Helper()
	s := c.server()
	typ := c.schema.Provider.ValueType().(tftypes.Object)
	v, err := tfprotov6.NewDynamicValue(typ, object(c.t, typ, c.config, true))
	c.must(err)
	resp, err := s.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{Config: &v})
	c.must(err)
	*diags = append(*diags, resp.Diagnostics...)
	return s
}

func (c *Core) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (r *Resource) attribute(name string) *tfprotov6.SchemaAttribute {
	for _, a := range r.schema.Block.Attributes {
		if a.Name == name {
			return a
		}
	}
	r.core.t.Fatalf("%s has no %s", r.name, name)
	return nil
}

func (r *Resource) encode(v Values) *tfprotov6.DynamicValue {
	r.core.t.Helper()
	return r.core.encode(r.typ, v)
}

func (r *Resource) decode(d *tfprotov6.DynamicValue) Values {
	r.core.t.Helper()
	return r.core.decode(r.typ, d)
}

func (c *Core) encode(typ tftypes.Object, v Values) *tfprotov6.DynamicValue {
	c.t.Helper()
	d, err := tfprotov6.NewDynamicValue(typ, object(c.t, typ, v, v != nil))
	c.must(err)
	return &d
}

func (c *Core) decode(typ tftypes.Object, d *tfprotov6.DynamicValue) Values {
	c.t.Helper()
	if d == nil {
		return nil
	}
	v, err := d.Unmarshal(typ)
	c.must(err)
	if v.IsNull() {
		return nil
	}
	var attrs map[string]tftypes.Value
	c.must(v.As(&attrs))
	out := Values{}
	for name, a := range attrs {
		out[name] = fromValue(c.t, a)
	}
	return out
}

func object(t testing.TB, typ tftypes.Object, v Values, present bool) tftypes.Value {
	t.Helper()
	if !present {
		return tftypes.NewValue(typ, nil)
	}
	attrs := map[string]tftypes.Value{}
	for name, at := range typ.AttributeTypes {
		attrs[name] = toValue(at, v[name])
	}
	for name := range v {
		if _, ok := typ.AttributeTypes[name]; !ok {
			t.Fatalf("there is no attribute %s", name)
		}
	}
	return tftypes.NewValue(typ, attrs)
}

func toValue(typ tftypes.Type, v any) tftypes.Value {
	switch v := v.(type) {
	case unknown:
		return tftypes.NewValue(typ, tftypes.UnknownValue)
	case []string:
		var elems []tftypes.Value
		for _, e := range v {
			elems = append(elems, tftypes.NewValue(tftypes.String, e))
		}
		return tftypes.NewValue(typ, elems)
	case []any:
		elems := []tftypes.Value{}
		for _, e := range v {
			elems = append(elems, toValue(tftypes.String, e))
		}
		return tftypes.NewValue(typ, elems)
	case map[string]string:
		elems := map[string]tftypes.Value{}
		for k, e := range v {
			elems[k] = tftypes.NewValue(tftypes.String, e)
		}
		return tftypes.NewValue(typ, elems)
	case map[string]any:
		elems := map[string]tftypes.Value{}
		for k, e := range v {
			elems[k] = toValue(tftypes.String, e)
		}
		return tftypes.NewValue(typ, elems)
	}
	return tftypes.NewValue(typ, v)
}

func fromValue(t testing.TB, v tftypes.Value) any {
	t.Helper()
	if v.IsNull() {
		return nil
	}
	if !v.IsKnown() {
		return Unknown
	}
	var err error
	var out any
	switch typ := v.Type(); {
	case typ.Is(tftypes.String):
		var s string
		err = v.As(&s)
		out = s
	case typ.Is(tftypes.Bool):
		var b bool
		err = v.As(&b)
		out = b
	case typ.Is(tftypes.Number):
		n := new(big.Float)
		err = v.As(&n)
		i, _ := n.Int64()
		out = i
	case typ.Is(tftypes.Map{}):
		var m map[string]tftypes.Value
		err = v.As(&m)
		values := map[string]any{}
		for k, e := range m {
			values[k] = fromValue(t, e)
		}
		out = values
	case typ.Is(tftypes.List{}), typ.Is(tftypes.Set{}):
		var l []tftypes.Value
		err = v.As(&l)
		var values []any
		for _, e := range l {
			values = append(values, fromValue(t, e))
		}
		if typ.Is(tftypes.Set{}) { // which has no order
			slices.SortFunc(values, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		out = values
	default:
		t.Fatalf("no Go value for %s", typ)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Errors joins the errors among the diagnostics.
func Errors(diags []*tfprotov6.Diagnostic) string {
	var errs []*tfprotov6.Diagnostic
	for _, d := range diags {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			errs = append(errs, d)
		}
	}
	return Text(errs)
}

// Text is all that the diagnostics say.
func Text(diags []*tfprotov6.Diagnostic) string {
	var lines []string
	for _, d := range diags {
		lines = append(lines, d.Summary+": "+d.Detail)
	}
	return strings.Join(lines, "\n")
}
