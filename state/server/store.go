package server

import (
	"bytes"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// On disk: DIR/.lock (flock), DIR/states/NAME/ with NAME's slashes as %, and
// in it one file per version, "VERSION.SERIAL.state" or "VERSION.deleted", and
// lock.json while the state is locked. Files appear by rename only, after they
// are on the disk: what has a final name is complete.
const (
	lockFile  = "lock.json"
	tmpPrefix = ".tmp-"
	shards    = 64
	noSerial  = "x" // a state that has none
)

var (
	errNoState   = errors.New("there is no such state")
	errNoVersion = errors.New("there is no such version")
)

// damagedError is a state file that something else than the server broke.
type damagedError struct{ file string }

func (e damagedError) Error() string {
	return fmt.Sprintf("%s is damaged; restore it, or remove it to go back to the version before", e.file)
}

// store keeps states in a directory. Each state is guarded by its shard.
type store struct {
	dir    string
	retain int
	flock  *os.File
	shard  [shards]struct {
		sync.Mutex
		states map[string]*entry
	}
	// step is called at the points of a write where a crash or a full disk
	// could leave something behind; tests make it one.
	step func(string) error
}

// entry is what is known of one state on the disk.
type entry struct {
	version uint64 // highest, 0 if none
	current string // file of it; "" if none or deleted
	size    int64
	ident   ident
	sum     [md5.Size]byte
	lock    []byte // LockInfo as sent, nil if free
	lockID  string
	// released is the last lock that was released, so that UNLOCK can be repeated.
	released string
}

// ident is what orders states.
type ident struct {
	Serial  *uint64 `json:"serial"`
	Lineage string  `json:"lineage"`
}

// openStore takes the directory for this process and clears what a crash left.
func openStore(dir string, retain int) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "states"), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another state server uses %s: end it, or choose another directory", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	s := &store{dir: dir, retain: retain, flock: f, step: func(string) error { return nil }}
	for i := range s.shard {
		s.shard[i].states = map[string]*entry{}
	}
	if err := s.recover(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *store) close() error { return s.flock.Close() }

