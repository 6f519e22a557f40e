// Package ssh runs one command on another machine: by public key, to a host whose key is pinned, through any number of
// jump hosts, within this process. It offers nothing else of SSH: no agent, no forwarding, no terminal, no files of the
// user's (~/.ssh is not looked at).
package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"fediversity.eu/yuba/providers/internal/text"
)

// Hop is one machine on the way.
type Hop struct {
	Name     string // as in messages
	Address  string // host:port, as the hop before it (the first: this machine) reaches it
	User     string
	HostKeys []ssh.PublicKey // the host has one of them
	// What is negotiated, the best first. HostKeyAlgorithms follow from HostKeys where there are none; the others are
	// then what x/crypto holds to be safe.
	HostKeyAlgorithms, KeyExchanges, Ciphers, MACs []string

	ConnectTimeout time.Duration // for the connection and the handshake, each
	AliveInterval  time.Duration // between two questions whether the host is still there; 0: it isn't asked
	AliveCount     int           // how many of them may be unanswered
}

const (
	// maxErrors bounds what a command may write to its standard error, in bytes; excerpt is what is kept: the end of it.
	maxErrors = 1 << 20
	excerpt   = 2 << 10
)

// Command is what is run, at the end of the way.
type Command struct {
	// Line is given to the login shell of the user: nothing in it may need quotes.
	Line    string
	Stdin   []byte
	MaxSize int           // of what it prints, in bytes
	Timeout time.Duration // for its run
	// Whole says whether something that was printed can be all of it. A server may say how a command ended before it
	// sends the last that it printed (RFC 4254, section 6.10, sets no order), so a connection that is cut in between looks
	// like success. Nil: what is printed does not matter.
	Whole func(printed []byte) bool
}

// Error says that a command did not run to its end, and at which host.
type Error struct {
	Host string
	// Started says that the command may have been started, and so may have done what it is for.
	Started bool
	// Cut says that a connection ended that had been made: who asks again may get an answer.
	Cut bool
	Err error
}

func (e *Error) Error() string { return e.Host + ": " + e.Err.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// ExitError says that a command ran to its end and failed.
type ExitError struct {
	Host   string
	Status int
	Signal string // the signal that ended it, without "SIG"; "" if none did
	Stderr string // the end of what it wrote there, as it is
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return e.Host + ": the command was ended by SIG" + e.Signal
	}
	return fmt.Sprintf("%s: the command failed with exit code %d", e.Host, e.Status)
}

// HostKeyError says that a host has another key than those that are pinned.
type HostKeyError struct {
	Shown  ssh.PublicKey
	Pinned []ssh.PublicKey
}

func (e *HostKeyError) Error() string {
	return fmt.Sprintf("it shows the host key %s, and pinned is %s: either the machine was set up again, and its new key must be pinned, or somebody else answers in its place",
		fingerprint(e.Shown), fingerprints(e.Pinned))
}

func fingerprint(k ssh.PublicKey) string { return k.Type() + " " + ssh.FingerprintSHA256(k) }

func fingerprints(keys []ssh.PublicKey) string {
	var all []string
	for _, k := range keys {
		all = append(all, fingerprint(k))
	}
	return strings.Join(all, ", ")
}

// Run runs the command on the last hop and gives what it printed. Errors are *Error and *ExitError. The end of ctx ends
// the connection, whatever it is doing, and so the command, if it notices.
func Run(ctx context.Context, hops []Hop, key *Key, c Command) ([]byte, error) {
	var client *ssh.Client
	for _, h := range hops {
		next, err := dial(ctx, client, h, key)
		if err != nil {
			return nil, err
		}
		defer next.Close()
		client = next
	}
	last := hops[len(hops)-1]
	out, err := last.run(ctx, client, c)
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		err = &Error{Host: last.Name, Started: true, Cut: ctx.Err() == nil && broken(err), Err: explain(ctx, err)}
	}
	return out, err
}

