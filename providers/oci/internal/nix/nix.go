// Package nix has Nix realise derivations: it runs nix-store, which substitutes or builds as Nix is configured on this
// machine. It's the only process that yuba starts for an image, and only when a group file names a derivation.
package nix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxOutput bounds what nix-store may say on its standard output, which is one path.
	maxOutput = 64 << 10
	// keptLog is how much of a build log's end is kept.
	keptLog = 32 << 10
	// shownLines is how much of it an error shows.
	shownLines = 40
	// patience is how long a build may take to stop when the run is cancelled.
	patience = 10 * time.Second
	// maxBuilds bounds how many times nix-store runs at once; how many builds each of them runs is for nix.conf.
	maxBuilds = 4
)

// Store is the Nix store of this machine.
type Store struct {
	environ []string
	slots   chan struct{}
}

// NewStore returns the store that this environment ("NAME=value") leads to. Nix gets only what it reads of it: no secret
// of yuba's.
func NewStore(environ []string) *Store {
	return &Store{environ: environ, slots: make(chan struct{}, maxBuilds)}
}

// Compiled at their first use: their counted repetitions cost the start of a program that needs none of it.
var (
	// derivation is the name of a derivation in a store: 32 characters of Nix's base 32, and a name
	// (https://nix.dev/manual/nix/2.28/store/store-path).
	derivation = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[0-9a-df-np-sv-z]{32}-[0-9a-zA-Z+\-._?=]{1,207}\.drv$`)
	})
	output = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-zA-Z+\-._?=]{1,64}$`) })
)

// Parse takes PATH.drv or PATH.drv!OUTPUT apart. The path is that of a derivation in some store.
func Parse(s string) (drv, out string, err error) {
	drv, out, has := strings.Cut(s, "!")
	if !has {
		out = "out"
	}
	if !filepath.IsAbs(drv) || filepath.Clean(drv) != drv || !derivation().MatchString(path.Base(drv)) {
		return "", "", fmt.Errorf("%.200q is not the path of a derivation: want /nix/store/HASH-NAME.drv", drv)
	}
	if !output().MatchString(out) {
		return "", "", fmt.Errorf("%.80q is not the name of a derivation's output", out)
	}
	return drv, out, nil
}

// BuildError is a derivation that could not be realised.
type BuildError struct {
	Derivation string
	// Reason is what became of nix-store.
	Reason string
	// Log is the end of what it said.
	Log string
}

func (e *BuildError) Error() string {
	if e.Log == "" {
		return fmt.Sprintf("nix-store --realise %s: %s", e.Derivation, e.Reason)
	}
	return fmt.Sprintf("nix-store --realise %s: %s. The end of what it said:\n%s", e.Derivation, e.Reason, e.Log)
}

// Realise returns the store path of an output, and builds or substitutes it when it isn't there. Whether the output is
// kept from the garbage collector is up to others: that of a group file's derivation, as a rule, is somebody's. say is told when it begins, and "" when it has ended.
func (s *Store) Realise(ctx context.Context, drv, out string, say func(string)) (string, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if ctx.Err() != nil { // with a slot free, either case may have been taken
		return "", ctx.Err()
	}
	program, err := exec.LookPath("nix-store")
	if err != nil {
		return "", errors.New("this machine has no nix-store in PATH, which makes images of derivations: " +
			"install Nix, or realise the derivation elsewhere and name the result as archive or rootfs")
	}
	say("Nix realises " + drv)
	defer say("")
	stdout, stderr := &head{max: maxOutput}, &tail{max: keptLog}
	cmd := exec.CommandContext(ctx, program, "--realise", drv+"!"+out)
	cmd.Env = forNix(s.environ)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// In a process group of its own, so that an interrupt at the terminal comes by way of yuba, and reaches what
	// nix-store has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = patience
	err = cmd.Run()
	if ctx.Err() != nil {
		// What did not stop in time is not left behind. Nothing was started when the run had ended before.
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return "", ctx.Err()
	}
	if err != nil {
		return "", &BuildError{Derivation: drv, Reason: err.Error(), Log: readable(stderr.b)}
	}
	paths := strings.Fields(string(stdout.b))
	if len(paths) != 1 || !filepath.IsAbs(paths[0]) || stdout.more {
		return "", &BuildError{Derivation: drv, Reason: "did not print the one path of the output", Log: readable(stderr.b)}
	}
	return paths[0], nil
}

// names are the variables that Nix, its builders and its ways to a substituter read.
var names = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}

var prefixes = []string{"NIX_", "_NIX_", "XDG_", "LC_", "AWS_"}

// forNix picks from an environment what is for Nix. The rest may hold what is none of its business.
func forNix(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		upper := strings.ToUpper(name)
		return !slices.Contains(names, name) && !(strings.HasSuffix(upper, "_PROXY") && slices.Contains(names, upper)) &&
			!slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
}

// head keeps the beginning of what is written.
type head struct {
	b    []byte
	max  int
	more bool
}

func (h *head) Write(b []byte) (int, error) {
	n := min(len(b), h.max-len(h.b))
	h.b = append(h.b, b[:n]...)
	h.more = h.more || n < len(b)
	return len(b), nil
}

// tail keeps the end of what is written.
type tail struct {
	b   []byte
	max int
}

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	t.b = append(t.b, b[max(0, n-t.max):]...)
	if drop := len(t.b) - t.max; drop > 0 {
		t.b = append(t.b[:0], t.b[drop:]...)
	}
	return n, nil
}

var control = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")

// readable is the end of a log as an error shows it: whole lines, without what would steer a terminal.
func readable(log []byte) string {
	text := strings.ToValidUTF8(string(log), "\uFFFD")
	text = strings.TrimRight(control.ReplaceAllString(text, ""), "\n")
	lines := strings.Split(text, "\n")
	if len(lines) > shownLines {
		lines = lines[len(lines)-shownLines:]
	} else if len(log) >= keptLog && len(lines) > 1 {
		lines = lines[1:] // its beginning is lost
	}
	return string(bytes.TrimSpace([]byte(strings.Join(lines, "\n"))))
}
