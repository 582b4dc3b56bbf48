package lab

import (
	"net"
	"testing"
)

// Without FreePort's checks, an agent ended at its start if another test's Envoy held its status port at another
// loopback address, or had held it a moment before.
func TestReserve(t *testing.T) {
	listener, err := net.Listen("tcp", "127.77.3.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if reserve(port) == nil {
		t.Errorf("port %d is free, want it taken: another loopback address listens on it", port)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reserve(port); err != nil {
		t.Errorf("%v, want it free once nobody listens", err)
	}
	if reserve(port) == nil {
		t.Errorf("port %d is reserved twice", port)
	}
}

// Each port that an offset makes is the caller's alone.
func TestPortOffset(t *testing.T) {
	ports := []int{8080, 15010}
	offset := PortOffset(t, ports...)
	for _, port := range ports {
		if reserve(port+offset) == nil {
			t.Errorf("port %d is still free", port+offset)
		}
	}
}
