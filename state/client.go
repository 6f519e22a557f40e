package state

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// askTimeout bounds the question that clears up a lost answer when the
// caller's context is already over.
const askTimeout = 3 * time.Second

// Client reads, writes and locks one state. Its methods may be called
// concurrently; a lock that one of them takes is the Client's.
type Client struct {
	cfg                 Config
	state, lock, unlock endpoint
	lockExplicit        bool // a lock address is configured
	http                *http.Client
	secrets             *strings.Replacer
	sleep               func(context.Context, time.Duration) error
	within              func(context.Context, time.Duration) (context.Context, context.CancelFunc)

	mu      sync.Mutex
	held    *held
	noLocks bool   // the server has no locks; said once
	known   *known // what the server held last, nil if nothing
}

// held is the lock that this Client has taken.
type held struct {
	id   string
	info []byte // as sent: the server may compare
}

// known identifies a state's content.
type known struct {
	Serial  uint64
	Lineage string
	sum     [md5.Size]byte
}

// identify reads what tells one state from another. OpenTofu writes serial and
// lineage of an encrypted state in clear.
func identify(data []byte) (known, error) {
	k := known{sum: md5.Sum(data)}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return k, errors.New("it is no JSON object")
	}
	var fields struct{ Version, Serial, Lineage json.RawMessage }
	if err := json.Unmarshal(data, &fields); err != nil {
		return k, errors.New("it is no complete JSON")
	}
	if fields.Version == nil && fields.Serial == nil && fields.Lineage == nil {
		return k, errors.New("it is JSON with neither version, serial nor lineage")
	}
	// A serial or lineage of another type is the engine's to judge.
	_ = json.Unmarshal(fields.Serial, &k.Serial)
	_ = json.Unmarshal(fields.Lineage, &k.Lineage)
	return k, nil
}

func (k known) String() string { return fmt.Sprintf("serial %d, lineage %q", k.Serial, k.Lineage) }

// New checks cfg and makes a Client; nothing is sent yet.
func New(cfg Config) (*Client, error) {
	if cfg.Address == "" {
		return nil, errors.New("TF_HTTP_ADDRESS is not set: it names the URL of the state, for example https://state.example.org/group")
	}
	c := &Client{cfg: cfg, lockExplicit: cfg.LockAddress != "" || cfg.UnlockAddress != "", sleep: sleep, within: within}
	var err error
	if c.state, err = parseEndpoint("TF_HTTP_ADDRESS", cfg.Address); err != nil {
		return nil, err
	}
	c.lock = c.state
	if cfg.LockAddress != "" {
		if c.lock, err = parseEndpoint("TF_HTTP_LOCK_ADDRESS", cfg.LockAddress); err != nil {
			return nil, err
		}
	}
	c.unlock = c.lock
	if cfg.UnlockAddress != "" {
		if c.unlock, err = parseEndpoint("TF_HTTP_UNLOCK_ADDRESS", cfg.UnlockAddress); err != nil {
			return nil, err
		}
	}
	if err := validHeaders(cfg.Headers, cfg.Username); err != nil {
		return nil, err
	}
	if cfg.RetryMax < 0 || cfg.RetryWaitMin < 0 || cfg.RetryWaitMax < cfg.RetryWaitMin {
		return nil, errors.New("TF_HTTP_RETRY_WAIT_MAX must not be less than TF_HTTP_RETRY_WAIT_MIN, and neither they nor TF_HTTP_RETRY_MAX less than 0")
	}
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.cfg.UpdateMethod, http.MethodPost)
	def(&c.cfg.LockMethod, "LOCK")
	def(&c.cfg.UnlockMethod, "UNLOCK")
	if c.cfg.AttemptTimeout <= 0 {
		c.cfg.AttemptTimeout = 5 * time.Minute
	}
	if c.cfg.MaxStateBytes <= 0 {
		c.cfg.MaxStateBytes = DefaultMaxStateBytes
	}
	if c.cfg.Warn == nil {
		c.cfg.Warn = func(string) {}
	}
	tr, err := transport(cfg)
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: tr, CheckRedirect: redirects}
	c.secrets = secretsOf(cfg, c.state, c.lock, c.unlock)
	if cfg.SkipCertVerification {
		c.cfg.Warn("TF_HTTP_SKIP_CERT_VERIFICATION is on: the state server's certificate is not checked")
	}
	return c, nil
}

