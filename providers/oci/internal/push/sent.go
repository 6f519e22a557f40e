package push

import (
	"context"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Sent remembers which layers are on their way to a registry, or have come there, and what they have become. The zero Sent
// is empty; it may be shared by several Pushers, and is safe for concurrent use.
type Sent struct {
	mu sync.Mutex
	m  map[string]*flight
}

// flight is one layer. All but done is valid when done is closed.
type flight struct {
	done   chan struct{}
	landed bool
	what   v1.Descriptor
	where  name.Repository
}

// key names a layer in a registry.
func key(u *uploader, l Layer) string {
	as := string(u.compression)
	if l.Blob != nil {
		as = l.Blob.Digest.String()
	}
	return u.repo.RegistryStr() + " " + l.DiffID + " " + as
}

// claim chooses what to do next of the layers in left, whose keys are keys[left[i]]: one that has landed, else one that
// nobody has begun with, else wait for one that somebody else is bringing. mine: the caller brings it, and must call end.
func (s *Sent) claim(left []int, keys []string) (at int, f *flight, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := -1
	for at, i := range left {
		f := s.m[keys[i]]
		if f != nil && f.over() {
			return at, f, false
		}
		if f == nil && begin < 0 {
			begin = at
		}
	}
	if begin < 0 {
		return 0, s.m[keys[left[0]]], false
	}
	if s.m == nil {
		s.m = map[string]*flight{}
	}
	f = &flight{done: make(chan struct{})}
	s.m[keys[left[begin]]] = f
	return begin, f, true
}

// end says what became of a layer. One that has failed is as if nobody had begun.
func (s *Sent) end(key string, f *flight, what v1.Descriptor, where name.Repository, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.what, f.where, f.landed = what, where, err == nil
	if err != nil {
		delete(s.m, key)
	}
	close(f.done)
}

func (f *flight) over() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
