package kubernetes

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fediversity.eu/yuba/providers/kubernetes/internal/wire"
)

// identity says which object a manifest is about.
type identity struct {
	apiVersion, kind, namespace, name string
}

// String is the form of the attribute id and of import ids.
func (i identity) String() string {
	if i.namespace == "" {
		return fmt.Sprintf("apiVersion=%s,kind=%s,name=%s", i.apiVersion, i.kind, i.name)
	}
	return fmt.Sprintf("apiVersion=%s,kind=%s,namespace=%s,name=%s", i.apiVersion, i.kind, i.namespace, i.name)
}

// label names the object in messages.
func (i identity) label() string {
	if i.namespace == "" {
		return i.kind + " " + i.name
	}
	return i.kind + " " + i.namespace + "/" + i.name
}

func (i identity) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(i.apiVersion, i.kind)
}

var importID = regexp.MustCompile(`^apiVersion=([a-z0-9.-]+(?:/[a-z0-9]+)?),kind=([A-Za-z0-9]+),(?:namespace=([a-z0-9-]+),)?name=([^/%]+)$`)

// parseID reads what identity.String writes.
func parseID(id string) (identity, error) {
	m := importID.FindStringSubmatch(id)
	if m == nil || m[4] == "." || m[4] == ".." {
		return identity{}, fmt.Errorf("%q is no object id: write apiVersion=apps/v1,kind=Deployment,namespace=NAMESPACE,name=NAME (no namespace for kinds without one)", id)
	}
	return identity{m[1], m[2], m[3], m[4]}, nil
}

// unknown stands in decoded manifests for what is known only after apply.
type unknown = wire.Unknown

// decodeManifest makes a value of the configuration JSON-like. Nulls in objects
// are left out, as if they weren't written. whole is false when something in
// it is not known yet; it is an unknown{} then.
func decodeManifest(v tftypes.Value) (m map[string]any, whole bool, err error) {
	if v.IsNull() {
		return nil, true, errors.New("the manifest is null")
	}
	whole = true
	d, err := decodeValue(v, "manifest", &whole)
	if err != nil {
		return nil, false, err
	}
	switch d := d.(type) {
	case map[string]any:
		return d, whole, nil
	case unknown:
		return nil, false, nil
	}
	return nil, false, errors.New("the manifest must be an object: manifest = { apiVersion = ..., kind = ..., metadata = { ... } }")
}

func decodeValue(v tftypes.Value, at string, whole *bool) (any, error) {
	if !v.IsKnown() {
		*whole = false
		return unknown{}, nil
	}
	if v.IsNull() {
		return nil, nil
	}
	t := v.Type()
	switch {
	case t.Is(tftypes.String):
		var s string
		if err := v.As(&s); err != nil {
			return nil, err
		}
		return s, nil
	case t.Is(tftypes.Bool):
		var b bool
		if err := v.As(&b); err != nil {
			return nil, err
		}
		return b, nil
	case t.Is(tftypes.Number):
		var f big.Float
		if err := v.As(&f); err != nil {
			return nil, err
		}
		if i, acc := f.Int64(); acc == big.Exact {
			return i, nil
		}
		n, _ := f.Float64()
		return n, nil
	}
	switch t.(type) {
	case tftypes.Object, tftypes.Map:
		var m map[string]tftypes.Value
		if err := v.As(&m); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(m))
		for k, e := range m {
			d, err := decodeValue(e, at+"."+k, whole)
			if err != nil {
				return nil, err
			}
			if d != nil {
				out[k] = d
			}
		}
		return out, nil
	}
	var l []tftypes.Value
	if err := v.As(&l); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	out := make([]any, 0, len(l))
	for i, e := range l {
		d, err := decodeValue(e, fmt.Sprintf("%s[%d]", at, i), whole)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return nil, fmt.Errorf("%s[%d] is null: the API server takes no null in a list", at, i)
		}
		out = append(out, d)
	}
	return out, nil
}

