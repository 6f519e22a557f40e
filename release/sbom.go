package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// materials is the software bill of materials of a program, in CycloneDX 1.6: the
// modules that it says it is linked from, each with the hash that go.sum has
// for it, its licences, and the modules whose packages it imports.
func materials(p *program, version string, date time.Time, licences []entry) ([]byte, error) {
	own := p.info.Main.Path
	root := "pkg:golang/" + own + "@v" + url.PathEscape(version)
	refs := map[string]string{own: root}
	var components []cdx.Component
	add := func(module string, c cdx.Component) {
		c.BOMRef, c.Type = c.PackageURL, cdx.ComponentTypeLibrary
		if ids := licencesOf(module, licences); len(ids) > 0 {
			list := cdx.Licenses{}
			for _, id := range ids {
				list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
			}
			c.Licenses = &list
		}
		refs[module] = c.BOMRef
		components = append(components, c)
	}
	goVersion := strings.TrimPrefix(p.info.GoVersion, "go")
	add(standard, cdx.Component{Name: standard, Version: goVersion, PackageURL: "pkg:golang/std@" + goVersion})
	for _, m := range p.info.Deps {
		c, err := component(m, own, version)
		if err != nil {
			return nil, err
		}
		add(m.Path, c)
	}

	bom := cdx.NewBOM()
	bom.Version = 1
	bom.SerialNumber = serial(p)
	bom.Metadata = &cdx.Metadata{
		Timestamp: date.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: root, Type: cdx.ComponentTypeApplication, Name: "yuba", Version: version, PackageURL: root,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(p.sha256[:])}},
			Properties: &[]cdx.Property{
				{Name: "go:path", Value: p.info.Path},
				{Name: "go:platform", Value: p.goos + "/" + p.goarch},
				{Name: "go:version", Value: p.info.GoVersion},
			},
		},
	}
	bom.Components = &components
	edges, err := imports(p.packages, refs)
	if err != nil {
		return nil, err
	}
	bom.Dependencies = &edges
	var b bytes.Buffer
	e := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true)
	if err := e.EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// component is a module as the program names it. One that is replaced by a
// folder of this repository is no version of the module that has the name, and
// must not be taken for it by who looks for vulnerabilities.
func component(m *debug.Module, own, version string) (cdx.Component, error) {
	linked := m
	if m.Replace != nil {
		linked = m.Replace
	}
	c := cdx.Component{Name: linked.Path, Version: linked.Version}
	if linked != m {
		c.Properties = &[]cdx.Property{{Name: "go:replaces", Value: m.Path + "@" + m.Version}}
	}
	if strings.HasPrefix(linked.Path, "./") {
		folder := path.Clean(linked.Path)
		c.Name, c.Version = path.Join(own, folder), version
		c.PackageURL = "pkg:golang/" + own + "@v" + url.PathEscape(version) + "#" + folder
		return c, nil
	}
	c.PackageURL = "pkg:golang/" + linked.Path + "@" + url.QueryEscape(linked.Version)
	if linked.Sum != "" { // a vendored module has none
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(linked.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return c, fmt.Errorf("module %s has a hash of a kind that is not known: %q", linked.Path, linked.Sum)
		}
		// Of the list of the module's files with their hashes, as
		// golang.org/x/mod/sumdb/dirhash makes it.
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c, nil
}

// imports says for each module whose packages its packages import. refs are the
// names of the modules in the bill.
func imports(packages []goPackage, refs map[string]string) ([]cdx.Dependency, error) {
	moduleOf := map[string]string{}
	for _, p := range packages {
		moduleOf[p.ImportPath] = p.module()
		if refs[p.module()] == "" {
			return nil, fmt.Errorf("package %s is linked, but its module %s is not in the program's own list", p.ImportPath, p.module())
		}
	}
	needs := map[string][]string{}
	for _, ref := range refs {
		needs[ref] = nil
	}
	for _, p := range packages {
		from := refs[p.module()]
		for _, i := range p.Imports {
			if to := refs[moduleOf[i]]; to != "" && to != from && !slices.Contains(needs[from], to) {
				needs[from] = append(needs[from], to)
			}
		}
	}
	var out []cdx.Dependency
	for ref, on := range needs {
		slices.Sort(on)
		out = append(out, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	slices.SortFunc(out, func(a, b cdx.Dependency) int { return strings.Compare(a.Ref, b.Ref) })
	return out, nil
}

// serial is a UUID (RFC 9562, version 8) that is another one for each program.
func serial(p *program) string {
	b := sha256.Sum256(append([]byte("bill of materials of "), p.sha256[:]...))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
