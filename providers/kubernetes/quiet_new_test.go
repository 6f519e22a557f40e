package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"fediversity.eu/yuba/providers/kubernetes"
)

// newPlan is a plan of something that isn't in state.
type newPlan struct {
	kind    string // "" for kubernetes_object
	attrs   map[string]any
	change  func(*tfprotov6.PlanResourceChangeRequest)
	handOn  bool   // it is the framework that has to plan it
	says    string // a part of what the plan says; "" for nothing at all
	propose map[string]any
}

// counting counts the plans and applies that come through to the framework.
type counting struct {
	tfprotov6.ProviderServer
	plans, applies int
}

func (c *counting) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	c.applies++
	return c.ProviderServer.ApplyResourceChange(ctx, req)
}

func (c *counting) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	c.plans++
	return c.ProviderServer.PlanResourceChange(ctx, req)
}

func (p newPlan) request(w *walk) *tfprotov6.PlanResourceChangeRequest {
	s, typ := w.typeOf(p.kind)
	config := w.value(s, p.attrs)
	req := &tfprotov6.PlanResourceChangeRequest{TypeName: p.kind, PriorState: w.wire(tftypes.NewValue(typ, nil)), Config: w.wire(config)}
	// Core's proposal has what is write-only, too.
	req.ProposedNewState = &tfprotov6.DynamicValue{MsgPack: bytes.Clone(req.Config.MsgPack)}
	if p.propose != nil {
		req.ProposedNewState = w.wire(w.value(s, p.propose))
	}
	if p.change != nil {
		p.change(req)
	}
	return req
}

// bothWays plans by the provider's server, and by the framework's inside of it,
// and compares what they answer and what they ask the API server.
func (p newPlan) bothWays(t *testing.T, e *engine, asked *requests, configure bool) {
	t.Helper()
	if p.kind == "" {
		p.kind = "kubernetes_object"
	}
	run := func(inside bool) (*walk, *tfprotov6.PlanResourceChangeResponse, int, string) {
		var w *walk
		if configure {
			w = e.walk()
		} else {
			w = &walk{engine: e, server: kubernetes.Server("test")()}
			var err error
			w.schemas, err = w.server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
			must(t, err)
		}
		w.t = t
		count := w.framework(inside)
		asked.take()
		resp, err := w.server.PlanResourceChange(context.Background(), p.request(w))
		must(t, err)
		return w, resp, count.plans, strings.Join(asked.take(), "\n")
	}
	w, got, handedOn, gotAsked := run(false)
	_, want, _, wantAsked := run(true)
	if (handedOn > 0) != p.handOn {
		t.Errorf("the framework planned it: %v", handedOn > 0)
	}
	gotSays, wantSays := spoken(got.Diagnostics), spoken(want.Diagnostics)
	if gotSays != wantSays {
		t.Errorf("it says %s\nand the framework %s", gotSays, wantSays)
	}
	if p.says == "" && wantSays != "" || !strings.Contains(wantSays, p.says) {
		t.Errorf("it says %q, not %q", wantSays, p.says)
	}
	if gotAsked != wantAsked {
		t.Errorf("it asks\n%s\nand the framework\n%s", gotAsked, wantAsked)
	}
	_, typ := w.typeOf(p.kind)
	if a, b := w.unwire(typ, got.PlannedState), w.unwire(typ, want.PlannedState); !a.Equal(b) {
		t.Errorf("planned %s\nand by the framework %s", a, b)
	}
	if !bytes.Equal(got.PlannedPrivate, want.PlannedPrivate) {
		t.Errorf("private state %s, and by the framework %s", got.PlannedPrivate, want.PlannedPrivate)
	}
	if a, b := fmt.Sprint(got.RequiresReplace), fmt.Sprint(want.RequiresReplace); a != b {
		t.Errorf("replaced for %s, and by the framework for %s", a, b)
	}
	if got.Deferred != nil || got.PlannedIdentity != nil {
		t.Errorf("more than asked for: %v %v", got.Deferred, got.PlannedIdentity)
	}
}

func spoken(diags []*tfprotov6.Diagnostic) string {
	var b strings.Builder
	for _, d := range diags {
		fmt.Fprintf(&b, "%s %s: %s: %s\n", d.Severity, d.Attribute, d.Summary, d.Detail)
	}
	return b.String()
}

