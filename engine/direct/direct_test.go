package direct

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/opentofu/opentofu/internal/configs/configschema"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/yuba/internal/enginetest"
	"github.com/zclconf/go-cty/cty"
)

// server answers with what a test wants; what it has no answer to panics.
type server struct {
	tfprotov6.ProviderServer
	schema func() (*tfprotov6.GetProviderSchemaResponse, error)
	apply  func(*tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error)
	plan   func(*tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error)
	read   func(*tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error)
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.schema()
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return nil, errors.New("unimplemented")
}

func (s *server) ApplyResourceChange(_ context.Context, q *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return s.apply(q)
}

func (s *server) PlanResourceChange(_ context.Context, q *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	return s.plan(q)
}

func (s *server) ReadResource(_ context.Context, q *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return s.read(q)
}

func simple() (*tfprotov6.GetProviderSchemaResponse, error) {
	block := func(attrs ...*tfprotov6.SchemaAttribute) *tfprotov6.Schema {
		return &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: attrs}}
	}
	name := &tfprotov6.SchemaAttribute{Name: "name", Type: tftypes.String, Optional: true}
	key := &tfprotov6.SchemaAttribute{Name: "key", Type: tftypes.String, Optional: true, WriteOnly: true}
	return &tfprotov6.GetProviderSchemaResponse{
		Provider:                 block(),
		ResourceSchemas:          map[string]*tfprotov6.Schema{"x": block(name, key)},
		DataSourceSchemas:        map[string]*tfprotov6.Schema{"x": block(name)},
		EphemeralResourceSchemas: map[string]*tfprotov6.Schema{"x": block(name)},
		Functions: map[string]*tfprotov6.Function{"f": {
			Return:     &tfprotov6.FunctionReturn{Type: tftypes.String},
			Parameters: []*tfprotov6.FunctionParameter{{Name: "a", Type: tftypes.String}},
		}},
		ServerCapabilities: &tfprotov6.ServerCapabilities{PlanDestroy: true},
	}, nil
}

func instance(t *testing.T, s tfprotov6.ProviderServer) providers.Interface {
	t.Helper()
	p, err := new(Pool).Factory("test", func() tfprotov6.ProviderServer { return s })()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func thing(name, key cty.Value) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"name": name, "key": key})
}

var (
	noString = cty.NullVal(cty.String)
	noThing  = cty.NullVal(cty.Object(map[string]cty.Type{"name": cty.String, "key": cty.String}))
	nobody   = cty.EmptyObjectVal
)

