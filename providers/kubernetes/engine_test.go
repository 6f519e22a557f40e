package kubernetes_test

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"fediversity.eu/yuba/providers/kubernetes"
)

// engine drives the provider over protocol 6 as OpenTofu's core does: one
// provider server per walk, values as msgpack, and core's checks that what was
// planned is what comes.
type engine struct {
	t      *testing.T
	env    map[string]string
	config map[string]any // of the provider
	opts   []kubernetes.Option
}

// walk is one server, configured.
type walk struct {
	*engine
	server  tfprotov6.ProviderServer
	schemas *tfprotov6.GetProviderSchemaResponse
}

// instance is a resource instance in state; the zero state is none.
type instance struct {
	kind    string
	state   *tftypes.Value
	private []byte
}

func (i *instance) exists() bool { return i.state != nil }

func (i *instance) attr(t *testing.T, name string) tftypes.Value {
	t.Helper()
	if i.state == nil {
		t.Fatalf("%s is not in state", i.kind)
	}
	var m map[string]tftypes.Value
	if err := i.state.As(&m); err != nil {
		t.Fatal(err)
	}
	return m[name]
}

func (i *instance) str(t *testing.T, name string) string {
	t.Helper()
	var s string
	if err := i.attr(t, name).As(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (e *engine) walk() *walk {
	e.t.Helper()
	w, diags := e.tryWalk()
	if s := errorsOf(diags); s != "" {
		e.t.Fatal(s)
	}
	return w
}

func (e *engine) tryWalk() (*walk, []*tfprotov6.Diagnostic) {
	e.t.Helper()
	opts := append([]kubernetes.Option{kubernetes.WithEnv(func(k string) string { return e.env[k] })}, e.opts...)
	w := &walk{engine: e, server: kubernetes.Server("test", opts...)()}
	ctx := context.Background()
	var err error
	if w.schemas, err = w.server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		e.t.Fatal(err)
	}
	cfg := w.value(w.schemas.Provider, e.config)
	resp, err := w.server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{Config: w.wire(cfg)})
	if err != nil {
		e.t.Fatal(err)
	}
	return w, resp.Diagnostics
}

// unknownValue in a configuration is known only after apply.
type unknownValue struct{}

// value makes the object of a schema; attributes that attrs leaves out are null.
func (w *walk) value(s *tfprotov6.Schema, attrs map[string]any) tftypes.Value {
	w.t.Helper()
	typ := s.ValueType().(tftypes.Object)
	vals := map[string]tftypes.Value{}
	for name, at := range typ.AttributeTypes {
		v, ok := attrs[name]
		if !ok {
			vals[name] = tftypes.NewValue(at, nil)
			continue
		}
		vals[name] = native(v, at)
	}
	for name := range attrs {
		if _, ok := vals[name]; !ok {
			w.t.Fatalf("no attribute %s", name)
		}
	}
	return tftypes.NewValue(typ, vals)
}

// native makes a value as HCL literals are: objects and tuples.
func native(v any, typ tftypes.Type) tftypes.Value {
	switch v := v.(type) {
	case tftypes.Value:
		return v
	case unknownValue:
		return tftypes.NewValue(typ, tftypes.UnknownValue)
	case nil:
		return tftypes.NewValue(tftypes.DynamicPseudoType, nil)
	case string:
		return tftypes.NewValue(tftypes.String, v)
	case bool:
		return tftypes.NewValue(tftypes.Bool, v)
	case int:
		return tftypes.NewValue(tftypes.Number, big.NewFloat(float64(v)))
	case map[string]any:
		vals, typs := map[string]tftypes.Value{}, map[string]tftypes.Type{}
		for k, e := range v {
			vals[k] = native(e, tftypes.DynamicPseudoType)
			typs[k] = vals[k].Type()
		}
		return tftypes.NewValue(tftypes.Object{AttributeTypes: typs}, vals)
	case []any:
		vals, typs := make([]tftypes.Value, len(v)), make([]tftypes.Type, len(v))
		for i, e := range v {
			vals[i] = native(e, tftypes.DynamicPseudoType)
			typs[i] = vals[i].Type()
		}
		return tftypes.NewValue(tftypes.Tuple{ElementTypes: typs}, vals)
	}
	panic(fmt.Sprintf("no value of %T", v))
}

