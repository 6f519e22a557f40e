package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

const lineage = "3f1c2c5e-0000-4000-8000-000000000001"

func stateOf(serial int, note string) string {
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":%q,"note":%q}`, serial, lineage, note)
}

func lockOf(id string) string { return fmt.Sprintf(`{"ID":%q,"Who":"ann@desk"}`, id) }

func start(t *testing.T, opts Options) (*Server, string) {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(func() { ts.Close(); s.Close() })
	return s, ts.URL
}

// ask sends one request and gives status and body.
func ask(t *testing.T, method, url, body string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func want(t *testing.T, what string, status int, body string, wantStatus int, parts ...string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("%s: %d %q, want %d", what, status, body, wantStatus)
	}
	for _, p := range parts {
		if !strings.Contains(body, p) {
			t.Errorf("%s: %q does not say %q", what, body, p)
		}
	}
}

func TestProtocol(t *testing.T) {
	_, url := start(t, Options{})
	u := url + "/team/group"
	for i, step := range []struct {
		method, url, body string
		status            int
		parts             []string
	}{
		{"GET", u, "", 404, nil},
		{"UNLOCK", u, lockOf("a1"), 412, []string{"not locked"}},
		{"POST", u, stateOf(1, "unlocked"), 200, nil},
		{"POST", u + "?ID=a1", stateOf(2, "x"), 412, []string{"not held any more"}},
		{"LOCK", u, lockOf("a1"), 200, nil},
		{"LOCK", u, lockOf("a1"), 200, nil}, // a lost answer
		{"LOCK", u, lockOf("b2"), 423, []string{lockOf("a1")}},
		{"POST", u, stateOf(2, "x"), 423, []string{lockOf("a1")}},
		{"POST", u + "?ID=b2", stateOf(2, "x"), 423, []string{lockOf("a1")}},
		{"DELETE", u, "", 423, []string{lockOf("a1")}},
		{"UNLOCK", u, lockOf("b2"), 423, []string{lockOf("a1")}},
		{"POST", u + "?ID=a1", stateOf(2, "locked"), 200, nil},
		{"POST", u + "?ID=a1", stateOf(2, "locked"), 200, nil}, // a lost answer
		{"GET", u, "", 200, []string{stateOf(2, "locked")}},
		{"POST", u + "?ID=a1", stateOf(1, "old"), 412, []string{"serial 1 is lower than the current 2"}},
		{"POST", u + "?ID=a1", strings.Replace(stateOf(3, "x"), lineage, "other", 1), 412, []string{"another lineage"}},
		{"POST", u + "?ID=a1", stateOf(2, "again, encrypted anew"), 200, nil},
		{"UNLOCK", u, lockOf("a1"), 200, nil},
		{"UNLOCK", u, lockOf("a1"), 200, nil}, // a lost answer
		{"UNLOCK", u, lockOf("b2"), 412, nil},
		{"POST", u, stateOf(2, "a second writer"), 412, []string{"same serial 2"}},
		{"GET", u + "?versions", "", 200, []string{`"version":3,"serial":2`, `"version":1,"serial":1`}},
		{"GET", u + "?version=1", "", 200, []string{stateOf(1, "unlocked")}},
		{"GET", u + "?version=9", "", 404, nil},
		{"DELETE", u, "", 200, nil},
		{"DELETE", u, "", 200, nil},
		{"GET", u, "", 404, nil},
		{"GET", u + "?version=2", "", 200, []string{stateOf(2, "locked")}},
		{"POST", u, stateOf(1, "from an old version"), 200, nil},
		{"GET", u + "?versions", "", 200, []string{`"version":5,"serial":1`, `"version":4,`, `"deleted":true`}},
		{"POST", u, "", 400, []string{"JSON object"}},
		{"POST", u, "[]", 400, nil},
		{"POST", u, `{"serial":`, 400, nil},
		{"POST", u, `{"serial":-1}`, 400, nil},
		{"LOCK", u, "", 400, nil},
		{"LOCK", u, `{"ID":""}`, 400, nil},
		{"LOCK", u, `{"ID":"a\nb"}`, 400, nil},
		{"GET", u + "?workspace=x", "", 400, []string{"named by the path"}},
		{"PATCH", u, "", 405, nil},
		{"GET", url + "/-/healthz", "", 200, []string{"ok"}},
	} {
		status, body := ask(t, step.method, step.url, step.body)
		want(t, fmt.Sprintf("step %d %s", i, step.method), status, body, step.status, step.parts...)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	s, _ := start(t, Options{Dir: filepath.Join(dir, "states-of-yuba")})
	for _, path := range []string{
		"/", "//", "/a/", "//a", "/a//b", "/..", "/a/../b", "/.", "/.lock", "/a/.tmp-1", "/%2e%2e/x", "/a%2fb", "/a%25b", "/a%00",
		"/ä", "/a b", "/-/x", "/-x", "/_x", "/" + strings.Repeat("a", 201), "/" + strings.Repeat("a/", 9) + "a", `/a\b`, "/a:b",
	} {
		req := httptest.NewRequest("POST", "/x", strings.NewReader(stateOf(1, "")))
		req.URL.Path, req.URL.RawPath = pathOf(path)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != 400 {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
	req := httptest.NewRequest("POST", "/A.b_c-1/x/y", strings.NewReader(stateOf(1, "")))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	if w.Code != 200 {
		t.Errorf("good name: %d %s", w.Code, w.Body)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); path != dir && (d.IsDir() && mode != 0o700 || !d.IsDir() && mode != 0o600) {
			t.Errorf("%s has mode %o", path, mode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "states-of-yuba", "states")); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

// pathOf is path as net/http's server would parse it.
func pathOf(path string) (decoded, raw string) {
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + strings.ReplaceAll(path, " ", "%20") + " HTTP/1.1\r\nHost: s\r\n\r\n")))
	if err != nil {
		return path, ""
	}
	return req.URL.Path, req.URL.RawPath
}

func TestLimits(t *testing.T) {
	_, url := start(t, Options{MaxStateBytes: 200})
	status, body := ask(t, "POST", url+"/g", stateOf(1, strings.Repeat("x", 300)))
	want(t, "large state", status, body, 413, "200 bytes")
	status, body = ask(t, "POST", url+"/g", stateOf(1, strings.Repeat("x", 300)), func(r *http.Request) { r.ContentLength = -1 })
	want(t, "large chunked state", status, body, 413)
	status, body = ask(t, "LOCK", url+"/g", lockOf(strings.Repeat("x", 1<<17)))
	want(t, "large lock", status, body, 413)
	status, body = ask(t, "POST", url+"/g", stateOf(1, ""), func(r *http.Request) { r.Header.Set("Content-MD5", "AAAA") })
	want(t, "wrong MD5", status, body, 400, "Content-MD5")
	status, body = ask(t, "GET", url+"/g", "")
	want(t, "nothing was saved", status, body, 404)
}

func TestRetention(t *testing.T) {
	_, url := start(t, Options{Retain: 3})
	for i := range 10 {
		status, body := ask(t, "POST", url+"/g", stateOf(i, ""))
		want(t, "write", status, body, 200)
	}
	_, body := ask(t, "GET", url+"/g?versions", "")
	var vs []version
	if err := json.Unmarshal([]byte(body), &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) != 3 || vs[0].Version != 10 || vs[2].Version != 8 || *vs[2].Serial != 7 || vs[0].Saved.IsZero() {
		t.Errorf("kept %s", body)
	}
}

func TestRestartKeepsStateAndLock(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another state server") {
		t.Fatalf("two servers on one directory: %v", err)
	}
	ts := httptest.NewServer(s)
	ask(t, "LOCK", ts.URL+"/g", lockOf("a1"))
	ask(t, "POST", ts.URL+"/g?ID=a1", stateOf(4, "kept"))
	ts.Close()
	s.Close()
	junk := filepath.Join(dir, "states", "g", tmpPrefix+"1")
	if err := os.WriteFile(junk, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, Options{Dir: dir})
	if _, err := os.Stat(junk); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary file stays: %v", err)
	}
	status, body := ask(t, "GET", url+"/g", "")
	want(t, "state", status, body, 200, stateOf(4, "kept"))
	status, body = ask(t, "LOCK", url+"/g", lockOf("b2"))
	want(t, "lock", status, body, 423, lockOf("a1"))
	status, body = ask(t, "POST", url+"/g?ID=a1", stateOf(5, "on"))
	want(t, "the holder goes on", status, body, 200)
}

