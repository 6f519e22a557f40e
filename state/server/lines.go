package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLinesFile bounds a file of users or of grants, in bytes.
const maxLinesFile = 1 << 20

// readFile parses a file, which is one of what.
func readFile[T any](what, path string, parse func(io.Reader) (*T, error)) (*T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s file: %w", what, err)
	}
	defer f.Close()
	v, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s file %s: %w", what, path, err)
	}
	return v, nil
}

// eachLine gives each line with its number to take, without the space around it,
// until that fails. Empty lines and lines that begin with # are skipped.
func eachLine(r io.Reader, take func(n int, line string) error) error {
	data, err := io.ReadAll(io.LimitReader(r, maxLinesFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxLinesFile {
		return fmt.Errorf("larger than %d bytes", maxLinesFile)
	}
	n := 0
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		n++
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := take(n, line); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("after line %d: %w", n, err)
	}
	return nil
}
