// Package freeport gives tests addresses on which nobody listens: for servers that can't listen by themselves on a
// port that the kernel chooses, or must come back on the one that they had, and for clients that shall find nobody.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// The ports are below those which the kernel gives to outgoing connections and to listeners without a port (32768 and
// up on Linux: ip_local_port_range), and below those of the test cluster (10000 and up). A port that the kernel has
// given once, by listening on port 0 and closing, can be an outgoing connection's a moment later.
const low, high = 2000, 10000

// Address is "127.0.0.1:PORT", on which nobody listens. Nobody else gets it from this package until the test ends.
func Address(t testing.TB) string {
	t.Helper()
	return On(t, "127.0.0.1")
}

// On is as [Address], with another IP address of this machine.
func On(t testing.TB, host string) string {
	t.Helper()
	for range high - low {
		port := low + rand.IntN(high-low)
		// An abstract socket holds the port against the other test programs, and is as wide as ports are: one network
		// namespace.
		held, err := net.Listen("unix", fmt.Sprintf("@yuba-freeport-%d", port))
		if err != nil {
			continue
		}
		t.Cleanup(func() { held.Close() })
		address := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		return address
	}
	t.Fatalf("no port from %d to %d is free on %s", low, high-1, host)
	return ""
}