// recover removes the temporary files of writes that a crash interrupted: they
// were never acknowledged.
func (s *store) recover() error {
	states := filepath.Join(s.dir, "states")
	dirs, err := os.ReadDir(states)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(states, d.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			if strings.HasPrefix(f.Name(), tmpPrefix) {
				if err := os.Remove(filepath.Join(states, d.Name(), f.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *store) path(name string) string {
	return filepath.Join(s.dir, "states", strings.ReplaceAll(name, "/", "%"))
}

// with calls f with the state's entry while nobody else uses it. A state that
// is not on the disk gives an empty entry, which is kept only if f saved something.
func (s *store) with(name string, f func(*entry) error) error {
	h := fnv.New32a()
	_, _ = io.WriteString(h, name)
	sh := &s.shard[h.Sum32()%shards]
	sh.Lock()
	defer sh.Unlock()
	e := sh.states[name]
	if e == nil {
		var err error
		if e, err = s.load(name); err != nil {
			return err
		}
	}
	err := f(e)
	if e.version > 0 || e.lock != nil || e.released != "" {
		sh.states[name] = e
	} else {
		delete(sh.states, name)
	}
	return err
}

// version is one file of a state.
type version struct {
	Version uint64    `json:"version"`
	Serial  *uint64   `json:"serial,omitempty"`
	Size    int64     `json:"size"`
	Saved   time.Time `json:"saved"`
	Deleted bool      `json:"deleted,omitempty"`
	file    string
}

func parseVersion(file string) (v version, ok bool) {
	num, rest, _ := strings.Cut(file, ".")
	n, err := strconv.ParseUint(num, 10, 64)
	if err != nil || n == 0 {
		return version{}, false
	}
	v = version{Version: n, file: file}
	if rest == "deleted" {
		v.Deleted = true
		return v, true
	}
	serial, ok := strings.CutSuffix(rest, ".state")
	if !ok {
		return version{}, false
	}
	if serial != noSerial {
		m, err := strconv.ParseUint(serial, 10, 64)
		if err != nil {
			return version{}, false
		}
		v.Serial = &m
	}
	return v, true
}

// versions lists a state's versions, the newest first.
func (s *store) versions(name string) ([]version, error) {
	files, err := os.ReadDir(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var vs []version
	for _, f := range files {
		v, ok := parseVersion(f.Name())
		if !ok {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		v.Size, v.Saved = info.Size(), info.ModTime().UTC()
		vs = append(vs, v)
	}
	slices.SortFunc(vs, func(a, b version) int {
		switch {
		case a.Version > b.Version:
			return -1
		case a.Version < b.Version:
			return 1
		}
		return 0
	})
	return vs, nil
}

func (s *store) load(name string) (*entry, error) {
	e := &entry{}
	vs, err := s.versions(name)
	if err != nil {
		return nil, err
	}
	if len(vs) > 0 {
		e.version = vs[0].Version
		if !vs[0].Deleted {
			e.current = vs[0].file
			path := filepath.Join(s.path(name), e.current)
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if e.ident, err = identify(data); err != nil {
				return nil, damagedError{path}
			}
			e.size, e.sum = int64(len(data)), md5.Sum(data)
		}
	}
	path := filepath.Join(s.path(name), lockFile)
	lock, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	if e.lockID, err = lockID(lock); err != nil {
		return nil, damagedError{path}
	}
	e.lock = lock
	return e, nil
}

// identify checks that data is a JSON object and reads what orders states.
func identify(data []byte) (ident, error) {
	var id ident
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		return id, errors.New("a state is a JSON object")
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return id, errors.New("a state is a JSON object with a whole number as serial and a text as lineage")
	}
	return id, nil
}

// put saves data as the next version. The entry changes only when the version
// is safe on the disk.
func (s *store) put(name string, e *entry, data []byte, id ident) error {
	serial := noSerial
	if id.Serial != nil {
		serial = strconv.FormatUint(*id.Serial, 10)
	}
	file := fmt.Sprintf("%010d.%s.state", e.version+1, serial)
	if err := s.write(name, file, data); err != nil {
		return err
	}
	e.version++
	e.current, e.size, e.ident, e.sum = file, int64(len(data)), id, md5.Sum(data)
	s.prune(name)
	return nil
}

// delete makes the state's next version a deleted one; older ones stay.
func (s *store) delete(name string, e *entry) error {
	if e.current == "" {
		return nil
	}
	if err := s.write(name, fmt.Sprintf("%010d.deleted", e.version+1), nil); err != nil {
		return err
	}
	e.version++
	e.current, e.size, e.ident = "", 0, ident{}
	return nil
}

// prune removes the oldest versions beyond what is to be kept. One that cannot
// be removed now is removed by a later write.
func (s *store) prune(name string) {
	vs, err := s.versions(name)
	if err != nil || len(vs) <= s.retain {
		return
	}
	for _, v := range vs[s.retain:] {
		_ = os.Remove(filepath.Join(s.path(name), v.file))
	}
}

func (s *store) setLock(name string, e *entry, info []byte, id string) error {
	if err := s.write(name, lockFile, info); err != nil {
		return err
	}
	e.lock, e.lockID, e.released = info, id, ""
	return nil
}

func (s *store) clearLock(name string, e *entry) error {
	dir := s.path(name)
	err := os.Remove(filepath.Join(dir, lockFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.released, e.lock, e.lockID = e.lockID, nil, ""
	return syncDir(dir)
}

// write makes a file of a state appear with data, whole and durable, or not at all.
func (s *store) write(name, file string, data []byte) (err error) {
	dir := s.path(name)
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(dir, tmpPrefix) // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = s.step("created"); err != nil {
		return err
	}
	half := len(data) / 2
	if _, err = f.Write(data[:half]); err != nil {
		return err
	}
	if err = s.step("half"); err != nil {
		return err
	}
	if _, err = f.Write(data[half:]); err != nil {
		return err
	}
	if err = s.step("written"); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = s.step("synced"); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	final := filepath.Join(dir, file)
	if err = os.Rename(f.Name(), final); err != nil {
		return err
	}
	if err = errors.Join(s.step("renamed"), syncDir(dir)); err != nil {
		// Not known to be durable, so it must not be seen either.
		_ = os.Remove(final)
		return err
	}
	return s.step("durable")
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
