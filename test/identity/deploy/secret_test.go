package deploy

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/canary"
	"fediversity.eu/yuba/test/lab"
)

// The token of the SPIRE server gets to the spire node and nowhere else: no
// process has it as an argument or in its environment, and it is in no state,
// plan, log, output or other file. Neither is the private key, and the key's path
// is in none of these that outlives the run.
func TestTheTokenStaysSecret(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lab.Start(t))
	h.group("web")
	h.Env["TF_LOG"] = "trace"
	first := h.Must(0, "k8s", "apply", "-auto-approve", "-json")
	delete(h.Env, "TF_LOG")
	h.handed("web")

	token, err := base64.StdEncoding.DecodeString(h.Get("secret/spire-server-token", ".data.token"))
	h.must(err)
	key, err := os.ReadFile(h.door.KeyFile)
	h.must(err)
	secret := canary.Secrets{
		"token": string(token), "signature of the token": string(token[strings.LastIndexByte(string(token), '.')+1:]),
		"private key": strings.Split(string(key), "\n")[4],
	}
	if found := secret.Found([]byte(first.Stdout + first.Stderr)); found != nil {
		t.Errorf("the first apply tells the %s", found)
	}
	if found := secret.Found([]byte(h.read("drops/" + h.Namespace + ".kubeconfig"))); len(found) != 2 {
		t.Fatalf("the spire node has %q, and should have the token", found)
	}

	// The token goes again: the spire node is another machine.
	h.furnish()
	h.Env["TF_LOG"] = "trace"
	secret.Run(t, h.World, 2, nil, "k8s", "plan", "-detailed-exitcode", "-out=group.plan")
	secret.Files(t, filepath.Join(h.Dir, "group.plan"))
	secret.Run(t, h.World, 0, nil, "k8s", "apply", "group.plan")
	h.handed("web")
	delete(h.Env, "TF_LOG")
	for _, args := range [][]string{{"k8s", "show"}, {"k8s", "show", "-json"}, {"k8s", "output", "-json"}, {"k8s", "show", "-json", "group.plan"}} {
		secret.Run(t, h.World, 0, nil, args...)
	}
	state := secret.Run(t, h.World, 0, nil, "state", "pull").Stdout
	secret.Run(t, h.World, 0, nil, "k8s", "export", "graph")

	// An apply that fails at the spire node tells no more.
	h.furnish()
	h.must(os.RemoveAll(h.path("drops")))
	h.Env["TF_LOG"] = "trace"
	secret.Run(t, h.World, 1, nil, "k8s", "apply", "-auto-approve")
	h.must(os.Mkdir(h.path("drops"), 0o700))
	secret.Run(t, h.World, 0, nil, "k8s", "apply", "-auto-approve")
	delete(h.Env, "TF_LOG")
	h.handed("web")

	path := h.door.KeyFile
	if strings.Contains(state, path) {
		t.Error("the state has the path of the key")
	}
	plan := canary.Secrets{"path of the key": path}
	plan.Files(t, filepath.Join(h.Dir, "group.plan"), filepath.Join(h.Dir, "graph", "main.tf"))
	secret.Run(t, h.World, 0, nil, "k8s", "destroy", "-auto-approve")

	// What is left behind, on both sides.
	for _, dir := range []string{h.Dir, h.room, h.server.Dir} {
		h.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if found := secret.Found(data); found != nil {
				t.Errorf("%s has the %s", path, found)
			}
			return nil
		}))
	}
	if found := secret.Found([]byte(h.door.Log(t))); found != nil {
		t.Errorf("sshd's log has the %s", found)
	}
}
