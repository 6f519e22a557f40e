package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/opentofu/opentofu/internal/command/arguments"
	"github.com/opentofu/opentofu/internal/command/views"
	"github.com/opentofu/opentofu/internal/states/statemgr"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// codeLocked is what stateLock exits with when the state is locked.
const codeLocked = 2

// lockReport is what stateLock prints.
type lockReport struct {
	FormatVersion string `json:"format_version"`
	// State is the URL or the path of the state.
	State  string `json:"state"`
	Locked bool   `json:"locked"`
	// Lock is the holder's, as far as it is known.
	Lock *lockHolder `json:"lock"`
	// PID is the process that holds the lock, of a state in a file on this machine.
	PID int32 `json:"pid,omitempty"`
}

// lockHolder is a LockInfo, with what is known of it.
type lockHolder struct {
	ID        string
	Operation string     `json:",omitempty"`
	Info      string     `json:",omitempty"`
	Who       string     `json:",omitempty"`
	Version   string     `json:",omitempty"`
	Created   *time.Time `json:",omitempty"`
	Path      string     `json:",omitempty"`
}

// stateLock tells who holds the state's lock: 0 is nobody, 2 somebody, 1 an
// error. Stock tofu has no such verb.
func (c *cli) stateLock(ctx context.Context, raw []string) int {
	args, closer, diags := arguments.ParseStateList(raw) // which has the flags: -json, -state and those of variables
	defer closer()
	s := settings{view: args.ViewOptions}
	e := c.engine(s)
	tell := func(diags tfdiags.Diagnostics) int {
		if len(diags) == 0 {
			return 0 // the view begins with a line of its own
		}
		return c.report(e, views.NewState(s.view, e.tty.results), diags)
	}
	if len(args.InstancesRawAddr) > 0 || args.LookupId != "" {
		diags = diags.Append(sourceless("Unexpected argument", "There is nothing but the state to name: -chdir=DIR, -state=FILE or TF_HTTP_ADDRESS does."))
	}
	if diags.HasErrors() {
		return c.misused(e, views.NewState(s.view, e.tty.results), diags)
	}
	if code := tell(c.load(ctx, e, scope{vars: args.Vars, noEncryption: true, paths: statePaths{state: args.StatePath}})); code != 0 {
		return code
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	r := lockReport{FormatVersion: "1.0"}
	var info *statemgr.LockInfo
	var err error
	if e.state.local != nil {
		_, r.State, _ = e.state.local.StatePaths(e.state.workspace)
		if _, err := os.Stat(r.State); err != nil && args.StatePath == "" && !e.loader.IsConfigDir(configDir) {
			return tell(diags.Append(sourceless("No state", "Here is neither a configuration nor a state, and TF_HTTP_ADDRESS is not set.")))
		}
		info, r.PID, err = fileHolder(r.State)
	} else {
		r.State = e.state.config.GetAttr("address").AsString()
		info, err = e.state.client.holder(ctx)
	}
	if err != nil {
		return tell(diags.Append(err))
	}
	if r.Locked = info != nil; r.Locked && info.ID != unknownID {
		r.Lock = &lockHolder{ID: info.ID, Operation: info.Operation, Info: info.Info, Who: info.Who, Version: info.Version, Path: info.Path}
		if !info.Created.IsZero() {
			r.Lock.Created = &info.Created
		}
	}
	if e.opts.JSON {
		err = json.NewEncoder(c.Stdout).Encode(r)
	} else {
		_, err = io.WriteString(c.Stdout, r.text(e.opts.Commands.ForceUnlock))
	}
	switch {
	case err != nil:
		return tell(diags.Append(err))
	case r.Locked:
		return codeLocked
	}
	return 0
}

// text is the report for humans.
func (r lockReport) text(forceUnlock string) string {
	if !r.Locked {
		return fmt.Sprintf("The state at %s is not locked.\n", r.State)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The state at %s is locked.\n\n", r.State)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-11s%s\n", name+":", value)
		}
	}
	if l := r.Lock; l != nil {
		line("ID", l.ID)
		line("Who", l.Who)
		line("Operation", l.Operation)
		if l.Created != nil {
			line("Created", l.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
		line("Version", l.Version)
		line("Path", l.Path)
		line("Info", l.Info)
	} else {
		b.WriteString("  Nothing says by whom.\n")
	}
	switch {
	case r.PID > 0:
		line("Process", fmt.Sprint(r.PID))
		b.WriteString("\nThe lock ends with that process.\n")
	case r.Lock != nil:
		fmt.Fprintf(&b, "\nIf that run is dead, release its lock:\n  %s %s\n", forceUnlock, r.Lock.ID)
	}
	return b.String()
}

// holder tells who holds the lock, nil if nobody does. The protocol has no
// question for it: whoever takes the lock is told. What is taken so is given
// back at once, also when ctx ends.
func (c *stateClient) holder(ctx context.Context) (*statemgr.LockInfo, error) {
	info := statemgr.NewLockInfo()
	info.Operation = "state lock"
	info.Info = "asks who holds the lock, and gives it back at once; " + info.ID
	id, err := c.Lock(ctx, info)
	var theirs *statemgr.LockError
	switch {
	case errors.As(err, &theirs):
		return theirs.Info, nil
	case err != nil:
		return nil, err
	}
	return nil, c.Unlock(context.WithoutCancel(ctx), id)
}

// fileHolder tells who holds the lock of the state in a file, nil if nobody
// does, without taking it: the lock is fcntl's, and beside it lies the holder's
// LockInfo. pid is 0 where the system doesn't say.
func fileHolder(path string) (info *statemgr.LockInfo, pid int32, err error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil // whoever locks makes it
	case err != nil:
		return nil, 0, err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return nil, 0, fmt.Errorf("the lock of %s: %w", path, err)
	}
	if lock.Type == syscall.F_UNLCK {
		return nil, 0, nil
	}
	dir, name := filepath.Split(path)
	b, err := readBounded(filepath.Join(dir, "."+strings.TrimPrefix(name, ".")+".lock.info"), 64<<10)
	if err != nil {
		b = nil // it is locked, whoever it is
	}
	return holderInfo(b), lock.Pid, nil
}