// Address is the state's URL without user and password.
func (c *Client) Address() string { return c.state.url.String() }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads the state. Nil without an error means that there is none.
func (c *Client) Get(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	before, lockHeld := c.known, c.held != nil
	c.mu.Unlock()
	data, k, none, err := c.read(ctx)
	switch {
	case err != nil:
		return nil, err
	case k == nil && before != nil && (lockHeld || none.status == http.StatusOK):
		return nil, c.failed(request{op: "get state", to: c.state}, fmt.Errorf(
			"the server has no state any more (it answers %s) where %v was known; check the server's storage before anything is applied", statusText(none.status), *before))
	}
	c.mu.Lock()
	c.known = k
	c.mu.Unlock()
	return data, nil
}

// read reads the state and says what it is, without remembering it. When there
// is no state, none is the answer that says so.
func (c *Client) read(ctx context.Context) (data []byte, k *known, none *answer, err error) {
	r := request{op: "get state", method: http.MethodGet, to: c.state, state: true}
	err = c.attempts(ctx, func() (bool, time.Duration, error) {
		a, _, err := c.send(ctx, r)
		if err != nil {
			return heals(err), 0, err
		}
		switch {
		case a.status == http.StatusOK && len(a.body) == 0 && a.cut == nil, a.status == http.StatusNoContent, a.status == http.StatusNotFound:
			none = a
			return false, 0, nil
		case a.status == http.StatusOK:
			got, err := c.body(a)
			if err != nil {
				return true, 0, c.failed(r, err)
			}
			data, k = a.body, &got
			return false, 0, nil
		}
		again := a.unclear() || a.status == http.StatusTooManyRequests
		return again, retryAfter(a), c.refused(r, a)
	})
	return data, k, none, err
}

// body checks that an answer is a whole state.
func (c *Client) body(a *answer) (known, error) {
	if a.cut != nil {
		return known{}, fmt.Errorf("the answer ended after %d bytes: %w", len(a.body), a.cut)
	}
	if v := a.header.Get("Content-MD5"); v != "" {
		want, err := base64.StdEncoding.DecodeString(v)
		sum := md5.Sum(a.body)
		if err != nil || !bytes.Equal(want, sum[:]) {
			return known{}, errors.New("the state does not match the server's Content-MD5")
		}
	}
	k, err := identify(a.body)
	if err != nil {
		kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
		if isHTML(a) {
			return known{}, fmt.Errorf("the server answers with a web page (%q), not with a state: check the address and the login", c.words(a))
		}
		return known{}, fmt.Errorf("the server's %d bytes of %q are no state: %w", len(a.body), cleanText(kind, 80), err)
	}
	return k, nil
}

