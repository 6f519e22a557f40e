package stateservers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// GitLab's managed states, https://docs.gitlab.com/user/infrastructure/iac/terraform_state/
// (lib/api/terraform/state.rb and app/services/terraform/remote_state_handler.rb
// of https://github.com/gitlabhq/gitlabhq, read at 800235c):
//
//   - POST PATH/lock answers with a LockInfo: 200, or 409 when anyone holds the
//     lock, the asker included. ID, Who and Created are the holder's, the
//     rest repeats what the asker sent.
//   - DELETE PATH/lock with another ID, or when nothing is locked, is 409 with
//     nothing to read; without an ID it releases any lock.
//   - POST needs the lock's ID if there is a lock, and none if there is
//     none; otherwise nothing catches the exception: 500. A serial that
//     exists already is 422. The size has a limit that an administrator
//     sets: 413.
//   - GET is 404 before anything is known of the state, 204 once it was locked.
//   - DELETE asks for no lock. The state is marked and deleted later; until then
//     all else is 422.
//   - A wrong login is 401, a right without the permission 403, a project that one
//     may not see 404.
type gitlab struct {
	store
	login   Login
	exists  bool // the state has a record
	deleted bool
	who     string
	created time.Time
	serials map[string]bool
}

const (
	gitlabPath = "/api/v4/projects/1/terraform/state/group"
	// gitlabMax stands for the limit of max_terraform_state_size_bytes.
	gitlabMax = 1 << 20
)

func gitlabFlavour() Flavour {
	return Flavour{
		Name: "GitLab", HidesDeleted: true,
		New: func(_ testing.TB, l Login) Server { return &gitlab{login: l, serials: map[string]bool{}} },
		Env: func(base string, l Login) map[string]string {
			return env(base+gitlabPath, base+gitlabPath+"/lock", l)
		},
	}
}

func (s *gitlab) Op(r *http.Request) Op { return subPath(gitlabPath)(r) }

func (s *gitlab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := read(r)
	message := func(status int, text string) { answerJSON(w, status, map[string]string{"message": text}) }
	user, password, _ := r.BasicAuth()
	op := s.Op(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path != gitlabPath && r.URL.Path != gitlabPath+"/lock":
		message(http.StatusNotFound, "404 Not Found")
		return
	case user != s.login.Username || password != s.login.Password:
		message(http.StatusUnauthorized, "401 Unauthorized")
		return
	case s.deleted:
		message(http.StatusUnprocessableEntity, "Terraform::RemoteStateHandler::StateDeletedError")
		return
	}
	// Grape makes parameters of a body that says that it is JSON.
	var sent map[string]any
	bad := len(body) > 0 && json.Unmarshal(body, &sent) != nil
	text := func(name string) string { v, _ := sent[name].(string); return v }
	serial := fmt.Sprint(sent["serial"])
	id := r.URL.Query().Get("ID")
	if v := text("ID"); v != "" {
		id = v
	}
	switch op {
	case Get:
		switch {
		case !s.exists:
			message(http.StatusNotFound, "404 Not found")
		case s.state == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			answer(w, http.StatusOK, "application/octet-stream", s.state)
		}
	case Post:
		switch {
		case bad:
			answerJSON(w, http.StatusBadRequest, map[string]string{"error": "Problems parsing JSON"})
		case len(body) == 0:
			w.WriteHeader(http.StatusNoContent)
		case len(body) > gitlabMax:
			message(http.StatusRequestEntityTooLarge, "413 Request Entity Too Large")
		case lockID(s.lock) != id:
			message(http.StatusInternalServerError, "500 Internal Server Error")
		case s.serials[serial]:
			message(http.StatusUnprocessableEntity, "PG::UniqueViolation: ERROR:  duplicate key value violates unique constraint")
		default:
			s.exists, s.state, s.serials[serial] = true, body, true
			w.WriteHeader(http.StatusOK)
		}
	case Delete:
		if !s.exists {
			message(http.StatusNotFound, "404 Not found")
			return
		}
		s.deleted, s.state = true, nil
		w.WriteHeader(http.StatusOK)
	case Lock:
		for _, name := range []string{"ID", "Operation", "Info", "Who", "Version", "Created", "Path"} {
			if _, ok := sent[name].(string); !ok {
				answerJSON(w, http.StatusBadRequest, map[string]string{"error": name + " is missing"})
				return
			}
		}
		status := http.StatusConflict
		if s.lock == nil {
			status = http.StatusOK
			s.exists, s.lock, s.who, s.created = true, body, user, time.Now()
		}
		answer(w, status, "application/octet-stream", mustJSON(lockInfo{
			ID: lockID(s.lock), Who: s.who, Created: s.created.UTC().Format("2006-01-02T15:04:05.000Z"),
			Operation: text("Operation"), Info: text("Info"), Version: text("Version"), Path: text("Path"),
		}))
	case Unlock:
		switch {
		case id != "" && id != lockID(s.lock):
			w.WriteHeader(http.StatusConflict)
		default:
			s.exists, s.lock = true, nil
			w.WriteHeader(http.StatusOK)
		}
	default:
		answerJSON(w, http.StatusMethodNotAllowed, map[string]string{"error": "405 Not Allowed"})
	}
}
