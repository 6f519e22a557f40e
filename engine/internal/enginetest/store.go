// Package enginetest has what the engine's tests run on: a provider whose
// objects live nowhere but in the state, and a state store in memory.
package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Store is a state store in memory. The zero value is empty and unlocked.
type Store struct {
	mu     sync.Mutex
	data   []byte
	lock   []byte
	puts   int
	locked [][]byte // the lock infos that were tried

	// OnLock, OnPut and OnUnlock, if set, are asked first, and their error is
	// the call's.
	OnLock, OnPut, OnUnlock func() error
	// AfterPut, if set, is asked when the state is stored: its error is an answer
	// that is lost.
	AfterPut func() error
	// OnGet is the same for Get.
	OnGet func(context.Context) error
}

// Locked is the error for a lock that someone else holds.
type Locked struct{ holder []byte }

func (e *Locked) Error() string { return "state is locked" }

// Holder is the holder's lock info.
func (e *Locked) Holder() []byte { return e.holder }

// Get returns the state.
func (s *Store) Get(ctx context.Context) ([]byte, error) {
	if s.OnGet != nil {
		if err := s.OnGet(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.data), nil
}

// Put stores the state.
func (s *Store) Put(_ context.Context, b []byte) error {
	if s.OnPut != nil {
		if err := s.OnPut(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.data = bytes.Clone(b)
	s.puts++
	s.mu.Unlock()
	if s.AfterPut != nil {
		return s.AfterPut()
	}
	return nil
}

// Delete removes the state.
func (s *Store) Delete(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = nil
	return nil
}

// Lock takes the lock.
func (s *Store) Lock(_ context.Context, info []byte) error {
	if s.OnLock != nil {
		if err := s.OnLock(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = append(s.locked, bytes.Clone(info))
	if s.lock != nil {
		return &Locked{bytes.Clone(s.lock)}
	}
	s.lock = bytes.Clone(info)
	return nil
}

// Unlock releases the lock.
func (s *Store) Unlock(_ context.Context, id string) error {
	if s.OnUnlock != nil {
		if err := s.OnUnlock(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return errors.New("state is not locked")
	}
	var held struct{ ID string }
	if err := json.Unmarshal(s.lock, &held); err != nil || held.ID != id {
		return fmt.Errorf("lock %s: %w", id, &Locked{bytes.Clone(s.lock)})
	}
	s.lock = nil
	return nil
}

// Hold lets someone else hold the lock; nil releases it.
func (s *Store) Hold(info []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock = info
}

// Held returns the lock, nil if it is free.
func (s *Store) Held() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.lock)
}

// Tried returns the lock infos that the lock was tried with.
func (s *Store) Tried() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Split(bytes.Join(s.locked, []byte("\x00")), []byte("\x00"))
}

// State returns the state as it is stored.
func (s *Store) State() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.data)
}

// Puts is how often the state was stored.
func (s *Store) Puts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}
