// Package server is a small state server for OpenTofu's HTTP state protocol: it
// keeps every version of each state as a file, locks, and refuses a write
// without the held lock's ID. What it has acknowledged is on the disk, whatever
// happens to the process afterwards.
//
// A state's URL is /NAME or /NAME/NAME...; the methods are GET, POST (or PUT),
// DELETE, LOCK and UNLOCK. Writes:
//
//   - While a lock is held, POST and DELETE need its ID as ?ID=, otherwise
//     the answer is 423 with the holder's LockInfo.
//   - While no lock is held, a write without an ID is accepted (that is
//     -lock=false), and one with an ID gets 412: its lock was broken.
//   - A state of a lower serial than the current one's, or of another lineage,
//     gets 412; so does another state of the same serial, but from the lock's
//     holder. After a DELETE any state is accepted. 412 and not 409, because
//     clients take 409 for a lock.
//
// LOCK and UNLOCK may be repeated by whoever did them: a lost answer costs
// nothing. GET with ?versions lists the kept versions, with ?version=N gives
// one. /-/healthz answers without a login.
package server

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// DefaultRetain is how many versions of each state are kept.
	DefaultRetain = 50
	// DefaultMaxStateBytes bounds a state.
	DefaultMaxStateBytes = 64 << 20

	maxLockBytes = 64 << 10
	// drainBytes bounds what is read of a body that is too large.
	drainBytes  = 128 << 20
	maxLockID   = 255
	maxName     = 200
	maxSegments = 8
)

// Options configure a Server.
type Options struct {
	// Dir holds the states; it is made (0700) if it is missing, and is this
	// process's alone until Close.
	Dir string
	// Auth decides who may use the server; nil lets everyone.
	Auth Authenticator
	// Access decides who may use which state; nil lets every user use all. It
	// needs Auth.
	Access *Access
	// Retain is how many versions of each state are kept; DefaultRetain when 0.
	Retain int
	// MaxStateBytes bounds a state; DefaultMaxStateBytes when 0.
	MaxStateBytes int64
	// Log gets one line per request, without secrets; none when nil.
	Log *slog.Logger
}

// Server is the http.Handler of a directory of states.
type Server struct {
	opts  Options
	door  *door // nil without a login
	store *store
}

