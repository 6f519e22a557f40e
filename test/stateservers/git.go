package stateservers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// terraform-backend-git, https://github.com/plumber-cd/terraform-backend-git
// (server/server.go, backend/backend.go, storages/git; read at 239fd58, 2026-03):
//
//   - The state is named by the query, in one address for everything.
//   - LOCK when anyone holds the lock, the asker included, is 409 with what
//     the holder sent.
//   - UNLOCK, POST and DELETE need the lock: 409 with the holder's LockInfo if
//     it is another's, 428 with a sentence if there is none. A body that is no
//     LockInfo is 500.
//   - A write is a commit, and a commit without a change fails: POST of
//     what is there already is 500.
//   - GET of nothing is 204. DELETE of nothing is 500.
//   - A login that is missing or wrong is 401; an unknown method or a query that
//     names no state 400.
type git struct {
	store
	login Login
}

const gitQuery = "?type=git&repository=https://git.example.org/states&ref=main&state=group.json"

func gitFlavour() Flavour {
	return Flavour{
		Name: "terraform-backend-git", WriteLocked: true,
		New: func(_ testing.TB, l Login) Server { return &git{login: l} },
		Env: func(base string, l Login) map[string]string { return env(base+"/"+gitQuery, "", l) },
	}
}

func (s *git) Op(r *http.Request) Op { return ownMethods(r) }

func (s *git) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	says := func(status int, text string) { answer(w, status, "", []byte(text)) }
	user, password, _ := r.BasicAuth()
	if user != s.login.Username || password != s.login.Password {
		w.Header().Set("WWW-Authenticate", "Basic realm=terraform-backend-git")
		says(http.StatusUnauthorized, "401 - Unauthorized")
		return
	}
	q := r.URL.Query()
	if q.Get("type") != "git" || q.Get("repository") == "" || q.Get("state") == "" {
		says(http.StatusBadRequest, "400 - Bad Request")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := q.Get("ID")
	op := Op(r.Method)
	if op == Unlock && id == "" {
		if !json.Valid(body) {
			says(http.StatusInternalServerError, "500 - Internal Server Error")
			return
		}
		id = lockID(body)
	}
	if op == Unlock || op == Post || op == Delete {
		switch {
		case s.lock == nil:
			says(http.StatusPreconditionRequired, "428 - Locking Required")
			return
		case id != lockID(s.lock):
			answer(w, http.StatusConflict, "", s.lock)
			return
		}
	}
	broken := false
	switch op {
	case Get:
		if s.state == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, http.StatusOK, "application/json", s.state)
		return
	case Post:
		broken = bytes.Equal(s.state, body)
		s.state = body
	case Delete:
		broken = s.state == nil
		s.state = nil
	case Lock:
		if s.lock != nil {
			answer(w, http.StatusConflict, "", s.lock)
			return
		}
		s.lock = body
	case Unlock:
		s.lock = nil
	default:
		says(http.StatusBadRequest, "400 - Bad Request")
		return
	}
	if broken {
		says(http.StatusInternalServerError, "500 - Internal Server Error")
		return
	}
	w.WriteHeader(http.StatusOK)
}
