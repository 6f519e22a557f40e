package k8s

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// expr is an HCL expression. Strings become expressions by str and template
// only, which escape them, so that no value can break out of its quotes.
type expr = hclwrite.Tokens

// attr is one "key = value" of an object or of a block.
type attr struct {
	key   string
	value expr
}

func str(s string) expr { return hclwrite.TokensForValue(cty.StringVal(s)) }

func num(n int64) expr { return hclwrite.TokensForValue(cty.NumberIntVal(n)) }

func boolean(b bool) expr { return hclwrite.TokensForValue(cty.BoolVal(b)) }

// ref is a reference such as kubernetes_object.namespace. The parts must be
// HCL identifiers.
func ref(root string, parts ...string) expr {
	return hclwrite.TokensForTraversal(traversal(root, parts...))
}

// index is a reference to an element, such as local.digests["web"].
func index(key string, root string, parts ...string) expr {
	t := append(traversal(root, parts...), hcl.TraverseIndex{Key: cty.StringVal(key)})
	return hclwrite.TokensForTraversal(t)
}

func traversal(root string, parts ...string) hcl.Traversal {
	t := hcl.Traversal{hcl.TraverseRoot{Name: root}}
	for _, p := range parts {
		t = append(t, hcl.TraverseAttr{Name: p})
	}
	return t
}

func list(elems ...expr) expr { return hclwrite.TokensForTuple(elems) }

func call(function string, args ...expr) expr {
	return hclwrite.TokensForFunctionCall(function, args...)
}

// raw is an expression written out. It is for constants of this package only.
func raw(source string) expr {
	return expr{{Type: hclsyntax.TokenIdent, Bytes: []byte(source)}}
}

// obj is an object with its keys in the given order.
func obj(attrs ...attr) expr {
	tokens := make([]hclwrite.ObjectAttrTokens, len(attrs))
	for i, a := range attrs {
		tokens[i] = hclwrite.ObjectAttrTokens{Name: objectKey(a.key), Value: a.value}
	}
	return hclwrite.TokensForObject(tokens)
}

// stringMap is an object of strings, sorted by key.
func stringMap(m map[string]string) expr {
	attrs := make([]attr, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		attrs = append(attrs, attr{key, str(m[key])})
	}
	return obj(attrs...)
}

// objectKey writes a key of an object, quoted unless it is an identifier.
func objectKey(key string) expr {
	if hclsyntax.ValidIdentifier(key) {
		return hclwrite.TokensForIdentifier(key)
	}
	return str(key)
}

// template is a quoted string that ends with the value of an expression.
func template(prefix string, e expr) expr {
	tokens := str(prefix)
	closing := tokens[len(tokens)-1]
	tokens = append(tokens[:len(tokens)-1:len(tokens)-1], &hclwrite.Token{Type: hclsyntax.TokenTemplateInterp, Bytes: []byte("${")})
	tokens = append(tokens, e...)
	tokens = append(tokens, &hclwrite.Token{Type: hclsyntax.TokenTemplateSeqEnd, Bytes: []byte("}")})
	return append(tokens, closing)
}

// comment appends the lines as a comment of their own to body.
func comment(body *hclwrite.Body, lines ...string) {
	for _, line := range lines {
		body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte("# " + line + "\n")}})
	}
}

// block appends a block with attributes in the given order to body.
func block(body *hclwrite.Body, kind string, labels []string, attrs ...attr) *hclwrite.Body {
	b := body.AppendNewBlock(kind, labels).Body()
	for _, a := range attrs {
		b.SetAttributeRaw(a.key, a.value)
	}
	return b
}
