package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// ports hands out loopback ports that nobody listens on. They are taken from
// below the range from which the kernel serves outgoing connections and
// listeners without a port, so that a port stays free until its part listens,
// also while that part is stopped for a time.
type ports struct {
	given map[int]bool
}

// next gives "127.0.0.1:PORT", never the same one twice.
func (p *ports) next() (string, error) {
	const low = 10000
	high := 32768
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var first, last int
		if _, err := fmt.Sscan(string(data), &first, &last); err == nil && first > low+1000 {
			high = first
		}
	}
	if p.given == nil {
		p.given = map[int]bool{}
	}
	for range 1000 {
		port := low + rand.IntN(high-low)
		if p.given[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		l.Close()
		p.given[port] = true
		return address, nil
	}
	return "", errors.New("no free port on loopback")
}

// hostOf gives the host of "HOST:PORT".
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// portOf gives the port of "HOST:PORT".
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
