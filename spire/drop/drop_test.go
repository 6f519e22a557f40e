package drop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/internal/place"
	"fediversity.eu/yuba/test/authority"
)

// of is a hand-off of these nodes; the token is the namespace's.
func of(t *testing.T, namespace string, nodes ...string) handoff.Handoff {
	t.Helper()
	k, err := handoff.Kubeconfig{Server: "https://127.0.0.1:6443", Token: "token-of-" + namespace, CA: authority.PEM(t)}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return handoff.Handoff{Namespace: namespace, Nodes: nodes, Kubeconfig: string(k)}
}

func receive(t *testing.T, dir string, h handoff.Handoff) {
	t.Helper()
	if err := Receive(t.Context(), dir, h); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) Contents {
	t.Helper()
	c, err := Read(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// snapshot is all files with mode and content.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = info.Mode().String() + " " + string(data)
	}
	return out
}

func ids(namespace string, nodes ...string) (out []handoff.Identity) {
	for _, n := range nodes {
		out = append(out, handoff.Identity{Namespace: namespace, Node: n})
	}
	return out
}

func TestLifeOfANamespace(t *testing.T) {
	dir := t.TempDir()
	receive(t, dir, of(t, "bank", "vault"))
	bank := snapshot(t, dir)
	first := of(t, "shop", "web", "db", "mail")
	receive(t, dir, first)
	if diff := cmp.Diff(Contents{Nodes: append(ids("bank", "vault"), ids("shop", "db", "mail", "web")...)}, read(t, dir)); diff != "" {
		t.Errorf("after the first hand-off: %s", diff)
	}
	for name, file := range snapshot(t, dir) {
		if !strings.HasPrefix(file, "-rw------- ") {
			t.Errorf("others can read %s: %.10s", name, file)
		}
	}

	before := snapshot(t, dir)
	receive(t, dir, first)
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("the same once more is not the same: %s", diff)
	}

	second := of(t, "shop", "web", "cache")
	receive(t, dir, second)
	if diff := cmp.Diff(Contents{Nodes: append(ids("bank", "vault"), ids("shop", "cache", "web")...)}, read(t, dir)); diff != "" {
		t.Errorf("after the second hand-off: %s", diff)
	}
	if got := snapshot(t, dir)["shop.kubeconfig"]; !strings.HasSuffix(got, second.Kubeconfig) {
		t.Errorf("the kubeconfig is the old one")
	}

	for range 2 { // the second time there is nothing
		if err := Retire(t.Context(), dir, "shop"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(bank, snapshot(t, dir)); diff != "" {
			t.Errorf("after the retirement there is more, or less, than the other namespace's: %s", diff)
		}
	}
}

// What looks like another namespace's by its name's beginning is another's.
func TestRetireTakesNothingOfOthers(t *testing.T) {
	dir := t.TempDir()
	receive(t, dir, of(t, "shop-two", "web"))
	receive(t, dir, of(t, "shop2", "web"))
	before := snapshot(t, dir)
	receive(t, dir, of(t, "shop", "db"))
	if err := Retire(t.Context(), dir, "shop"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestANodeWithTheIdentityOfAnotherIsRefusedAndNothingChanges(t *testing.T) {
	dir := t.TempDir()
	receive(t, dir, of(t, "a", "b-c"))
	receive(t, dir, of(t, "a-b", "x"))
	before := snapshot(t, dir)
	err := Receive(t.Context(), dir, of(t, "a-b", "x", "c"))
	if got := (handoff.CollisionError{}); !errors.As(err, &got) {
		t.Fatalf("%v, want a collision", err)
	}
	for _, word := range []string{"node b-c of namespace a", "node c of namespace a-b"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Errorf("something changed: %s", diff)
	}
	// Nodes that go make room for others.
	receive(t, dir, of(t, "a", "other"))
	receive(t, dir, of(t, "a-b", "c"))
}

func TestABrokenFileHarmsNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		nodes []string // of namespace shop that are left out
		want  string
	}{
		"half a drop-file": {func(t *testing.T, dir string) { write(t, dir, "shop.web.json", `{"version":1,"name`) }, []string{"web"}, "not JSON"},
		"another node's":   {func(t *testing.T, dir string) { rename(t, dir, "shop.db.json", "shop.web.json") }, []string{"web"}, "speaks of node db"},
		"a link":           {func(t *testing.T, dir string) { link(t, dir, "shop.db.json", "shop.web.json") }, []string{"web"}, "not a regular file"},
		"a link out": {func(t *testing.T, dir string) {
			link(t, dir, "/etc/passwd", "shop.kubeconfig")
		}, []string{"db", "web"}, "not a regular file"},
		"a directory": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "shop.web.json")))
			must(t, os.Mkdir(filepath.Join(dir, "shop.web.json"), 0o700))
		}, []string{"web"}, "not a regular file"},
		"a pipe that nobody writes to": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "shop.web.json")))
			must(t, unix.Mkfifo(filepath.Join(dir, "shop.web.json"), 0o600))
		}, []string{"web"}, "not a regular file"},
		"no kubeconfig":   {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "shop.kubeconfig"))) }, []string{"db", "web"}, "not there"},
		"half kubeconfig": {func(t *testing.T, dir string) { write(t, dir, "shop.kubeconfig", `{"apiVersion":"v1"`) }, []string{"db", "web"}, "not JSON"},
		"a huge file":     {func(t *testing.T, dir string) { write(t, dir, "shop.web.json", strings.Repeat(" ", 2<<20)) }, []string{"web"}, "larger"},
		"a kubeconfig with a program": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, "shop.kubeconfig"))
			must(t, err)
			write(t, dir, "shop.kubeconfig", strings.Replace(string(data), `"user":{`, `"user":{"exec":{"command":"/bin/sh"},`, 1))
		}, []string{"db", "web"}, "exec"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			receive(t, dir, of(t, "bank", "vault"))
			receive(t, dir, of(t, "shop", "web", "db"))
			c.spoil(t, dir)
			got := read(t, dir)
			if !slices.Contains(got.Nodes, ids("bank", "vault")[0]) {
				t.Error("the other namespace is left out")
			}
			var out []string
			for _, b := range got.Broken {
				out = append(out, b.Node)
				if !strings.Contains(b.Err.Error(), c.want) || strings.Contains(b.Err.Error(), "token-of") {
					t.Errorf("%v, want %q", b.Err, c.want)
				}
			}
			if diff := cmp.Diff(c.nodes, out); diff != "" {
				t.Errorf("left out: %s", diff)
			}
			// The next hand-off mends it, where it is a file.
			if name == "a directory" {
				return
			}
			receive(t, dir, of(t, "shop", "web", "db"))
			if got := read(t, dir); len(got.Broken) > 0 {
				t.Errorf("not mended: %v", got.Broken)
			}
		})
	}
}

