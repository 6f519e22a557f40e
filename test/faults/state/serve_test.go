package state

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/stateserver"
	"fediversity.eu/yuba/test/world"
)

// own is a house whose state is on a process of `yuba state serve`, behind a
// proxy.
type own struct {
	*house
	proxy *proxy.Proxy
	state string // its URL, without the proxy
}

// newOwn makes one for the server at an address.
func newOwn(t *testing.T, address string) *own {
	t.Helper()
	o := &own{house: &house{t: t, dir: t.TempDir()}, proxy: proxy.New(), state: address + "/group"}
	t.Cleanup(o.proxy.Close)
	f, err := o.proxy.Front(proxy.Server{Name: "state", URL: address})
	if err != nil {
		t.Fatal(err)
	}
	o.url = f.URL
	o.env = map[string]string{"TF_HTTP_ADDRESS": f.URL + "/group", "TF_HTTP_RETRY_WAIT_MIN": "0", "TF_HTTP_RETRY_WAIT_MAX": "0",
		"HOME": "/nonexistent", "PATH": os.Getenv("PATH"), "TF_CLI_ARGS": "-no-color"}
	o.write("main.tf", configuration)
	return o
}

// ask is one request to the server itself.
func (o *own) ask(method, body string) (status int, answer string) {
	o.t.Helper()
	req, err := http.NewRequest(method, o.state, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (o *own) stored() string {
	o.t.Helper()
	if status, state := o.ask("GET", ""); status == http.StatusOK {
		return state
	}
	return ""
}

var lockID = regexp.MustCompile(`"ID":"([^"]+)"`)

func (o *own) holder() string {
	o.t.Helper()
	const probe = `{"ID":"probe"}`
	status, answer := o.ask("LOCK", probe)
	switch {
	case status == http.StatusOK:
		o.ask("UNLOCK", probe)
		return ""
	case status == http.StatusLocked:
		return lockID.FindStringSubmatch(answer)[1]
	}
	// A disk that is full has no room for the question. What does not hold it, it
	// says.
	if status, answer = o.ask("UNLOCK", probe); status == http.StatusLocked {
		return lockID.FindStringSubmatch(answer)[1]
	}
	return ""
}

// judged is what holds after an apply of n, while the server was in trouble;
// mend ends that. It leaves the state of n.
func (o *own) judged(r world.Result, n int, before string, mend func()) {
	o.t.Helper()
	errored := filepath.Join(o.dir, "errored.tfstate")
	_, err := os.Stat(errored)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Fatal(err)
	}
	text := world.Unwrapped(r.Stdout + r.Stderr)
	switch {
	case r.Code == 0 && err == nil:
		o.t.Fatalf("all is well, and there is an errored.tfstate: %v", r)
	case r.Code != 0 && r.Code != 1:
		o.t.Fatal(r)
	case err == nil && !strings.Contains(text, "yuba state push errored.tfstate"):
		o.t.Fatalf("nothing tells of errored.tfstate: %v", r)
	}
	mend()
	made := strings.Contains(r.Stdout, "Modifications complete")
	if saved := o.stored() != before; made && !saved && err != nil {
		o.t.Fatalf("what was made is nowhere: %v", r)
	}
	if id := o.holder(); id != "" {
		if r.Code == 0 || !strings.Contains(text, "yuba force-unlock "+id) {
			o.t.Fatalf("%s holds the lock, and nothing says so: %v", id, r)
		}
		o.yuba(0, "force-unlock", "-force", id)
	}
	if err == nil {
		o.yuba(0, "state", "push", "errored.tfstate")
		if err := os.Remove(errored); err != nil {
			o.t.Fatal(err)
		}
	}
	v := "-var=n=" + strconv.Itoa(n)
	o.yuba(0, "apply", "-auto-approve", v)
	o.yuba(0, "plan", "-detailed-exitcode", v)
	if !strings.Contains(o.stored(), `"thing `+strconv.Itoa(n)) {
		o.t.Fatalf("the server's state is not the one of thing %d: %s", n, o.stored())
	}
	if id := o.holder(); id != "" {
		o.t.Fatalf("%s still holds the lock", id)
	}
}

// The state server is killed at each moment of an apply. When it is back at once,
// nobody notices. When it is back later, nothing is lost.
func TestStateServerIsKilled(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*own, *stateserver.Server) {
		s := stateserver.Start(t, world.Program(t), t.TempDir())
		o := newOwn(t, s.Address)
		o.yuba(0, "apply", "-auto-approve")
		return o, s
	}
	o, _ := begin(t)
	o.proxy.Watch(nil)
	o.yuba(0, "apply", "-auto-approve", "-var=n=2")
	points := o.proxy.Points()
	if len(points) < 9 {
		t.Fatalf("an apply has only the points %v", points)
	}
	for _, later := range []bool{false, true} {
		for _, at := range points {
			name := at.String()
			if later {
				name += ", back later"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o, s := begin(t)
				before := o.stored()
				var once sync.Once
				o.proxy.Watch(func(p proxy.Point) (h proxy.Harm) {
					if p == at {
						once.Do(func() {
							s.Kill(t)
							if !later {
								s.Restart(t)
							}
							h.Cut = true
						})
					}
					return h
				})
				r := o.yuba(-1, "apply", "-auto-approve", "-var=n=2")
				o.proxy.Watch(nil)
				if !later && r.Code != 0 {
					t.Fatalf("the server was back at once: %v", r)
				}
				if later && r.Code != 1 {
					t.Fatalf("the server was away: %v", r)
				}
				o.judged(r, 2, before, func() {
					if later {
						s.Restart(t)
					}
				})
			})
		}
	}
}