// Whatever method panics, its call fails and the process lives.
func TestPanics(t *testing.T) {
	ctx := context.Background()
	p := instance(t, &server{schema: simple})
	one := cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("a")})
	a := thing(cty.StringVal("a"), noString)
	for method, call := range map[string]func() tfdiags.Diagnostics{
		"ValidateProviderConfig": func() tfdiags.Diagnostics {
			return p.ValidateProviderConfig(ctx, providers.ValidateProviderConfigRequest{Config: nobody}).Diagnostics
		},
		"ConfigureProvider": func() tfdiags.Diagnostics {
			return p.ConfigureProvider(ctx, providers.ConfigureProviderRequest{Config: nobody}).Diagnostics
		},
		"ValidateResourceConfig": func() tfdiags.Diagnostics {
			return p.ValidateResourceConfig(ctx, providers.ValidateResourceConfigRequest{TypeName: "x", Config: a}).Diagnostics
		},
		"UpgradeResourceState": func() tfdiags.Diagnostics {
			return p.UpgradeResourceState(ctx, providers.UpgradeResourceStateRequest{TypeName: "x"}).Diagnostics
		},
		"UpgradeResourceIdentity": func() tfdiags.Diagnostics {
			return p.UpgradeResourceIdentity(ctx, providers.UpgradeResourceIdentityRequest{TypeName: "x"}).Diagnostics
		},
		"ReadResource": func() tfdiags.Diagnostics {
			return p.ReadResource(ctx, providers.ReadResourceRequest{TypeName: "x", PriorState: a}).Diagnostics
		},
		"PlanResourceChange": func() tfdiags.Diagnostics {
			return p.PlanResourceChange(ctx, providers.PlanResourceChangeRequest{TypeName: "x", PriorState: noThing, ProposedNewState: a, Config: a}).Diagnostics
		},
		"ApplyResourceChange": func() tfdiags.Diagnostics {
			return p.ApplyResourceChange(ctx, providers.ApplyResourceChangeRequest{TypeName: "x", PriorState: noThing, PlannedState: a, Config: a}).Diagnostics
		},
		"ImportResourceState": func() tfdiags.Diagnostics {
			return p.ImportResourceState(ctx, providers.ImportResourceStateRequest{TypeName: "x", Target: providers.ImportTarget{ID: "a"}}).Diagnostics
		},
		"MoveResourceState": func() tfdiags.Diagnostics {
			return p.MoveResourceState(ctx, providers.MoveResourceStateRequest{TargetTypeName: "x"}).Diagnostics
		},
		"ValidateDataResourceConfig": func() tfdiags.Diagnostics {
			return p.ValidateDataResourceConfig(ctx, providers.ValidateDataResourceConfigRequest{TypeName: "x", Config: one}).Diagnostics
		},
		"ReadDataSource": func() tfdiags.Diagnostics {
			return p.ReadDataSource(ctx, providers.ReadDataSourceRequest{TypeName: "x", Config: one}).Diagnostics
		},
		"ValidateEphemeralConfig": func() tfdiags.Diagnostics {
			return p.ValidateEphemeralConfig(ctx, providers.ValidateEphemeralConfigRequest{TypeName: "x", Config: one}).Diagnostics
		},
		"OpenEphemeralResource": func() tfdiags.Diagnostics {
			return p.OpenEphemeralResource(ctx, providers.OpenEphemeralResourceRequest{TypeName: "x", Config: one}).Diagnostics
		},
		"RenewEphemeralResource": func() tfdiags.Diagnostics {
			return p.RenewEphemeralResource(ctx, providers.RenewEphemeralResourceRequest{TypeName: "x"}).Diagnostics
		},
		"CloseEphemeralResource": func() tfdiags.Diagnostics {
			return p.CloseEphemeralResource(ctx, providers.CloseEphemeralResourceRequest{TypeName: "x"}).Diagnostics
		},
		"GetFunctions": func() tfdiags.Diagnostics { return p.GetFunctions(ctx).Diagnostics },
		"CallFunction": func() tfdiags.Diagnostics {
			return tfdiags.Diagnostics{}.Append(p.CallFunction(ctx, providers.CallFunctionRequest{Name: "f", Arguments: []cty.Value{cty.StringVal("a")}}).Error)
		},
		"Stop": func() tfdiags.Diagnostics { return tfdiags.Diagnostics{}.Append(p.Stop(ctx)) },
		"GetProviderSchema": func() tfdiags.Diagnostics {
			broken := instance(t, &server{schema: func() (*tfprotov6.GetProviderSchemaResponse, error) { panic("no schema") }})
			if d := broken.ConfigureProvider(ctx, providers.ConfigureProviderRequest{Config: nobody}).Diagnostics; !d.HasErrors() {
				t.Error("a provider without a schema was configured")
			}
			return broken.GetProviderSchema(ctx).Diagnostics
		},
		"newServer": func() tfdiags.Diagnostics {
			_, err := new(Pool).Factory("test", func() tfprotov6.ProviderServer { panic("no server") })()
			return tfdiags.Diagnostics{}.Append(err)
		},
	} {
		t.Run(method, func(t *testing.T) {
			diags := call()
			if !diags.HasErrors() || !strings.Contains(diags.Err().Error(), "panicked") {
				t.Errorf("got %v", diags.Err())
			}
		})
	}
}

