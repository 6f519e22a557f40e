package stateservers

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Gitea's Terraform State Registry, since 1.26,
// https://docs.gitea.com/1.26/usage/packages/terraform (routers/api/packages/terraform
// of https://github.com/go-gitea/gitea, pull request 36710, and its integration test).
// Forgejo has no such registry; its users run one of the other servers.
//
//   - POST PATH/lock is 200 without a body, or 423 with the holder's LockInfo
//     when anyone holds the lock, the asker included.
//   - DELETE PATH/lock is 200 also when nothing is locked; with another ID it is 423
//     with a sentence.
//   - POST is 201. While a lock is held it needs its ID: 423 with the holder's
//     LockInfo. A serial that exists already is 409, though nothing is locked. What
//     is no state is 400.
//   - GET of nothing is 404. DELETE of a locked state is 423 for everyone.
//   - A wrong login is 401, a full quota 403.
type gitea struct {
	store
	login   Login
	exists  bool // the package has a record
	serials map[json.Number]bool
}

const giteaPath = "/api/packages/ann/terraform/state/group"

func giteaFlavour() Flavour {
	return Flavour{
		Name: "Gitea", DeleteUnlocked: true,
		New: func(_ testing.TB, l Login) Server { return &gitea{login: l, serials: map[json.Number]bool{}} },
		Env: func(base string, l Login) map[string]string { return env(base+giteaPath, base+giteaPath+"/lock", l) },
	}
}

func (s *gitea) Op(r *http.Request) Op { return subPath(giteaPath)(r) }

func (s *gitea) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	says := func(status int, text string) { answer(w, status, "text/plain;charset=utf-8", []byte(text+"\n")) }
	user, password, _ := r.BasicAuth()
	switch {
	case r.URL.Path != giteaPath && r.URL.Path != giteaPath+"/lock":
		says(http.StatusNotFound, "Not found.")
		return
	case user != s.login.Username || password != s.login.Password:
		w.Header().Set("WWW-Authenticate", `Basic realm="Gitea Package API"`)
		says(http.StatusUnauthorized, "reqPackageAccess")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.Op(r) {
	case Get:
		if s.state == nil {
			says(http.StatusNotFound, "")
			return
		}
		answer(w, http.StatusOK, "application/json", s.state)
	case Post:
		var v *struct {
			Serial  json.Number `json:"serial"`
			Lineage string      `json:"lineage"`
		}
		err := json.Unmarshal(body, &v)
		switch {
		case s.lock != nil && lockID(s.lock) != r.URL.Query().Get("ID"):
			answer(w, http.StatusLocked, "application/json;charset=utf-8", s.lock)
		case err != nil || v == nil || v.Lineage == "":
			says(http.StatusBadRequest, "terraform state is invalid")
		case s.serials[v.Serial]:
			says(http.StatusConflict, "package file already exists")
		default:
			s.exists, s.state, s.serials[v.Serial] = true, body, true
			w.WriteHeader(http.StatusCreated)
		}
	case Delete:
		switch {
		case !s.exists:
			says(http.StatusNotFound, "package does not exist")
		case s.lock != nil:
			says(http.StatusLocked, "terraform state is locked")
		default:
			s.exists, s.state = false, nil
			clear(s.serials)
			w.WriteHeader(http.StatusOK)
		}
	case Lock:
		switch {
		case lockID(body) == "":
			says(http.StatusBadRequest, "terraform lock is missing an ID")
		case s.lock != nil:
			answer(w, http.StatusLocked, "application/json;charset=utf-8", s.lock)
		default:
			s.exists, s.lock = true, body
			w.WriteHeader(http.StatusOK)
		}
	case Unlock:
		switch {
		case lockID(body) == "":
			says(http.StatusBadRequest, "terraform lock is missing an ID")
		case s.lock != nil && lockID(body) != lockID(s.lock):
			says(http.StatusLocked, "lock ID mismatch")
		default:
			s.lock = nil
			w.WriteHeader(http.StatusOK)
		}
	default:
		says(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}
