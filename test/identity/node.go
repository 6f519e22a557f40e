package identity

import (
	"os/exec"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// Sync is a running `yuba spire sync`.
type Sync struct{ process }

// StartSync starts `yuba spire sync` for the server, with that drop directory. It
// appends what it says to the file log.
func (s *Server) StartSync(t testing.TB, drops, log string) *Sync {
	t.Helper()
	y := &Sync{process{path: world.Program(t), args: s.SyncArgs(drops), log: log}}
	y.live(t, "yuba spire sync")
	return y
}

// SyncArgs are the arguments of yuba with which it is in step with the server.
func (s *Server) SyncArgs(drops string) []string {
	return []string{"spire", "sync", "-dir", drops, "-plugin-data", s.PluginData, "-server-socket", s.Socket}
}

// SyncOnce runs `yuba spire sync -once`, which must go well.
func (s *Server) SyncOnce(t testing.TB, drops string) {
	t.Helper()
	cmd := exec.Command(world.Program(t), append(s.SyncArgs(drops), "-once")...)
	cmd.Env = []string{"HOME=/nonexistent"}
	if r := world.Run(t, cmd); r.Code != 0 {
		t.Fatalf("yuba spire sync -once: %v", r)
	}
}

// Spire runs a verb of `yuba spire`, with what it reads on its standard input.
func Spire(t testing.TB, stdin string, args ...string) world.Result {
	t.Helper()
	cmd := exec.Command(world.Program(t), append([]string{"spire"}, args...)...)
	cmd.Env = []string{"HOME=/nonexistent"}
	cmd.Stdin = strings.NewReader(stdin)
	return world.Run(t, cmd)
}
