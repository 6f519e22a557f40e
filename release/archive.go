package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string
	data []byte
	mode int64
}

// documents are the manual pages and completions, which the program itself
// prints, where a prefix such as /usr/local has them.
func documents(programs []*program, date time.Time) ([]entry, error) {
	p, err := host(programs)
	if err != nil {
		return nil, err
	}
	pages, err := os.MkdirTemp("", "yuba-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(pages)
	program, err := filepath.Abs(p.path)
	if err != nil {
		return nil, err
	}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.Command(program, args...)
		cmd.Env = []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(date.Unix(), 10)}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.name(), strings.Join(args, " "), err)
		}
		return out, nil
	}
	if _, err := run("man", pages); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(pages, f.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"share/man/man1/" + f.Name(), data, 0o644})
	}
	for shell, to := range map[string]string{
		"bash": "bash-completion/completions/yuba", "zsh": "zsh/site-functions/_yuba", "fish": "fish/vendor_completions.d/yuba.fish",
	} {
		data, err := run("completion", shell)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"share/" + to, data, 0o644})
	}
	return out, nil
}

// manual is the README and the pages that it, the help and error messages refer to, from the
// project's folder.
func manual() ([]entry, error) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		return nil, errors.Join(errors.New("there is no docs/*.md: run it in the project's folder"), err)
	}
	var out []entry
	for _, page := range append(pages, "README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{"share/doc/yuba/" + filepath.ToSlash(page), data, 0o644})
	}
	return out, nil
}

// writeArchive writes a tar of the program and further files, below one folder
// of the program's name.
func writeArchive(to string, p *program, date time.Time, entries []entry) (err error) {
	program, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	entries = append(slices.Clone(entries), entry{"bin/yuba", program, 0o755})
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: path.Join(p.name(), e.name), Mode: e.mode, Size: int64(len(e.data)), ModTime: date, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