// An apply that gives no answer leaves the object as it was; core would take no
// answer to a deletion for one.
func TestApplyWithoutAnswer(t *testing.T) {
	prior := thing(cty.StringVal("a"), noString)
	for name, apply := range map[string]func(*tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error){
		"panic": nil,
		"error": func(*tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
			return nil, errors.New("gone")
		},
		"nil": func(*tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
			return nil, nil
		},
		"rubbish": func(*tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
			return &tfprotov6.ApplyResourceChangeResponse{NewState: &tfprotov6.DynamicValue{MsgPack: []byte{0xc1}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := instance(t, &server{schema: simple, apply: apply})
			out := p.ApplyResourceChange(context.Background(), providers.ApplyResourceChangeRequest{
				TypeName: "x", PriorState: prior, PlannedState: noThing, Config: noThing, PlannedPrivate: []byte("kept"),
			})
			if !out.Diagnostics.HasErrors() || !out.NewState.RawEquals(prior) || string(out.Private) != "kept" {
				t.Errorf("got %#v, %q, %v", out.NewState, out.Private, out.Diagnostics.Err())
			}
		})
	}
}

// What a provider hands back in a write-only attribute is refused, and the value
// isn't in the error.
func TestWriteOnlyHandedBack(t *testing.T) {
	leak := func(v *tfprotov6.DynamicValue) *tfprotov6.DynamicValue { return v }
	s := &server{
		schema: simple,
		plan: func(q *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
			return &tfprotov6.PlanResourceChangeResponse{PlannedState: leak(q.Config)}, nil
		},
		apply: func(q *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
			return &tfprotov6.ApplyResourceChangeResponse{NewState: leak(q.Config)}, nil
		},
		read: func(q *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
			return &tfprotov6.ReadResourceResponse{NewState: leak(q.CurrentState)}, nil
		},
	}
	p := instance(t, s)
	config := thing(cty.StringVal("a"), cty.StringVal("canary"))
	ctx := context.Background()
	for method, diags := range map[string]tfdiags.Diagnostics{
		"plan":  p.PlanResourceChange(ctx, providers.PlanResourceChangeRequest{TypeName: "x", PriorState: noThing, ProposedNewState: config, Config: config}).Diagnostics,
		"apply": p.ApplyResourceChange(ctx, providers.ApplyResourceChangeRequest{TypeName: "x", PriorState: noThing, PlannedState: config, Config: config}).Diagnostics,
		"read":  p.ReadResource(ctx, providers.ReadResourceRequest{TypeName: "x", PriorState: config}).Diagnostics,
	} {
		if !diags.HasErrors() || !strings.Contains(diags.Err().Error(), "write-only attribute .key") {
			t.Errorf("%s: got %v", method, diags.Err())
		} else if strings.Contains(diags.Err().Error(), "canary") {
			t.Errorf("%s: the error has the value", method)
		}
	}
}

// Unknown, null and refined values, paths and private state get across.
func TestPlanRoundTrip(t *testing.T) {
	s := &server{schema: simple, plan: func(q *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
		if string(q.PriorPrivate) != "mine" {
			t.Errorf("private state is %q", q.PriorPrivate)
		}
		q.PriorPrivate[0] = 'M' // it is the provider's own
		return &tfprotov6.PlanResourceChangeResponse{
			PlannedState:   q.ProposedNewState,
			PlannedPrivate: []byte("planned"),
			RequiresReplace: []*tftypes.AttributePath{
				tftypes.NewAttributePath().WithAttributeName("name").WithElementKeyInt(1).WithElementKeyString("k"),
				tftypes.NewAttributePath().WithAttributeName("name").WithElementKeyValue(tftypes.NewValue(tftypes.String, "v")).WithAttributeName("lost"),
			},
			Diagnostics: []*tfprotov6.Diagnostic{
				{Severity: tfprotov6.DiagnosticSeverityWarning, Summary: "s", Detail: "d", Attribute: tftypes.NewAttributePath().WithAttributeName("name")},
				{Severity: tfprotov6.DiagnosticSeverityWarning, Summary: "whole"},
				nil,
			},
		}, nil
	}}
	private := []byte("mine")
	proposed := thing(cty.UnknownVal(cty.String).RefineNotNull(), noString)
	out := instance(t, s).PlanResourceChange(context.Background(), providers.PlanResourceChangeRequest{
		TypeName: "x", PriorState: thing(cty.StringVal("a"), noString), ProposedNewState: proposed, Config: proposed, PriorPrivate: private,
	})
	if out.Diagnostics.HasErrors() || len(out.Diagnostics) != 2 || out.Diagnostics[0].Severity() != tfdiags.Warning {
		t.Errorf("diagnostics: %v", out.Diagnostics.ErrWithWarnings())
	}
	if !out.PlannedState.RawEquals(proposed) {
		t.Errorf("planned %#v", out.PlannedState)
	}
	if string(out.PlannedPrivate) != "planned" || string(private) != "mine" {
		t.Errorf("private: %q, %q", out.PlannedPrivate, private)
	}
	want := []cty.Path{cty.GetAttrPath("name").IndexInt(1).IndexString("k"), cty.GetAttrPath("name")}
	if !reflect.DeepEqual(out.RequiresReplace, want) {
		t.Errorf("requires replace %#v", out.RequiresReplace)
	}
}

// A deferral that nobody asked for isn't taken for an answer.
func TestDeferred(t *testing.T) {
	s := &server{schema: simple, read: func(q *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
		return &tfprotov6.ReadResourceResponse{NewState: q.CurrentState, Deferred: &tfprotov6.Deferred{Reason: tfprotov6.DeferredReasonAbsentPrereq}}, nil
	}}
	out := instance(t, s).ReadResource(context.Background(), providers.ReadResourceRequest{TypeName: "x", PriorState: thing(cty.StringVal("a"), noString)})
	if !out.Diagnostics.HasErrors() {
		t.Error("a deferred read was taken for a read")
	}
}

func TestUnknownTypes(t *testing.T) {
	p := instance(t, &server{schema: simple})
	ctx := context.Background()
	for name, diags := range map[string]tfdiags.Diagnostics{
		"resource":  p.ReadResource(ctx, providers.ReadResourceRequest{TypeName: "y", PriorState: noThing}).Diagnostics,
		"apply":     p.ApplyResourceChange(ctx, providers.ApplyResourceChangeRequest{TypeName: "y", PriorState: noThing, PlannedState: noThing, Config: noThing}).Diagnostics,
		"data":      p.ReadDataSource(ctx, providers.ReadDataSourceRequest{TypeName: "y", Config: nobody}).Diagnostics,
		"ephemeral": p.OpenEphemeralResource(ctx, providers.OpenEphemeralResourceRequest{TypeName: "y", Config: nobody}).Diagnostics,
		"value":     p.ReadResource(ctx, providers.ReadResourceRequest{TypeName: "x", PriorState: cty.StringVal("no object")}).Diagnostics,
		"function":  tfdiags.Diagnostics{}.Append(p.CallFunction(ctx, providers.CallFunctionRequest{Name: "g"}).Error),
		"arguments": tfdiags.Diagnostics{}.Append(p.CallFunction(ctx, providers.CallFunctionRequest{Name: "f"}).Error),
		"null":      tfdiags.Diagnostics{}.Append(p.CallFunction(ctx, providers.CallFunctionRequest{Name: "f", Arguments: []cty.Value{noString}}).Error),
	} {
		if !diags.HasErrors() {
			t.Errorf("%s: no error", name)
		}
	}
	if out := p.CallFunction(ctx, providers.CallFunctionRequest{Name: "f", Arguments: []cty.Value{cty.UnknownVal(cty.String)}}); out.Error != nil || out.Result.IsKnown() {
		t.Errorf("unknown argument: %#v, %v", out.Result, out.Error)
	}
}

// Every feature of a schema gets across.
func TestSchema(t *testing.T) {
	attr := &tfprotov6.SchemaAttribute{
		Name: "a", Type: tftypes.Map{ElementType: tftypes.List{ElementType: tftypes.Object{AttributeTypes: map[string]tftypes.Type{"n": tftypes.Number}}}},
		Description: "d", DescriptionKind: tfprotov6.StringKindMarkdown,
		Optional: true, Computed: true, Sensitive: true, Deprecated: true, DeprecationMessage: "m", WriteOnly: true,
	}
	nested := func(name string, mode tfprotov6.SchemaObjectNestingMode) *tfprotov6.SchemaAttribute {
		return &tfprotov6.SchemaAttribute{Name: name, Required: true, NestedType: &tfprotov6.SchemaObject{
			Nesting: mode, Attributes: []*tfprotov6.SchemaAttribute{{Name: "in", Type: tftypes.Bool, Required: true}},
		}}
	}
	block := func(name string, mode tfprotov6.SchemaNestedBlockNestingMode) *tfprotov6.SchemaNestedBlock {
		return &tfprotov6.SchemaNestedBlock{TypeName: name, Nesting: mode, MinItems: 1, MaxItems: 2, Block: &tfprotov6.SchemaBlock{
			Deprecated: true, Attributes: []*tfprotov6.SchemaAttribute{{Name: "in", Type: tftypes.DynamicPseudoType, Optional: true}},
		}}
	}
	var c converter
	got := c.schema(&tfprotov6.Schema{Version: 7, Block: &tfprotov6.SchemaBlock{
		Description: "b", DescriptionKind: tfprotov6.StringKindMarkdown,
		Attributes: []*tfprotov6.SchemaAttribute{
			attr, nested("s", tfprotov6.SchemaObjectNestingModeSingle), nested("l", tfprotov6.SchemaObjectNestingModeList),
			nested("m", tfprotov6.SchemaObjectNestingModeMap), nested("t", tfprotov6.SchemaObjectNestingModeSet),
		},
		BlockTypes: []*tfprotov6.SchemaNestedBlock{
			block("bs", tfprotov6.SchemaNestedBlockNestingModeSingle), block("bg", tfprotov6.SchemaNestedBlockNestingModeGroup),
			block("bl", tfprotov6.SchemaNestedBlockNestingModeList), block("bm", tfprotov6.SchemaNestedBlockNestingModeMap),
			block("bt", tfprotov6.SchemaNestedBlockNestingModeSet),
		},
	}}, true)
	if c.err != nil {
		t.Fatal(c.err)
	}
	wantNested := func(mode configschema.NestingMode) *configschema.Attribute {
		return &configschema.Attribute{Required: true, NestedType: &configschema.Object{
			Nesting: mode, Attributes: map[string]*configschema.Attribute{"in": {Type: cty.Bool, Required: true}},
		}}
	}
	wantBlock := func(mode configschema.NestingMode) *configschema.NestedBlock {
		return &configschema.NestedBlock{Nesting: mode, MinItems: 1, MaxItems: 2, Block: configschema.Block{
			Deprecated: true, BlockTypes: map[string]*configschema.NestedBlock{},
			Attributes: map[string]*configschema.Attribute{"in": {Type: cty.DynamicPseudoType, Optional: true}},
		}}
	}
	want := providers.Schema{Version: 7, Block: &configschema.Block{
		Description: "b", DescriptionKind: configschema.StringMarkdown, Ephemeral: true,
		Attributes: map[string]*configschema.Attribute{
			"a": {
				Type:        cty.Map(cty.List(cty.Object(map[string]cty.Type{"n": cty.Number}))),
				Description: "d", DescriptionKind: configschema.StringMarkdown,
				Optional: true, Computed: true, Sensitive: true, Deprecated: true, DeprecationMessage: "m", WriteOnly: true,
			},
			"s": wantNested(configschema.NestingSingle), "l": wantNested(configschema.NestingList),
			"m": wantNested(configschema.NestingMap), "t": wantNested(configschema.NestingSet),
		},
		BlockTypes: map[string]*configschema.NestedBlock{
			"bs": wantBlock(configschema.NestingSingle), "bg": wantBlock(configschema.NestingGroup), "bl": wantBlock(configschema.NestingList),
			"bm": wantBlock(configschema.NestingMap), "bt": wantBlock(configschema.NestingSet),
		},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got.Block, want.Block)
	}
}

// A schema that makes no sense is an error of the provider, not a panic later.
func TestBadSchema(t *testing.T) {
	for name, break_ := range map[string]func(*tfprotov6.GetProviderSchemaResponse){
		"no provider":  func(r *tfprotov6.GetProviderSchemaResponse) { r.Provider = nil },
		"nil resource": func(r *tfprotov6.GetProviderSchemaResponse) { r.ResourceSchemas["y"] = nil },
		"nesting": func(r *tfprotov6.GetProviderSchemaResponse) {
			r.Provider.Block.BlockTypes = []*tfprotov6.SchemaNestedBlock{{TypeName: "b"}}
		},
		"returns nothing": func(r *tfprotov6.GetProviderSchemaResponse) { r.Functions["g"] = &tfprotov6.Function{} },
		"typeless":        func(r *tfprotov6.GetProviderSchemaResponse) { r.Functions["f"].Parameters[0].Type = nil },
		"its own findings": func(r *tfprotov6.GetProviderSchemaResponse) {
			r.Diagnostics = []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: "bad"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := simple()
			break_(r)
			p := instance(t, &server{schema: func() (*tfprotov6.GetProviderSchemaResponse, error) { return r, nil }})
			if !p.GetProviderSchema(context.Background()).Diagnostics.HasErrors() {
				t.Error("no error")
			}
			if !p.ReadResource(context.Background(), providers.ReadResourceRequest{TypeName: "x", PriorState: noThing}).Diagnostics.HasErrors() {
				t.Error("it could be used all the same")
			}
		})
	}
}