func (w *walk) wire(v tftypes.Value) *tfprotov6.DynamicValue {
	w.t.Helper()
	d, err := tfprotov6.NewDynamicValue(v.Type(), v)
	if err != nil {
		w.t.Fatal(err)
	}
	return &d
}

func (w *walk) unwire(typ tftypes.Type, d *tfprotov6.DynamicValue) tftypes.Value {
	w.t.Helper()
	if d == nil {
		return tftypes.NewValue(typ, nil)
	}
	v, err := d.Unmarshal(typ)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func errorsOf(diags []*tfprotov6.Diagnostic) string {
	return severe(diags, tfprotov6.DiagnosticSeverityError)
}

func severe(diags []*tfprotov6.Diagnostic, s tfprotov6.DiagnosticSeverity) string {
	var out []string
	for _, d := range diags {
		if d.Severity == s {
			out = append(out, d.Summary+": "+d.Detail)
		}
	}
	return strings.Join(out, "\n")
}

func (w *walk) typeOf(kind string) (*tfprotov6.Schema, tftypes.Type) {
	s := w.schemas.ResourceSchemas[kind]
	if s == nil {
		w.t.Fatalf("no resource %s", kind)
	}
	return s, s.ValueType()
}

// refresh reads the instance; the state may change or go.
func (w *walk) refresh(i *instance) {
	w.t.Helper()
	if s := w.tryRefresh(i); s != "" {
		w.t.Fatal(s)
	}
}

func (w *walk) tryRefresh(i *instance) string {
	w.t.Helper()
	if i.state == nil {
		return ""
	}
	_, typ := w.typeOf(i.kind)
	resp, err := w.server.ReadResource(context.Background(), &tfprotov6.ReadResourceRequest{
		TypeName: i.kind, CurrentState: w.wire(*i.state), Private: i.private,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if s := errorsOf(resp.Diagnostics); s != "" {
		return s
	}
	if v := w.unwire(typ, resp.NewState); v.IsNull() {
		i.state = nil
	} else {
		i.state = &v
	}
	i.private = resp.Private
	return ""
}

// change is one planned change.
type change struct {
	inst     *instance
	config   tftypes.Value
	planned  tftypes.Value
	private  []byte
	replace  []string // paths that force replacement; then planned is a create
	warnings string
}

// noop says that the plan changes nothing.
func (c *change) noop() bool { return c.inst.state != nil && c.planned.Equal(*c.inst.state) }

func (c *change) attr(t *testing.T, name string) tftypes.Value {
	t.Helper()
	var m map[string]tftypes.Value
	if err := c.planned.As(&m); err != nil {
		t.Fatal(err)
	}
	return m[name]
}

func (w *walk) plan(i *instance, attrs map[string]any) *change {
	w.t.Helper()
	c, s := w.tryPlan(i, attrs)
	if s != "" {
		w.t.Fatal(s)
	}
	return c
}

// tryPlan validates and plans like core: with a replacement planned a second
// time from nothing.
func (w *walk) tryPlan(i *instance, attrs map[string]any) (*change, string) {
	w.t.Helper()
	s, typ := w.typeOf(i.kind)
	config := w.value(s, attrs)
	ctx := context.Background()
	val, err := w.server.ValidateResourceConfig(ctx, &tfprotov6.ValidateResourceConfigRequest{TypeName: i.kind, Config: w.wire(config),
		ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	if s := errorsOf(val.Diagnostics); s != "" {
		return nil, s
	}
	prior := tftypes.NewValue(typ, nil)
	if i.state != nil {
		prior = *i.state
	}
	c := &change{inst: i, config: config, private: i.private}
	for pass := 0; ; pass++ {
		resp, err := w.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
			TypeName: i.kind, PriorState: w.wire(prior), Config: w.wire(config),
			ProposedNewState: w.wire(proposed(w.t, s, prior, config)), PriorPrivate: c.private,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if s := errorsOf(resp.Diagnostics); s != "" {
			return nil, s
		}
		c.planned, c.private = w.unwire(typ, resp.PlannedState), resp.PlannedPrivate
		c.warnings = severe(resp.Diagnostics, tfprotov6.DiagnosticSeverityWarning)
		w.checkPlanned(s, config, c.planned)
		if len(resp.RequiresReplace) == 0 || pass > 0 {
			return c, ""
		}
		for _, p := range resp.RequiresReplace {
			// Core refuses a path that isn't in both values.
			pv, _, err := tftypes.WalkAttributePath(c.planned, p)
			if err != nil {
				w.t.Fatalf("%s: %v", p, err)
			}
			ov, _, err := tftypes.WalkAttributePath(prior, p)
			if err != nil {
				w.t.Fatalf("%s: %v", p, err)
			}
			if a, ok := pv.(tftypes.Value); !ok || !a.Equal(ov.(tftypes.Value)) {
				c.replace = append(c.replace, p.String())
			}
		}
		if c.replace == nil {
			return c, ""
		}
		prior = tftypes.NewValue(typ, nil)
	}
}

// checkPlanned is core's AssertPlanValid, in short: what the configuration
// sets is planned as it is set.
func (w *walk) checkPlanned(s *tfprotov6.Schema, config, planned tftypes.Value) {
	w.t.Helper()
	var cm, pm map[string]tftypes.Value
	must(w.t, config.As(&cm))
	must(w.t, planned.As(&pm))
	for _, a := range s.Block.Attributes {
		if a.WriteOnly && !pm[a.Name].IsNull() {
			w.t.Fatalf("planned %s would be kept", a.Name)
		}
		if !a.WriteOnly && !cm[a.Name].IsNull() && !cm[a.Name].Equal(pm[a.Name]) {
			w.t.Fatalf("planned %s is not the configured one", a.Name)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// proposed is core's ProposedNew for flat schemas.
func proposed(t *testing.T, s *tfprotov6.Schema, prior, config tftypes.Value) tftypes.Value {
	t.Helper()
	var cm, pm map[string]tftypes.Value
	must(t, config.As(&cm))
	if !prior.IsNull() {
		must(t, prior.As(&pm))
	}
	out := map[string]tftypes.Value{}
	for _, a := range s.Block.Attributes {
		if out[a.Name] = cm[a.Name]; a.WriteOnly {
			out[a.Name] = tftypes.NewValue(a.Type, nil)
		}
		if pv, ok := pm[a.Name]; ok && a.Computed && cm[a.Name].IsNull() {
			out[a.Name] = pv
		}
	}
	return tftypes.NewValue(config.Type(), out)
}

// apply carries a change out; attrs replace what was unknown in the
// configuration.
func (w *walk) apply(c *change, attrs ...map[string]any) {
	w.t.Helper()
	if s := w.tryApply(context.Background(), c, attrs...); s != "" {
		w.t.Fatal(s)
	}
}

func (w *walk) tryApply(ctx context.Context, c *change, attrs ...map[string]any) string {
	w.t.Helper()
	if c.noop() {
		return ""
	}
	s, typ := w.typeOf(c.inst.kind)
	for _, a := range attrs {
		// Core plans once more with what is known by now.
		c.config = w.value(s, a)
		prior := tftypes.NewValue(typ, nil)
		if c.inst.state != nil && c.replace == nil {
			prior = *c.inst.state
		}
		resp, err := w.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
			TypeName: c.inst.kind, PriorState: w.wire(prior), Config: w.wire(c.config),
			ProposedNewState: w.wire(proposed(w.t, s, prior, c.config)), PriorPrivate: c.private,
		})
		must(w.t, err)
		if s := errorsOf(resp.Diagnostics); s != "" {
			return s
		}
		c.planned, c.private = w.unwire(typ, resp.PlannedState), resp.PlannedPrivate
	}
	if c.replace != nil {
		if s := w.tryDestroy(ctx, c.inst); s != "" {
			return s
		}
	}
	prior := tftypes.NewValue(typ, nil)
	if c.inst.state != nil {
		prior = *c.inst.state
	}
	resp, err := w.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: c.inst.kind, PriorState: w.wire(prior), PlannedState: w.wire(c.planned), Config: w.wire(c.config), PlannedPrivate: c.private,
	})
	must(w.t, err)
	after := w.unwire(typ, resp.NewState)
	problem := errorsOf(resp.Diagnostics)
	if !after.IsNull() {
		if !after.IsFullyKnown() {
			w.t.Fatal("state is not wholly known")
		}
		if problem == "" {
			var pm, am map[string]tftypes.Value
			must(w.t, c.planned.As(&pm))
			must(w.t, after.As(&am))
			for name, pv := range pm {
				if pv.IsFullyKnown() && !pv.Equal(am[name]) {
					w.t.Fatalf("provider produced inconsistent result: %s was planned as %s and is %s", name, pv, am[name])
				}
			}
		}
		c.inst.state, c.inst.private = &after, resp.Private
	} else if problem == "" {
		w.t.Fatal("no state after apply")
	}
	return problem
}

// put refreshes, plans and applies in two walks, as an apply of core does.
func (e *engine) put(i *instance, attrs map[string]any) {
	e.t.Helper()
	if s := e.tryPut(i, attrs); s != "" {
		e.t.Fatal(s)
	}
}

func (e *engine) tryPut(i *instance, attrs map[string]any) string {
	e.t.Helper()
	w := e.walk()
	w.refresh(i)
	c, s := w.tryPlan(i, attrs)
	if s != "" {
		return s
	}
	return e.walk().tryApply(context.Background(), c)
}

func (w *walk) tryDestroy(ctx context.Context, i *instance) string {
	w.t.Helper()
	if i.state == nil {
		return ""
	}
	_, typ := w.typeOf(i.kind)
	null := tftypes.NewValue(typ, nil)
	plan, err := w.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: i.kind, PriorState: w.wire(*i.state), Config: w.wire(null), ProposedNewState: w.wire(null), PriorPrivate: i.private,
	})
	must(w.t, err)
	if s := errorsOf(plan.Diagnostics); s != "" {
		return s
	}
	resp, err := w.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: i.kind, PriorState: w.wire(*i.state), PlannedState: w.wire(null), Config: w.wire(null), PlannedPrivate: plan.PlannedPrivate,
	})
	must(w.t, err)
	if s := errorsOf(resp.Diagnostics); s != "" {
		return s
	}
	i.state, i.private = nil, nil
	return ""
}

