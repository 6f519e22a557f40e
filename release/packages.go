package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// goPackage is a package that a program links.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
}

// standard is what the standard library is called where modules are listed.
const standard = "std"

// module is the path of the package's module.
func (p goPackage) module() string {
	if p.Standard || p.Module == nil {
		return standard
	}
	return p.Module.Path
}

// listPackages asks Go for the packages that a program of a platform links.
func listPackages(program, goos, goarch string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module,Imports", program)
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var out []goPackage
	for d := json.NewDecoder(stdout); err == nil; {
		var p goPackage
		if err = d.Decode(&p); err == nil {
			out = append(out, p)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("go list %s: %w", program, err)
	}
	return out, nil
}

// legal says whether a file's name is one of those that licences and notices
// have; "go mod vendor" keeps the same ones.
func legal(name string) bool {
	for _, prefix := range []string{"AUTHORS", "CONTRIBUTORS", "COPYLEFT", "COPYING", "COPYRIGHT", "LEGAL", "LICENSE", "LICENCE", "NOTICE", "PATENTS"} {
		if strings.HasPrefix(strings.ToUpper(name), prefix) && !strings.HasSuffix(name, ".go") {
			return true
		}
	}
	return false
}

// licencesDir is where an archive has the licences of what is linked.
const licencesDir = "licenses"

// licenceFiles are the licences and notices of all modules, from the folder of
// each linked package up to the module's own, as licenses/MODULE/....
func licenceFiles(packages []goPackage) ([]entry, error) {
	seen := map[string]bool{}
	var out []entry
	for _, p := range packages {
		dir, inside := p.Dir, strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.module()), "/")
		if p.Standard {
			inside = p.ImportPath
			// One above src is where Go has its licence.
			dir, inside = filepath.Join(dir, strings.Repeat("../", strings.Count(inside, "/")+2)), ""
		}
		for {
			to := filepath.Join(licencesDir, p.module(), inside)
			if seen[to] {
				break
			}
			seen[to] = true
			files, err := os.ReadDir(dir)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				if !f.Type().IsRegular() || !legal(f.Name()) {
					continue
				}
				data, err := os.ReadFile(filepath.Join(dir, f.Name()))
				if err != nil {
					return nil, err
				}
				out = append(out, entry{filepath.Join(to, f.Name()), data, 0o644})
			}
			if inside == "" {
				break
			}
			dir, inside = filepath.Dir(dir), strings.TrimPrefix(filepath.Dir("/"+inside), "/")
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// licencesOf are the SPDX identifiers of the licences that lie in a module's
// own folder.
func licencesOf(module string, files []entry) []string {
	var ids []string
	for _, f := range files {
		if filepath.Dir(f.name) != filepath.Join(licencesDir, module) || strings.HasPrefix(filepath.Base(f.name), "PATENTS") {
			continue // a grant of patents has no SPDX identifier
		}
		for _, m := range licensecheck.Scan(f.data).Match {
			// A mere mention, such as a URL in a NOTICE, is no licence text.
			if !m.IsURL && !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}
