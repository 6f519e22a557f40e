package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

func formatted(name string) bool {
	return slices.ContainsFunc([]string{".tf", ".tofu", ".tfvars", ".tftest.hcl", ".tofutest.hcl"}, func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// formatter carries out fmt.
type formatter struct {
	args    *arguments.Fmt
	sources map[string]*hcl.File // for snippets
	out     io.Writer
	changed bool
	diags   tfdiags.Diagnostics
}

func (c *cli) format(_ context.Context, raw []string) int {
	args, closer, diags := arguments.ParseFmt(raw)
	defer closer()
	e := c.engine(settings{view: arguments.ViewOptions{ViewType: arguments.ViewHuman}, newline: true})
	view := views.NewFmt(e.tty.results)
	if diags.HasErrors() {
		return c.misused(e, view, diags)
	}
	f := &formatter{args: args, sources: map[string]*hcl.File{}, out: c.Stdout}
	e.tty.setSources(func() map[string]*hcl.File { return f.sources })
	if args.Check {
		args.Write = false
		if !args.List { // stock tofu prints no difference either then
			f.out = io.Discard
		}
		args.List = true
	}
	if len(args.Paths) == 0 {
		f.stdin(e.opts.stdin())
	}
	for _, p := range args.Paths {
		f.path(p)
	}
	switch {
	case c.report(e, view, f.diags) != 0:
		return 2
	case args.Check && f.changed:
		return 3
	}
	return 0
}

func (f *formatter) fail(summary, format string, args ...any) {
	f.diags = f.diags.Append(sourceless(summary, format, args...))
}

func (f *formatter) stdin(r io.Reader) {
	if f.args.Write {
		f.fail("Invalid arguments", "Option -write cannot be used when reading from stdin")
		return
	}
	src, err := io.ReadAll(io.LimitReader(r, maxConfigFile+1))
	if err != nil || len(src) > maxConfigFile {
		f.fail("Failed to read file", "Failed to load the content of the %q file", "<stdin>")
		return
	}
	f.source("<stdin>", src)
}

func (f *formatter) path(p string) {
	p = filepath.Clean(p)
	switch fi, err := os.Stat(p); {
	case err != nil:
		f.fail("Invalid file or directory path", "No file or directory at %s", p)
	case fi.IsDir():
		f.dir(p)
	case !formatted(p):
		f.fail("Invalid file extension", "Only .tf, .tofu, .tfvars, .tftest.hcl, and .tofutest.hcl files can be processed with tofu fmt")
	default:
		f.file(p)
	}
}

func (f *formatter) dir(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.fail("Invalid path", "Cannot read directory %s", dir)
		return
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case configs.IsIgnoredFile(e.Name()):
		case e.IsDir():
			if f.args.Recursive {
				f.dir(p)
			}
		case formatted(p):
			f.file(p)
		}
	}
}

func (f *formatter) file(p string) {
	src, err := readBounded(p, maxConfigFile)
	if err != nil {
		f.fail("Failed to open file", "Failed to read file %s", p)
		return
	}
	f.source(p, src)
}

func (f *formatter) source(name string, src []byte) {
	f.sources[name] = &hcl.File{Bytes: src}
	if _, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos); diags.HasErrors() {
		f.diags = f.diags.Append(diags)
		return
	}
	result := formatSource(src, name)
	if !bytes.Equal(src, result) {
		f.changed = true
		if f.args.List {
			fmt.Fprintln(f.out, name)
		}
		if f.args.Write {
			if err := os.WriteFile(name, result, 0o644); err != nil { // keeps the mode that the file has
				f.fail("Writing formatted file failed", "Failed to write %s", name)
				return
			}
		}
		if f.args.Diff {
			_, _ = f.out.Write(unifiedDiff("old/"+name, "new/"+name, src, result))
		}
	}
	if !f.args.List && !f.args.Write && !f.args.Diff {
		_, _ = f.out.Write(result)
	}
}

