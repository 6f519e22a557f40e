package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Mark is after how much of what a server says on a stream the next point comes,
// in bytes.
const Mark = 128

// Stream opens a front of a server that speaks anything over TCP, at
// Server.URL: host:port. A connection has a point Before it is made, and one Within
// at each Mark; the method is CONNECT. The harm is Delay, Cut or Reset. It
// returns host:port.
func (p *Proxy) Stream(s Server) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		<-p.closed
		l.Close()
	}()
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go p.carry(s, conn)
			}
		}
	}()
	return l.Addr().String(), nil
}

// carry is one connection.
func (p *Proxy) carry(s Server, client net.Conn) {
	defer client.Close()
	ctx := context.WithValue(context.Background(), connKey{}, client)
	come := func(path string, m Moment) (goes bool) {
		point := p.number(Point{Server: s.Name, Method: http.MethodConnect, Path: path})
		point.Moment = m
		harm := p.come(ctx, point)
		return !harm.Cut && !harm.Reset
	}
	if !come("begin", Before) {
		return
	}
	server, err := net.DialTimeout("tcp", s.URL, time.Minute)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		if c, ok := server.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	for mark := Mark; ; mark += Mark {
		if _, err := io.CopyN(client, server, Mark); err != nil {
			return
		}
		if !come(fmt.Sprintf("after %d bytes", mark), Within) {
			return
		}
	}
}
