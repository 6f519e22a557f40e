package nix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const drv = "/nix/store/0c4p3nhsqzb5cdyxgq1yjg0a1nz8jcrb-web.tar.gz.drv"

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, drv, out string }{
		{drv, drv, "out"},
		{drv + "!image", drv, "image"},
		{"/srv/my store/" + filepath.Base(drv), "/srv/my store/" + filepath.Base(drv), "out"},
	} {
		gotDrv, out, err := Parse(c.in)
		if err != nil || gotDrv != c.drv || out != c.out {
			t.Errorf("%s is %s, %s, %v", c.in, gotDrv, out, err)
		}
	}
	for _, in := range []string{"", "x", "--help", strings.TrimSuffix(drv, ".drv"), "nix/store/" + filepath.Base(drv), "/nix/../" + filepath.Base(drv),
		drv + "!", drv + "!a b", drv + "!a!b", drv + "\n", "--option" + drv, strings.Replace(drv, "0c4p", "0e4p", 1)} {
		if _, _, err := Parse(in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}

// Nix gets what it reads, and nothing that is secret to yuba.
func TestEnvironment(t *testing.T) {
	got := forNix([]string{"PATH=/bin", "HOME=/root", "NIX_REMOTE=daemon", "NIX_CONFIG=a = b", "https_proxy=x", "NO_PROXY=y", "LC_ALL=C", "AWS_PROFILE=z", "XDG_CACHE_HOME=/c",
		"TF_HTTP_PASSWORD=secret", "TF_ENCRYPTION=secret", "REGISTRY_AUTH_FILE=/x", "KUBE_CONFIG_PATH=/x", "SSH_PRIVATE_KEY_FILE=/x", "FOO_PROXY_X=1", "MY_PROXY=1"})
	want := []string{"PATH=/bin", "HOME=/root", "NIX_REMOTE=daemon", "NIX_CONFIG=a = b", "https_proxy=x", "NO_PROXY=y", "LC_ALL=C", "AWS_PROFILE=z", "XDG_CACHE_HOME=/c"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// fake puts a nix-store into PATH. The real one is tested in test/images.
func fake(t *testing.T, script string) *Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nix-store"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return NewStore(os.Environ())
}

func quiet(string) {}

func TestRealise(t *testing.T) {
	var said []string
	got, err := fake(t, `[ "$*" = "--realise `+drv+`!out" ] && echo noise >&2 && echo /nix/store/x`).Realise(t.Context(), drv, "out", func(s string) { said = append(said, s) })
	if err != nil || got != "/nix/store/x" {
		t.Errorf("%q, %v", got, err)
	}
	if d := cmp.Diff([]string{"Nix realises " + drv, ""}, said); d != "" {
		t.Error(d)
	}
}

func TestBuildFails(t *testing.T) {
	for _, c := range []struct {
		script string
		want   []string
		not    string
	}{
		{`i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo "line $i" >&2; done; printf '\033[31merror:\033[0m it\007 broke\n' >&2; exit 100`,
			[]string{"exit status 100", "line 5000\nerror: it broke", "line 4962\n"}, "line 4961\n"},
		{`printf '\033]0;title\007\377x' >&2; exit 1`, []string{"\uFFFDx"}, "\x1b"},
		{`true`, []string{"did not print the one path"}, ""},
		{`echo relative/path`, []string{"did not print the one path"}, ""},
		{`echo /nix/store/a /nix/store/b`, []string{"did not print the one path"}, ""},
		{`head -c 1000000 /dev/zero | tr '\0' /`, []string{"did not print the one path"}, ""},
		{`kill -9 $$`, []string{"signal: killed"}, ""},
	} {
		_, err := fake(t, c.script).Realise(t.Context(), drv, "out", quiet)
		build := (*BuildError)(nil)
		if !errors.As(err, &build) || build.Derivation != drv {
			t.Errorf("%s: %v", c.script, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in\n%s", c.script, w, err)
			}
		}
		if c.not != "" && strings.Contains(err.Error(), c.not) {
			t.Errorf("%s: %q is in\n%s", c.script, c.not, err)
		}
		if len(err.Error()) > keptLog+1000 {
			t.Errorf("%s: the error has %d bytes", c.script, len(err.Error()))
		}
	}
}

func TestNoNix(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := NewStore(nil).Realise(t.Context(), drv, "out", quiet); err == nil || !strings.Contains(err.Error(), "no nix-store in PATH") {
		t.Error(err)
	}
}

// A build ends with the run that asked for it, and with all that it has started.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := fake(t, fmt.Sprintf(`sleep 1000 & echo $! $$ > %q; wait`, fifo))
	done := make(chan error, 1)
	go func() {
		_, err := s.Realise(ctx, drv, "out", quiet)
		done <- err
	}()
	b, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for _, field := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for running(pid) { // it's being killed
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// A run that is cancelled before its turn, or at the moment of it, starts nothing and ends in good order.
func TestCancelledBefore(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	s := fake(t, fmt.Sprintf("touch %q; echo /nix/store/x", started))
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Realise(ctx, drv, "out", func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled at the start: %v", err)
	}
	var said []string
	for range 50 {
		if _, err := s.Realise(ctx, drv, "out", func(text string) { said = append(said, text) }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
	}
	if _, err := os.Stat(started); err == nil || len(said) > 0 {
		t.Errorf("it has begun: %v, %q", err, said)
	}
}

// running tells whether a process still does anything: one that has ended stays until its parent asks.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}
