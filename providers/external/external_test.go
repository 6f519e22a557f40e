package external_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/external"
	"fediversity.eu/yuba/test/providertest"
)

type values = providertest.Values

func core(t *testing.T) *providertest.Core { return providertest.New(t, external.Server("test"), nil) }

func read(t *testing.T, config values) (values, string) {
	t.Helper()
	got, diags := core(t).Read(t.Context(), "external", config)
	return got, providertest.Errors(diags)
}

func script(s string) []string { return []string{"sh", "-c", s} }

// The schema is that of hashicorp/external 2.3.5: https://search.opentofu.org/provider/hashicorp/external/latest
func TestSchemaIsHashicorps(t *testing.T) {
	const want = `provider version 0
data external version 0
  id String computed
  program List[String] required
  query Map[String] optional
  result Map[String] computed
  working_dir String optional
`
	if diff := cmp.Diff(want, providertest.Describe(core(t).Schema())); diff != "" {
		t.Errorf("(-hashicorp +here):\n%s", diff)
	}
}

func TestProgramAnswers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answer"), []byte(`{"from":"file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("YUBA_TEST_VALUE", "of the environment")
	t.Setenv("TF_HTTP_PASSWORD", "canary")
	for _, c := range []struct {
		name   string
		config values
		want   any
	}{
		{"the query is a JSON object on stdin", values{"program": script(`printf '{"got":"%s"}' "$(base64 | tr -d '\n')"`), "query": map[string]any{"b": "2 <", "a": "1", "n": nil}},
			map[string]any{"got": "eyJhIjoiMSIsImIiOiIyIFx1MDAzYyJ9"}}, // {"a":"1","b":"2 \u003c"}
		{"no query is an empty object", values{"program": script(`printf '{"got":"%s"}' "$(cat)"`)}, map[string]any{"got": "{}"}},
		{"no shell, and empty arguments are left out", values{"program": []any{"printf", "", `{"%s":"%s"}`, nil, "$HOME", "*"}}, map[string]any{"$HOME": "*"}},
		{"working directory", values{"program": []string{"cat", "answer"}, "working_dir": dir}, map[string]any{"from": "file"}},
		{"environment", values{"program": script(`printf '{"got":"%s"}' "$YUBA_TEST_VALUE"`)}, map[string]any{"got": "of the environment"}},
		{"secrets of the engine", values{"program": script(`printf '{"got":"%s"}' "$TF_HTTP_PASSWORD"`)}, map[string]any{"got": ""}},
		{"what it says on stderr is no error", values{"program": script(`echo hello >&2; echo '{}'`)}, map[string]any{}},
		{"what it leaves behind keeps its output open", values{"program": script(`sleep 7 & echo '{"kept":"yes"}'`)}, map[string]any{"kept": "yes"}},
		{"a null value", values{"program": script(`echo '{"a":null}'`)}, map[string]any{"a": ""}},
		{"null", values{"program": script(`echo null`)}, nil},
		{"it need not read stdin", values{"program": script(`exec <&-; echo '{}'`), "query": map[string]any{"a": strings.Repeat("x", 1<<18)}}, map[string]any{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(t, c.config)
			if err != "" {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got["result"]); diff != "" || got["id"] != "-" {
				t.Errorf("id %v (-want +got):\n%s", got["id"], diff)
			}
		})
	}
}

func TestProgramFails(t *testing.T) {
	const secret = "s3cr3t"
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name   string
		config values
		want   []string
	}{
		{"no program", values{"program": []string{}}, []string{"at least one element"}},
		{"only empty", values{"program": []any{"", nil}}, []string{"External Program Missing"}},
		{"not found", values{"program": []string{missing + "/program", secret}}, []string{"External Program Lookup Failed", missing + "/program"}},
		{"not in PATH", values{"program": []string{"yuba-no-such-program"}}, []string{"External Program Lookup Failed", "yuba-no-such-program"}},
		{"no such directory", values{"program": []string{"true"}, "working_dir": missing}, []string{missing, "no such file"}},
		{"status", values{"program": append(script(`echo why it fails >&2; exit 3`), secret)}, []string{"External Program Execution Failed", "why it fails", "exit status 3", "Program: sh"}},
		{"status and no word", values{"program": script(`echo ` + secret + `; exit 3`)}, []string{"exit status 3", "nothing on its standard error"}},
		{"the end of a long message", values{"program": script(`head -c 300000 /dev/zero | tr '\0' x >&2; echo the reason >&2; exit 1`)}, []string{"[...]x", "the reason"}},
		{"no JSON", values{"program": script(`echo ` + secret)}, []string{"Unexpected External Program Results", "invalid character"}},
		{"nothing", values{"program": []string{"true"}}, []string{"unexpected end of JSON"}},
		{"no object", values{"program": script(`echo '["` + secret + `"]'`)}, []string{"no object"}},
		{"no string", values{"program": script(`echo '{"key":["` + secret + `"]}'`)}, []string{`value of "key" is no string`}},
		{"two objects", values{"program": script(`echo '{}{}'`)}, []string{"invalid character"}},
		{"too much", values{"program": script(`cat /dev/zero`)}, []string{"more than 67108864 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(t, c.config)
			for _, w := range c.want {
				if !strings.Contains(err, w) {
					t.Errorf("the error doesn't have %q: %.1000q", w, err)
				}
			}
			if got != nil || strings.Contains(err, secret) || len(err) > 1<<17 {
				t.Errorf("got %v, error of %d bytes: %.1000q", got, len(err), err)
			}
		})
	}
}

// A program that waits is interrupted, and has the time to clean up.
func TestInterruptedProgramEnds(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(waitsFor, started)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	c := core(t)
	go func() {
		_, diags := c.Read(ctx, "external", values{"program": []string{self}})
		ended <- providertest.Errors(diags)
	}()
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-ended; !strings.Contains(got, "cleaned up") || !strings.Contains(got, "interrupted (context canceled)") {
		t.Errorf("error %q", got)
	}
}

// waitsFor is the variable that makes the test binary a program that waits for an interrupt. Its value is the FIFO that
// is opened once it waits. A shell would not do: a signal between its last look for one and its wait is not heard.
const waitsFor = "YUBA_TEST_EXTERNAL_WAITS"

func TestMain(m *testing.M) {
	if started := os.Getenv(waitsFor); started != "" {
		os.Exit(waits(started))
	}
	os.Exit(m.Run())
}

func waits(started string) int {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if err := os.WriteFile(started, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-interrupted
	fmt.Fprintln(os.Stderr, "cleaned up")
	return 7
}
