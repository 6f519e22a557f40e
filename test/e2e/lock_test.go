package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// lockReport is what `yuba state lock -json` prints.
type lockReport struct {
	FormatVersion string `json:"format_version"`
	State         string
	Locked        bool
	Lock          *struct{ ID, Who, Operation string }
	PID           int
}

// Who finds a state locked is told by whom, and the question changes nothing.
func TestStateLockTellsTheHolder(t *testing.T) {
	t.Parallel()
	const holder = `{"ID":"1111-2222","Operation":"OperationTypeApply","Info":"","Who":"ann@ci-7","Version":"1.12.6","Created":"2026-01-02T03:04:05Z","Path":""}`
	dir := t.TempDir()
	env := []string{}
	ask := func(code int) lockReport {
		t.Helper()
		var results []world.Result
		for _, more := range [][]string{nil, {"-json"}} {
			cmd := exec.Command(world.Program(t), append([]string{"-chdir=" + dir, "state", "lock"}, more...)...)
			cmd.Env = env
			r := world.Run(t, cmd)
			if r.Code != code {
				t.Fatalf("yuba state lock: want exit code %d, got %v", code, r)
			}
			results = append(results, r)
		}
		var report lockReport
		if err := json.Unmarshal([]byte(results[1].Stdout), &report); err != nil {
			t.Fatalf("%v: %v", err, results[1])
		}
		words := map[bool]string{false: "is not locked.", true: "is locked."}[report.Locked]
		if report.Locked != (code == 2) || !strings.Contains(results[0].Stdout, "The state at "+report.State+" "+words) || report.FormatVersion != "1.0" {
			t.Errorf("%+v: %v", report, results[0])
		}
		if l := report.Lock; l != nil && !strings.Contains(results[0].Stdout, l.ID) {
			t.Errorf("%+v: %v", l, results[0])
		}
		return report
	}
	request := func(method, url string) {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(holder))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", method, resp.Status)
		}
	}

	// Nowhere.
	cmd := exec.Command(world.Program(t), "-chdir="+dir, "state", "lock")
	cmd.Env = env
	if r := world.Run(t, cmd); r.Code != 1 || !strings.Contains(r.Stderr, "TF_HTTP_ADDRESS is not set") {
		t.Errorf("%v", r)
	}

	// On a server, at first of no configuration.
	address := world.StartStateServer(t, filepath.Join(t.TempDir(), "states")).Address + "/group"
	env = []string{"TF_HTTP_ADDRESS=" + address}
	for range 2 {
		if r := ask(0); r.State != address || r.Lock != nil {
			t.Errorf("%+v", r)
		}
		request("LOCK", address)
		if r := ask(2); r.Lock == nil || r.Lock.ID != "1111-2222" || r.Lock.Who != "ann@ci-7" || r.Lock.Operation != "OperationTypeApply" {
			t.Errorf("%+v", r)
		}
		request("UNLOCK", address)
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("terraform {\n  backend \"http\" {\n    address = \""+address+"\"\n  }\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		env = []string{}
	}

	// In a file, which this process locks as stock tofu does.
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("terraform {\n  backend \"local\" {\n    path = \"my.tfstate\"\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask(0)
	f, err := os.Create(filepath.Join(dir, "my.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info := filepath.Join(dir, ".my.tfstate.lock.info")
	if err := os.WriteFile(info, []byte(holder), 0o600); err != nil {
		t.Fatal(err)
	}
	ask(0) // of a run that is dead
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}); err != nil {
		t.Fatal(err)
	}
	if r := ask(2); r.State != "my.tfstate" || r.Lock == nil || r.Lock.ID != "1111-2222" || r.PID != os.Getpid() {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(info, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ask(2); r.Lock != nil {
		t.Errorf("%+v", r)
	}
}
