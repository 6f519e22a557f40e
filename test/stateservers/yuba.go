package stateservers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"fediversity.eu/yuba/state/server"
)

// yubaServer is yuba's own, see docs/state.md and the package state/server.
type yubaServer struct {
	*server.Server
	login Login
}

const yubaPath = "/team/group"

func yubaFlavour() Flavour {
	return Flavour{
		Name: "yuba state serve",
		New: func(t testing.TB, l Login) Server {
			dir := t.TempDir()
			if d, err := os.MkdirTemp("/dev/shm", "yuba-states-"); err == nil {
				dir = d // in memory: the disk is not what is tested
				t.Cleanup(func() { os.RemoveAll(d) })
			}
			s, err := server.New(server.Options{Dir: dir, Auth: oneUser(l)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return &yubaServer{s, l}
		},
		Env: func(base string, l Login) map[string]string { return env(base+yubaPath, "", l) },
	}
}

// oneUser lets one user in.
type oneUser Login

func (u oneUser) Authenticate(_ context.Context, user, password string) bool {
	return user == u.Username && password == u.Password
}

func (s *yubaServer) Op(r *http.Request) Op { return ownMethods(r) }

func (s *yubaServer) ask(method, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, yubaPath, strings.NewReader(body))
	r.SetBasicAuth(s.login.Username, s.login.Password)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *yubaServer) State() []byte {
	w := s.ask("GET", "")
	if w.Code != http.StatusOK {
		return nil
	}
	return w.Body.Bytes()
}

func (s *yubaServer) Holder() string {
	const probe = `{"ID":"stateservers-probe"}`
	w := s.ask("LOCK", probe)
	if w.Code == http.StatusOK {
		s.ask("UNLOCK", probe)
		return ""
	}
	return lockID(w.Body.Bytes())
}