// What was damaged from outside is said, and not taken for "no state".
func TestDamageIsSaid(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	ask(t, "POST", ts.URL+"/g", stateOf(1, "one"))
	ask(t, "POST", ts.URL+"/g", stateOf(2, "two"))
	ts.Close()
	s.Close()
	if err := os.Truncate(filepath.Join(dir, "states", "g", "0000000002.2.state"), 10); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, url := start(t, Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	status, body := ask(t, "GET", url+"/g", "")
	want(t, "damaged", status, body, 500, "damaged")
	status, body = ask(t, "POST", url+"/g", stateOf(3, ""))
	want(t, "write over it", status, body, 500)
	status, body = ask(t, "GET", url+"/g?version=1", "")
	want(t, "the version before", status, body, 200, stateOf(1, "one"))
	if !strings.Contains(log.String(), "0000000002.2.state is damaged") {
		t.Errorf("the log names no file: %s", log.String())
	}
}

func TestLogin(t *testing.T) {
	line, err := HashPassword("ann", "canary:pass word")
	if err != nil {
		t.Fatal(err)
	}
	cheap, err := bcrypt.GenerateFromPassword([]byte("bobs"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users, err := ParseUsers(strings.NewReader("# users\n\n" + line + "\nbob:" + string(cheap) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, url := start(t, Options{Auth: users, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	as := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for range 2 { // the second time from the cache
		status, body := ask(t, "POST", url+"/g", stateOf(1, ""), as("ann", "canary:pass word"))
		want(t, "ann", status, body, 200)
	}
	status, body := ask(t, "GET", url+"/g", "", as("bob", "bobs"))
	want(t, "bob", status, body, 200)
	for _, c := range [][2]string{{"ann", "canary"}, {"bob", "canary:pass word"}, {"canary", "x"}, {"", ""}, {"ann", ""}, {"annc", "anary:pass word"}} {
		status, body := ask(t, "POST", url+"/g", stateOf(9, ""), as(c[0], c[1]))
		want(t, c[0], status, body, 401)
	}
	for _, method := range []string{"GET", "DELETE", "LOCK", "UNLOCK"} {
		status, body := ask(t, method, url+"/g", lockOf("a1"))
		want(t, method, status, body, 401)
	}
	status, body = ask(t, "GET", url+"/g", "")
	want(t, "nobody", status, body, 401)
	status, body = ask(t, "GET", url+"/-/healthz", "")
	want(t, "health", status, body, 200)
	if strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), `"user":"ann"`) {
		t.Errorf("log: %s", log.String())
	}
}

func TestUsersFileErrors(t *testing.T) {
	good := "ann:$2y$04$" + strings.Repeat("a", 53)
	for name, text := range map[string]string{
		"empty": "", "no hash": "ann", "clear": "ann:canary", "md5": "ann:$apr1$canary$x", "twice": good + "\n" + good,
		"no user": ":" + good[4:], "costly": "ann:$2y$31$" + strings.Repeat("a", 53), "short": good[:40],
	} {
		_, err := ParseUsers(strings.NewReader(text))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseUsers(strings.NewReader(good)); err != nil {
		t.Error(err)
	}
}

func TestWebPagesAreRefused(t *testing.T) {
	s, url := start(t, Options{})
	status, body := ask(t, "POST", url+"/g", stateOf(1, ""), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	want(t, "cross-site", status, body, 403)
	ts := httptest.NewServer(localOnly(s))
	defer ts.Close()
	status, body = ask(t, "GET", ts.URL+"/g", "", func(r *http.Request) { r.Host = "evil.example:80" })
	want(t, "rebound name", status, body, 403)
	for _, host := range []string{"localhost:1", "localhost", "127.0.0.1:7", "[::1]:7"} {
		status, body = ask(t, "GET", ts.URL+"/g", "", func(r *http.Request) { r.Host = host })
		want(t, host, status, body, 404)
	}
}

func TestListenAndServe(t *testing.T) {
	err := ListenAndServe(t.Context(), Config{Listen: "0.0.0.0:0", Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "users file") {
		t.Fatalf("open to everyone: %v", err)
	}
	if err := ListenAndServe(t.Context(), Config{Listen: "127.0.0.1:0", Dir: t.TempDir(), TLSCert: "x"}); err == nil {
		t.Fatal("a certificate without a key")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- ListenAndServe(ctx, Config{Listen: "127.0.0.1:0", Dir: t.TempDir(), Ready: func(base string, _ net.Addr) { ready <- base }})
	}()
	base := <-ready
	status, body := ask(t, "POST", base+"/g", stateOf(1, ""))
	want(t, "write", status, body, 200)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A full disk: said as such, the state before stays, and nothing is left over.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s, url := start(t, Options{Dir: dir})
	status, body := ask(t, "POST", url+"/g", stateOf(1, "old"))
	want(t, "write", status, body, 200)
	ok := s.store.step
	for _, full := range []string{"created", "half", "written", "synced", "renamed"} {
		s.store.step = func(step string) error {
			if step == full {
				return &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
			}
			return nil
		}
		status, body = ask(t, "POST", url+"/g", stateOf(2, "new"))
		want(t, "write", status, body, 507, "disk is full", "nothing was changed")
		status, body = ask(t, "LOCK", url+"/g", lockOf("a1"))
		want(t, "lock", status, body, 507)
		status, body = ask(t, "GET", url+"/g", "")
		want(t, "read", status, body, 200, stateOf(1, "old"))
		left, err := os.ReadDir(filepath.Join(dir, "states", "g"))
		if err != nil || len(left) != 1 {
			t.Errorf("full at %s: left %v, %v", full, left, err)
		}
	}
	s.store.step = ok
	status, body = ask(t, "POST", url+"/g", stateOf(2, "new"))
	want(t, "write with room again", status, body, 200)
}

const (
	childDir  = "YUBA_TEST_STATE_SERVER_DIR"
	childStep = "YUBA_TEST_STATE_SERVER_STEP" // kill -9 at this step of the second write
)

// TestMain lets the test binary be the server that a test kills.
func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := New(Options{Dir: dir, MaxStateBytes: 32 << 20})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if at := os.Getenv(childStep); at != "" {
		s.store.step = func(step string) error {
			if step == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("http://" + ln.Addr().String())
	_ = http.Serve(ln, s)
}

// child starts a server process; kill ends it the hard way.
func child(t *testing.T, dir, step string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childStep+"="+step)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) }
	t.Cleanup(kill)
	if _, err := fmt.Fscanln(out, &url); err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	return url, kill
}

// A server killed at each step of a write: the state is the old one or the new
// one, whole, and an acknowledged write is never lost.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []string{"created", "half", "written", "synced", "renamed", "durable"} {
		for _, method := range []string{"POST", "LOCK", "DELETE"} {
			t.Run(method+" "+step, func(t *testing.T) {
				dir := t.TempDir()
				url, kill := child(t, dir, "")
				ask(t, "POST", url+"/g", stateOf(1, "old"))
				kill()
				url, kill = child(t, dir, step)
				body := map[string]string{"POST": stateOf(2, "new"), "LOCK": lockOf("a1")}[method]
				req, err := http.NewRequest(method, url+"/g", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
					t.Fatalf("answered %d before it was killed", resp.StatusCode)
				}
				kill()
				url, _ = child(t, dir, "")
				appeared := step == "renamed" || step == "durable"
				status, got := ask(t, "GET", url+"/g", "")
				switch {
				case method == "DELETE" && appeared:
					want(t, "state", status, got, 404)
				case method == "POST" && appeared:
					want(t, "state", status, got, 200, stateOf(2, "new"))
				default:
					want(t, "state", status, got, 200, stateOf(1, "old"))
				}
				status, got = ask(t, "LOCK", url+"/g", lockOf("b2"))
				if method == "LOCK" && appeared {
					want(t, "lock", status, got, 423, "a1")
				} else {
					want(t, "lock", status, got, 200)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "states", "*", tmpPrefix+"*")); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// A server killed wherever it happens to be, many times.
func TestKilledAnywhere(t *testing.T) {
	dir := t.TempDir()
	acked, serial := 0, 0
	pad := strings.Repeat("x", 1<<20)
	for round := range 25 {
		url, kill := child(t, dir, "")
		status, got := ask(t, "GET", url+"/g", "")
		if acked > 0 {
			var k struct{ Serial int }
			if status != 200 || json.Unmarshal([]byte(got), &k) != nil {
				t.Fatalf("round %d: %d, %d bytes", round, status, len(got))
			}
			if k.Serial < acked || k.Serial > serial || got != stateOf(k.Serial, pad) {
				t.Fatalf("round %d: serial %d, acknowledged %d, sent %d", round, k.Serial, acked, serial)
			}
		}
		// The body goes through a pipe that kills the server at another place
		// each round: within it, or as soon as it is whole.
		for i := range 3 {
			serial++
			body := stateOf(serial, pad)
			cut := len(body)
			if i == 2 {
				cut = len(body) * (round + 1) / 25
			}
			src := io.Reader(strings.NewReader(body))
			if i == 2 {
				src = io.MultiReader(strings.NewReader(body[:cut]), killer(kill), strings.NewReader(body[cut:]))
				if round%3 == 0 { // whole body, killed while it is written
					src = strings.NewReader(body)
					go kill()
				}
			}
			req, err := http.NewRequest("POST", url+"/g", io.NopCloser(src))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = int64(len(body))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Fatalf("round %d: %d", round, resp.StatusCode)
			}
			acked = serial
		}
		kill()
	}
}

// killer kills when it is read.
type killer func()

func (k killer) Read([]byte) (int, error) { k(); return 0, io.EOF }

func TestHistoryOfWritersIsLinear(t *testing.T) {
	_, url := start(t, Options{Retain: 1000})
	var wg sync.WaitGroup
	var mu sync.Mutex
	wrote := map[string]int{}
	for w := range 20 {
		wg.Go(func() {
			for range 10 {
				id := fmt.Sprintf("w%d", w)
				for {
					if status, _ := ask(t, "LOCK", url+"/g", lockOf(id)); status == 200 {
						break
					}
				}
				var k struct{ Serial int }
				_, body := ask(t, "GET", url+"/g", "")
				_ = json.Unmarshal([]byte(body), &k)
				status, body := ask(t, "POST", url+"/g?ID="+id, stateOf(k.Serial+1, id))
				want(t, "write", status, body, 200)
				mu.Lock()
				wrote[stateOf(k.Serial+1, id)]++
				mu.Unlock()
				status, body = ask(t, "UNLOCK", url+"/g", lockOf(id))
				want(t, "unlock", status, body, 200)
			}
		})
	}
	wg.Wait()
	if len(wrote) != 200 {
		t.Fatalf("%d different states of 200 writes", len(wrote))
	}
	for v := range 200 {
		_, body := ask(t, "GET", fmt.Sprintf("%s/g?version=%d", url, v+1), "")
		if wrote[body] != 1 || !strings.Contains(body, fmt.Sprintf(`"serial":%d,`, v+1)) {
			t.Fatalf("version %d is %s", v+1, body)
		}
	}
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte(stateOf(1, "x")))
	f.Add([]byte(lockOf("a1")))
	f.Add([]byte(`{"serial":1e3}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if id, err := lockID(body); err == nil && (id == "" || strings.ContainsAny(id, "\n\r\x1b")) {
			t.Fatalf("lock ID %q", id)
		}
		if _, err := identify(body); err == nil && !json.Valid(body) {
			t.Fatalf("took %q", body)
		}
	})
}