func (w *walk) importID(kind, id string) (*instance, string) {
	w.t.Helper()
	_, typ := w.typeOf(kind)
	resp, err := w.server.ImportResourceState(context.Background(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	must(w.t, err)
	if s := errorsOf(resp.Diagnostics); s != "" {
		return nil, s
	}
	v := w.unwire(typ, resp.ImportedResources[0].State)
	i := &instance{kind: kind, state: &v, private: resp.ImportedResources[0].Private}
	return i, w.tryRefresh(i)
}

func (w *walk) data(kind string, attrs map[string]any) (tftypes.Value, string) {
	w.t.Helper()
	s := w.schemas.DataSourceSchemas[kind]
	resp, err := w.server.ReadDataSource(context.Background(), &tfprotov6.ReadDataSourceRequest{TypeName: kind, Config: w.wire(w.value(s, attrs))})
	must(w.t, err)
	if s := errorsOf(resp.Diagnostics); s != "" {
		return tftypes.Value{}, s
	}
	return w.unwire(s.ValueType(), resp.State), ""
}

func asMap(v tftypes.Value) (map[string]tftypes.Value, error) {
	var m map[string]tftypes.Value
	err := v.As(&m)
	return m, err
}

func valueOf(typ tftypes.Type, m map[string]tftypes.Value) tftypes.Value {
	return tftypes.NewValue(typ, m)
}

// errReset is what a connection gives that the other side has cut.
const errReset = syscall.ECONNRESET