// refined makes the first unknown value of a configuration one of which core
// knows that it won't be null.
func refined(req *tfprotov6.PlanResourceChangeRequest) {
	for _, v := range []*tfprotov6.DynamicValue{req.Config, req.ProposedNewState} {
		v.MsgPack = bytes.Replace(v.MsgPack, []byte{0xd4, 0, 0}, []byte{0xc7, 3, 12, 0x81, 1, 0xc2}, 1)
	}
}

// What isn't in state is planned before the framework takes it apart, as the
// framework would plan it.
func TestQuietPlansOfWhatIsNew(t *testing.T) {
	c := newCluster(t)
	c.create(deployments, "kubectl-create", c.deployment("there", "r.invalid/web:1"))
	c.create(configMaps, "kubectl-create", configMap(c.ns, "theirs", map[string]any{"k": "theirs"}))
	frozen := configMap(c.ns, "frozen", map[string]any{"k": "1"})
	frozen["immutable"] = true
	c.create(configMaps, "kubectl-create", frozen)

	text := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	number := func(s string) tftypes.Value {
		f, _, err := big.ParseFloat(s, 10, 512, big.ToNearestEven)
		must(t, err)
		return tftypes.NewValue(tftypes.Number, f)
	}
	unknownOf := func(typ tftypes.Type) tftypes.Value { return tftypes.NewValue(typ, tftypes.UnknownValue) }
	strs := func(of func(tftypes.Type) tftypes.Type, v any) tftypes.Value {
		return tftypes.NewValue(of(tftypes.String), v)
	}
	list := func(e tftypes.Type) tftypes.Type { return tftypes.List{ElementType: e} }
	set := func(e tftypes.Type) tftypes.Type { return tftypes.Set{ElementType: e} }
	mapOf := func(e tftypes.Type) tftypes.Type { return tftypes.Map{ElementType: e} }
	// Of a kind that isn't served, so that it may say anything.
	thing := func(fields map[string]any) map[string]any {
		m := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a", "namespace": c.ns}}
		for k, v := range fields {
			m[k] = v
		}
		return m
	}
	partly := configMap(c.ns, "new", map[string]any{"a": "1", "b": unknownOf(tftypes.String)})
	part := func(field string, v any) map[string]any {
		m := configMap(c.ns, "new", nil)
		if _, top := m[field]; top {
			m[field] = v
		} else {
			m["metadata"] = map[string]any{"name": "new", "namespace": c.ns, strings.TrimPrefix(field, "metadata."): v}
		}
		return m
	}
	role := func(meta map[string]any) map[string]any {
		return map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": []any{}}
	}
	whole := configMap(c.ns, "new", map[string]any{"a": "1"})
	rollout := func(more map[string]any) map[string]any {
		a := map[string]any{"namespace": c.ns, "name": "web", "uid": "u", "generation": 1}
		for k, v := range more {
			a[k] = v
		}
		return a
	}
	wrong := configMap(c.ns, "new", nil)
	wrong["date"] = map[string]any{}

	for name, p := range map[string]newPlan{
		"deployment": {attrs: with(c.deployment("web", "r.invalid/web:1"))},
		"all kinds of values": {attrs: with(thing(map[string]any{
			"nothing": nil, "null": tftypes.NewValue(tftypes.String, nil), "bool": true, "text": "a\nb", "none": "", "long": strings.Repeat("x", 1<<16),
			"int": 3, "negative": number("-40000"), "large": number("9223372036854775807"), "larger": number("9223372036854775808"),
			"half": number("0.5"), "tenth": number("0.1"), "huge": number("1e30"),
			"list": strs(list, []tftypes.Value{text("a"), text("b")}), "set": strs(set, []tftypes.Value{text("a")}), "tuple": []any{"a", 1, map[string]any{}},
			"map": strs(mapOf, map[string]tftypes.Value{"a": text("b"), "c": tftypes.NewValue(tftypes.String, nil)}), "empty": strs(list, []tftypes.Value{}),
			"emptiest": tftypes.NewValue(list(tftypes.DynamicPseudoType), []tftypes.Value{}), "no map": strs(mapOf, nil),
		}))},
		"all kinds of unknown": {attrs: with(thing(map[string]any{
			"any": unknownOf(tftypes.DynamicPseudoType), "text": unknownOf(tftypes.String), "list": unknownOf(list(tftypes.Number)),
			"object":    unknownOf(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"a": tftypes.String}}),
			"in a list": strs(list, []tftypes.Value{text("a"), unknownOf(tftypes.String)}), "in a tuple": []any{unknownOf(tftypes.Bool)},
			"in a map": strs(mapOf, map[string]tftypes.Value{"a": unknownOf(tftypes.String)}),
		}))},
		"partly unknown":        {attrs: with(partly)},
		"not known to be null":  {attrs: with(partly), change: refined},
		"unknown":               {attrs: map[string]any{"manifest": unknownValue{}}},
		"unknown object":        {attrs: map[string]any{"manifest": unknownOf(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"kind": tftypes.String}})}},
		"unknown apiVersion":    {attrs: with(part("apiVersion", unknownOf(tftypes.String)))},
		"unknown kind":          {attrs: with(part("kind", unknownOf(tftypes.String)))},
		"unknown metadata":      {attrs: with(part("metadata", unknownOf(tftypes.DynamicPseudoType)))},
		"unknown namespace":     {attrs: with(part("metadata.namespace", unknownOf(tftypes.String)))},
		"unknown name":          {attrs: with(part("metadata.name", unknownOf(tftypes.String)))},
		"unless":                {attrs: with(whole, map[string]any{"unless": "a reason"})},
		"unless, not proposed":  {attrs: with(whole, map[string]any{"unless": "a reason"}), propose: with(whole)},
		"unless unknown":        {attrs: with(whole, map[string]any{"unless": unknownValue{}})},
		"unless not null":       {attrs: with(whole, map[string]any{"unless": unknownValue{}}), change: refined},
		"timeout":               {attrs: with(whole, map[string]any{"timeout": "90s"})},
		"timeout unknown":       {attrs: with(whole, map[string]any{"timeout": unknownValue{}})},
		"timeout not null":      {attrs: with(whole, map[string]any{"timeout": unknownValue{}}), change: refined},
		"force":                 {attrs: with(whole, map[string]any{"force_conflicts": true})},
		"no force":              {attrs: with(whole, map[string]any{"force_conflicts": false})},
		"force unknown":         {attrs: with(whole, map[string]any{"force_conflicts": unknownValue{}})},
		"outside of namespaces": {attrs: with(role(map[string]any{"name": c.ns}))},
		"inside where it's not": {attrs: with(role(map[string]any{"name": c.ns, "namespace": c.ns})), says: "lives outside of namespaces"},
		"no namespace":          {attrs: with(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}), says: "metadata.namespace is missing"},
		"not served":            {attrs: with(thing(nil))},
		"no such namespace":     {attrs: with(configMap(c.ns+"-not", "new", nil))},
		"refused":               {attrs: with(wrong), says: "The API server refuses"},
		"warned of":             {attrs: with(c.deployment("a.b", "r.invalid/web:1")), says: "Warning from the API server"},
		"adopted as it is":      {attrs: with(c.deployment("there", "r.invalid/web:1")), says: "will be adopted: It was made"},
		"adopted, partly known": {attrs: with(c.deployment("there", "r.invalid/web:1"), map[string]any{"manifest": c.partly("there")}), says: "may be replaced"},
		"in conflict":           {attrs: with(configMap(c.ns, "theirs", map[string]any{"k": "ours"})), says: "Other field managers own"},
		"taken":                 {attrs: with(configMap(c.ns, "theirs", map[string]any{"k": "ours"}), map[string]any{"force_conflicts": true}), says: "All that changes"},
		"not to be adopted":     {attrs: with(configMap(c.ns, "frozen", map[string]any{"k": "2"}), map[string]any{"force_conflicts": true}), says: "can't be adopted"},
		"bad manifest":          {attrs: with(part("kind", "")), handOn: true, says: "kind is empty"},
		"null in a list":        {attrs: with(thing(map[string]any{"l": []any{nil}})), handOn: true, says: "is null"},
		"no manifest":           {attrs: map[string]any{}, handOn: true, says: "the manifest is null"},
		"text":                  {attrs: map[string]any{"manifest": "kind: ConfigMap"}, handOn: true, says: "must be an object"},
		"an id":                 {attrs: with(whole, map[string]any{"id": "x"}), handOn: true},
		"something else":        {attrs: with(whole), propose: with(whole, map[string]any{"timeout": "1m"}), handOn: true},
		"in another's place":    {attrs: with(whole), change: func(r *tfprotov6.PlanResourceChangeRequest) { r.PriorPrivate = []byte(`{"memory":"e30="}`) }, handOn: true},
		"without an end": {attrs: with(whole), change: func(r *tfprotov6.PlanResourceChangeRequest) {
			r.Config.MsgPack = r.Config.MsgPack[:len(r.Config.MsgPack)-1]
		}, handOn: true, says: "rror"},
		"rollout":                {kind: "kubernetes_rollout", attrs: rollout(nil)},
		"rollout, times":         {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"timeout": "1m", "persistence": unknownValue{}})},
		"rollout, unknown uid":   {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"uid": unknownValue{}, "generation": unknownValue{}})},
		"rollout, all unknown":   {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"name": unknownValue{}, "namespace": unknownValue{}, "uid": unknownValue{}})},
		"rollout, refined":       {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"uid": unknownValue{}}), change: refined},
		"rollout, no name":       {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"name": tftypes.NewValue(tftypes.String, nil)}), handOn: true},
		"rollout, no integer":    {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"generation": number("1.5")}), handOn: true, says: "rror"},
		"rollout, large":         {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"generation": number("9223372036854775808")}), handOn: true, says: "rror"},
		"rollout, another's":     {kind: "kubernetes_rollout", attrs: rollout(nil), change: func(r *tfprotov6.PlanResourceChangeRequest) { r.PriorPrivate = []byte(`{}`) }, handOn: true},
		"rollout, an id":         {kind: "kubernetes_rollout", attrs: rollout(map[string]any{"id": "x"}), handOn: true},
		"rollout, proposed else": {kind: "kubernetes_rollout", attrs: rollout(nil), propose: rollout(map[string]any{"uid": "v"}), handOn: true},
	} {
		t.Run(name, func(t *testing.T) { p.bothWays(t, c.engine, c.requests, true) })
	}
	// None of them was made.
	if _, err := c.other.Resource(configMaps).Namespace(c.ns).Get(context.Background(), "new", metav1.GetOptions{}); err == nil {
		t.Error("a plan has made an object")
	}
}

