// Package rollout breaks the way to the API server, and the API server itself,
// while a rollout is waited for: the verdict must not depend on it.
package rollout

import (
	"net"
	"sync"
)

// wire carries connections to a server, and can lose what they carry: then
// nobody learns that they are dead, as when a cable is pulled.
type wire struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	mended  chan struct{} // closed unless the cable is out
	forgets chan struct{} // closed when the connections that there are get lost for good
	conns   []net.Conn
}

// newWire listens on loopback. Close it.
func newWire(server string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{listener: l, server: server, mended: make(chan struct{}), forgets: make(chan struct{})}
	close(w.mended)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w, nil
}

// Addr is what takes the place of the server's address.
func (w *wire) Addr() string { return w.listener.Addr().String() }

// Close ends the wire and all that it carries.
func (w *wire) Close() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
}

// Pull pulls the cable: nothing gets through until Plug.
func (w *wire) Pull() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mended = make(chan struct{})
}

// Plug puts the cable back: what was on its way goes on.
func (w *wire) Plug() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.mended)
}

// Forget is a firewall that forgets its connections: those that there are carry
// nothing any more and are never closed. New ones are fine.
func (w *wire) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.forgets)
	w.forgets = make(chan struct{})
}

func (w *wire) state() (mended, forgets chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mended, w.forgets
}

func (w *wire) carry(client net.Conn) {
	_, forgets := w.state()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	go w.pipe(server, client, forgets)
	w.pipe(client, server, forgets)
}

// pipe copies what one end says to the other.
func (w *wire) pipe(to, from net.Conn, forgets chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-forgets:
			// Neither end hears of it; Close ends both.
			return
		default:
		}
		mended, _ := w.state()
		<-mended
		if n > 0 && err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
	}
}