func TestOfTwoThatCollideByHandNeitherIsTaken(t *testing.T) {
	dir := t.TempDir()
	receive(t, dir, of(t, "a", "b-c", "x"))
	receive(t, dir, of(t, "a-b", "y"))
	data, err := handoff.NewDrop(handoff.Identity{Namespace: "a-b", Node: "c"}).Marshal()
	must(t, err)
	write(t, dir, "a-b.c.json", string(data))
	write(t, dir, "notes.txt", "by hand")
	write(t, dir, ".a.x.json.tmp", "of one that was killed")
	got := read(t, dir)
	want := Contents{Nodes: append(ids("a-b", "y"), ids("a", "x")...), Other: []string{"notes.txt"}}
	if len(got.Broken) != 2 {
		t.Errorf("broken: %v", got.Broken)
	}
	receive(t, dir, of(t, "shop", "web")) // no matter of its
	if err := Retire(t.Context(), dir, "shop"); err != nil {
		t.Fatal(err)
	}
	got.Broken = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheDirectoryMustBeTrustworthyAndThere(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	if err := Receive(t.Context(), dir, of(t, "shop", "web")); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("a directory that everybody can write to: %v", err)
	}
	gone := filepath.Join(dir, "gone")
	if err := Retire(t.Context(), gone, "shop"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Read(t.Context(), gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestOneWaitsForTheOther(t *testing.T) {
	dir := t.TempDir()
	d, err := place.Write(t.Context(), dir)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Receive(ctx, dir, of(t, "shop", "web")) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("while another one works: %v", err)
	}
	d.Close()
	receive(t, dir, of(t, "shop", "web"))
}

// A hand-off over ssh as root is for a server that is another user.
func TestFilesBelongToTheDirectorysOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		dir := t.TempDir()
		receive(t, dir, of(t, "shop", "web")) // nobody else can give files away
		return
	}
	dir := t.TempDir()
	must(t, os.Chown(dir, 65534, 65534))
	receive(t, dir, of(t, "shop", "web"))
	for name := range snapshot(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 65534 {
			t.Errorf("%s belongs to %d", name, uid)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
}

func link(t *testing.T, dir, to, name string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(dir, name)))
	must(t, os.Symlink(to, filepath.Join(dir, name)))
}

// What one who was killed was writing goes with the next one's work.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	receive(t, dir, of(t, "bank", "vault"))
	write(t, dir, ".bank.x.json.tmp", "another namespace's")
	before := snapshot(t, dir)
	for _, name := range []string{".shop.web.json.tmp", ".shop.kubeconfig.tmp"} {
		write(t, dir, name, "half")
	}
	receive(t, dir, of(t, "shop", "db"))
	for name := range snapshot(t, dir) {
		if strings.HasPrefix(name, ".shop") {
			t.Errorf("%s is left after a hand-off", name)
		}
	}
	write(t, dir, ".shop.kubeconfig.tmp", "half")
	if err := Retire(t.Context(), dir, "shop"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error(diff)
	}
}
