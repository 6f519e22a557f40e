package state

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fediversity.eu/yuba/state/server"
	"fediversity.eu/yuba/test/freeport"
)

const lineage = "3f1c2c5e-0000-4000-8000-000000000001"

func stateOf(serial int, note string) []byte {
	return []byte(fmt.Sprintf(`{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[],"note":%q}`, serial, lineage, note))
}

func lockOf(id string) []byte {
	return []byte(fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypeApply","Info":"","Who":"ann@desk","Version":"1.12.6","Created":"2026-01-02T03:04:05.678Z","Path":""}`, id))
}

const (
	idA = "aaaaaaaa-1111-2222-3333-444444444444"
	idB = "bbbbbbbb-1111-2222-3333-444444444444"
)

// realServer serves a temporary directory of states.
func realServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv, err := server.New(server.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	t.Cleanup(func() { ts.Close(); srv.Close() })
	return ts
}

// client makes a Client that does not wait between attempts.
func client(t *testing.T, address string, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{Address: address, RetryMax: 2, RetryWaitMin: time.Second, RetryWaitMax: 30 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(c.Close)
	return c
}

func handler(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	ts := httptest.NewServer(f)
	t.Cleanup(ts.Close)
	return ts.URL + "/group"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r\x1b") {
		t.Errorf("error is not one clean line: %q", err)
	}
}

func TestLifeCycle(t *testing.T) {
	ctx := t.Context()
	ts := realServer(t)
	a, b := client(t, ts.URL+"/team/group"), client(t, ts.URL+"/team/group")

	data, err := a.Get(ctx)
	if data != nil || err != nil {
		t.Fatalf("a state that is not there: %q, %v", data, err)
	}
	must(t, a.Lock(ctx, lockOf(idA)))
	must(t, a.Put(ctx, stateOf(1, "one")))

	err = b.Lock(ctx, lockOf(idB))
	wantError(t, err, "locked by ann@desk since 2026-01-02 03:04:05 UTC for OperationTypeApply", "yuba force-unlock "+idA)
	var holder interface{ Holder() []byte }
	if !errors.As(err, &holder) {
		t.Fatalf("%T has no Holder", err)
	}
	var info struct {
		ID      string
		Created time.Time
	}
	must(t, json.Unmarshal(holder.Holder(), &info))
	if info.ID != idA || info.Created.IsZero() {
		t.Fatalf("holder is %s", holder.Holder())
	}
	wantError(t, b.Put(ctx, stateOf(2, "intruder")), "locked", "not saved")
	wantError(t, b.Unlock(ctx, idB), idA, "lock "+idB+" is not held any more")

	must(t, a.Put(ctx, stateOf(2, "two")))
	got, err := b.Get(ctx)
	must(t, err)
	if !bytes.Equal(got, stateOf(2, "two")) {
		t.Fatalf("got %s", got)
	}

	// Force-unlock: the holder learns of it with its next write.
	must(t, b.Unlock(ctx, idA))
	wantError(t, a.Put(ctx, stateOf(3, "three")), "not held any more", "may be lost")
	must(t, b.Lock(ctx, lockOf(idB)))
	wantError(t, a.Put(ctx, stateOf(3, "three")), "locked", "may be lost")
	must(t, b.Delete(ctx))
	must(t, b.Unlock(ctx, idB))
	if got, err := b.Get(ctx); got != nil || err != nil {
		t.Fatalf("deleted state: %q, %v", got, err)
	}
}

func TestContention(t *testing.T) {
	ts := realServer(t)
	var wg sync.WaitGroup
	for i := range 50 {
		c := client(t, ts.URL+"/busy")
		wg.Go(func() {
			id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
			for {
				err := c.Lock(t.Context(), lockOf(id))
				var locked *LockedError
				if errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				break
			}
			data, err := c.Get(t.Context())
			if err != nil {
				t.Error(err)
			}
			var k known
			_ = json.Unmarshal(data, &k)
			if err := c.Put(t.Context(), stateOf(int(k.Serial)+1, id)); err != nil {
				t.Error(err)
			}
			if err := c.Unlock(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, err := client(t, ts.URL+"/busy").Get(t.Context())
	must(t, err)
	if k, _ := identify(data); k.Serial != 50 {
		t.Fatalf("50 writers made serial %d: an update was lost", k.Serial)
	}
}

func TestNobodyListens(t *testing.T) {
	c := client(t, "http://"+freeport.Address(t)+"/g")
	_, err := c.Get(t.Context())
	wantError(t, err, "connection refused")
	wantError(t, c.Lock(t.Context(), lockOf(idA)), "connection refused", "this run holds no lock")
	wantError(t, c.Put(t.Context(), stateOf(1, "x")), "connection refused", "the state is not saved")
	wantError(t, c.Unlock(t.Context(), idA), "connection refused", "the state is still locked", "yuba force-unlock "+idA)
	wantError(t, c.Delete(t.Context()), "connection refused", "the state is not deleted")
}

// The server does what it is told, and before it has said so it is gone, or lets
// nobody in any more. Nobody knows what became of it then.
func TestDoneAndGone(t *testing.T) {
	for name, c := range map[string]struct {
		call func(*Client) error
		want string
	}{
		"save":   {func(c *Client) error { return c.Put(t.Context(), stateOf(2, "mine")) }, "it is not known whether the state is saved"},
		"delete": {func(c *Client) error { return c.Delete(t.Context()) }, "it is not known whether the state is deleted"},
	} {
		t.Run(name+", refuses connections", func(t *testing.T) {
			store := realServer(t)
			must(t, client(t, store.URL+"/g").Put(t.Context(), stateOf(1, "first")))
			var front *httptest.Server
			front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				carryOut(t, store, r)
				front.Listener.Close()
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(front.Close)
			wantError(t, c.call(client(t, front.URL+"/g")), c.want, "connection refused")
		})
		t.Run(name+", has too many requests", func(t *testing.T) {
			store := realServer(t)
			must(t, client(t, store.URL+"/g").Put(t.Context(), stateOf(1, "first")))
			first := true
			address := handlerFor(t, store.URL, func(w http.ResponseWriter, r *http.Request) bool {
				if first {
					first = false
					carryOut(t, store, r)
					w.WriteHeader(http.StatusBadGateway)
					return true
				}
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			})
			wantError(t, c.call(client(t, address+"/g")), c.want, "429")
		})
	}
}

// carryOut lets a server do what a request asks for, and keeps the answer.
func carryOut(t *testing.T, store *httptest.Server, r *http.Request) {
	t.Helper()
	to := r.Clone(t.Context())
	to.RequestURI = ""
	u, err := url.Parse(store.URL + r.URL.RequestURI())
	must(t, err)
	to.URL = u
	resp, err := http.DefaultTransport.RoundTrip(to)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Errorf("the store answers %s", resp.Status)
	}
}

// A state that is refused for its serial or lineage says nothing about the lock.
func TestOlderStateIsNotALostLock(t *testing.T) {
	c := client(t, realServer(t).URL+"/g")
	must(t, c.Lock(t.Context(), lockOf(idA)))
	must(t, c.Put(t.Context(), stateOf(5, "five")))
	for _, old := range [][]byte{stateOf(4, "four"), bytes.Replace(stateOf(6, "six"), []byte(`"lineage":"`), []byte(`"lineage":"x`), 1)} {
		err := c.Put(t.Context(), old)
		wantError(t, err, "412", "DELETE this one first", "the state is not saved")
		if strings.Contains(err.Error(), "may be lost") {
			t.Errorf("the lock is suspected: %v", err)
		}
	}
}

// Another run wrote while the answer was lost: nothing may be overwritten.
func TestLostWriteNeverOverwritesAnother(t *testing.T) {
	ts := realServer(t)
	other := client(t, ts.URL+"/g")
	must(t, other.Put(t.Context(), stateOf(1, "first")))
	posts := 0
	c := client(t, handlerFor(t, ts.URL, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		posts++
		must(t, other.Put(context.WithoutCancel(t.Context()), stateOf(7, "theirs")))
		w.WriteHeader(http.StatusBadGateway)
		return true
	})+"/g")
	_, err := c.Get(t.Context())
	must(t, err)
	wantError(t, c.Put(t.Context(), stateOf(2, "mine")), "not saved", "another one", "serial 7", "serial 2")
	if posts != 1 {
		t.Errorf("written %d times", posts)
	}
}

// handlerFor serves what own leaves over from a backend.
func handlerFor(t *testing.T, backend string, own func(http.ResponseWriter, *http.Request) bool) string {
	to, err := url.Parse(backend)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !own(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(ts.Close)
	return ts.URL
}

func TestLockedWhateverTheBody(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		status     int
		holder     string
	}{
		{"LockInfo", string(lockOf(idB)), 423, idB},
		{"LockInfo with 409", string(lockOf(idB)), 409, idB},
		{"LockInfo with 400", string(lockOf(idB)), 400, idB},
		{"lower-case keys and a Ruby time", `{"id":"` + idB + `","who":"bob","created":"2026-01-02 03:04:05 UTC"}`, 409, idB},
		{"a bare ID", idB, 423, idB},
		{"empty", "", 423, ""},
		{"a web page", "<html><title>Locked</title>", 409, ""},
		{"foreign JSON", `{"error":"in use"}`, 423, ""},
		{"wrong types", `{"ID":7,"Who":[]}`, 409, ""},
		{"a sentence", "somebody holds it", 423, ""},
		{"terminal control", `{"ID":"` + idB + `","Who":"\u001b[2J\nroot"}`, 423, idB},
		{"endless", strings.Repeat("x", 1<<20), 423, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			for _, err := range []error{c.Lock(t.Context(), lockOf(idA)), c.Put(t.Context(), stateOf(1, "")), c.Delete(t.Context())} {
				var locked *LockedError
				if !errors.As(err, &locked) {
					t.Fatalf("not a LockedError: %v", err)
				}
				wantError(t, err, "locked")
				if len(err.Error()) > 1500 {
					t.Errorf("error of %d bytes", len(err.Error()))
				}
				if locked.Info.ID != tc.holder || (tc.holder == "") != (locked.Holder() == nil) {
					t.Errorf("holder %q, want %q", locked.Info.ID, tc.holder)
				}
				var stock struct {
					ID, Who string
					Created time.Time
				}
				if h := locked.Holder(); h != nil {
					must(t, json.Unmarshal(h, &stock))
				}
			}
		})
	}
}

func TestServerWithoutLocks(t *testing.T) {
	for _, status := range []int{404, 405, 501} {
		var methods []string
		address := handler(t, func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method+"?"+r.URL.RawQuery)
			if r.Method == "LOCK" {
				w.WriteHeader(status)
			}
		})
		var warned []string
		c := client(t, address, func(cfg *Config) { cfg.Warn = func(s string) { warned = append(warned, s) } })
		must(t, c.Lock(t.Context(), lockOf(idA)))
		must(t, c.Put(t.Context(), stateOf(1, "")))
		must(t, c.Unlock(t.Context(), idA))
		must(t, c.Lock(t.Context(), lockOf(idA)))
		if len(warned) != 1 || !strings.Contains(warned[0], "TF_HTTP_LOCK_ADDRESS") {
			t.Errorf("warned %q", warned)
		}
		if got := strings.Join(methods, " "); got != "LOCK? POST? LOCK?" {
			t.Errorf("sent %s", got)
		}
		c = client(t, address, func(cfg *Config) { cfg.LockAddress = address })
		wantError(t, c.Lock(t.Context(), lockOf(idA)), fmt.Sprint(status), "this run holds no lock")
	}
}

