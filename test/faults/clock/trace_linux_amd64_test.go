package clock

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

const day = 24 * time.Hour

// What the harness is for: the program says the time that it is told.
func TestTimeOfDay(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"now": 0, "tomorrow": day, "yesterday": -day, "next year": 365 * day} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			input := filepath.Join(dir, "input")
			if err := os.WriteFile(input, []byte("timestamp()\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(world.Program(t), "console")
			cmd.Dir, cmd.Env = dir, []string{"HOME=/nonexistent"}
			var err error
			if cmd.Stdin, err = os.Open(input); err != nil {
				t.Fatal(err)
			}
			earliest := time.Now().Truncate(time.Second)
			r := Start(t, cmd, func() time.Duration { return ahead }).Wait()
			said, err := time.Parse(time.RFC3339, strings.Trim(strings.TrimSpace(r.Stdout), `"`))
			if at := said.Add(-ahead); err != nil || r.Code != 0 || at.Before(earliest) || at.After(time.Now()) {
				t.Errorf("it says that it is %v, %v ahead: %v", said, ahead, r)
			}
		})
	}
}

// jumps are ways for a clock to be wrong. Each call of one is for one run. None jumps at
// each read: HTTP/2 of golang.org/x/net looks twice, by the time of day, whether a connection
// has been idle for too long, begins anew when that differs, and then pauses for
// 1, 2, 4 up to 32 s. What no clock does would make this test wait for minutes.
var jumps = map[string]func() func() time.Duration{
	"at each tenth read": func() func() time.Duration {
		n := 0
		return func() time.Duration {
			n++
			return []time.Duration{0, day, -day, time.Hour, -time.Hour, 365 * day}[n/10%6]
		}
	},
	"every 50 ms": func() func() time.Duration {
		began := time.Now()
		return func() time.Duration {
			return []time.Duration{day, -day, 0}[time.Since(began)/(50*time.Millisecond)%3]
		}
	},
	"forward": func() func() time.Duration { return once(365 * day) },
	"back":    func() func() time.Duration { return once(-day) },
}

// eachJump begins a life for each way for a clock to be wrong.
func eachJump(t *testing.T, test func(l *life.Life, clock func() func() time.Duration)) {
	t.Parallel()
	for name, clock := range jumps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(life.Born(t), clock)
		})
	}
}

// once is a clock that is set after two seconds, when the pods of a rollout are waited for.
func once(to time.Duration) func() time.Duration {
	began := time.Now()
	return func() time.Duration {
		if time.Since(began) < 2*time.Second {
			return 0
		}
		return to
	}
}

// run runs a command whose clock jumps. It has to end with this exit code.
func run(l *life.Life, ahead func() time.Duration, code int, args ...string) world.Result {
	l.Helper()
	r := Start(l, l.Command(args...), ahead).Wait()
	if r.Code != code {
		l.Fatalf("yuba %s: want exit code %d, got %v", strings.Join(args, " "), code, r)
	}
	return r
}

// serve gives a life's commands a state server whose clock jumps.
func serve(l *life.Life, ahead func() time.Duration) {
	l.Helper()
	cmd := l.Command("state", "serve", "-dir="+filepath.Join(l.Dir, "jumping"), "-listen=127.0.0.1:0")
	cmd.Env = []string{}
	p := Start(l, cmd, ahead)
	l.Cleanup(func() {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			l.Error(err)
		}
		if r := p.Wait(); r.Code != 0 {
			l.Errorf("the state server: %v", r)
		}
	})
	var address []string
	world.Eventually(l, "state server", func() bool {
		address = regexp.MustCompile(`(http://\S+)\n`).FindStringSubmatch(p.Stdout())
		return address != nil
	})
	l.State = address[1] + "/" + l.Namespace
	l.Env["TF_HTTP_ADDRESS"] = l.State
}

// A clock that jumps, of the program and of its state server, shortens no wait and
// lengthens none, and the state is true.
func TestLife(t *testing.T) {
	eachJump(t, func(l *life.Life, clock func() func() time.Duration) {
		serve(l, clock())
		l.First()
		run(l, clock(), 0, life.Apply...)
		l.Free()
		l.Settled()
		if s := run(l, func() time.Duration { return day }, 0, "k8s", "status"); regexp.MustCompile(`\s[0-9]+[hd]\s`).MatchString(s.Stdout) {
			l.Errorf("a pod is older than this test: %v", s)
		}
		l.Nodes(lab.Image{Content: "two", ReadyAfter: 4 * time.Second})
		began := time.Now()
		r := run(l, clock(), 0, life.Apply...)
		if took := time.Since(began); took < 4*time.Second || !regexp.MustCompile(`web: ready after ([4-9]|[1-9]\d|\d+m\d+)s`).MatchString(r.Stderr) {
			l.Errorf("the pod is ready after 4s, and the rollout was complete after %v: %v", took, r)
		}
		l.Free()
		l.Settled()
		l.Nodes(lab.Image{Behaviour: lab.ConfigError})
		l.Edit(func(g map[string]any) { g["persistence"] = "6s" })
		began = time.Now()
		r = run(l, clock(), 1, life.Apply...)
		if took := time.Since(began); took < 6*time.Second {
			l.Errorf("it was given up after %v: %v", took, r)
		}
		text := world.Unwrapped(r.Stderr)
		for _, word := range []string{"CreateContainerConfigError", "it was given up after 6s", "was set back to the last image whose rollout was complete, " + l.Good + ", and that is ready again"} {
			if !strings.Contains(text, word) {
				l.Errorf("it lacks %q: %v", word, r)
			}
		}
		if got := l.Running("web"); got != l.Good {
			l.Errorf("web runs %s and not %s: %v", got, l.Good, r)
		}
		l.Free()
		run(l, clock(), 0, life.Destroy...)
		l.Free()
		l.Gone()
	})
}