// partly is a Deployment whose image isn't known yet.
func (c *cluster) partly(name string) map[string]any {
	m := c.deployment(name, "")
	containers, _, _ := unstructured.NestedFieldNoCopy(m, "spec", "template", "spec", "containers")
	containers.([]any)[0].(map[string]any)["image"] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	return m
}

// framework counts what the provider's server hands on to the framework's inside of
// it. With inside, that one alone answers.
func (w *walk) framework(inside bool) *counting {
	count := &counting{}
	inner := kubernetes.Framework(w.server, func(s tfprotov6.ProviderServer) tfprotov6.ProviderServer {
		count.ProviderServer = s
		return count
	})
	if inside {
		w.server = inner
	}
	return count
}

// newApply is an apply of an object that isn't in state.
type newApply struct {
	attrs  map[string]any
	known  map[string]any // the attributes at the apply, if they are others
	change func(*tfprotov6.ApplyResourceChangeRequest)
	before func(c *cluster)
	handOn bool
	says   string
	polls  bool // how often it asks depends on the API server
	made   schema.GroupVersionResource
	name   string // of what is made, "" for nothing
}

// once plans and applies, and gives what can be compared: all but the uid.
func (p newApply) once(t *testing.T, c *cluster, inside bool) (says, state, private, asked string, handedOn bool) {
	t.Helper()
	if p.before != nil {
		p.before(c)
	}
	w := c.walk()
	w.t = t
	s, typ := w.typeOf("kubernetes_object")
	req := newPlan{kind: "kubernetes_object", attrs: p.attrs}.request(w)
	plan, err := w.server.PlanResourceChange(context.Background(), req)
	must(t, err)
	w = c.walk()
	w.t = t
	count := w.framework(inside)
	do := &tfprotov6.ApplyResourceChangeRequest{TypeName: "kubernetes_object", PriorState: req.PriorState, PlannedState: plan.PlannedState, Config: req.Config}
	if p.known != nil {
		do.Config = w.wire(w.value(s, p.known))
	}
	if p.change != nil {
		p.change(do)
	}
	c.requests.take()
	resp, err := w.server.ApplyResourceChange(context.Background(), do)
	must(t, err)
	if asked = strings.Join(c.requests.take(), "\n"); p.polls {
		asked = ""
	}
	v := w.unwire(typ, resp.NewState)
	if p.name != "" {
		m, err := asMap(v)
		must(t, err)
		objects := dynamic.ResourceInterface(c.other.Resource(p.made))
		if p.made.Resource != "clusterroles" && p.made.Resource != "customresourcedefinitions" {
			objects = c.other.Resource(p.made).Namespace(c.ns)
		}
		live, err := objects.Get(context.Background(), p.name, metav1.GetOptions{})
		must(t, err)
		if got := (&instance{state: &v}).str(t, "uid"); got != string(live.GetUID()) {
			t.Errorf("the uid is %q", got)
		}
		m["uid"] = tftypes.NewValue(tftypes.String, "the uid")
		v = valueOf(typ, m)
		must(t, objects.Delete(context.Background(), p.name, metav1.DeleteOptions{}))
		eventually(t, "it is gone", func() bool {
			_, err := objects.Get(context.Background(), p.name, metav1.GetOptions{})
			return err != nil
		})
	}
	return spoken(resp.Diagnostics), v.String(), string(resp.Private), asked, count.applies > 0
}