// encodeValue makes decoded JSON a value of OpenTofu's, in the type of like
// where that fits, so that a changed value doesn't look like a changed type.
func encodeValue(v any, like tftypes.Type) tftypes.Value {
	switch v := v.(type) {
	case string:
		return tftypes.NewValue(tftypes.String, v)
	case bool:
		return tftypes.NewValue(tftypes.Bool, v)
	case int64:
		return tftypes.NewValue(tftypes.Number, new(big.Float).SetInt64(v))
	case float64:
		// As a configuration's number is read: of its decimal digits.
		f, _, err := big.ParseFloat(strconv.FormatFloat(v, 'g', -1, 64), 10, 512, big.ToNearestEven)
		if err != nil {
			f = big.NewFloat(v)
		}
		return tftypes.NewValue(tftypes.Number, f)
	case map[string]any:
		var likeObj tftypes.Object
		var elem tftypes.Type
		switch l := like.(type) {
		case tftypes.Object:
			likeObj = l
		case tftypes.Map:
			elem = l.ElementType
		}
		vals := make(map[string]tftypes.Value, len(v))
		typs := make(map[string]tftypes.Type, len(v))
		same := elem != nil
		for k, e := range v {
			t := elem
			if t == nil {
				t = likeObj.AttributeTypes[k]
			}
			val := encodeValue(e, t)
			vals[k], typs[k] = val, val.Type()
			same = same && val.Type().Equal(elem)
		}
		if same {
			return tftypes.NewValue(like, vals)
		}
		return tftypes.NewValue(tftypes.Object{AttributeTypes: typs}, vals)
	case []any:
		var elem tftypes.Type
		var tuple []tftypes.Type
		switch l := like.(type) {
		case tftypes.List:
			elem = l.ElementType
		case tftypes.Set:
			elem = l.ElementType
		case tftypes.Tuple:
			tuple = l.ElementTypes
		}
		vals := make([]tftypes.Value, len(v))
		typs := make([]tftypes.Type, len(v))
		same := elem != nil
		for i, e := range v {
			t := elem
			if i < len(tuple) {
				t = tuple[i]
			}
			vals[i] = encodeValue(e, t)
			typs[i] = vals[i].Type()
			same = same && typs[i].Equal(elem)
		}
		if same {
			return tftypes.NewValue(like, vals)
		}
		return tftypes.NewValue(tftypes.Tuple{ElementTypes: typs}, vals)
	}
	return tftypes.NewValue(tftypes.DynamicPseudoType, nil)
}

// serverFields are the parts of metadata that belong to the API server.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}

// identify reads the identity of a manifest and checks its form. known is
// false when a part of the identity is not known yet.
func identify(m map[string]any) (id identity, known bool, err error) {
	known = true
	var problems []string
	str := func(v any, at string, required bool) string {
		switch v := v.(type) {
		case string:
			if v == "" && required {
				problems = append(problems, at+" is empty")
			}
			return v
		case unknown:
			known = false
		case nil:
			if required {
				problems = append(problems, at+" is missing")
			}
		default:
			problems = append(problems, at+" is no string")
		}
		return ""
	}
	id.apiVersion = str(m["apiVersion"], "apiVersion", true)
	id.kind = str(m["kind"], "kind", true)
	switch meta := m["metadata"].(type) {
	case map[string]any:
		id.namespace = str(meta["namespace"], "metadata.namespace", false)
		id.name = str(meta["name"], "metadata.name", true)
		if _, ok := meta["generateName"]; ok {
			problems = append(problems, "metadata.generateName makes a new object at each apply: use metadata.name")
		}
		for _, f := range serverFields {
			if _, ok := meta[f]; ok {
				problems = append(problems, "metadata."+f+" belongs to the API server: remove it")
			}
		}
	case unknown:
		known = false
	default:
		problems = append(problems, "metadata.name is missing")
	}
	if _, ok := m["status"]; ok {
		problems = append(problems, "status belongs to the controllers: remove it")
	}
	if known && len(problems) == 0 {
		if _, perr := parseID(id.String()); perr != nil {
			problems = append(problems, "apiVersion, kind, metadata.namespace or metadata.name has characters that no object can have: "+id.String())
		}
	}
	if len(problems) > 0 {
		sort.Strings(problems)
		return id, false, errors.New(strings.Join(problems, "\n"))
	}
	return id, known, nil
}

// redactor takes the values of a Secret out of messages: the API server quotes
// what it refuses.
func redactor(m map[string]any) func(string) string {
	if m["kind"] != "Secret" {
		return func(s string) string { return s }
	}
	var secrets []string
	add := func(s string) {
		for _, s := range append(strings.Split(s, "\n"), s) {
			if s = strings.TrimSpace(s); len(s) > 2 {
				quoted := strconv.Quote(s)
				secrets = append(secrets, s, quoted[1:len(quoted)-1])
			}
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case string:
			add(v)
			if raw, err := base64.StdEncoding.DecodeString(v); err == nil {
				add(string(raw))
			}
			add(base64.StdEncoding.EncodeToString([]byte(v)))
		default:
			add(fmt.Sprint(v))
		}
	}
	for field, v := range m {
		switch field {
		case "apiVersion", "kind", "metadata", "type":
		default: // misspelt fields, too
			walk(v)
		}
	}
	// Longer ones first: one may be a part of another.
	sort.Slice(secrets, func(i, j int) bool { return len(secrets[i]) > len(secrets[j]) })
	return func(s string) string {
		for _, secret := range secrets {
			s = strings.ReplaceAll(s, secret, "(redacted)")
		}
		return s
	}
}
