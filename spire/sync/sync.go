// Package sync keeps a SPIRE server in step with a drop directory: the plugin
// data of k8s_psat, the registration entries, and the agents that may no longer
// be.
//
// A pass looks at what there is and changes what differs; nothing is remembered
// that a pass could not find out, so that it may be ended at any point.
package sync

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"fediversity.eu/yuba/spire/drop"
	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/internal/place"
	"fediversity.eu/yuba/spire/internal/watch"
	"fediversity.eu/yuba/spire/psat"
	"fediversity.eu/yuba/spire/reload"
	"fediversity.eu/yuba/spire/server"
)

// Options say what is kept in step.
type Options struct {
	Dir        string        // the drop directory, an absolute path
	PluginData string        // the server's plugin_data_file of k8s_psat, an absolute path
	Socket     string        // of the server's API; empty: only the file is written
	Interval   time.Duration // between passes when nothing happens
	Log        *slog.Logger
}

const (
	passLimit  = 2 * time.Minute // for a pass
	readLimit  = 5 * time.Second // for the server to read its file after the signal
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// syncer is what passes have in common. None of it is needed to go on.
type syncer struct {
	Options
	patience time.Duration   // readLimit
	loaded   loaded          // what the server is known to have read
	said     map[string]bool // what the pass before had to say
	saying   map[string]bool // what this one has
}

// loaded is a plugin data file that a server has read.
type loaded struct {
	pid  int
	data [sha256.Size]byte
}

func newSyncer(o Options) (*syncer, error) {
	for _, path := range []string{o.Dir, o.PluginData} {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%q is not an absolute path", path)
		}
	}
	return &syncer{Options: o, patience: readLimit}, nil
}

// Once makes one pass. Drop-files that are no good are logged and no error:
// what could be done for the others is done.
func Once(ctx context.Context, o Options) error {
	s, err := newSyncer(o)
	if err != nil {
		return err
	}
	return s.pass(ctx)
}

// Run makes a pass at each change of the drop directory and after each interval,
// until the context ends; a pass that failed is tried again soon. What is wrong
// is logged once.
func Run(ctx context.Context, o Options) error {
	s, err := newSyncer(o)
	if err != nil {
		return err
	}
	var changes *watch.Watch
	defer func() {
		if changes != nil {
			changes.Stop()
		}
	}()
	retry := firstRetry
	var failure string
	for ctx.Err() == nil {
		if changes == nil {
			// Without a watch there are still the intervals; a pass says what is
			// wrong with the directory.
			if changes, err = watch.Start(o.Dir, watch.Changed); err != nil {
				changes = nil
			}
		}
		wait := o.Interval
		switch err := s.pass(ctx); {
		case ctx.Err() != nil:
			continue
		case err != nil:
			if err.Error() != failure {
				failure = err.Error()
				s.Log.Error("not in step, trying again", "error", err)
			}
			wait, retry = min(retry, o.Interval), min(2*retry, lastRetry)
		default:
			if failure != "" {
				s.Log.Info("in step again")
			}
			failure, retry = "", firstRetry
		}
		var events <-chan struct{}
		if changes != nil {
			events = changes.Events
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case _, ok := <-events:
			if !ok { // the directory is gone, or another one is in its place
				changes.Stop()
				changes = nil
			}
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// pass brings all in step that can be.
func (s *syncer) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, passLimit, fmt.Errorf("not done within %v", passLimit))
	defer cancel()
	s.saying = map[string]bool{}
	defer func() { s.said = s.saying }()
	contents, err := drop.Read(ctx, s.Dir)
	if err != nil {
		return err
	}
	for _, b := range contents.Broken {
		s.warn("drop-file left out", "node", b.Identity, "error", b.Err)
	}
	for _, name := range contents.Other {
		if filepath.Join(s.Dir, name) != filepath.Clean(s.PluginData) {
			s.warn("not a file of the drop directory", "name", name)
		}
	}
	data, err := s.write(ctx, contents.Nodes)
	if err != nil {
		return err
	}
	if s.Socket == "" {
		return nil
	}
	srv, err := server.New(s.Socket)
	if err != nil {
		return err
	}
	defer srv.Close()
	trustDomain, _, err := srv.Bundle(ctx)
	if err != nil {
		return err
	}
	reloaded := s.reload(ctx, srv, data)
	r := &registry{syncer: s, server: srv, trustDomain: trustDomain, contents: contents}
	registered := r.entries(ctx)
	var evicted error
	// As long as the server may have the old file, an agent would be back at once.
	if reloaded == nil {
		evicted = r.agents(ctx)
	}
	return errors.Join(reloaded, registered, evicted)
}

// write puts the plugin data in place.
func (s *syncer) write(ctx context.Context, nodes []handoff.Identity) ([sha256.Size]byte, error) {
	var none [sha256.Size]byte
	data, err := psat.Render(s.Dir, nodes)
	if err != nil {
		return none, err
	}
	d, err := place.Write(ctx, filepath.Dir(s.PluginData))
	if err != nil {
		return none, fmt.Errorf("the plugin data: %w", err)
	}
	defer d.Close()
	// It has names and no secret, and the server may be another user.
	changed, err := d.File(filepath.Base(s.PluginData), data, 0o644)
	if err != nil {
		return none, fmt.Errorf("the plugin data: %w", err)
	}
	if changed {
		s.loaded = loaded{}
		s.Log.Info("plugin data written", "file", s.PluginData, "clusters", len(nodes))
	}
	return sha256.Sum256(data), nil
}

// reload lets the server read the file, unless this process has read it.
func (s *syncer) reload(ctx context.Context, srv *server.Server, data [sha256.Size]byte) error {
	pid, err := srv.PID()
	if err != nil {
		return err
	}
	want := loaded{pid, data}
	if s.loaded == want {
		return nil
	}
	err = reload.Signal(ctx, pid, s.PluginData, s.patience, func(ctx context.Context) error {
		_, _, err := srv.Bundle(ctx)
		if now, gone := srv.PID(); err == nil && (gone != nil || now != pid) {
			err = errors.New("the SPIRE server was started anew meanwhile")
		}
		return err
	})
	if err == nil {
		s.loaded = want
		s.Log.Info("the server has read the plugin data", "pid", pid)
	}
	return err
}

// warn logs what is wrong, unless the pass before did.
func (s *syncer) warn(message string, about ...any) {
	key := fmt.Sprintln(append([]any{message}, about...)...)
	if !s.said[key] && !s.saying[key] {
		s.Log.Warn(message, about...)
	}
	s.saying[key] = true
}