// dial connects to a hop, through a client of the one before it if there is one.
func dial(ctx context.Context, through *ssh.Client, h Hop, key *Key) (*ssh.Client, error) {
	config, shown := h.config(key)
	fail := func(err error) (*ssh.Client, error) {
		return nil, &Error{Host: h.Name, Cut: through != nil && broken(err), Err: explain(ctx, err)}
	}

	timeout := fmt.Errorf("no connection to %s within %s: check the address, the port and the network", h.Address, h.ConnectTimeout)
	dialing, cancel := context.WithTimeoutCause(ctx, h.ConnectTimeout, timeout)
	defer cancel()
	var conn net.Conn
	var err error
	if through == nil {
		conn, err = new(net.Dialer).DialContext(dialing, "tcp", h.Address)
	} else {
		conn, err = through.DialContext(dialing, "tcp", h.Address)
	}
	var refused *ssh.OpenChannelError
	switch {
	case dialing.Err() != nil:
		if err == nil {
			conn.Close() // too late
		}
		return fail(context.Cause(dialing))
	case errors.As(err, &refused):
		return fail(fmt.Errorf("the jump host makes no connection to %s: %s (%s)", h.Address, refused.Reason, text.Plain(refused.Message)))
	case err != nil:
		return fail(err)
	}

	// ClientConfig.Timeout does not bound the handshake, and a connection through a jump host has no deadlines: who does
	// not answer is hung up on.
	timeout = fmt.Errorf("%s accepts the connection, and the handshake did not end within %s: is it a server of SSH?", h.Address, h.ConnectTimeout)
	shaking, cancel := context.WithTimeoutCause(ctx, h.ConnectTimeout, timeout)
	defer cancel()
	stop := context.AfterFunc(shaking, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, h.Address, config)
	if !stop() {
		return fail(context.Cause(shaking)) // it is closed
	}
	if err != nil {
		var none *ssh.AlgorithmNegotiationError
		switch {
		case *shown != nil:
			return nil, &Error{Host: h.Name, Err: *shown}
		case errors.As(err, &none):
			return fail(fmt.Errorf("no agreement on the %s: the server has %s, and asked for was %s", none.What, text.Plain(strings.Join(none.RequestedAlgorithms, ", ")), strings.Join(none.SupportedAlgorithms, ", ")))
		case strings.Contains(err.Error(), "unable to authenticate"):
			return fail(fmt.Errorf("user %s may not log in with the key of %s (%s): put its public half into the user's authorized_keys there, or name another user or key", h.User, key.file, ssh.FingerprintSHA256(key.signer.PublicKey())))
		}
		if broken(err) {
			return nil, &Error{Host: h.Name, Cut: true, Err: errors.New("the connection was cut in the handshake: is " + h.Address + " a server of SSH, and may this machine log in there?")}
		}
		return fail(err)
	}
	return ssh.NewClient(c, channels, requests), nil
}

// config is how the client talks to the hop. What shown points to is why its host key was refused, once it was.
func (h Hop) config(key *Key) (config *ssh.ClientConfig, shown *error) {
	shown = new(error)
	algorithms := h.HostKeyAlgorithms
	if len(algorithms) == 0 {
		algorithms = AlgorithmsOf(h.HostKeys)
	}
	return &ssh.ClientConfig{
		Config:            ssh.Config{KeyExchanges: h.KeyExchanges, Ciphers: h.Ciphers, MACs: h.MACs},
		User:              h.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key.signer)},
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			if !slices.ContainsFunc(h.HostKeys, func(p ssh.PublicKey) bool { return bytes.Equal(p.Marshal(), k.Marshal()) }) {
				*shown = &HostKeyError{Shown: k, Pinned: h.HostKeys}
			}
			return *shown
		},
	}, shown
}

