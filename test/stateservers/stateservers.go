// Package stateservers has stand-ins for the servers of OpenTofu's HTTP state
// protocol that people run, and a way to break each in every place. A stand-in
// answers as the server does in public: its statuses, bodies and rules of
// locking. What it keeps is in memory, and its own tests can look into it.
package stateservers

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
)

// Op is what a request asks for, whatever the method that a server has for it.
type Op string

// The operations of the protocol.
const (
	Get    Op = "GET"
	Post   Op = "POST"
	Lock   Op = "LOCK"
	Unlock Op = "UNLOCK"
	Delete Op = "DELETE"
)

// Ops are all operations.
var Ops = []Op{Get, Post, Lock, Unlock, Delete}

// Server is a server that holds one state.
type Server interface {
	http.Handler
	// Op tells what a request asks for.
	Op(*http.Request) Op
	// State is what is stored, nil if nothing is.
	State() []byte
	// Holder is the ID of the lock that is held, "" if none is.
	Holder() string
}

// Login is who may use a server.
type Login struct{ Username, Password string }

// Flavour is a kind of server.
type Flavour struct {
	// Name is the server's, as its users know it.
	Name string
	// User is the only name that a user can have, "" if there are others.
	User string
	// New makes an empty one that lets in who logs in so.
	New func(testing.TB, Login) Server
	// Env is the TF_HTTP_* that the server's documentation tells its users to
	// set, with the server at the URL base.
	Env func(base string, login Login) map[string]string
	// DeleteUnlocked: a state that is locked cannot be deleted, not even by
	// the lock's holder.
	DeleteUnlocked bool
	// HidesDeleted: once a state is deleted, all questions are refused.
	HidesDeleted bool
	// WriteLocked: nothing is written without the lock.
	WriteLocked bool
}

// Flavours are all of them.
func Flavours() []Flavour {
	return []Flavour{nimbolusFlavour("nimbolus", false), nimbolusFlavour("nimbolus with PostgreSQL", true), gitlabFlavour(), giteaFlavour(), gitFlavour(), yubaFlavour()}
}

// Login is one that the flavour's servers can have.
func (f Flavour) Login(password string) Login {
	if f.User != "" {
		return Login{f.User, password}
	}
	return Login{"ann", password}
}

// store is what a stand-in keeps.
type store struct {
	mu    sync.Mutex
	state []byte
	lock  []byte // the LockInfo, nil if there is no lock
}

func (s *store) State() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *store) Holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lockID(s.lock)
}

// lockInfo is OpenTofu's, with the time as it was sent.
type lockInfo struct{ ID, Operation, Info, Who, Version, Created, Path string }

func lockID(info []byte) string {
	var i lockInfo
	_ = json.Unmarshal(info, &i)
	return i.ID
}

// read is a request's body.
func read(r *http.Request) []byte {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	return b
}

func answer(w http.ResponseWriter, status int, kind string, body []byte) {
	if kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	answer(w, status, "application/json", mustJSON(v))
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// ownMethods is the Op of servers that have LOCK and UNLOCK as methods.
func ownMethods(r *http.Request) Op { return Op(r.Method) }

// subPath is the Op of servers that lock with POST and DELETE at PATH/lock.
func subPath(path string) func(*http.Request) Op {
	return func(r *http.Request) Op {
		switch {
		case r.URL.Path != path+"/lock":
			return Op(r.Method)
		case r.Method == http.MethodPost:
			return Lock
		case r.Method == http.MethodDelete:
			return Unlock
		}
		return Op(r.Method)
	}
}

// env names the variables of a server that has all at one address, or the lock
// at another with methods of its own.
func env(address, lock string, login Login) map[string]string {
	v := map[string]string{
		"TF_HTTP_ADDRESS": address, "TF_HTTP_LOCK_ADDRESS": address, "TF_HTTP_UNLOCK_ADDRESS": address,
		"TF_HTTP_USERNAME": login.Username, "TF_HTTP_PASSWORD": login.Password,
	}
	if lock != "" {
		v["TF_HTTP_LOCK_ADDRESS"], v["TF_HTTP_UNLOCK_ADDRESS"] = lock, lock
		v["TF_HTTP_LOCK_METHOD"], v["TF_HTTP_UNLOCK_METHOD"] = http.MethodPost, http.MethodDelete
	}
	return v
}
