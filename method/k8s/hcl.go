package k8s

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file writes HCL in the layout of "tofu fmt". hclwrite would do as well,
// but formats each level of nesting anew: 9 ms and 6 MB for a node, more than
// all the rest of a plan takes for it.

// expr is an HCL expression. Foreign strings become expressions by str and
// template only, which escape them, so that no value can break out of its
// quotes.
type expr interface {
	// lines tells whether the expression takes more than one line.
	lines() bool
	// write appends the expression; its further lines are indented by indent.
	write(b *bytes.Buffer, indent int)
}

// attr is one "key = value" of an object or of a block.
type attr struct {
	key   string
	value expr
}

// raw is an expression of one line, written out.
type raw string

func (raw) lines() bool                    { return false }
func (r raw) write(b *bytes.Buffer, _ int) { b.WriteString(string(r)) }

func str(s string) expr { return raw(`"` + escape(s) + `"`) }

func num(n int64) expr { return raw(strconv.FormatInt(n, 10)) }

func boolean(v bool) expr { return raw(strconv.FormatBool(v)) }

// ref is a reference such as kubernetes_object.namespace. The parts must be
// HCL identifiers.
func ref(parts ...string) expr { return raw(strings.Join(parts, ".")) }

// index is a reference to an element, such as local.digests["web"].
func index(key string, parts ...string) expr {
	return raw(strings.Join(parts, ".") + `["` + escape(key) + `"]`)
}

// template is a quoted string that starts with prefix and ends with the value
// of an expression.
func template(prefix string, e expr) expr {
	var b bytes.Buffer
	rest, dollar := strings.CutSuffix(prefix, "$")
	b.WriteString(`"` + escape(rest))
	if dollar {
		b.WriteString(`\u0024`) // "$${" would be an escaped "${"
	}
	b.WriteString("${")
	e.write(&b, 0)
	b.WriteString(`}"`)
	return raw(b.String())
}

// escape writes s as it must be between the quotes of an HCL string.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(`\U` + hexDigits(r, 8))
		default:
			b.WriteString(`\u` + hexDigits(r, 4))
		}
	}
	return b.String()
}

func hexDigits(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(digits-len(s), 0)) + s
}

// plainName are keys that need no quotes, unless they are "for", which would
// start a for expression.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// object is an object with its keys in the given order.
type object []attr

func obj(attrs ...attr) expr { return object(attrs) }

// stringMap is an object of strings, sorted by key.
func stringMap(m map[string]string) expr {
	o := make(object, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		o = append(o, attr{key, str(m[key])})
	}
	return o
}

func (o object) lines() bool { return len(o) > 0 }

func (o object) write(b *bytes.Buffer, indent int) {
	if len(o) == 0 {
		b.WriteString("{}")
		return
	}
	quoted := make([]attr, len(o))
	for i, a := range o {
		quoted[i] = a
		if !plainName.MatchString(a.key) || a.key == "for" {
			quoted[i].key = `"` + escape(a.key) + `"`
		}
	}
	b.WriteString("{\n")
	writeAttrs(b, indent+1, quoted)
	margin(b, indent)
	b.WriteByte('}')
}

// tuple is a list. It takes one line if its elements do.
type tuple []expr

func list(elems ...expr) expr { return tuple(elems) }

func (t tuple) lines() bool { return slices.ContainsFunc(t, expr.lines) }

func (t tuple) write(b *bytes.Buffer, indent int) {
	b.WriteByte('[')
	if !t.lines() {
		for i, e := range t {
			if i > 0 {
				b.WriteString(", ")
			}
			e.write(b, indent)
		}
		b.WriteByte(']')
		return
	}
	b.WriteByte('\n')
	for _, e := range t {
		margin(b, indent+1)
		e.write(b, indent+1)
		b.WriteString(",\n")
	}
	margin(b, indent)
	b.WriteByte(']')
}

// call is the call of a function.
type call struct {
	function string
	args     []expr
}

func (c call) lines() bool { return slices.ContainsFunc(c.args, expr.lines) }

func (c call) write(b *bytes.Buffer, indent int) {
	b.WriteString(c.function + "(")
	for i, a := range c.args {
		if i > 0 {
			b.WriteString(", ")
		}
		a.write(b, indent)
	}
	b.WriteByte(')')
}

func margin(b *bytes.Buffer, indent int) {
	for range indent {
		b.WriteString("  ")
	}
}

// writeAttrs writes attributes, one a line. The equals signs of neighbours that
// take one line are aligned.
func writeAttrs(b *bytes.Buffer, indent int, attrs []attr) {
	width := 0
	for i, a := range attrs {
		switch {
		case a.value.lines():
			width = 0
		case i == 0 || attrs[i-1].value.lines():
			width = 0
			for _, next := range attrs[i:] {
				if next.value.lines() {
					break
				}
				width = max(width, utf8.RuneCountInString(next.key))
			}
		}
		margin(b, indent)
		b.WriteString(a.key)
		for range width - utf8.RuneCountInString(a.key) {
			b.WriteByte(' ')
		}
		b.WriteString(" = ")
		a.value.write(b, indent)
		b.WriteByte('\n')
	}
}

// block is a block of a configuration.
type block struct {
	kind   string
	labels []string
	attrs  []attr
	blocks []block
}

func (k block) write(b *bytes.Buffer, indent int) {
	margin(b, indent)
	b.WriteString(k.kind)
	for _, l := range k.labels {
		b.WriteString(` "` + escape(l) + `"`)
	}
	if len(k.attrs) == 0 && len(k.blocks) == 0 {
		b.WriteString(" {}\n")
		return
	}
	b.WriteString(" {\n")
	writeAttrs(b, indent+1, k.attrs)
	for i, inner := range k.blocks {
		if i > 0 || len(k.attrs) > 0 {
			b.WriteByte('\n')
		}
		inner.write(b, indent+1)
	}
	margin(b, indent)
	b.WriteString("}\n")
}

// file is a configuration file: blocks with an empty line between them.
type file struct {
	b         bytes.Buffer
	commented bool // a comment waits for its block
}

// comment writes a comment line that belongs to the block that follows.
func (f *file) comment(line string) {
	f.gap()
	f.b.WriteString("# " + line + "\n")
	f.commented = true
}

// block adds a block that holds attributes.
func (f *file) block(kind string, labels []string, attrs ...attr) {
	f.add(block{kind: kind, labels: labels, attrs: attrs})
}

func (f *file) add(k block) {
	f.gap()
	k.write(&f.b, 0)
	f.commented = false
}

func (f *file) gap() {
	if f.b.Len() > 0 && !f.commented {
		f.b.WriteByte('\n')
	}
}