// What is new is made before the framework takes it apart, as the framework would
// have it made.
func TestQuietAppliesOfWhatIsNew(t *testing.T) {
	c := newCluster(t)
	c.create(configMaps, "kubectl-create", configMap(c.ns, "theirs", map[string]any{"k": "theirs"}))
	whole := configMap(c.ns, "new", map[string]any{"a": "1"})
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	group := c.ns + ".example.com"
	wrong := configMap(c.ns, "new", nil)
	wrong["date"] = map[string]any{}
	for name, p := range map[string]newApply{
		"config map":          {attrs: with(whole), made: configMaps, name: "new"},
		"with all attributes": {attrs: with(whole, map[string]any{"timeout": "90s", "force_conflicts": false, "unless": ""}), made: configMaps, name: "new"},
		"deployment":          {attrs: with(c.deployment("web", "r.invalid/web:1")), made: deployments, name: "web"},
		"warned of":           {attrs: with(c.deployment("a.b", "r.invalid/web:1")), says: "Warning from the API server", made: deployments, name: "a.b"},
		"outside of namespaces": {attrs: with(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": c.ns + "-apply"}, "rules": []any{}}),
			made: roles, name: c.ns + "-apply"},
		"definition": {attrs: with(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
			"spec": map[string]any{"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
		}), polls: true, made: crds, name: "things." + group},
		"adopted": {attrs: with(c.deployment("there", "r.invalid/web:2"), map[string]any{"force_conflicts": true}), made: deployments, name: "there",
			before: func(c *cluster) { c.create(deployments, "kubectl-create", c.deployment("there", "r.invalid/web:1")) }},
		"unless":             {attrs: with(whole, map[string]any{"unless": unknownValue{}}), known: with(whole, map[string]any{"unless": "the disk is gone"}), says: "was not touched: the disk is gone"},
		"not unless":         {attrs: with(whole, map[string]any{"unless": unknownValue{}}), known: with(whole), made: configMaps, name: "new"},
		"in conflict":        {attrs: with(configMap(c.ns, "theirs", map[string]any{"k": "ours"})), says: "Other field managers own"},
		"refused":            {attrs: with(wrong), says: "Cannot apply"},
		"no such namespace":  {attrs: with(configMap(c.ns+"-not", "new", nil)), says: "Apply the namespace first"},
		"no namespace":       {attrs: with(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}), says: "metadata.namespace is missing"},
		"still unknown":      {attrs: with(configMap(c.ns, "new", map[string]any{"a": unknownValue{}})), handOn: true, says: "still not wholly known"},
		"bad timeout":        {attrs: with(whole, map[string]any{"timeout": "soon"}), handOn: true, says: "Bad duration"},
		"in another's place": {attrs: with(whole), change: func(r *tfprotov6.ApplyResourceChangeRequest) { r.PlannedPrivate = []byte(`{"note":"e30="}`) }, handOn: true, made: configMaps, name: "new"},
		"without an end": {attrs: with(whole), change: func(r *tfprotov6.ApplyResourceChangeRequest) {
			r.PlannedState = &tfprotov6.DynamicValue{MsgPack: r.PlannedState.MsgPack[:len(r.PlannedState.MsgPack)-1]}
		}, handOn: true, says: "rror"},
	} {
		t.Run(name, func(t *testing.T) {
			says, state, private, asked, handedOn := p.once(t, c, false)
			wantSays, wantState, wantPrivate, wantAsked, _ := p.once(t, c, true)
			if handedOn != p.handOn {
				t.Errorf("the framework made it: %v", handedOn)
			}
			if p.says == "" && wantSays != "" || !strings.Contains(wantSays, p.says) {
				t.Errorf("it says %q, not %q", wantSays, p.says)
			}
			for what, is := range map[string][2]string{"says": {says, wantSays}, "keeps": {state, wantState}, "keeps in private": {private, wantPrivate}, "asks": {asked, wantAsked}} {
				if is[0] != is[1] {
					t.Errorf("it %s\n%s\nand the framework\n%s", what, is[0], is[1])
				}
			}
		})
	}
}

