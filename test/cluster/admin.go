package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// adminSocket is where a test stops and starts parts, by HTTP:
//
//	POST /parts/NAME/stop   SIGTERM, and the end of the process is waited for
//	POST /parts/NAME/kill   the same with SIGKILL
//	POST /parts/NAME/start  starts it with the same arguments; does not wait
//
// lab.json has the new process ids before the answer comes.
func (c *cluster) adminSocket() string { return filepath.Join(c.dir, "admin.sock") }

// listenAdmin serves the socket. What it is asked to do is done by the goroutine
// that reads c.requests.
func (c *cluster) listenAdmin() (*http.Server, error) {
	c.requests = make(chan func())
	l, err := net.Listen("unix", c.adminSocket())
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(c.adminSocket(), 0o600); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /parts/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan error, 1)
		select {
		case c.requests <- func() { done <- c.do(r.PathValue("name"), r.PathValue("verb")) }:
		case <-r.Context().Done():
			return
		}
		if err := <-done; err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	return s, nil
}

func (c *cluster) do(name, verb string) error {
	p, err := c.find(name)
	if err != nil {
		return err
	}
	switch verb {
	case "stop":
		c.stop(p)
	case "kill":
		if p.running() {
			p.signal(syscall.SIGKILL)
			<-p.end
		}
	case "start":
		if err := c.supervisor.start(p); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is not one of stop, kill and start", verb)
	}
	return c.writeInfo()
}
