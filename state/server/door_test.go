package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// oneLogin knows one user, and how often it was asked.
type oneLogin struct {
	mu    sync.Mutex
	asked int
}

func (o *oneLogin) Authenticate(_ context.Context, user, password string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	return user == "ann" && password == "right"
}

func (o *oneLogin) times() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

func TestGuessesFromOneAddressAreSlowedDown(t *testing.T) {
	auth := &oneLogin{}
	d := newDoor(auth)
	clock := time.Now()
	d.now = func() time.Time { return clock }
	enter := func(remote, user, password string) (bool, time.Duration) {
		return d.enter(t.Context(), remote, user, password)
	}
	if ok, wait := enter("192.0.2.1:1", "ann", "right"); !ok || wait != 0 {
		t.Fatalf("a good login: %v %v", ok, wait)
	}
	for i := range failures {
		if ok, wait := enter(fmt.Sprintf("192.0.2.1:%d", i), "ann", fmt.Sprint("guess", i)); ok || wait != 0 {
			t.Fatalf("guess %d: %v %v", i, ok, wait)
		}
	}
	before := auth.times()
	ok, wait := enter("192.0.2.1:99", "bob", "guess")
	if ok || wait <= 0 || wait > failureEvery || auth.times() != before {
		t.Errorf("a guess too many: %v, wait %v, asked %d more times", ok, wait, auth.times()-before)
	}
	if ok, wait := enter("192.0.2.1:100", "ann", "right"); !ok || wait != 0 {
		t.Errorf("who is in behind the same address: %v %v", ok, wait)
	}
	if ok, wait := enter("192.0.2.2:1", "bob", "guess"); ok || wait != 0 {
		t.Errorf("another address: %v %v", ok, wait)
	}
	clock = clock.Add(failureEvery)
	if ok, wait := enter("192.0.2.1:101", "bob", "guess"); ok || wait != 0 {
		t.Errorf("after the wait: %v %v", ok, wait)
	}
}

func TestWhatCountsAsOneAddress(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
	} {
		if same := network(c.a) == network(c.b); same != c.same {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, same, c.same)
		}
	}
}

// After a restart all clients of a CI come at once, from one address.
func TestManyClientsOfOneUserAreOneLogin(t *testing.T) {
	auth := &oneLogin{}
	d := newDoor(auth)
	var wg sync.WaitGroup
	for i := range 20 * failures {
		wg.Go(func() {
			if ok, wait := d.enter(t.Context(), fmt.Sprintf("192.0.2.1:%d", i), "ann", "right"); !ok {
				t.Errorf("client %d has to wait %v", i, wait)
			}
		})
	}
	wg.Wait()
}

func TestAddressesAreForgotten(t *testing.T) {
	d := newDoor(&oneLogin{})
	for i := range 2 * maxAddresses {
		d.enter(t.Context(), fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "bob", "guess")
	}
	if len(d.failed) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(d.failed))
	}
}

func TestTooManyFailedLoginsAreToldToWait(t *testing.T) {
	_, url := start(t, Options{Auth: &oneLogin{}})
	as := func(password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth("ann", password) }
	}
	for range failures {
		status, body := ask(t, "GET", url+"/g", "", as("wrong"))
		want(t, "a guess", status, body, http.StatusUnauthorized)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/g", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("ann", "wrong")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if after := resp.Header.Get("Retry-After"); resp.StatusCode != http.StatusTooManyRequests || after == "" || after == "0" {
		t.Errorf("%s, Retry-After %q", resp.Status, after)
	}
}

func TestAccess(t *testing.T) {
	access, err := ParseAccess(strings.NewReader(`# who       which     what
ci	web/*	write
ci	shared	read
auditor   *         read
*         public    read
root      *         write
`))
	if err != nil {
		t.Fatal(err)
	}
	const none, read, write = "none", "read", "write"
	for _, c := range []struct{ user, state, want string }{
		{"ci", "web/one", write}, {"ci", "web/one/two", write}, {"ci", "web", none}, {"ci", "website", none}, {"ci", "other", none},
		{"ci", "shared", read}, {"ci", "shared/deep", none}, {"ci", "public", read},
		{"auditor", "web/one", read}, {"auditor", "a/b/c", read},
		{"nobody", "public", read}, {"nobody", "web/one", none},
		{"root", "web/one", write}, {"root", "x", write},
	} {
		got := none
		if access.Allows(c.user, c.state, false) {
			got = read
		}
		if access.Allows(c.user, c.state, true) {
			got = write
		}
		if got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.user, c.state, got, c.want)
		}
	}

	_, url := start(t, Options{Access: access, Auth: anyLogin{}})
	as := func(user string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, "x") }
	}
	status, body := ask(t, "POST", url+"/web/one", stateOf(1, ""), as("ci"))
	want(t, "write", status, body, 200)
	status, body = ask(t, "GET", url+"/web/one", "", as("auditor"))
	want(t, "read", status, body, 200)
	status, body = ask(t, "GET", url+"/web/one?versions", "", as("nobody"))
	want(t, "versions of a stranger's state", status, body, 403, "user nobody may not use this state")
	_, missing := ask(t, "GET", url+"/web/none", "", as("nobody"))
	if missing != body {
		t.Errorf("whether a state is there shows: %q and %q", body, missing)
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "LOCK", "UNLOCK"} {
		status, body = ask(t, method, url+"/web/one", lockOf("a1"), as("auditor"))
		want(t, method, status, body, 403, "-lock=false")
	}
}

// anyLogin lets everyone in under their name.
type anyLogin struct{}

func (anyLogin) Authenticate(context.Context, string, string) bool { return true }

func TestAccessFileErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"# nobody\n", "nothing is granted"},
		"right":        {"ci * all", `line 1: the right "all" is neither read nor write`},
		"no right":     {"\nci *", "line 2 is not of the form USER STATES RIGHT"},
		"too many":     {"ci * write yes", "line 1 is not of the form"},
		"pattern":      {"ci we*b write", `"we*b" is no state's name`},
		"outside":      {"ci ../x write", "no state's name"},
		"all as a dir": {"ci /* write", "no state's name"},
		"long line":    {"ci " + strings.Repeat("x", 1<<17) + " write", "after line 0"},
	} {
		if _, err := ParseAccess(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := New(Options{Dir: t.TempDir(), Access: &Access{}}); err == nil {
		t.Error("access without users was taken")
	}
}

func FuzzAccess(f *testing.F) {
	f.Add("ci web/* write\n* public read", "ci", "web/one")
	f.Fuzz(func(t *testing.T, text, user, state string) {
		a, err := ParseAccess(strings.NewReader(text))
		if err != nil {
			return
		}
		if a.Allows(user, state, true) && !a.Allows(user, state, false) {
			t.Errorf("%q may write %q, but not read it", user, state)
		}
	})
}

func FuzzUsers(f *testing.F) {
	f.Add("ann:$2y$04$" + strings.Repeat("a", 53))
	f.Fuzz(func(t *testing.T, text string) {
		// The decoy of a costly hash takes its time.
		if strings.Contains(text, "$1") {
			return
		}
		if _, err := ParseUsers(strings.NewReader(text)); err != nil && len(text) > 8 && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the file: %v", err)
		}
	})
}