// New opens the directory and clears what a crash left in it. The caller closes
// the Server when nothing is served any more.
func New(opts Options) (*Server, error) {
	if opts.Dir == "" {
		return nil, errors.New("the state server needs a directory")
	}
	if opts.Retain < 0 || opts.MaxStateBytes < 0 {
		return nil, errors.New("the number of kept versions and the size of a state must not be negative")
	}
	if opts.Access != nil && opts.Auth == nil {
		return nil, errors.New("who may use which state can only be told of users who log in")
	}
	if opts.Retain == 0 {
		opts.Retain = DefaultRetain
	}
	if opts.MaxStateBytes == 0 {
		opts.MaxStateBytes = DefaultMaxStateBytes
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	st, err := openStore(opts.Dir, opts.Retain)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	s := &Server{opts: opts, store: st}
	if opts.Auth != nil {
		s.door = newDoor(opts.Auth)
	}
	return s, nil
}

// Close gives the directory free.
func (s *Server) Close() error { return s.store.close() }

// reply is an answer: a text, or JSON bytes.
type reply struct {
	status int
	text   string
	json   []byte
	attrs  []slog.Attr // for the log
}

func says(status int, format string, args ...any) reply {
	return reply{status: status, text: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == "/-/healthz" {
		s.health(w, r)
		return
	}
	start := time.Now()
	name, nameErr := stateName(r.URL)
	user, rep := s.admit(w, r)
	if rep == nil && nameErr != nil {
		v := says(http.StatusBadRequest, "%v", nameErr)
		rep = &v
	}
	if rep == nil {
		rep = s.allow(r, user, name)
	}
	if rep == nil {
		v := s.serve(w, r, name)
		rep = &v
	}
	if rep.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="yuba state", charset="UTF-8"`)
	}
	if rep.text != "" || rep.json != nil || rep.status != http.StatusOK {
		write(w, r, *rep)
	}
	s.audit(r, name, user, *rep, time.Since(start))
}

func write(w http.ResponseWriter, r *http.Request, rep reply) {
	body := rep.json
	kind := "application/json"
	if body == nil {
		body, kind = []byte(rep.text+"\n"), "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rep.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (s *Server) audit(r *http.Request, name, user string, rep reply, took time.Duration) {
	level := slog.LevelInfo
	if rep.status >= 500 {
		level = slog.LevelError
	} else if rep.status >= 400 && rep.status != http.StatusNotFound {
		level = slog.LevelWarn
	}
	method := r.Method
	if len(method) > 16 {
		method = method[:16]
	}
	attrs := append([]slog.Attr{
		slog.String("method", method), slog.String("state", name), slog.String("user", user),
		slog.Int("status", rep.status), slog.String("remote", r.RemoteAddr), slog.Duration("took", took),
	}, rep.attrs...)
	if rep.status >= 400 && rep.text != "" {
		attrs = append(attrs, slog.String("reason", rep.text))
	}
	s.opts.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	rep := says(http.StatusOK, "ok")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rep = says(http.StatusMethodNotAllowed, "use GET")
	} else if _, err := os.Stat(filepath.Join(s.opts.Dir, "states")); err != nil {
		rep = says(http.StatusServiceUnavailable, "the state directory is not usable")
	}
	write(w, r, rep)
}

// admit says who asks, or why they may not. Only a user who has logged in is
// named, for a failed login may have a password in the wrong place.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (user string, rep *reply) {
	refused := func(status int, format string, args ...any) (string, *reply) {
		v := says(status, format, args...)
		return "", &v
	}
	// No browser has business here, and a page must not reach a server on loopback.
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return refused(http.StatusForbidden, "requests of web pages are refused")
	}
	if s.door == nil {
		return "", nil
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return refused(http.StatusUnauthorized, "log in with a user name and a password")
	}
	ok, wait := s.door.enter(r.Context(), r.RemoteAddr, name, password)
	if wait > 0 {
		seconds := int(wait/time.Second) + 1
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		return refused(http.StatusTooManyRequests, "too many logins from this address failed; the next is looked at in %d s", seconds)
	}
	if !ok {
		return refused(http.StatusUnauthorized, "the user name or the password is wrong")
	}
	return name, nil
}

// allow says why user may not do this to the state, if so. The answer is the same
// whether the state exists or not.
func (s *Server) allow(r *http.Request, user, state string) *reply {
	write := r.Method != http.MethodGet && r.Method != http.MethodHead
	if s.opts.Access == nil || s.opts.Access.Allows(user, state, write) {
		return nil
	}
	v := says(http.StatusForbidden, "user %s may not use this state", user)
	if write && s.opts.Access.Allows(user, state, false) {
		v = says(http.StatusForbidden, "user %s may read this state, but neither lock nor write it (a plan of a reader needs -lock=false)", user)
	}
	return &v
}

// stateName is the path's state. Only plain segments are names, so that none
// leads out of the directory and each state has one URL.
func stateName(u *url.URL) (string, error) {
	name := strings.TrimPrefix(u.Path, "/")
	bad := errors.New("the path is no state's: use /NAME or /NAME/NAME with letters, digits, '.', '_' and '-', each beginning with a letter or digit")
	if u.EscapedPath() != "/"+name || u.RawPath != "" || !isStateName(name) {
		return "", bad
	}
	return name, nil
}

func isStateName(name string) bool {
	segments := strings.Split(name, "/")
	if len(name) > maxName || len(segments) > maxSegments {
		return false
	}
	for _, seg := range segments {
		for i, c := range []byte(seg) {
			plain := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
			if !plain && (i == 0 || c != '.' && c != '_' && c != '-') {
				return false
			}
		}
		if seg == "" {
			return false
		}
	}
	return true
}

// params are the query's; an unknown one is refused, because a client that
// names its state in the query would share one state with all others.
type params struct {
	id       string
	version  uint64
	versions bool
}

func parseQuery(raw string) (p params, err error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return p, errors.New("the query is malformed")
	}
	for key, vals := range q {
		if len(vals) != 1 {
			return p, errors.New("a query parameter is given twice")
		}
		switch key {
		case "ID":
			p.id = vals[0]
		case "versions":
			p.versions = true
		case "version":
			if p.version, err = strconv.ParseUint(vals[0], 10, 64); err != nil || p.version == 0 {
				return p, errors.New("version is a number from 1 up")
			}
		default:
			return p, errors.New("the query has an unknown parameter; a state is named by the path alone")
		}
	}
	return p, nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, name string) reply {
	p, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return says(http.StatusBadRequest, "%v", err)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if p.versions {
			return s.list(name)
		}
		return s.get(w, r, name, p.version)
	case http.MethodPost, http.MethodPut:
		return s.post(w, r, name, p.id)
	case http.MethodDelete:
		return s.delete(name, p.id)
	case "LOCK":
		return s.lock(w, r, name)
	case "UNLOCK":
		return s.unlock(w, r, name)
	}
	w.Header().Set("Allow", "GET, HEAD, POST, PUT, DELETE, LOCK, UNLOCK")
	return says(http.StatusMethodNotAllowed, "the method is not one of a state's")
}

// trouble is the answer to an error of the store.
func (s *Server) trouble(name string, err error) reply {
	var rep reply
	var damaged damagedError
	switch {
	case errors.Is(err, errNoState), errors.Is(err, errNoVersion):
		return says(http.StatusNotFound, "%v", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		rep = says(http.StatusInsufficientStorage, "the state server's disk is full; nothing was changed")
	case errors.Is(err, syscall.EFBIG):
		rep = says(http.StatusInsufficientStorage, "the state server may not write so large a file; nothing was changed")
	case errors.As(err, &damaged):
		rep = says(http.StatusInternalServerError, "the stored state or lock is damaged; the state server's log names the file")
	default:
		rep = says(http.StatusInternalServerError, "the state server cannot use its disk; its log says more")
	}
	rep.attrs = append(rep.attrs, slog.String("error", err.Error()))
	return rep
}

func (s *Server) list(name string) reply {
	var vs []version
	err := s.store.with(name, func(*entry) (err error) {
		vs, err = s.store.versions(name)
		return err
	})
	var damaged damagedError
	if errors.As(err, &damaged) { // just then the list is of use
		vs, err = s.store.versions(name)
	}
	if err != nil {
		return s.trouble(name, err)
	}
	if vs == nil {
		vs = []version{}
	}
	out, err := json.Marshal(vs)
	if err != nil {
		return s.trouble(name, err)
	}
	return reply{status: http.StatusOK, json: append(out, '\n')}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, name string, number uint64) reply {
	var f *os.File
	var v version
	var sum *[md5.Size]byte
	open := func(file string) (err error) {
		v, _ = parseVersion(file)
		f, err = os.Open(filepath.Join(s.store.path(name), file))
		return err
	}
	err := s.store.with(name, func(e *entry) error {
		if number == 0 {
			if e.current == "" {
				return errNoState
			}
			copied := e.sum
			sum = &copied
			return open(e.current)
		}
		return s.openVersion(name, number, open)
	})
	var damaged damagedError
	if errors.As(err, &damaged) && number > 0 {
		err = s.openVersion(name, number, open)
	}
	if err != nil {
		return s.trouble(name, err)
	}
	// An open file stays whole, even when its version is pruned meanwhile.
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s.trouble(name, err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	h.Set("Yuba-State-Version", strconv.FormatUint(v.Version, 10))
	if sum != nil {
		h.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	w.WriteHeader(http.StatusOK)
	rep := reply{status: http.StatusOK, attrs: []slog.Attr{slog.Uint64("version", v.Version), slog.Int64("bytes", info.Size())}}
	if r.Method == http.MethodHead {
		return rep
	}
	if _, err := io.Copy(w, f); err != nil {
		rep.attrs = append(rep.attrs, slog.String("error", "the answer was cut: "+err.Error()))
	}
	return rep
}

func (s *Server) openVersion(name string, number uint64, open func(string) error) error {
	vs, err := s.store.versions(name)
	if err != nil {
		return err
	}
	for _, v := range vs {
		if v.Version == number && !v.Deleted {
			return open(v.file)
		}
	}
	return errNoVersion
}

// body reads a bounded body and checks it against the client's MD5.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *reply) {
	tooLarge := says(http.StatusRequestEntityTooLarge, "the body is larger than the %d bytes that this server accepts", limit)
	var data []byte
	var err error
	var large *http.MaxBytesError
	if r.ContentLength <= limit {
		data, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	if r.ContentLength > limit || errors.As(err, &large) {
		// A client that is still sending when the connection ends sees no answer.
		_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
		return nil, &tooLarge
	}
	if err != nil {
		v := says(http.StatusBadRequest, "the body ended early; nothing was changed")
		return nil, &v
	}
	if want := r.Header.Get("Content-MD5"); want != "" {
		sum := md5.Sum(data)
		if want != base64.StdEncoding.EncodeToString(sum[:]) {
			v := says(http.StatusBadRequest, "the body does not match its Content-MD5; nothing was changed")
			return nil, &v
		}
	}
	return data, nil
}

// refuse says why a write with this lock ID is not allowed, if it isn't.
func refuse(e *entry, id string) *reply {
	switch {
	case e.lock != nil && id != e.lockID:
		return &reply{status: http.StatusLocked, json: e.lock, attrs: []slog.Attr{slog.String("holder", e.lockID)}}
	case e.lock == nil && id != "":
		v := says(http.StatusPreconditionFailed, "the lock of this write is not held any more; nothing was changed")
		return &v
	}
	return nil
}

func (s *Server) post(w http.ResponseWriter, r *http.Request, name, id string) reply {
	data, rep := body(w, r, s.opts.MaxStateBytes)
	if rep != nil {
		return *rep
	}
	ident, err := identify(data)
	if err != nil {
		return says(http.StatusBadRequest, "%v; nothing was changed", err)
	}
	var out reply
	err = s.store.with(name, func(e *entry) error {
		if rep := refuse(e, id); rep != nil {
			out = *rep
			return nil
		}
		out = reply{status: http.StatusOK}
		if e.current != "" {
			if e.sum == md5.Sum(data) { // a repeated write
				out.attrs = append(out.attrs, slog.Uint64("version", e.version), slog.Bool("repeated", true))
				return nil
			}
			if why := older(e.ident, ident, e.lock != nil); why != "" {
				out = says(http.StatusPreconditionFailed, "%s; nothing was changed (to go back to an older state, DELETE this one first)", why)
				return nil
			}
		}
		if err := s.store.put(name, e, data, ident); err != nil {
			return err
		}
		out.attrs = append(out.attrs, slog.Uint64("version", e.version), slog.Int("bytes", len(data)))
		if ident.Serial != nil {
			out.attrs = append(out.attrs, slog.Uint64("serial", *ident.Serial))
		}
		return nil
	})
	if err != nil {
		return s.trouble(name, err)
	}
	return out
}

// older says why next must not replace current. The holder of the lock may write
// a serial again: nobody else has used it, and encryption changes the bytes.
func older(current, next ident, holder bool) string {
	switch {
	case current.Lineage != "" && next.Lineage != "" && current.Lineage != next.Lineage:
		return "the state has another lineage than the current one"
	case current.Serial == nil || next.Serial == nil:
		return ""
	case *next.Serial < *current.Serial:
		return fmt.Sprintf("serial %d is lower than the current %d", *next.Serial, *current.Serial)
	case *next.Serial == *current.Serial && !holder:
		return fmt.Sprintf("the current state is another one of the same serial %d", *current.Serial)
	}
	return ""
}

func (s *Server) delete(name, id string) reply {
	var out reply
	err := s.store.with(name, func(e *entry) error {
		if rep := refuse(e, id); rep != nil {
			out = *rep
			return nil
		}
		out = reply{status: http.StatusOK}
		return s.store.delete(name, e)
	})
	if err != nil {
		return s.trouble(name, err)
	}
	return out
}

// lockID is the ID of a LockInfo.
func lockID(info []byte) (string, error) {
	var li struct{ ID string }
	if err := json.Unmarshal(info, &li); err != nil || li.ID == "" || len(li.ID) > maxLockID {
		return "", errors.New("the body is no LockInfo with an ID")
	}
	for _, c := range []byte(li.ID) {
		if c < ' ' || c > '~' {
			return "", errors.New("a lock's ID is printable ASCII")
		}
	}
	return li.ID, nil
}

func (s *Server) lock(w http.ResponseWriter, r *http.Request, name string) reply {
	info, rep := body(w, r, maxLockBytes)
	if rep != nil {
		return *rep
	}
	id, err := lockID(info)
	if err != nil {
		return says(http.StatusBadRequest, "%v", err)
	}
	var out reply
	err = s.store.with(name, func(e *entry) error {
		switch {
		case e.lock != nil && e.lockID == id && bytes.Equal(e.lock, info): // its answer was lost
		case e.lock != nil:
			out = *refuse(e, "")
			return nil
		default:
			if err := s.store.setLock(name, e, info, id); err != nil {
				return err
			}
		}
		out = reply{status: http.StatusOK, attrs: []slog.Attr{slog.String("lock", id)}}
		return nil
	})
	if err != nil {
		return s.trouble(name, err)
	}
	return out
}

func (s *Server) unlock(w http.ResponseWriter, r *http.Request, name string) reply {
	info, rep := body(w, r, maxLockBytes)
	if rep != nil {
		return *rep
	}
	id, err := lockID(info)
	if err != nil {
		return says(http.StatusBadRequest, "%v", err)
	}
	var out reply
	err = s.store.with(name, func(e *entry) error {
		switch {
		case e.lock == nil && e.released == id: // its answer was lost
		case e.lock == nil:
			out = says(http.StatusPreconditionFailed, "the state is not locked")
			return nil
		case e.lockID != id:
			out = *refuse(e, "")
			return nil
		default:
			if err := s.store.clearLock(name, e); err != nil {
				return err
			}
		}
		out = reply{status: http.StatusOK, attrs: []slog.Attr{slog.String("lock", id)}}
		return nil
	})
	if err != nil {
		return s.trouble(name, err)
	}
	return out
}
