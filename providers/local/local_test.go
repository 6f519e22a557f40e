package local_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/local"
	"fediversity.eu/yuba/test/providertest"
)

type values = providertest.Values

func core(t *testing.T) *providertest.Core { return providertest.New(t, local.Server("test"), nil) }

// The schemas are those of hashicorp/local 2.5.3: https://search.opentofu.org/provider/hashicorp/local/latest
func TestSchemaIsHashicorps(t *testing.T) {
	const sums = `  content_base64sha256 String computed
  content_base64sha512 String computed
  content_md5 String computed
  content_sha1 String computed
  content_sha256 String computed
  content_sha512 String computed
`
	const rest = `  directory_permission String optional computed
  file_permission String optional computed
  filename String required
  id String computed
`
	const want = `provider version 0
resource local_file version 0
  content String optional
  content_base64 String optional
` + sums + rest + `  sensitive_content String optional sensitive deprecated
  source String optional
resource local_sensitive_file version 0
  content String optional sensitive
  content_base64 String optional sensitive
` + sums + rest + `  source String optional
data local_file version 0
  content String computed
  content_base64 String computed
` + sums + `  filename String required
  id String computed
data local_sensitive_file version 0
  content String computed sensitive
  content_base64 String computed sensitive
` + sums + `  filename String required
  id String computed
function direxists(path String) Bool
`
	if diff := cmp.Diff(want, providertest.Describe(core(t).Schema())); diff != "" {
		t.Errorf("(-hashicorp +here):\n%s", diff)
	}
}

// ofABC are the checksums of "abc" that FIPS 180-4 and RFC 1321 have as examples.
var ofABC = values{
	"id":                   "a9993e364706816aba3e25717850c26c9cd0d89d",
	"content_md5":          "900150983cd24fb0d6963f7d28e17f72",
	"content_sha1":         "a9993e364706816aba3e25717850c26c9cd0d89d",
	"content_sha256":       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	"content_base64sha256": "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
	"content_sha512": "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a" +
		"2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
	"content_base64sha512": "3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==",
}

// umask sets that of the process until the test's end; these tests don't run at once with others of the process.
func umask(t *testing.T, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func perm(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func create(t *testing.T, r *providertest.Resource, config values) {
	t.Helper()
	p := r.Plan(t.Context(), config)
	if p.Err() != "" {
		t.Fatal(p.Err())
	}
	if err := providertest.Errors(p.Apply(t.Context(), nil)); err != "" {
		t.Fatal(err)
	}
	if err := providertest.Errors(r.Refresh(t.Context())); err != "" {
		t.Fatal(err)
	}
	if p := r.Plan(t.Context(), config); p.Action != "no-op" {
		t.Fatalf("second plan is %s %s", p.Action, p.Err())
	}
}

// only tells that the directory has this one entry: no temporary file is left.
func only(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("%s has %v, want only %s (%v)", dir, entries, name, err)
	}
}

func TestFileIsMadeReadAndRemoved(t *testing.T) {
	umask(t, 0o027)
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, attribute, value string
		fileMode, dirMode      fs.FileMode
	}{
		{"local_file", "content", "abc", 0o750, 0o750},
		{"local_file", "sensitive_content", "abc", 0o750, 0o750},
		{"local_file", "content_base64", "YWJj", 0o750, 0o750},
		{"local_file", "source", source, 0o750, 0o750},
		{"local_sensitive_file", "content", "abc", 0o700, 0o700},
		{"local_sensitive_file", "content_base64", "YWJj", 0o700, 0o700},
		{"local_sensitive_file", "source", source, 0o700, 0o700},
	} {
		t.Run(c.kind+" "+c.attribute, func(t *testing.T) {
			r := core(t).Resource(c.kind)
			dir := filepath.Join(t.TempDir(), "a", "b")
			name := filepath.Join(dir, "file")
			create(t, r, values{"filename": name, c.attribute: c.value})
			if b, err := os.ReadFile(name); string(b) != "abc" {
				t.Errorf("content %q, %v", b, err)
			}
			if f, d := perm(t, name), perm(t, dir); f != c.fileMode || d != c.dirMode {
				t.Errorf("permissions %o and %o, want %o and %o", f, d, c.fileMode, c.dirMode)
			}
			for attr, want := range ofABC {
				if r.State[attr] != want {
					t.Errorf("%s is %v, want %v", attr, r.State[attr], want)
				}
			}
			only(t, dir, "file")
			if diags := r.Plan(t.Context(), nil).Apply(t.Context(), nil); len(diags) > 0 || r.State != nil {
				t.Fatal(providertest.Text(diags))
			}
			if _, err := os.Stat(name); !os.IsNotExist(err) {
				t.Errorf("the file is still there: %v", err)
			}
		})
	}
}

