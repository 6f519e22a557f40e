package freeport

import (
	"net"
	"runtime"
	"testing"
)

// Ports are given once, and neither those on which somebody listens nor those of the kernel's own choice.
func TestEachOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		address := Address(t)
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if port := l.Addr().(*net.TCPAddr).Port; port < low || port >= high {
			t.Fatalf("%s is none of this package's ports", address)
		}
		l.Close()
	}
}

// A port is held for the test that has it, and not longer.
func TestHeldForTheTest(t *testing.T) {
	var name string
	t.Run("holder", func(t *testing.T) {
		_, port, err := net.SplitHostPort(Address(t))
		if err != nil {
			t.Fatal(err)
		}
		name = "@yuba-freeport-" + port
		runtime.GC()
		if l, err := net.Listen("unix", name); err == nil {
			l.Close()
			t.Errorf("%s is not held", name)
		}
	})
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