// AlgorithmsOf are the algorithms by which a host can show that it has one of the keys. A server has a key of each type
// and shows one of the first type that the client asks for; so who pinned one must ask for that.
func AlgorithmsOf(keys []ssh.PublicKey) []string {
	var out []string
	for _, k := range keys {
		more := []string{k.Type()}
		if k.Type() == ssh.KeyAlgoRSA { // whose algorithm of that name signs SHA-1
			more = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range more {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (h Hop) run(ctx context.Context, client *ssh.Client, c Command) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("the command did not end within %s", c.Timeout))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	if h.AliveInterval > 0 {
		go h.keepAlive(ctx, client, abort)
	}
	cause := func(err error) error { return cmp.Or(context.Cause(ctx), err) }

	session, err := client.NewSession()
	if err != nil {
		return nil, cause(err)
	}
	defer session.Close()
	stdout := &bounded{limit: c.MaxSize, full: func() { abort(fmt.Errorf("the command printed more than %d bytes", c.MaxSize)) }}
	stderr := &bounded{limit: maxErrors, keep: excerpt, full: func() { abort(fmt.Errorf("the command wrote more than %d bytes to its standard error", maxErrors)) }}
	session.Stdout, session.Stderr = stdout, stderr
	stdin, err := session.StdinPipe()
	if err != nil {
		return nil, cause(err)
	}
	if err := session.Start(c.Line); err != nil {
		return nil, cause(err)
	}
	// A command that ends without reading all of it says by its exit code whether that is a failure. This ends with the
	// session, at the latest.
	go func() {
		_, _ = stdin.Write(c.Stdin)
		_ = stdin.Close()
	}()
	err = session.Wait()
	if err == nil && c.Whole != nil && !c.Whole(stdout.data) {
		// Either the command prints that, or the connection ended before the rest came. One that is there answers.
		if _, _, gone := client.SendRequest(keepAliveRequest, true, nil); gone != nil {
			err = &ssh.ExitMissingError{}
		}
	}
	if ended := context.Cause(ctx); ended != nil {
		return nil, ended
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return nil, &ExitError{Host: h.Name, Status: exit.ExitStatus(), Signal: text.Plain(exit.Signal()), Stderr: string(stderr.data)}
	}
	if err != nil {
		return nil, err
	}
	return stdout.data, nil
}

// keepAliveRequest asks for nothing but an answer.
const keepAliveRequest = "keepalive@openssh.com"

// keepAlive asks the host whether it is there, and gives up on one that doesn't answer.
func (h Hop) keepAlive(ctx context.Context, client *ssh.Client, abort context.CancelCauseFunc) {
	tick := time.NewTicker(h.AliveInterval)
	defer tick.Stop()
	answers := make(chan struct{}, 1)
	waiting, missed := false, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-answers:
			waiting, missed = false, 0
		case <-tick.C:
			if waiting {
				if missed++; missed >= h.AliveCount {
					abort(fmt.Errorf("no sign of life for %s", time.Duration(missed)*h.AliveInterval))
					return
				}
				continue
			}
			waiting = true
			go func() {
				// OpenSSH answers no to what it does not know, which is as good.
				if _, _, err := client.SendRequest(keepAliveRequest, true, nil); err == nil {
					answers <- struct{}{}
				}
			}()
		}
	}
}

// bounded takes what a command writes. It keeps all of it, or the last keep bytes.
type bounded struct {
	limit, keep int
	full        func() // called once more than limit bytes were written
	taken       int
	data        []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.taken += len(p); b.taken > b.limit {
		b.full()
		return len(p), nil // to keep the channel flowing until it is closed
	}
	b.data = append(b.data, p...)
	if b.keep > 0 && len(b.data) > b.keep {
		b.data = append(b.data[:0], b.data[len(b.data)-b.keep:]...)
	}
	return len(p), nil
}

// broken says whether a connection ended, in contrast to one that was never made, or was closed for a reason.
func broken(err error) bool {
	var missing *ssh.ExitMissingError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &missing) ||
		strings.Contains(err.Error(), "disconnect, reason") || // a server that is restarted says so
		// So x/crypto/ssh puts it that the connection ended before the answer.
		strings.HasSuffix(err.Error(), "in response to channel open: <nil>")
}

// explain finds words for what ended a connection.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("no connection: %w: check the address, the port and the network, and that the machine is up", err)
	case broken(err):
		return errors.New("the connection was cut")
	}
	return errors.New(text.Plain(err.Error())) // it may quote the server
}
