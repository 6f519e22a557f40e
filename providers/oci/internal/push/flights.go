package push

import (
	"context"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// flights are the layers that are on their way to a registry, or have come there.
type flights struct {
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
	k := u.repo.RegistryStr() + " " + l.DiffID
	if l.Blob != nil {
		k += " " + l.Blob.Digest.String()
	}
	return k
}

// claim chooses what to do next of the layers in left, whose keys are keys[left[i]]: one that has landed, else one that
// nobody has begun with, else wait for one that somebody else is bringing. mine: the caller brings it, and must call end.
func (fs *flights) claim(left []int, keys []string) (at int, f *flight, mine bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	begin := -1
	for at, i := range left {
		f := fs.m[keys[i]]
		if f != nil && f.over() {
			return at, f, false
		}
		if f == nil && begin < 0 {
			begin = at
		}
	}
	if begin < 0 {
		return 0, fs.m[keys[left[0]]], false
	}
	if fs.m == nil {
		fs.m = map[string]*flight{}
	}
	f = &flight{done: make(chan struct{})}
	fs.m[keys[left[begin]]] = f
	return begin, f, true
}

// end says what became of a layer. One that has failed is as if nobody had begun.
func (fs *flights) end(key string, f *flight, what v1.Descriptor, where name.Repository, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.what, f.where, f.landed = what, where, err == nil
	if err != nil {
		delete(fs.m, key)
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
