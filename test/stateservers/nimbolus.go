package stateservers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// nimbolus terraform-backend, https://github.com/nimbolus/terraform-backend
// (pkg/server/handler.go, pkg/lock, pkg/auth; read at af06f2c, 2025-10):
//
//   - LOCK compares the whole LockInfo: the same once more is 200, another is
//     423 with the holder's.
//   - UNLOCK of another LockInfo is 400. In its body the lock in memory (the
//     default) has the holder's LockInfo, or the one that was sent if nothing
//     is locked; PostgreSQL and Redis always the one that was sent. A lock's ID
//     alone, as force-unlock has it, never fits.
//   - POST needs the lock's ID and is 400 with an empty body otherwise, also
//     when nothing is locked. DELETE needs no lock; of nothing it is 500.
//   - GET of nothing is 404 with a sentence. An unknown method is 501.
//   - The user's name chooses the kind of login ("basic"); what goes wrong
//     with it is 403. The password is part of the state's name: a wrong one
//     leads to another state. Here that one is always empty.
type nimbolus struct {
	store
	login Login
	echo  bool // UNLOCK repeats what it was sent
}

const nimbolusPath = "/state/project/group"

func nimbolusFlavour(name string, echo bool) Flavour {
	return Flavour{
		Name: name, WriteLocked: true,
		User: "basic",
		New:  func(_ testing.TB, l Login) Server { return &nimbolus{login: l, echo: echo} },
		Env:  func(base string, l Login) map[string]string { return env(base+nimbolusPath, "", l) },
	}
}

func (s *nimbolus) Op(r *http.Request) Op { return ownMethods(r) }

func (s *nimbolus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	user, password, ok := r.BasicAuth()
	says := func(status int, text string) { answer(w, status, "", []byte(text)) }
	switch {
	case r.URL.Path != nimbolusPath:
		http.NotFound(w, r)
		return
	case !ok:
		says(http.StatusForbidden, "no basic auth header found")
		return
	case user != "basic": // the sentence is nimbolus' own
		says(http.StatusForbidden, "failed to initialize auth backend "+user+": backend is not implemented")
		return
	case password != s.login.Password:
		says(http.StatusNotFound, "state does not exist")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch Op(r.Method) {
	case Lock, Unlock:
		var info lockInfo
		if err := json.Unmarshal(body, &info); err != nil {
			says(http.StatusBadRequest, "")
			return
		}
		s.locking(w, Op(r.Method), info)
	case Get:
		if s.state == nil {
			says(http.StatusNotFound, "state does not exist")
			return
		}
		says(http.StatusOK, string(s.state))
	case Post:
		if s.lock == nil || lockID(s.lock) != r.URL.Query().Get("ID") {
			says(http.StatusBadRequest, "")
			return
		}
		s.state = body
		says(http.StatusOK, "")
	case Delete:
		if s.state == nil {
			says(http.StatusInternalServerError, "remove states/1f3a.tfstate: no such file or directory")
			return
		}
		s.state = nil
		says(http.StatusOK, "")
	default:
		says(http.StatusNotImplemented, "Not implemented")
	}
}

func (s *nimbolus) locking(w http.ResponseWriter, op Op, info lockInfo) {
	sent, _ := json.Marshal(info)
	same := s.lock != nil && bytes.Equal(sent, s.lock)
	switch {
	case op == Lock && s.lock == nil:
		s.lock = sent
	case op == Lock && !same:
		answer(w, http.StatusLocked, "", s.lock)
		return
	case op == Lock:
	case same:
		s.lock = nil
	case s.lock == nil || s.echo:
		answer(w, http.StatusBadRequest, "", sent)
		return
	default:
		answer(w, http.StatusBadRequest, "", s.lock)
		return
	}
	answer(w, http.StatusOK, "", nil)
}