// The schema is asked for once, however many instances there are at a time; and
// a real framework provider has all its kinds.
func TestFramework(t *testing.T) {
	lab := &enginetest.Lab{}
	factory := new(Pool).Factory("lab", lab.Server)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, err := factory()
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close(context.Background())
			s := p.GetProviderSchema(context.Background())
			if s.Diagnostics.HasErrors() || s.ResourceTypes["lab_thing"].IdentitySchema == nil || s.EphemeralResources["lab_token"].Block == nil ||
				s.DataSources["lab_echo"].Block == nil || len(s.Functions) != 1 || !s.ServerCapabilities.PlanDestroy {
				t.Errorf("%v: %+v", s.Diagnostics.Err(), s)
			}
			out := p.CallFunction(context.Background(), providers.CallFunctionRequest{Name: "upper", Arguments: []cty.Value{cty.StringVal("a"), cty.StringVal("b")}})
			if out.Error != nil || !out.Result.RawEquals(cty.StringVal("AB")) {
				t.Errorf("%#v, %v", out.Result, out.Error)
			}
		})
	}
	wg.Wait()
	if n := lab.Schemas(); n != 1 {
		t.Errorf("the schema was made %d times", n)
	}
}

// Stop reaches the calls that run, of all instances.
func TestPoolStop(t *testing.T) {
	lab := &enginetest.Lab{}
	started := make(chan struct{})
	lab.On = func(ctx context.Context, method, _ string) error {
		if method == "ReadData" {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	pool := &Pool{}
	p, err := pool.Factory("lab", lab.Server)()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	p.ConfigureProvider(ctx, providers.ConfigureProviderRequest{Config: cty.ObjectVal(map[string]cty.Value{"region": noString})})
	done := make(chan tfdiags.Diagnostics)
	go func() {
		done <- p.ReadDataSource(ctx, providers.ReadDataSourceRequest{TypeName: "lab_echo", Config: cty.ObjectVal(map[string]cty.Value{"say": cty.StringVal("x"), "heard": noString})}).Diagnostics
	}()
	<-started
	if err := pool.Stop(ctx); err != nil {
		t.Error(err)
	}
	if !(<-done).HasErrors() {
		t.Error("the read went on")
	}
	if err := p.Close(ctx); err != nil || len(pool.live) != 0 {
		t.Errorf("%v, %d instances are left", err, len(pool.live))
	}
}