func TestFilePermissions(t *testing.T) {
	umask(t, 0o022)
	name := filepath.Join(t.TempDir(), "d", "file")
	r := core(t).Resource("local_file")
	create(t, r, values{"filename": name, "content": "a", "file_permission": "0444", "directory_permission": "711"})
	if f, d := perm(t, name), perm(t, filepath.Dir(name)); f != 0o444 || d != 0o711 {
		t.Errorf("permissions %o and %o", f, d)
	}
	p := r.Plan(t.Context(), values{"filename": name, "content": "a", "file_permission": "0600", "directory_permission": "711"})
	if p.Action != "replace" {
		t.Fatalf("other permissions are %s", p.Action)
	}
	p.Apply(t.Context(), nil)
	if f := perm(t, name); f != 0o600 {
		t.Errorf("permissions %o", f)
	}
	for _, bad := range []string{"", "7", "07777", "1777", "888", "rwx", "+77"} {
		for _, attr := range []string{"file_permission", "directory_permission"} {
			if got := r.Plan(t.Context(), values{"filename": name, "content": "a", attr: bad}).Err(); !strings.Contains(got, "are no permissions") {
				t.Errorf("%s %q: %q", attr, bad, got)
			}
		}
	}
}

func TestFileThatOthersChangedIsMadeAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for what, change := range map[string]func() error{
		"removed": func() error { return os.Remove(name) },
		"changed": func() error { return os.WriteFile(name, []byte("abcd"), 0o600) },
	} {
		r := core(t).Resource("local_file")
		create(t, r, values{"filename": name, "content": "abc"})
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if diags := r.Refresh(t.Context()); len(diags) > 0 || r.State != nil {
			t.Errorf("%s: state %v %s", what, r.State, providertest.Text(diags))
		}
		create(t, r, values{"filename": name, "content": "abc"})
		if b, _ := os.ReadFile(name); string(b) != "abc" {
			t.Errorf("%s: content %q", what, b)
		}
	}
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	umask(t, 0o022)
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	create(t, core(t).Resource("local_file"), values{"filename": name, "content": "after", "file_permission": "600"})
	before := make([]byte, 10)
	if n, _ := open.Read(before); string(before[:n]) != "before" {
		t.Errorf("who had the old file open reads %q", before[:n])
	}
	if perm(t, name) != 0o600 {
		t.Errorf("the permissions are still %o", perm(t, name))
	}
	only(t, dir, "file")
}

