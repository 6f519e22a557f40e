// Command release makes what is published out of the programs that "make
// release" has built: for each a software bill of materials and an archive, and
// one list of checksums.
//
//	go run ./release -version 1.2.3 -epoch 1767225600 dist/yuba-1.2.3-linux-amd64 dist/yuba-1.2.3-linux-arm64
//
// The same programs, version and epoch give the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "`version` of the programs")
	epoch := flag.Int64("epoch", 0, "`seconds` since 1970: the date of everything (reproducible-builds.org)")
	flag.Parse()
	if flag.NArg() == 0 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: release -version VERSION [-epoch SECONDS] PROGRAM...")
		os.Exit(2)
	}
	if err := publish(flag.Args(), *version, time.Unix(*epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// program is one of the programs that are published.
type program struct {
	path         string
	goos, goarch string
	info         *buildinfo.BuildInfo
	sha256       [sha256.Size]byte
	packages     []goPackage
}

// name is that of the program's file, and of all that is made of it.
func (p *program) name() string { return filepath.Base(p.path) }

// publish writes the files beside the programs, yuba-VERSION-OS-ARCH in one folder.
func publish(paths []string, version string, date time.Time) error {
	programs, err := open(paths, version)
	if err != nil {
		return err
	}
	dir := filepath.Dir(paths[0])
	extras, err := documents(programs, date)
	if err != nil {
		return err
	}
	pages, err := manual()
	if err != nil {
		return err
	}
	var names []string
	for _, p := range programs {
		licences, err := licenceFiles(p.packages)
		if err != nil {
			return err
		}
		bom, err := materials(p, version, date, licences)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		sbom := p.name() + ".cdx.json"
		if err := os.WriteFile(filepath.Join(dir, sbom), bom, 0o644); err != nil {
			return err
		}
		archive := p.name() + ".tar.gz"
		if err := writeArchive(filepath.Join(dir, archive), p, date, slices.Concat([]entry{{"sbom.cdx.json", bom, 0o644}}, licences, extras, pages)); err != nil {
			return err
		}
		names = append(names, p.name(), sbom, archive)
	}
	return writeSums(dir, names)
}

// open reads the programs of a version. Others may lie beside them: of that version with
// a suffix, too, which a pattern would take for it.
func open(paths []string, version string) (out []*program, err error) {
	for _, path := range paths {
		p := &program{path: path}
		if p.info, err = buildinfo.ReadFile(path); err != nil {
			return nil, err
		}
		for _, s := range p.info.Settings {
			switch s.Key {
			case "GOOS":
				p.goos = s.Value
			case "GOARCH":
				p.goarch = s.Value
			}
		}
		if want := "yuba-" + version + "-" + p.goos + "-" + p.goarch; p.name() != want || filepath.Dir(path) != filepath.Dir(paths[0]) {
			return nil, fmt.Errorf("%s is not named %s, or not in the folder of the others", path, want)
		}
		if p.sha256, err = digest(path); err != nil {
			return nil, err
		}
		if p.packages, err = listPackages(p.info.Path, p.goos, p.goarch); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// host is the program that this machine can run.
func host(programs []*program) (*program, error) {
	for _, p := range programs {
		if p.goos == runtime.GOOS && p.goarch == runtime.GOARCH {
			return p, nil
		}
	}
	return nil, fmt.Errorf("none of the programs is for %s/%s, which is needed to make manual pages and completions", runtime.GOOS, runtime.GOARCH)
}

func digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// writeSums writes SHA256SUMS, for "sha256sum -c".
func writeSums(dir string, names []string) error {
	var b strings.Builder
	for _, name := range names {
		sum, err := digest(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}