// So it is where there is no cluster yet, and without a configuration.
func TestQuietPlansWithoutCluster(t *testing.T) {
	e := &engine{t: t, config: map[string]any{"config_path": unknownValue{}}}
	for name, p := range map[string]newPlan{
		"object":  {attrs: with(configMap("ns", "a", nil))},
		"unknown": {attrs: map[string]any{"manifest": unknownValue{}}},
		"rollout": {kind: "kubernetes_rollout", attrs: map[string]any{"namespace": "ns", "name": "a", "uid": unknownValue{}, "generation": unknownValue{}}},
	} {
		t.Run(name, func(t *testing.T) { p.bothWays(t, e, &requests{}, true) })
		t.Run(name+", not configured", func(t *testing.T) {
			if p.kind == "" {
				p.says = "Provider not configured"
			}
			p.bothWays(t, e, &requests{}, false)
		})
	}
}

// An interrupt ends the plan and the making of what is new, and none that comes
// after.
func TestStopEndsWhatIsNew(t *testing.T) {
	asked := make(chan struct{})
	hang := true
	e := &engine{t: t, env: map[string]string{"KUBE_CONFIG_PATH": writeKubeconfig(t, strings.ReplaceAll(kubeconfigHead, "SERVER", "http://127.0.0.1:1")+"users: [{name: op, user: {}}]\n")},
		opts: []kubernetes.Option{kubernetes.WithTransport(func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if hang {
					asked <- struct{}{}
					<-r.Context().Done()
				}
				if err := r.Context().Err(); err != nil {
					return nil, err
				}
				return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
					Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"none","reason":"NotFound","code":404}`))}, nil
			})
		})}}
	w := e.walk()
	req := newPlan{kind: "kubernetes_object", attrs: with(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a"}})}.request(w)
	var planned *tfprotov6.DynamicValue
	plan := func() ([]*tfprotov6.Diagnostic, error) {
		resp, err := w.server.PlanResourceChange(context.Background(), req)
		if err != nil {
			return nil, err
		}
		planned = resp.PlannedState
		return resp.Diagnostics, nil
	}
	apply := func() ([]*tfprotov6.Diagnostic, error) {
		resp, err := w.server.ApplyResourceChange(context.Background(), &tfprotov6.ApplyResourceChangeRequest{
			TypeName: req.TypeName, PriorState: req.PriorState, PlannedState: planned, Config: req.Config})
		if err != nil {
			return nil, err
		}
		return resp.Diagnostics, nil
	}
	for _, call := range []func() ([]*tfprotov6.Diagnostic, error){plan, apply} {
		said := make(chan string)
		go func() {
			diags, err := call()
			said <- fmt.Sprint(errorsOf(diags), err)
		}()
		<-asked
		if _, err := w.server.StopProvider(context.Background(), &tfprotov6.StopProviderRequest{}); err != nil {
			t.Fatal(err)
		}
		if s := <-said; !strings.Contains(s, "context canceled") {
			t.Errorf("it says %q", s)
		}
	}
	hang = false
	diags, err := plan()
	must(t, err)
	if s := spoken(diags); s != "" {
		t.Errorf("the next plan says %q", s)
	}
}
