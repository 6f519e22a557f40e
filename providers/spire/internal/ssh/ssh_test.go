package ssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"fediversity.eu/yuba/test/freeport"
	"fediversity.eu/yuba/test/sshd"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keyOf is the key that opens a server.
func keyOf(t testing.TB, s *sshd.Server) *Key {
	t.Helper()
	k, err := ReadKey(s.KeyFile)
	must(t, err)
	return k
}

// hopTo is the way to a server, with its keys of the given types pinned.
func hopTo(t testing.TB, s *sshd.Server, kinds ...string) Hop {
	t.Helper()
	h := Hop{Name: "spire.example", Address: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), User: s.User, ConnectTimeout: time.Minute}
	for _, kind := range kinds {
		k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.HostKeys[kind]))
		must(t, err)
		h.HostKeys = append(h.HostKeys, k)
	}
	return h
}

func line(text string) Command { return Command{Line: text, MaxSize: 1 << 10, Timeout: time.Minute} }

// wants says what an error lacks of what a user has to be told.
func wants(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("there is no error")
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error lacks %q: %v", w, err)
		}
	}
}

func TestRun(t *testing.T) {
	s := sshd.Start(t, "AllowTcpForwarding yes")
	key := keyOf(t, s)
	ctx := t.Context()
	hop := hopTo(t, s, "ssh-ed25519")

	t.Run("standard input, output", func(t *testing.T) {
		c := line("tr a-z A-Z")
		c.Stdin = []byte(strings.Repeat("hello\n", 100))
		out, err := Run(ctx, []Hop{hop}, key, c)
		if err != nil || string(out) != strings.Repeat("HELLO\n", 100) {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("standard input that is not read", func(t *testing.T) {
		c := line("true")
		c.Stdin = make([]byte, 1<<20)
		if _, err := Run(ctx, []Hop{hop}, key, c); err != nil {
			t.Error(err)
		}
	})
	t.Run("exit code and standard error", func(t *testing.T) {
		_, err := Run(ctx, []Hop{hop}, key, line("echo no such thing >&2; exit 7"))
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Status != 7 || exit.Stderr != "no such thing\n" {
			t.Errorf("%#v", err)
		}
		wants(t, err, "spire.example", "exit code 7")
	})
	t.Run("signal", func(t *testing.T) {
		_, err := Run(ctx, []Hop{hop}, key, line("kill -TERM $$"))
		wants(t, err, "SIGTERM")
	})
	// The server offers all of its types; the pinned one must be asked for.
	for _, kind := range []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"} {
		t.Run("pinned "+kind, func(t *testing.T) {
			if _, err := Run(ctx, []Hop{hopTo(t, s, kind)}, key, line("true")); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("one of the pinned keys", func(t *testing.T) {
		h := hop
		h.HostKeys = []ssh.PublicKey{newKey(t), hop.HostKeys[0]}
		if _, err := Run(ctx, []Hop{h}, key, line("true")); err != nil {
			t.Error(err)
		}
	})
	t.Run("another host key", func(t *testing.T) {
		h := hop
		h.HostKeys = []ssh.PublicKey{newKey(t)}
		_, err := Run(ctx, []Hop{h}, key, line("true"))
		wants(t, err, "spire.example", ssh.FingerprintSHA256(hop.HostKeys[0]), ssh.FingerprintSHA256(h.HostKeys[0]), "must be pinned")
		var other *HostKeyError
		if !errors.As(err, &other) {
			t.Errorf("%#v", err)
		}
	})
	t.Run("host key algorithms of the options", func(t *testing.T) {
		h := hopTo(t, s, "ssh-rsa")
		h.HostKeyAlgorithms = []string{ssh.KeyAlgoRSASHA256}
		if _, err := Run(ctx, []Hop{h}, key, line("true")); err != nil {
			t.Error(err)
		}
	})
	t.Run("no agreement", func(t *testing.T) {
		only := sshd.Start(t, "HostKeyAlgorithms ssh-ed25519", "Ciphers aes256-ctr")
		_, err := Run(ctx, []Hop{hopTo(t, only, "ssh-rsa")}, keyOf(t, only), line("true"))
		wants(t, err, "host key", "ssh-ed25519", "rsa-sha2-512")
		h := hopTo(t, only, "ssh-ed25519")
		h.Ciphers = []string{ssh.CipherChaCha20Poly1305}
		_, err = Run(ctx, []Hop{h}, keyOf(t, only), line("true"))
		wants(t, err, "cipher", "aes256-ctr", "chacha20")
	})
	t.Run("key refused", func(t *testing.T) {
		file, _ := sshd.Key(t, t.TempDir(), "other")
		other, err := ReadKey(file)
		must(t, err)
		_, err = Run(ctx, []Hop{hop}, other, line("true"))
		wants(t, err, "may not log in", s.User, file, "authorized_keys")
	})
	t.Run("user refused", func(t *testing.T) {
		h := hop
		h.User = "nobody-of-this-name"
		_, err := Run(ctx, []Hop{h}, key, line("true"))
		wants(t, err, "nobody-of-this-name", "may not log in")
	})
	t.Run("unreachable", func(t *testing.T) {
		h := hop
		h.Address = freeport.Address(t)
		_, err := Run(ctx, []Hop{h}, key, line("true"))
		wants(t, err, "spire.example", h.Address, "refused", "check")
		var e *Error
		if errors.As(err, &e); e.Started || e.Cut {
			t.Errorf("%+v", e)
		}
	})
	t.Run("too much output", func(t *testing.T) {
		_, err := Run(ctx, []Hop{hop}, key, line("cat /dev/zero"))
		wants(t, err, "more than 1024 bytes")
		_, err = Run(ctx, []Hop{hop}, key, line("cat /dev/zero >&2"))
		wants(t, err, "more than 1048576 bytes to its standard error")
	})
	t.Run("the end of standard error is kept", func(t *testing.T) {
		_, err := Run(ctx, []Hop{hop}, key, line("head -c 9000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1"))
		var exit *ExitError
		if !errors.As(err, &exit) || len(exit.Stderr) != excerpt || !strings.HasSuffix(exit.Stderr, "xend\n") {
			t.Errorf("%#v", err)
		}
	})
	t.Run("cut", func(t *testing.T) {
		_, err := Run(ctx, []Hop{hop}, key, line("kill -9 $PPID"))
		var e *Error
		if !errors.As(err, &e) || !e.Started || !e.Cut {
			t.Errorf("%#v", err)
		}
		wants(t, err, "the connection was cut")
	})
	t.Run("no agent, no terminal", func(t *testing.T) {
		out, err := Run(ctx, []Hop{hop}, key, line("echo $SSH_AUTH_SOCK$SSH_TTY; tty"))
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Status != 1 {
			t.Errorf("%q, %v", out, err)
		}
	})
}

func newKey(t testing.TB) ssh.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	k, err := ssh.NewPublicKey(public)
	must(t, err)
	return k
}

// A jump host has a key of its own, and none but the last machine runs anything.
func TestJumpHosts(t *testing.T) {
	jump, target := sshd.Start(t, "AllowTcpForwarding yes"), sshd.Start(t)
	// One key opens both.
	data, err := os.ReadFile(filepath.Join(jump.Dir, "authorized_keys"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(target.Dir, "authorized_keys"), data, 0o600))
	key, ctx := keyOf(t, jump), t.Context()
	way := func() []Hop {
		h := hopTo(t, jump, "ssh-ed25519")
		h.Name = "jump.example"
		return []Hop{h, hopTo(t, target, "ssh-ed25519")}
	}
	c := line("cat")
	c.Stdin = []byte("through")
	if out, err := Run(ctx, way(), key, c); err != nil || string(out) != "through" {
		t.Errorf("%q, %v", out, err)
	}
	if strings.Contains(jump.Log(t), "Starting session") || !strings.Contains(target.Log(t), "Starting session: command") {
		t.Error("the command ran on the jump host")
	}
	hops := way()
	hops[0].HostKeys = hops[1].HostKeys
	_, err = Run(ctx, hops, key, c)
	wants(t, err, "jump.example", "must be pinned")
	hops = way()
	hops[1].HostKeys = hops[0].HostKeys
	_, err = Run(ctx, hops, key, c)
	wants(t, err, "spire.example", "must be pinned")
	hops = way()
	hops[1].Address = "127.0.0.1:1"
	_, err = Run(ctx, hops, key, c)
	wants(t, err, "spire.example", "jump host makes no connection to 127.0.0.1:1", "refused")

	mute := sshd.Start(t, "AllowTcpForwarding no")
	must(t, os.WriteFile(filepath.Join(mute.Dir, "authorized_keys"), data, 0o600))
	h := hopTo(t, mute, "ssh-ed25519")
	_, err = Run(ctx, []Hop{h, hops[1]}, key, c)
	wants(t, err, "jump host makes no connection", "prohibited")
}

// silent accepts connections and says nothing.
func silent(t testing.TB) (address string, accepted chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	accepted = make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), accepted
}

// A server that accepts and says nothing is given up on, directly and behind a jump host; an interrupt is heard at once.
func TestNoHandshake(t *testing.T) {
	s := sshd.Start(t, "AllowTcpForwarding yes")
	key := keyOf(t, s)
	address, accepted := silent(t)
	h := hopTo(t, s, "ssh-ed25519")
	dumb := h
	dumb.Name, dumb.Address, dumb.ConnectTimeout = "dumb.example", address, 50*time.Millisecond
	for _, way := range [][]Hop{{dumb}, {h, dumb}} {
		_, err := Run(t.Context(), way, key, line("true"))
		wants(t, err, "dumb.example", address, "handshake did not end within 50ms")
		<-accepted
	}
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	other := dumb
	other.Address, other.ConnectTimeout = web.Listener.Addr().String(), time.Minute
	_, err := Run(t.Context(), []Hop{other}, key, line("true"))
	wants(t, err, "dumb.example", "handshake")

	dumb.ConnectTimeout = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-accepted
		cancel(errors.New("interrupted by the test"))
	}()
	_, err = Run(ctx, []Hop{dumb}, key, line("true"))
	wants(t, err, "interrupted by the test")
}

// A command that does not end is hung up on, and an interrupt too.
func TestNoEnd(t *testing.T) {
	s := sshd.Start(t)
	key, hop := keyOf(t, s), hopTo(t, s, "ssh-ed25519")
	// It ends when nobody hears it any more.
	const endless = "while sleep 0.1; do echo; done"
	c := line(endless)
	c.Timeout = 100 * time.Millisecond
	_, err := Run(t.Context(), []Hop{hop}, key, c)
	wants(t, err, "did not end within 100ms")
	var e *Error
	if !errors.As(err, &e) || !e.Started || e.Cut {
		t.Errorf("%#v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	fifo := filepath.Join(s.Dir, "started")
	must(t, syscall.Mkfifo(fifo, 0o600))
	go func() {
		_, _ = os.ReadFile(fifo)
		cancel(errors.New("interrupted by the test"))
	}()
	_, err = Run(ctx, []Hop{hop}, key, line("echo > "+fifo+"; "+endless))
	wants(t, err, "interrupted by the test")
}

// A host that is gone without a word is noticed: it does not answer keepalives. In a bubble of its own time, with a
// server in this process.
func TestKeepAlive(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	host, err := ssh.NewSignerFromKey(private)
	must(t, err)
	for name, answers := range map[string]int{"never": 0, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := pipe()
				go serve(far, host, answers)
				c, channels, requests, err := ssh.NewClientConn(near, "x", &ssh.ClientConfig{User: "u", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
				must(t, err)
				client := ssh.NewClient(c, channels, requests)
				began := time.Now()
				h := Hop{Name: "spire.example", AliveInterval: 15 * time.Second, AliveCount: 3}
				_, err = h.run(t.Context(), client, Command{Line: "x", MaxSize: 1, Timeout: time.Hour})
				wants(t, err, "no sign of life for 45s")
				// One tick to ask the question that isn't answered, and three more.
				if got, want := time.Since(began), time.Duration(answers+4)*h.AliveInterval; got != want {
					t.Errorf("noticed after %s, want %s", got, want)
				}
				far.Close()
			})
		})
	}
}

// A connection that ends between the login and the command is one that was cut, and not a mistake of the server.
func TestCutBeforeTheCommand(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	host, err := ssh.NewSignerFromKey(private)
	must(t, err)
	near, far := pipe()
	go func() {
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(host)
		_, channels, _, err := ssh.NewServerConn(far, config)
		if err == nil {
			<-channels // asks for the session
		}
		far.Close()
	}()
	c, channels, requests, err := ssh.NewClientConn(near, "x", &ssh.ClientConfig{User: "u", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	must(t, err)
	_, err = Hop{Name: "spire.example"}.run(t.Context(), ssh.NewClient(c, channels, requests), line("x"))
	if err == nil || !broken(err) {
		t.Errorf("not seen as cut: %v", err)
	}
	wants(t, &Error{Host: "spire.example", Err: explain(t.Context(), err)}, "spire.example", "the connection was cut")
}

// A connection that ends after the command's exit code and before the end of what it printed was cut, too. What is only
// cut short by the command itself is the caller's to judge.
func TestCutAfterTheExitCode(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	host, err := ssh.NewSignerFromKey(private)
	must(t, err)
	for name, cut := range map[string]bool{"cut": true, "ended": false} {
		for _, printed := range []string{"", "half an"} {
			t.Run(name+" "+printed, func(t *testing.T) {
				near, far := pipe()
				go func() {
					config := &ssh.ServerConfig{NoClientAuth: true}
					config.AddHostKey(host)
					server, channels, requests, err := ssh.NewServerConn(far, config)
					if err != nil {
						return
					}
					go ssh.DiscardRequests(requests)
					session, asked, err := (<-channels).Accept()
					if err != nil {
						return
					}
					_ = (<-asked).Reply(true, nil)
					_, _ = session.SendRequest("exit-status", false, make([]byte, 4))
					_, _ = session.Write([]byte(printed))
					if cut {
						_, _, _ = server.SendRequest("all of that has come", true, nil)
						far.Close()
						return
					}
					session.Close()
				}()
				c, channels, requests, err := ssh.NewClientConn(near, "x", &ssh.ClientConfig{User: "u", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
				must(t, err)
				client := ssh.NewClient(c, channels, requests)
				defer client.Close()
				command := line("x")
				command.Whole = func(b []byte) bool { return string(b) == "half an answer" }
				out, err := Hop{Name: "spire.example"}.run(t.Context(), client, command)
				switch {
				case cut && (err == nil || !broken(err)):
					t.Errorf("not seen as cut: %q, %v", out, err)
				case !cut && (err != nil || string(out) != printed):
					t.Errorf("%q, %v", out, err)
				}
			})
		}
	}
}

// pipe is a net.Pipe that doesn't wait for the other side to read: both begin by writing.
func pipe() (near, far net.Conn) {
	a, b := net.Pipe()
	return &buffered{Conn: a}, &buffered{Conn: b}
}

type buffered struct {
	net.Conn
	mu    sync.Mutex
	queue chan []byte
}

func (c *buffered) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		c.queue = make(chan []byte, 1000)
		go func() {
			for p := range c.queue {
				_, _ = c.Conn.Write(p)
			}
		}()
	}
	c.queue <- bytes.Clone(p)
	return len(p), nil
}

func (c *buffered) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		close(c.queue)
	}
	c.queue = make(chan []byte, 1000) // what is still written goes nowhere
	return c.Conn.Close()
}

// serve is a server that starts every command and says nothing more, but for so many answers to keepalives.
func serve(conn net.Conn, host ssh.Signer, answers int) {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(host)
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go func() {
		for r := range requests {
			if answers > 0 {
				answers--
				_ = r.Reply(false, nil)
			}
		}
	}()
	for c := range channels {
		_, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(true, nil)
			}
		}()
	}
}