// Put writes the state, with the held lock's ID if there is one. After an
// error the state is not saved, or the error says that this is not known.
func (c *Client) Put(ctx context.Context, data []byte) error {
	if int64(len(data)) > c.cfg.MaxStateBytes {
		return withOutcome(c.failed(request{op: "save state", to: c.state}, errTooLarge{c.cfg.MaxStateBytes}), "the state is not saved")
	}
	want, err := identify(data)
	if err != nil {
		return fmt.Errorf("save state: what is to be saved is no state: %w", err)
	}
	r := request{op: "save state", method: c.cfg.UpdateMethod, to: c.state, lockID: c.heldID(), body: data}
	lost := false // an attempt whose answer is not known may have saved it
	err = c.attempts(ctx, func() (bool, time.Duration, error) {
		a, sent, err := c.send(ctx, r)
		var pause time.Duration
		refused := false
		switch {
		case err != nil && !sent && !lost:
			return heals(err), 0, withOutcome(err, "the state is not saved")
		case err != nil:
		case a.ok():
			return false, 0, nil
		case a.status == http.StatusTooManyRequests && !lost:
			return true, retryAfter(a), withOutcome(c.refused(r, a), "the state is not saved")
		case a.status == http.StatusTooManyRequests, a.unclear():
			err, pause = c.refused(r, a), retryAfter(a)
		case !lost:
			return false, 0, withOutcome(c.refused(r, a), c.notSaved(r, a))
		default: // perhaps because it has been saved: some servers refuse a serial that exists
			err, refused = c.refused(r, a), true
		}
		lost = true
		// The answer is lost or says little: the server knows.
		saved, final, outcome := c.asked(ctx, want)
		if saved {
			return false, 0, nil
		}
		return !refused && !final && heals(err), pause, withOutcome(err, outcome)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.known = &want
	c.mu.Unlock()
	return nil
}

// ofSerial finds what `yuba state serve` says of a state that it refuses for what
// it is, whoever holds the lock.
var ofSerial = regexp.MustCompile(`(?i)\b(serial|lineage)\b`)

// notSaved is the outcome of a refused write.
func (c *Client) notSaved(r request, a *answer) string {
	if a.status == http.StatusPreconditionFailed && ofSerial.MatchString(c.words(a)) {
		return "the state is not saved"
	}
	if r.lockID != "" && (a.locked() || a.status == http.StatusBadRequest || a.status == http.StatusPreconditionFailed || a.status == http.StatusPreconditionRequired) {
		return "the state is not saved, and this run's lock " + cleanText(r.lockID, 128) + " may be lost"
	}
	return "the state is not saved"
}

// asked finds out what became of a write of want. final means that another
// attempt would overwrite someone else's state.
func (c *Client) asked(ctx context.Context, want known) (saved, final bool, outcome string) {
	ctx, cancel := stillAsk(ctx)
	defer cancel()
	_, got, _, err := c.read(ctx)
	if err != nil {
		return false, false, fmt.Sprintf("it is not known whether the state is saved, for asking failed too (%v)", err)
	}
	c.mu.Lock()
	before := c.known
	c.mu.Unlock()
	switch {
	case got != nil && got.sum == want.sum:
		return true, true, ""
	case got == nil || before != nil && got.sum == before.sum:
		return false, false, "the state is not saved"
	case got.Lineage == want.Lineage && got.Serial < want.Serial:
		return false, false, "the state is not saved"
	}
	return false, true, fmt.Sprintf("the state is not saved: the server now holds another one (%v; this run's is %v)", *got, want)
}

// stillAsk is ctx, or when that is over, a short time to ask one more question.
func stillAsk(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
}

// Delete deletes the state, with the held lock's ID if there is one. A state
// that is not there counts as deleted.
func (c *Client) Delete(ctx context.Context) error {
	r := request{op: "delete state", method: http.MethodDelete, to: c.state, lockID: c.heldID()}
	lost := false // an attempt whose answer is not known may have deleted it
	err := c.attempts(ctx, func() (bool, time.Duration, error) {
		a, sent, err := c.send(ctx, r)
		var pause time.Duration
		again := false
		switch {
		case err != nil && !sent && !lost:
			return heals(err), 0, withOutcome(err, "the state is not deleted")
		case err != nil:
			again = heals(err)
		case a.ok():
			return false, 0, nil
		case a.status == http.StatusTooManyRequests && !lost:
			return true, retryAfter(a), withOutcome(c.refused(r, a), "the state is not deleted")
		case a.status == http.StatusTooManyRequests, a.unclear():
			err, again, pause = c.refused(r, a), true, retryAfter(a)
		case !lost && a.status != http.StatusNotFound:
			return false, 0, withOutcome(c.refused(r, a), "the state is not deleted")
		default:
			err = c.refused(r, a)
		}
		lost = true
		gone, outcome := c.deleted(ctx)
		if gone {
			return false, 0, nil
		}
		return again, pause, withOutcome(err, outcome)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.known = nil
	c.mu.Unlock()
	return nil
}

// deleted finds out what became of a deletion.
func (c *Client) deleted(ctx context.Context) (gone bool, outcome string) {
	ctx, cancel := stillAsk(ctx)
	defer cancel()
	_, got, _, err := c.read(ctx)
	switch {
	case err != nil:
		return false, fmt.Sprintf("it is not known whether the state is deleted, for asking failed too (%v)", err)
	case got == nil:
		return true, ""
	}
	return false, "the state is not deleted"
}

// HeldLock is the ID of the lock that this Client holds, "" if none.
func (c *Client) HeldLock() string { return c.heldID() }

func (c *Client) heldID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return ""
	}
	return c.held.id
}

// Lock takes the lock, once: waiting for another holder is the caller's. info
// is the LockInfo as JSON with its ID, and is sent byte for byte here and by
// Unlock. If someone else holds the lock the error is a *LockedError.
//
// A server that answers 404, 405 or 501 while no lock address is configured has
// no locks, as OpenTofu assumes of every server then: Lock warns and succeeds.
func (c *Client) Lock(ctx context.Context, info []byte) error {
	mine, ok := ParseLockInfo(info)
	if !ok {
		return errors.New("lock: the lock's info has no ID")
	}
	info = bytes.Clone(info)
	r := request{op: "lock", method: c.cfg.LockMethod, to: c.lock, body: info}
	lost := false // an attempt whose answer is not known may hold the lock
	err := c.attempts(ctx, func() (bool, time.Duration, error) {
		a, sent, err := c.send(ctx, r)
		if err != nil {
			lost = lost || sent
			return heals(err), 0, err
		}
		if a.unclear() {
			lost = true
			return true, retryAfter(a), c.refused(r, a)
		}
		err = c.judgeLock(r, a, mine)
		var locked *LockedError
		if err == nil || errors.As(err, &locked) && locked.Info.ID != "" {
			lost = false
		}
		return a.status == http.StatusTooManyRequests, retryAfter(a), err
	})
	switch {
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held = nil
		if !c.noLocks {
			c.held = &held{mine.ID, info}
		}
		return nil
	case lost && ctx.Err() != nil:
		return c.giveUp(ctx, r, mine, info, err)
	case lost:
		return withOutcome(err, mayHold(mine.ID))
	}
	var locked *LockedError
	if errors.As(err, &locked) {
		if id := locked.Info.ID; id != "" {
			return withOutcome(err, "wait for it to end; if that run is dead: "+forceUnlock(id))
		}
		return withOutcome(err, "wait for the other run to end")
	}
	return withOutcome(err, "this run holds no lock")
}

// mayHold is the outcome of a LOCK that nobody could clear up.
func mayHold(id string) string {
	return "it is not known whether this run holds the lock; to release it: " + forceUnlock(id)
}

// judgeLock reads the answer to a LOCK: nil means that this run holds the lock
// mine, or that there are no locks.
func (c *Client) judgeLock(r request, a *answer, mine LockInfo) error {
	info, named := ParseLockInfo(a.body)
	switch {
	case a.ok() && named && bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("{")) && info.ID != mine.ID:
		return c.lockedBy(r, &answer{status: http.StatusLocked, header: a.header, body: a.body}, mine)
	case a.ok():
		c.setNoLocks(false)
		return nil
	case a.locked() && named && info.ID == mine.ID:
		// IDs are random: an attempt whose answer got lost took it.
		c.setNoLocks(false)
		return nil
	case !c.lockExplicit && (a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed || a.status == http.StatusNotImplemented):
		if c.setNoLocks(true) {
			c.cfg.Warn(fmt.Sprintf("the state server has no locks (%s answers %s to %s): nothing keeps two runs apart; if it has locks elsewhere, set TF_HTTP_LOCK_ADDRESS",
				c.lock.shown, statusText(a.status), r.method))
		}
		return nil
	}
	return c.lockedBy(r, a, mine)
}

// lockedBy is the error for a refused LOCK. GitLab names the holder's ID, Who
// and Created only, and fills in the rest from the request: what repeats a text
// that nobody else sends is not told as the holder's.
func (c *Client) lockedBy(r request, a *answer, mine LockInfo) error {
	err := c.refused(r, a)
	if le, ok := err.(*LockedError); ok && mine.Info != "" && le.Info.Info == mine.Info {
		le.Info.Operation, le.Info.Info, le.Info.Version, le.Info.Path = "", "", "", ""
	}
	return err
}

// setNoLocks reports whether this is new.
func (c *Client) setNoLocks(v bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.noLocks
	c.noLocks = v
	return !was && v
}

// giveUp cleans up after a LOCK that was cancelled on its way: what the server
// took is released again. It asks by locking again, because an UNLOCK that
// isn't ours could release another run's lock on a server that checks no IDs.
func (c *Client) giveUp(ctx context.Context, r request, mine LockInfo, info []byte, cause error) error {
	ctx, cancel := stillAsk(ctx)
	defer cancel()
	a, _, err := c.send(ctx, r)
	if err != nil || a.unclear() {
		return withOutcome(cause, mayHold(mine.ID))
	}
	if err := c.judgeLock(r, a, mine); err != nil {
		if le, ok := err.(*LockedError); ok && le.Info.ID != "" {
			return withOutcome(cause, "this run holds no lock")
		}
		return withOutcome(cause, mayHold(mine.ID))
	}
	c.mu.Lock()
	none := c.noLocks
	c.mu.Unlock()
	if none {
		return withOutcome(cause, "this run holds no lock")
	}
	a, _, err = c.send(ctx, request{op: "unlock", method: c.cfg.UnlockMethod, to: c.unlock, body: info})
	if err != nil || !a.ok() {
		return withOutcome(cause, mayHold(mine.ID))
	}
	return withOutcome(cause, "this run holds no lock")
}

// Unlock releases the lock with this ID: the Client's own with the bytes that
// took it, another's (force-unlock) with what OpenTofu sends for it, and if the
// server wants to see more, with the LockInfo that it names itself. An answer
// that is lost, or that leaves open who holds the lock, is cleared up by asking
// for the lock.
func (c *Client) Unlock(ctx context.Context, id string) error {
	c.mu.Lock()
	h, none := c.held, c.noLocks
	c.mu.Unlock()
	if h == nil && none {
		return nil
	}
	u := &unlocking{c: c, id: id, r: request{op: "unlock", method: c.cfg.UnlockMethod, to: c.unlock, body: LockInfo{ID: id}.json()}}
	if h != nil && h.id == id {
		u.own, u.r.body = h, h.info
	}
	err := u.run(ctx)
	var gone *NotHeldError
	if u.own != nil && (err == nil || errors.As(err, &gone)) {
		c.mu.Lock()
		if c.held == u.own {
			c.held = nil
		}
		c.mu.Unlock()
	}
	return err
}

// unlocking is one lock's way to its release.
type unlocking struct {
	c    *Client
	r    request
	id   string
	own  *held // the Client's own lock; nil to force
	lost bool  // an attempt whose answer is not known may have released it

	probe   *held // what is asked with, if not with own
	probing bool  // a question whose answer is not known may have taken it
}

func (u *unlocking) run(ctx context.Context) error {
	err := u.c.attempts(ctx, func() (bool, time.Duration, error) { return u.attempt(ctx) })
	if err != nil && u.lost && ctx.Err() != nil {
		last, cancel := stillAsk(ctx)
		defer cancel()
		if _, _, e := u.attempt(last); e == nil {
			err = nil
		}
	}
	if u.probing {
		last, cancel := stillAsk(ctx)
		defer cancel()
		var gone *NotHeldError
		if e := u.free().run(last); e != nil && !errors.As(e, &gone) {
			taken := "it is not known whether the question who holds the lock has taken it; if it has: " + forceUnlock(u.probe.id)
			if err == nil {
				return fmt.Errorf("unlock: %s: %s", u.r.to.shown, taken)
			}
			err = fmt.Errorf("%w; %s", err, taken)
		}
	}
	return err
}

// free is the release of the lock that was taken to ask.
func (u *unlocking) free() *unlocking {
	f := &unlocking{c: u.c, id: u.probe.id, own: u.probe, r: u.r}
	f.r.body = u.probe.info
	return f
}

func (u *unlocking) still() string {
	if u.lost {
		return "it is not known whether the state is still locked; if it is: " + forceUnlock(u.id)
	}
	return "the state is still locked: " + forceUnlock(u.id)
}

// next is what is to follow an UNLOCK.
type next int

const (
	end   next = iota
	again      // another attempt, if there is one left, after a pause
	due        // another UNLOCK at once: the lock is known to be held
)

// attempt sends one UNLOCK, and one more at once if the first leads to the
// knowledge that the lock is held, which may have been taken to know that.
func (u *unlocking) attempt(ctx context.Context) (bool, time.Duration, error) {
	n, pause, err := u.try(ctx)
	if n == due {
		n, pause, err = u.try(ctx)
	}
	return n != end, pause, err
}

func (u *unlocking) try(ctx context.Context) (n next, pause time.Duration, err error) {
	a, sent, err := u.c.send(ctx, u.r)
	if err != nil {
		u.lost = u.lost || sent
		if heals(err) {
			n = again
		}
		return n, 0, withOutcome(err, u.still())
	}
	if a.ok() {
		return end, 0, nil
	}
	err, pause = u.c.refused(u.r, a), retryAfter(a)
	switch {
	case a.unclear():
		u.lost = true
		return again, pause, withOutcome(err, u.still())
	case a.status == http.StatusTooManyRequests:
		return again, pause, withOutcome(err, u.still())
	case a.status < 400, a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return end, 0, withOutcome(err, u.still())
	}
	// Servers differ in how they say that this lock is not held, and nimbolus
	// terraform-backend may name this lock for one that isn't.
	n, err = u.ask(ctx, a, err)
	return n, 0, err
}

// notHeld is the end when the lock turns out to be another's or nobody's: an
// attempt whose answer was lost has released it, or somebody else has.
func (u *unlocking) notHeld(a *answer, holder LockInfo) error {
	if u.lost {
		return nil
	}
	return &NotHeldError{URL: u.r.to.shown, Status: a.status, ID: u.id, Holder: holder}
}

// ask finds out who holds the lock, by asking for it: the Client's own with the
// same bytes as before, so that whatever comes of it has one ID.
func (u *unlocking) ask(ctx context.Context, refused *answer, refusal error) (next, error) {
	asks := u.own
	if asks == nil {
		if u.probe == nil {
			id := rand.Text()
			info := LockInfo{ID: id, Operation: "force-unlock", Info: "asks who holds the lock, " + id, Who: "yuba", Created: time.Now().UTC()}
			u.probe = &held{id, info.json()}
		}
		asks = u.probe
	}
	a, sent, err := u.c.send(ctx, request{op: "lock", method: u.c.cfg.LockMethod, to: u.c.lock, body: asks.info})
	if err != nil {
		u.probing = u.own == nil && (u.probing || sent)
		return again, withOutcome(refusal, u.still())
	}
	if a.unclear() {
		u.probing = u.own == nil
		return again, withOutcome(refusal, u.still())
	}
	if !a.ok() && !a.locked() {
		return end, withOutcome(refusal, u.still())
	}
	holder, named := ParseLockInfo(a.body)
	switch {
	case a.ok() && !named:
		holder.ID = asks.id
	case !named:
		return end, withOutcome(refusal, u.still())
	}
	u.probing = false
	switch holder.ID {
	case u.id:
		u.lost = false
		if u.own == nil {
			u.r.body = a.body // all of it: nimbolus terraform-backend compares more than the ID
		}
		return due, withOutcome(refusal, u.still())
	case asks.id: // it was free, and is to be so again
		holder = LockInfo{}
		if err := u.free().run(ctx); err != nil {
			return end, err
		}
	}
	holder.Who = u.c.scrub(holder.Who)
	return end, u.notHeld(refused, holder)
}
