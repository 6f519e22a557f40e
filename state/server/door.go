package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	// failures is how many logins from one address may fail in a row; one more
	// may each failureEvery.
	failures     = 20
	failureEvery = 3 * time.Second
	// maxLogins and maxAddresses bound what the door remembers.
	maxLogins    = 1024
	maxAddresses = 4096
)

// door lets users in. A login that succeeded is remembered (as a keyed hash), so
// that its password is not hashed on each request. Addresses from which too many
// logins failed have to wait, but for a login that is remembered: whoever guesses
// passwords behind the same address keeps nobody out who is in.
type door struct {
	auth Authenticator
	key  [32]byte
	now  func() time.Time

	looking singleflight.Group // by user and password

	mu     sync.Mutex
	logins map[string]bool
	failed map[netip.Prefix]*rate.Limiter
}

// answer is what enter says.
type answer struct {
	ok   bool
	wait time.Duration
}

func newDoor(auth Authenticator) *door {
	d := &door{auth: auth, now: time.Now, logins: map[string]bool{}, failed: map[netip.Prefix]*rate.Limiter{}}
	_, _ = rand.Read(d.key[:]) // never fails
	return d
}

// enter says whether password is user's, or how long who asks from remote
// ("address:port") has to wait before it is looked at.
func (d *door) enter(ctx context.Context, remote, user, password string) (ok bool, wait time.Duration) {
	mac := hmac.New(sha256.New, d.key[:])
	fmt.Fprintf(mac, "%d:%s%s", len(user), user, password)
	token := string(mac.Sum(nil))
	if d.known(token) {
		return true, 0
	}
	from := network(remote)
	// All clients of a server that starts again come at once, often as one user:
	// that is one login.
	looked := d.looking.DoChan(from.String()+token, func() (any, error) {
		var a answer
		if a.wait = d.take(from); a.wait > 0 {
			return a, nil
		}
		if a.ok = d.auth.Authenticate(context.WithoutCancel(ctx), user, password); a.ok {
			d.remember(token, from)
		}
		return a, nil
	})
	select {
	case r := <-looked:
		// Not what is remembered: that may be cleared meanwhile, for others.
		a := r.Val.(answer)
		return a.ok, a.wait
	case <-ctx.Done():
		return false, 0
	}
}

func (d *door) known(token string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logins[token]
}

func (d *door) remember(token string, from netip.Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failed, from)
	if len(d.logins) >= maxLogins {
		clear(d.logins)
	}
	d.logins[token] = true
}

// take takes one of the failures that from has left, before it is known whether it
// is one: many that ask at once are otherwise all let through. It says how long to
// wait when none is left.
func (d *door) take(from netip.Prefix) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	l := d.failed[from]
	if l == nil {
		if len(d.failed) >= maxAddresses {
			d.forget(now)
		}
		l = rate.NewLimiter(rate.Every(failureEvery), failures)
		d.failed[from] = l
	}
	if l.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - l.TokensAt(now)) * float64(failureEvery))
}

// forget drops the addresses that have nothing to wait for, or, if all have, all:
// the memory is bounded, and nobody is kept out for others.
func (d *door) forget(now time.Time) {
	for from, l := range d.failed {
		if l.TokensAt(now) >= failures {
			delete(d.failed, from)
		}
	}
	if len(d.failed) >= maxAddresses {
		clear(d.failed)
	}
}

// network is what counts as one address: of IPv6 the /64, which one host has to itself.
func network(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // no TCP: all in one
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the number of bits fits
	return p
}
