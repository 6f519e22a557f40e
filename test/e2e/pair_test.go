package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/test/world"
)

// pair is stock tofu and yuba, each in a folder of its own with the same
// configuration. Stock tofu has yuba's providers as plugins.
type pair struct {
	t           testing.TB
	tofu, yuba  string
	stock, ours string // folders
	env         []string
	initialised bool
}

// newPair writes the files into both folders.
func newPair(t testing.TB, files map[string]string) *pair {
	t.Helper()
	base := t.TempDir()
	p := &pair{t: t, yuba: world.Program(t), tofu: os.Getenv("YUBA_TEST_TOFU"), stock: filepath.Join(base, "stock"), ours: filepath.Join(base, "yuba")}
	if p.tofu == "" {
		t.Fatal("YUBA_TEST_TOFU does not name stock tofu: run 'make test'")
	}
	mirror, rc := filepath.Join(base, "mirror"), filepath.Join(base, "tofu.rc")
	if out, err := exec.Command(p.yuba, "providers", "mirror", mirror).CombinedOutput(); err != nil {
		t.Fatalf("providers mirror: %v: %s", err, out)
	}
	p.write(rc, fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	p.env = []string{"TF_CLI_CONFIG_FILE=" + rc, "HOME=" + base, "PATH=" + os.Getenv("PATH"), "TF_CLI_ARGS=-no-color"}
	p.files(files)
	return p
}

func (p *pair) write(path, content string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// files writes files into both folders.
func (p *pair) files(files map[string]string) {
	p.t.Helper()
	for _, dir := range []string{p.stock, p.ours} {
		for name, content := range files {
			p.write(filepath.Join(dir, name), content)
		}
	}
	p.initialised = false
}

// run runs a program in a folder. Stdin may be "".
func (p *pair) run(program, dir, stdin string, args ...string) world.Result {
	p.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(p.env), "PWD="+dir)
	cmd.Stdin = strings.NewReader(stdin)
	return world.Run(p.t, cmd)
}

// step is one command that both programs run.
type step struct {
	args  []string
	stdin string
	// code is the exit code.
	code int
	// unordered compares lines whatever their order: objects are worked on
	// side by side.
	unordered bool
	// differs are what is different on purpose: lines with one of these texts
	// are left out.
	differs []string
}

func do(args ...string) step { return step{args: args} }

// both runs a step with both programs and compares all that they print.
func (p *pair) both(s step) (stock, ours world.Result) {
	p.t.Helper()
	if !p.initialised {
		if r := p.run(p.tofu, p.stock, "", "init", "-input=false"); r.Code != 0 {
			p.t.Fatalf("tofu init: %v", r)
		}
		p.initialised = true
	}
	stock, ours = p.run(p.tofu, p.stock, s.stdin, s.args...), p.run(p.yuba, p.ours, s.stdin, s.args...)
	if stock.Code != s.code || ours.Code != s.code {
		p.t.Errorf("%q: want exit code %d\nstock tofu: %v\nyuba: %v", s.args, s.code, stock, ours)
		return stock, ours
	}
	for _, stream := range []struct{ name, stock, ours string }{{"stdout", stock.Stdout, ours.Stdout}, {"stderr", stock.Stderr, ours.Stderr}} {
		if diff := cmp.Diff(p.lines(s, stream.stock, p.stock), p.lines(s, stream.ours, p.ours)); diff != "" {
			p.t.Errorf("%q: %s of stock tofu (-) and yuba (+):\n%s", s.args, stream.name, diff)
		}
	}
	return stock, ours
}

var varying = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`"(@?timestamp)":"[^"]*"`), `"$1":"TIME"`},
	{regexp.MustCompile(`after [0-9]+s`), "after 0s"},
	{regexp.MustCompile(`(deposed object|"deposed":|"deposed_key":) ?"?[0-9a-f]{8}`), "$1 KEY"},
	{regexp.MustCompile(`\b(tofu|yuba)( -help| apply| plan| state push| force-unlock)\b`), "PROGRAM$2"},
	{regexp.MustCompile(`yuba ([a-z -]+) -help`), "PROGRAM $1 -help"},
}

// lines are what is compared: without what differs from run to run, and
// without what differs on purpose.
func (p *pair) lines(s step, text, dir string) []string {
	text = strings.ReplaceAll(text, dir, "DIR")
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.by)
	}
	out := strings.Split(text, "\n")
	out = slices.DeleteFunc(out, func(line string) bool {
		return slices.ContainsFunc(s.differs, func(d string) bool { return strings.Contains(line, d) })
	})
	if s.unordered {
		slices.Sort(out)
	}
	return out
}

// share gives yuba what stock tofu has in this file.
func (p *pair) share(name string) {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.stock, name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(p.ours, name), string(b))
}

// same compares a file byte for byte.
func (p *pair) same(name string) {
	p.t.Helper()
	a, err := os.ReadFile(filepath.Join(p.stock, name))
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(p.ours, name))
	if err != nil {
		p.t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		p.t.Errorf("%s of stock tofu (-) and yuba (+):\n%s", name, cmp.Diff(string(a), string(b)))
	}
}