// formatSource is the canonical form of a file in native syntax.
func formatSource(src []byte, name string) []byte {
	f, diags := hclwrite.ParseConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() || f == nil {
		return src
	}
	formatBody(f.Body(), nil)
	return f.Bytes()
}

func formatBody(body *hclwrite.Body, in []string) {
	for name, attr := range body.Attributes() {
		format := unwrapTemplate
		if len(in) == 1 && in[0] == "variable" && name == "type" {
			format = formatType
		}
		body.SetAttributeRaw(name, format(attr.Expr().BuildTokens(nil)))
	}
	for _, b := range body.Blocks() {
		b.SetLabels(b.Labels()) // as quoted labels
		formatBody(b.Body(), append(in, b.Type()))
	}
}

func token(t hclsyntax.TokenType, s string) *hclwrite.Token {
	return &hclwrite.Token{Type: t, Bytes: []byte(s)}
}

// unwrapTemplate makes x of "${x}".
func unwrapTemplate(tokens hclwrite.Tokens) hclwrite.Tokens {
	n := len(tokens)
	if n < 5 || tokens[0].Type != hclsyntax.TokenOQuote || tokens[1].Type != hclsyntax.TokenTemplateInterp ||
		tokens[n-2].Type != hclsyntax.TokenTemplateSeqEnd || tokens[n-1].Type != hclsyntax.TokenCQuote {
		return tokens
	}
	inside := tokens[2 : n-2]
	quotes := 0
	for _, t := range inside {
		switch {
		case t.Type == hclsyntax.TokenOQuote:
			quotes++
		case t.Type == hclsyntax.TokenCQuote:
			quotes--
		case quotes > 0: // of a nested expression
		case t.Type == hclsyntax.TokenTemplateInterp, t.Type == hclsyntax.TokenTemplateSeqEnd, t.Type == hclsyntax.TokenQuotedLit:
			return tokens // more than one interpolation, or text beside it
		}
	}
	isNewline := func(t *hclwrite.Token) bool { return t.Type == hclsyntax.TokenNewline }
	for len(inside) > 0 && isNewline(inside[0]) {
		inside = inside[1:]
	}
	for len(inside) > 0 && isNewline(inside[len(inside)-1]) {
		inside = inside[:len(inside)-1]
	}
	if len(inside) == 0 {
		return inside
	}
	// More than one line needs parentheses outside of quotes.
	wrapped := inside[0].Type == hclsyntax.TokenOParen && inside[len(inside)-1].Type == hclsyntax.TokenCParen
	if slices.ContainsFunc(inside, isNewline) && !wrapped {
		return slices.Concat(hclwrite.Tokens{token(hclsyntax.TokenOParen, "(")}, inside, hclwrite.Tokens{token(hclsyntax.TokenCParen, ")")})
	}
	return inside
}

// formatType brings the old forms of a variable's type up to date: list and
// "list" are list(any) and list(string).
func formatType(tokens hclwrite.Tokens) hclwrite.Tokens {
	of := func(kind, element string) hclwrite.Tokens {
		return hclwrite.Tokens{token(hclsyntax.TokenIdent, kind), token(hclsyntax.TokenOParen, "("), token(hclsyntax.TokenIdent, element), token(hclsyntax.TokenCParen, ")")}
	}
	switch {
	case len(tokens) == 1 && tokens[0].Type == hclsyntax.TokenIdent:
		switch kind := string(tokens[0].Bytes); kind {
		case "list", "map", "set":
			return append(hclwrite.Tokens{tokens[0]}, of(kind, "any")[1:]...)
		}
	case len(tokens) == 3 && tokens[0].Type == hclsyntax.TokenOQuote && tokens[1].Type == hclsyntax.TokenQuotedLit && tokens[2].Type == hclsyntax.TokenCQuote:
		switch kind := string(tokens[1].Bytes); kind {
		case "string":
			return hclwrite.Tokens{token(hclsyntax.TokenIdent, kind)}
		case "list", "map":
			return of(kind, "string")
		}
	}
	return tokens
}