// Whoever waits for a lock gets it when it is released, whatever the clock says.
func TestLock(t *testing.T) {
	eachJump(t, func(l *life.Life, clock func() func() time.Duration) {
		l.First()
		const held = `{"ID":"held","Operation":"test","Who":"ann"}`
		if err := l.Request("LOCK", held); err != nil {
			l.Fatal(err)
		}
		began := time.Now()
		r := run(l, clock(), 1, append(life.Apply, "-lock-timeout=4s")...)
		if took := time.Since(began); took < 4*time.Second || !strings.Contains(r.Stderr, "ann") {
			l.Errorf("it has not waited for 4s, but for %v: %v", took, r)
		}
		var tries atomic.Int64
		l.Proxy.Watch(func(at proxy.Point) (harm proxy.Harm) {
			if at.Method == "LOCK" && at.Moment == proxy.After {
				tries.Add(1)
			}
			return harm
		})
		p := Start(l, l.Command(append(life.Apply, "-lock-timeout=10m")...), clock())
		world.Eventually(l, "third try", func() bool { return tries.Load() >= 3 })
		if err := l.Request("UNLOCK", held); err != nil {
			l.Fatal(err)
		}
		if r := p.Wait(); r.Code != 0 {
			l.Errorf("it has not got the lock that was released: %v", r)
		}
		l.Free()
		l.Settled()
	})
}

// Servers that are busy say when to come again, by their own clocks.
func TestRetryAfter(t *testing.T) {
	eachJump(t, func(l *life.Life, clock func() func() time.Duration) {
		l.First()
		var mu sync.Mutex
		met := map[string]bool{}
		l.Proxy.Watch(func(at proxy.Point) (harm proxy.Harm) {
			mu.Lock()
			defer mu.Unlock()
			if kind := at.Server + " " + at.Method; at.Moment == proxy.Before && !met[kind] {
				met[kind] = true
				harm.Status = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[len(met)%2]
				now := time.Now().UTC()
				harm.Header = http.Header{"Date": {now.Format(http.TimeFormat)}, "Retry-After": {now.Add(time.Second).Format(http.TimeFormat)}}
			}
			return harm
		})
		run(l, clock(), 0, life.Apply...)
		for _, kind := range []string{"registry POST", "registry PUT", "api GET", "api PATCH", "state LOCK", "state POST", "state UNLOCK"} {
			if !met[kind] {
				l.Errorf("no %s was refused at first: %v", kind, met)
			}
		}
		l.Proxy.Watch(nil)
		l.Free()
		l.Settled()
	})
}

// A certificate that is not valid by this machine's clock is what is said, and that it may
// be the clock.
func TestCertificates(t *testing.T) {
	t.Parallel()
	secure := func(l *life.Life, name, url string) (host, ca string) {
		l.Helper()
		f, err := l.Proxy.Front(proxy.Server{Name: name, URL: url, Secure: true})
		if err != nil {
			l.Fatal(err)
		}
		_, host, _ = strings.Cut(f.URL, "://")
		return host, string(f.CA)
	}
	for server, set := range map[string]func(l *life.Life) (host string){
		"api": func(l *life.Life) string { return l.Fronts["api"] },
		"state": func(l *life.Life) string {
			host, ca := secure(l, "TLS state", l.Server.Address)
			l.Env["TF_HTTP_ADDRESS"], l.Env["TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"] = "https://"+host+"/"+l.Namespace, ca
			return host
		},
		"registry": func(l *life.Life) string {
			l.CountRequests() // by plain HTTP
			host, ca := secure(l, "TLS registry", "http://"+l.Lab.Registry)
			if err := os.WriteFile(filepath.Join(l.Dir, "ca.pem"), []byte(ca), 0o600); err != nil {
				l.Fatal(err)
			}
			l.Edit(func(g map[string]any) { g["registry"] = map[string]any{"caFile": "ca.pem"} })
			l.Env["K8S_REGISTRY"] = host
			return host
		},
	} {
		for name, ahead := range map[string]time.Duration{"expired": 100 * 365 * day, "not yet valid": -70 * 365 * day} {
			t.Run(server+" "+name, func(t *testing.T) {
				t.Parallel()
				l := life.Born(t)
				l.First()
				host := set(l)
				year := time.Now().Add(ahead).Format("2006-")
				r := run(l, func() time.Duration { return ahead }, 1, life.Apply...)
				text := world.Unwrapped(r.Stderr)
				for _, word := range []string{host, "certificate has expired or is not yet valid: current time " + year, "check the clock of this machine"} {
					if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
						t.Errorf("it lacks %q: %v", word, r)
					}
				}
				l.Free()
				l.Must(0, "k8s", "plan")
			})
		}
	}
}