func TestBadKeys(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, os.Chmod(path, mode))
		return path
	}
	good, public := sshd.Key(t, dir, "good")
	data, err := os.ReadFile(good)
	must(t, err)
	locked := &pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x")}
	fifo := filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	for name, c := range map[string]struct{ file, want string }{
		"missing":      {filepath.Join(dir, "none"), "must be staged before each run"},
		"folder":       {dir, "not a regular file"},
		"pipe":         {fifo, "not a regular file"},
		"open to all":  {write("open", string(data), 0o644), "chmod 600"},
		"open to some": {write("group", string(data), 0o640), "0640"},
		"encrypted":    {write("locked", string(pem.EncodeToMemory(locked)), 0o600), "is encrypted"},
		"public":       {write("public", public, 0o600), "is a public key"},
		"PuTTY":        {write("putty", "PuTTY-User-Key-File-3: ssh-ed25519\n", 0o600), "PuTTY"},
		"garbage":      {write("garbage", "s3cret garbage", 0o600), "no private key"},
		"cut":          {write("cut", string(data[:len(data)/2]), 0o600), "no private key"},
		"empty":        {write("empty", "", 0o600), "no private key"},
		"large":        {write("large", strings.Repeat("x", maxKey+1), 0o600), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadKey(c.file)
			wants(t, err, c.file, c.want)
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the file: %v", err)
			}
		})
	}
	if os.Getuid() != 0 {
		_, err := ReadKey(write("unreadable", string(data), 0))
		wants(t, err, "must be able to read it")
	}
}