func TestFileBehindLinksIsWritten(t *testing.T) {
	dir := t.TempDir()
	for link, to := range map[string]string{"one": "two", "two": filepath.Join(dir, "d", "file"), "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	create(t, core(t).Resource("local_file"), values{"filename": filepath.Join(dir, "one"), "content": "abc"})
	if b, err := os.ReadFile(filepath.Join(dir, "d", "file")); string(b) != "abc" {
		t.Errorf("content %q, %v", b, err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "one")); to != "two" {
		t.Errorf("the link is gone: %q %v", to, err)
	}
	diags := core(t).Resource("local_file").Plan(t.Context(), values{"filename": filepath.Join(dir, "loop"), "content": "abc"}).Apply(t.Context(), nil)
	if got := providertest.Errors(diags); !strings.Contains(got, "symbolic links") {
		t.Errorf("loop: %q", got)
	}
}

func TestFileErrorsLeaveNothingBehindAndTellNoSecret(t *testing.T) {
	const secret = "s3cr3t-s3cr3t"
	dir := t.TempDir()
	for _, sub := range []string{"dir", "fifo"} {
		var err error
		if sub == "dir" {
			err = os.Mkdir(filepath.Join(dir, sub), 0o700)
		} else {
			err = syscall.Mkfifo(filepath.Join(dir, sub), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.ReadDir(dir)
	for _, c := range []struct {
		kind   string
		config values
		want   string
	}{
		{"local_sensitive_file", values{"filename": filepath.Join(dir, "dir"), "content": secret}, "a directory"},
		{"local_sensitive_file", values{"filename": filepath.Join(dir, "fifo"), "content": secret}, "a pipe"},
		{"local_sensitive_file", values{"filename": filepath.Join(dir, "new") + "/", "content": secret}, "not the name of a file"},
		{"local_sensitive_file", values{"filename": "", "content": secret}, "not the name of a file"},
		{"local_sensitive_file", values{"filename": os.DevNull, "content": secret}, "a device"},
		{"local_sensitive_file", values{"filename": os.DevNull + "/x", "content": secret}, "not a directory"},
		{"local_sensitive_file", values{"filename": filepath.Join(dir, "x"), "content_base64": secret}, "illegal base64"},
		{"local_file", values{"filename": filepath.Join(dir, "x"), "sensitive_content": secret, "file_permission": "0600", "source": providertest.Unknown}, ""},
		{"local_file", values{"filename": filepath.Join(dir, "x"), "source": filepath.Join(dir, "missing")}, "no such file"},
		{"local_file", values{"filename": filepath.Join(dir, "x"), "source": dir}, "is a directory"},
		{"local_file", values{"filename": filepath.Join(dir, "x"), "content": secret, "content_base64": secret}, "Exactly one"},
		{"local_sensitive_file", values{"filename": filepath.Join(dir, "x"), "content": secret, "source": secret}, "Exactly one of content, content_base64, source must be set, and 2 are"},
		{"local_file", values{"filename": filepath.Join(dir, "x")}, "Exactly one of content, content_base64, source, sensitive_content must be set, and 0 are"},
	} {
		r := core(t).Resource(c.kind)
		p := r.Plan(t.Context(), c.config)
		got := p.Err()
		if c.want == "" {
			if got != "" {
				t.Errorf("%v: %s", c.config, got)
			}
			continue
		}
		if got == "" {
			got = providertest.Errors(p.Apply(t.Context(), nil))
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, secret) {
			t.Errorf("%s %v: %q", c.kind, c.config, got)
		}
		if r.State != nil {
			t.Errorf("%s %v has the state %v", c.kind, c.config, r.State)
		}
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("left behind: %v", after)
	}
}

func TestFileThatIsAPipeNowIsNotOpened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	r := core(t).Resource("local_file")
	create(t, r, values{"filename": name, "content": "abc"})
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := providertest.Errors(r.Refresh(t.Context())); !strings.Contains(got, "a pipe") {
		t.Errorf("error %q", got)
	}
}

func TestStateOfAnOldReleaseIsTakenAsItIs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := core(t).Resource("local_file")
	// Before 2.4 there were no checksums but the id.
	if diags := r.Upgrade(t.Context(), 0, `{"content":"abc","filename":"`+name+`","id":"a9993e364706816aba3e25717850c26c9cd0d89d",
		"file_permission":"0777","directory_permission":"0777","content_base64":null,"sensitive_content":null,"source":null}`); len(diags) > 0 {
		t.Fatal(providertest.Text(diags))
	}
	if diags := r.Refresh(t.Context()); len(diags) > 0 || r.State == nil {
		t.Fatal(providertest.Text(diags))
	}
	if p := r.Plan(t.Context(), values{"filename": name, "content": "abc"}); p.Action != "no-op" {
		t.Errorf("plan is %s", p.Action)
	}
}

func TestDataSources(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"local_file", "local_sensitive_file"} {
		got, diags := core(t).Read(t.Context(), kind, values{"filename": name})
		if len(diags) > 0 {
			t.Fatal(providertest.Text(diags))
		}
		want := values{"filename": name, "content": "abc", "content_base64": "YWJj"}
		for k, v := range ofABC {
			want[k] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if _, diags := core(t).Read(t.Context(), kind, values{"filename": name + "x"}); !strings.Contains(providertest.Errors(diags), "no such file") {
			t.Errorf("%s of no file: %s", kind, providertest.Text(diags))
		}
	}
	binary := []byte{0xff, 0, 'a'}
	if err := os.WriteFile(name, binary, 0o600); err != nil {
		t.Fatal(err)
	}
	got, diags := core(t).Read(t.Context(), "local_file", values{"filename": name})
	if len(diags) > 0 || got["content_base64"] != base64.StdEncoding.EncodeToString(binary) {
		t.Errorf("binary: %v %s", got, providertest.Text(diags))
	}
	if err := os.Truncate(name, 100<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, diags := core(t).Read(t.Context(), "local_file", values{"filename": name}); !strings.Contains(providertest.Errors(diags), "too many for a state") {
		t.Errorf("a file too large: %s", providertest.Text(diags))
	}
}

func TestDirExists(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for path, want := range map[string]any{dir: true, "": true, ".": true, "../" + filepath.Base(dir): true, "missing": false, dir + "/missing/x": false} {
		if got, err := core(t).Call(t.Context(), "direxists", path); got != want {
			t.Errorf("direxists(%q) is %v %s, want %v", path, got, err, want)
		}
	}
	for path, want := range map[string]string{name: "not a directory", "file": "not a directory", name + "/x": "not a directory"} {
		if got, err := core(t).Call(t.Context(), "direxists", path); got != nil || !strings.Contains(err, want) {
			t.Errorf("direxists(%q) is %v %q", path, got, err)
		}
	}
}