func TestUnlockSendsTheLockByteForByte(t *testing.T) {
	var bodies []string
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		if r.Header.Get("Content-MD5") == "" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers of %s: %v", r.Method, r.Header)
		}
	}))
	info := []byte(`{ "Who": "ann",  "ID": "` + idA + `", "Extra": 1 }`)
	must(t, c.Lock(t.Context(), info))
	must(t, c.Unlock(t.Context(), idA))
	must(t, c.Unlock(t.Context(), idB))
	stock := `{"ID":"` + idB + `","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`
	if bodies[0] != string(info) || bodies[1] != string(info) || bodies[2] != stock {
		t.Errorf("sent %q", bodies)
	}
}

func TestAnswersToGet(t *testing.T) {
	good := stateOf(5, "good")
	for _, tc := range []struct {
		name  string
		serve http.HandlerFunc
		want  []string // of the error
		once  bool     // must not be retried
	}{
		{"401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, []string{"401 Unauthorized", "TF_HTTP_USERNAME and TF_HTTP_PASSWORD"}, true},
		{"403", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no access", http.StatusForbidden) }, []string{"403 Forbidden", `"no access"`, "TF_HTTP_USERNAME"}, true},
		{"500", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"message":"disk on fire"}`)
		}, []string{"500", `"disk on fire"`}, false},
		{"a login page", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!DOCTYPE html><html><head><title>Sign in</title></head>")
		}, []string{"web page", `"Sign in"`}, false},
		{"foreign text", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, []string{"no state"}, false},
		{"half a state without a length", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(good[:20])
			_ = http.NewResponseController(w).Flush()
		}, []string{"no complete JSON"}, false},
		{"half a state", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:20])
		}, []string{"ended after 20 bytes"}, false},
		{"wrong MD5", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")
			_, _ = w.Write(good)
		}, []string{"Content-MD5"}, false},
		{"redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://u:hunter2@elsewhere.invalid/s?token=hunter2", http.StatusMovedPermanently)
		}, []string{"301", "http://elsewhere.invalid/s?...", "not followed"}, true},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(stateOf(1, strings.Repeat("x", 4096)))
		}, []string{"larger than 4096 bytes"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requests := 0
			c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) { requests++; tc.serve(w, r) }),
				func(cfg *Config) { cfg.MaxStateBytes = 4096 })
			_, err := c.Get(t.Context())
			wantError(t, err, tc.want...)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("secret in %q", err)
			}
			if want := map[bool]int{true: 1, false: 3}[tc.once]; requests != want {
				t.Errorf("%d requests, want %d", requests, want)
			}
		})
	}
}

func TestEmptyStateAfterKnownLineage(t *testing.T) {
	answer := stateOf(9, "")
	status := 200
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.WriteHeader(status)
			_, _ = w.Write(answer)
		}
	}))
	_, err := c.Get(t.Context())
	must(t, err)
	answer = nil
	_, err = c.Get(t.Context())
	wantError(t, err, "no state any more (it answers 200 OK) where serial 9", lineage)
	must(t, c.Lock(t.Context(), lockOf(idA)))
	status = 404
	_, err = c.Get(t.Context())
	wantError(t, err, "404", "serial 9", "check the server's storage")
	must(t, c.Unlock(t.Context(), idA))
	_, err = c.Get(t.Context()) // without the lock others may delete it
	must(t, err)
}

func TestRedirects(t *testing.T) {
	var reached []string
	address := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/group" {
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
			return
		}
		user, _, _ := r.BasicAuth()
		reached = append(reached, r.Method+" "+user)
		_, _ = w.Write(stateOf(1, ""))
	})
	c := client(t, address, func(cfg *Config) { cfg.Username, cfg.Password = "ann", "hunter2" })
	if data, err := c.Get(t.Context()); err != nil || data == nil {
		t.Fatalf("%q, %v", data, err)
	}
	wantError(t, c.Put(t.Context(), stateOf(1, "")), "307", "/moved", "not followed", "the state is not saved")
	wantError(t, c.Lock(t.Context(), lockOf(idA)), "307", "/moved", "this run holds no lock")
	wantError(t, c.Unlock(t.Context(), idA), "307", "still locked")
	wantError(t, c.Delete(t.Context()), "307", "not deleted")
	if got := strings.Join(reached, ","); got != "GET ann" {
		t.Errorf("reached %q", got)
	}
}

func TestStatusesOfWrites(t *testing.T) {
	var status, requests int
	var slept []time.Duration
	retryFirst := "7"
	c := client(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.WriteHeader(404)
			return
		}
		requests++
		if status == 429 && requests == 3 {
			return
		}
		// The server's clock is years ahead.
		w.Header().Set("Date", "Tue, 02 Jan 2035 15:04:05 GMT")
		w.Header().Set("Retry-After", map[int]string{1: retryFirst, 2: "9000"}[requests])
		w.WriteHeader(status)
	}))
	c.sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }

	status = 413
	wantError(t, c.Put(t.Context(), stateOf(1, "")), "413", "raise the server's limit", "not saved")
	if requests != 1 || slept != nil {
		t.Errorf("413: %d requests, slept %v", requests, slept)
	}
	status, requests = 429, 0
	must(t, c.Put(t.Context(), stateOf(1, "")))
	if fmt.Sprint(slept) != "[7s 30s]" {
		t.Errorf("429: slept %v: Retry-After is honoured within the bounds", slept)
	}
	status, requests, slept, retryFirst = 503, 0, nil, "Tue, 02 Jan 2035 15:04:12 GMT"
	wantError(t, c.Put(t.Context(), stateOf(1, "")), "503", "not saved")
	if requests != 3 || fmt.Sprint(slept) != "[7s 30s]" {
		t.Errorf("503: %d requests, slept %v", requests, slept)
	}
	for _, status = range []int{400, 401, 403, 404, 412, 501} {
		requests = 0
		wantError(t, c.Put(t.Context(), stateOf(1, "")), fmt.Sprint(status), "not saved")
		if requests != 1 {
			t.Errorf("%d: %d requests", status, requests)
		}
	}
}

func TestStateTooLargeForTheServer(t *testing.T) {
	srv, err := server.New(server.Options{Dir: t.TempDir(), MaxStateBytes: 1 << 20})
	must(t, err)
	defer srv.Close()
	ts := httptest.NewServer(srv)
	defer ts.Close()
	c := client(t, ts.URL+"/g", func(cfg *Config) { cfg.RetryMax = 0 })
	must(t, c.Put(t.Context(), stateOf(1, "fits")))
	wantError(t, c.Put(t.Context(), stateOf(2, strings.Repeat("x", 8<<20))), "413", "1048576 bytes", "not saved")
	got, err := c.Get(t.Context())
	must(t, err)
	if !bytes.Equal(got, stateOf(1, "fits")) {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestCancel(t *testing.T) {
	t.Run("a lock on its way is given back", func(t *testing.T) {
		ts := realServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		first := true
		address := handlerFor(t, ts.URL, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "LOCK" || !first {
				return false
			}
			first = false
			req, _ := http.NewRequest("LOCK", ts.URL+r.URL.Path, bytes.NewReader(lockOf(idA)))
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			resp.Body.Close()
			cancel()
			panic(http.ErrAbortHandler)
		})
		err := client(t, address+"/g").Lock(ctx, lockOf(idA))
		wantError(t, err, "this run holds no lock")
		must(t, client(t, ts.URL+"/g").Lock(t.Context(), lockOf(idB)))
	})
	t.Run("a write on its way is cleared up", func(t *testing.T) {
		ts := realServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		address := handlerFor(t, ts.URL, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "POST" {
				return false
			}
			cancel()
			panic(http.ErrAbortHandler)
		})
		err := client(t, address+"/g").Put(ctx, stateOf(1, ""))
		wantError(t, err, "the state is not saved")
	})
	t.Run("before anything is sent", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := client(t, realServer(t).URL+"/g")
		_, err := c.Get(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		wantError(t, c.Lock(ctx, lockOf(idA)), "this run holds no lock")
	})
}

// A server that repeats all it was sent must not get a secret into an error.
func TestSecretsStayOut(t *testing.T) {
	const password, header = `hunt"er2/secret canary`, "Bearer-canary-0123456789"
	var text strings.Builder
	for _, status := range []int{200, 204, 301, 400, 401, 403, 404, 405, 409, 413, 423, 428, 429, 500, 502, 503} {
		echo := func(w http.ResponseWriter, r *http.Request) {
			_, pw, _ := r.BasicAuth()
			w.Header().Set("Location", "http://ann:"+url.QueryEscape(pw)+"@else.invalid/"+url.PathEscape(pw))
			w.WriteHeader(status)
			quoted, _ := json.Marshal(pw)
			fmt.Fprintf(w, `{"ID":"%s","Who":%s,"message":%s} %s %s %s`, idB, quoted, quoted, pw, r.Header.Get("Authorization"), r.Header.Get("X-Token"))
		}
		plain := handler(t, echo)
		u, _ := url.Parse(plain)
		u.User = url.UserPassword("ann", password)
		for _, change := range []func(*Config){
			func(c *Config) { c.Address, c.Username, c.Password = plain, "ann", password },
			func(c *Config) { c.Address = u.String() },
			func(c *Config) { c.Address = plain; c.Headers = map[string]string{"X-Token": header} },
		} {
			warn := func(c *Config) { c.Warn = func(s string) { text.WriteString(s + "\n") } }
			c := client(t, "", change, warn)
			_, err := c.Get(t.Context())
			for _, err := range []error{err, c.Lock(t.Context(), lockOf(idA)), c.Put(t.Context(), stateOf(1, "")), c.Unlock(t.Context(), idA), c.Delete(t.Context())} {
				fmt.Fprintf(&text, "%v | %+v | %#v\n", err, err, err)
				var le *LockedError
				if errors.As(err, &le) {
					fmt.Fprintf(&text, "%s %s %s\n", le.Holder(), le.Raw, le.Words)
				}
			}
			fmt.Fprintf(&text, "%s %v %+v %#v\n", c.Address(), c.cfg, c.cfg, c.cfg)
		}
	}
	for _, bad := range []string{"http://ann:" + "hunter2#x@host/", "http://ann:%zzcanary@host/", "://canary"} {
		_, err := New(Config{Address: bad})
		fmt.Fprintln(&text, err)
	}
	for _, secret := range []string{"canary", "hunt", "er2", "secret canary"} {
		if i := strings.Index(strings.ReplaceAll(text.String(), "[secret]", ""), secret); i >= 0 {
			t.Fatalf("%q came out: ...%s", secret, text.String()[max(0, i-200):min(text.Len(), i+100)])
		}
	}
}

func TestConfigFromEnv(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	_, err := ConfigFromEnv(env())
	wantError(t, err, "TF_HTTP_ADDRESS is not set")
	for _, name := range []string{"TF_HTTP_RETRY_MAX", "TF_HTTP_RETRY_WAIT_MIN", "TF_HTTP_RETRY_WAIT_MAX", "TF_HTTP_SKIP_CERT_VERIFICATION"} {
		_, err := ConfigFromEnv(env("TF_HTTP_ADDRESS", "https://s/x", name, "-5"))
		wantError(t, err, name)
	}
	c, err := ConfigFromEnv(env("TF_HTTP_ADDRESS", "https://ann:pw@s/x?k=v", "TF_HTTP_UPDATE_METHOD", "PUT"))
	must(t, err)
	if c.RetryMax != 2 || c.RetryWaitMin != time.Second || c.RetryWaitMax != 30*time.Second || c.UpdateMethod != "PUT" {
		t.Errorf("defaults: %d %v %v %s", c.RetryMax, c.RetryWaitMin, c.RetryWaitMax, c.UpdateMethod)
	}
	cl, err := New(c)
	must(t, err)
	if cl.Address() != "https://s/x?k=v" || cl.state.user != "ann" || cl.state.password != "pw" {
		t.Errorf("address %q, user %q", cl.Address(), cl.state.user)
	}
	for _, bad := range []Config{
		{Address: "ftp://x/y"}, {Address: "x"}, {Address: "http://x", LockAddress: "nowhere"},
		{Address: "http://x", CACertificatePEM: "nope"}, {Address: "http://x", ClientCertificatePEM: "x"},
		{Address: "http://x", Headers: map[string]string{"Content-Type": "x"}},
		{Address: "http://x", Headers: map[string]string{"Authorization": "x"}, Username: "u"},
		{Address: "http://x", RetryWaitMin: 2},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certFile, certPEM, 0o600))
	must(t, os.WriteFile(keyFile, keyPEM, 0o600))

	t.Run("authority", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() {
			done <- server.ListenAndServe(ctx, server.Config{
				Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "states"), TLSCert: certFile, TLSKey: keyFile,
				Ready: func(base string, _ net.Addr) { ready <- base },
			})
		}()
		base := <-ready
		trusting := client(t, base+"/g", func(c *Config) { c.CACertificatePEM = string(certPEM) })
		must(t, trusting.Put(ctx, stateOf(1, "")))
		slept := 0
		wary := client(t, base+"/g")
		wary.sleep = func(context.Context, time.Duration) error { slept++; return nil }
		wantError(t, wary.Put(ctx, stateOf(2, "")), "certificate", "the state is not saved")
		if slept > 0 {
			t.Error("an untrusted certificate was tried again")
		}
		var warned string
		careless := client(t, base+"/g", func(c *Config) { c.SkipCertVerification = true; c.Warn = func(s string) { warned = s } })
		must(t, careless.Put(ctx, stateOf(2, "")))
		if !strings.Contains(warned, "not checked") {
			t.Errorf("warned %q", warned)
		}
		for _, c := range []*Client{trusting, wary, careless} {
			c.Close()
		}
		cancel()
		must(t, <-done)
	})
	t.Run("own certificate", func(t *testing.T) {
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		must(t, err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(certPEM)
		ts := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ts.Config.ErrorLog = log.New(io.Discard, "", 0)
		ts.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
		ts.StartTLS()
		defer ts.Close()
		ca := func(c *Config) { c.CACertificatePEM = string(certPEM) }
		known := client(t, ts.URL, ca, func(c *Config) { c.ClientCertificatePEM, c.ClientPrivateKeyPEM = string(certPEM), string(keyPEM) })
		must(t, known.Put(t.Context(), stateOf(1, "")))
		wantError(t, client(t, ts.URL, ca).Put(t.Context(), stateOf(1, "")), "certificate")
	})
}

func TestPutRefusesWhatIsNoState(t *testing.T) {
	c := client(t, realServer(t).URL+"/g")
	wantError(t, c.Put(t.Context(), []byte(`{"version":4`)), "no state")
	wantError(t, c.Put(t.Context(), nil), "no state")
	wantError(t, c.Lock(t.Context(), []byte(`{"Who":"x"}`)), "no ID")
}

func FuzzLockInfo(f *testing.F) {
	f.Add(lockOf(idA))
	f.Add([]byte(idB))
	f.Add([]byte(`{"id":"x","ID":"y","Created":"9999-99-99"}`))
	f.Add([]byte("<html>"))
	f.Add([]byte(`{"ID":"\u001b[31m\n"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		info, ok := ParseLockInfo(body)
		if ok != (info.ID != "") {
			t.Fatalf("%v with ID %q", ok, info.ID)
		}
		e := &LockedError{Op: "lock", URL: "http://s", Status: 423, Info: info}
		if strings.ContainsAny(e.Error(), "\n\r\x1b\x00") || len(e.Error()) > 6*maxLockField {
			t.Fatalf("error %q", e.Error())
		}
		if h := e.Holder(); h != nil {
			again, ok := ParseLockInfo(h)
			if !ok || again.ID == "" {
				t.Fatalf("%q does not survive: %s", info.ID, h)
			}
			var stock struct{ Created time.Time }
			if err := json.Unmarshal(h, &stock); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzStateAnswer(f *testing.F) {
	f.Add(200, []byte(`{"serial":1,"lineage":"x"}`), "application/json", "")
	f.Add(423, lockOf(idA), "text/html", "AAAA")
	f.Add(500, []byte("<title>x"), "", "")
	c, err := New(Config{Address: "http://ann:hunter2@s/x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, kind, sum string) {
		a := &answer{status: status, header: http.Header{"Content-Type": {kind}, "Content-Md5": {sum}}, body: body}
		if sum == "" {
			a.header.Del("Content-MD5")
		}
		if k, err := c.body(a); err == nil && !json.Valid(body) {
			t.Fatalf("took %q for %v", body, k)
		} else if err != nil && len(err.Error()) > 4*maxWords {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
		msg := c.refused(request{op: "lock", to: c.state}, a).Error()
		if strings.ContainsAny(msg, "\n\r\x1b\x00") || strings.Contains(msg, "hunter2") {
			t.Fatalf("error %q", msg)
		}
	})
}
