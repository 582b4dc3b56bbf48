package lab

import (
	"net"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
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

// A backend at a port of an agent would get no request.
func TestPortsOfAgentsAreNotFree(t *testing.T) {
	for _, port := range []int{15000, 15001, 15004, 15006, 15020, 15021, 15053, 15090} {
		if !model.DefaultAgentPort(uint32(port)) || reserve(port) == nil {
			t.Errorf("port %d is an agent's: %t, and is taken for free", port, model.DefaultAgentPort(uint32(port)))
		}
	}
}

// A test that listens at a port of its own choice would find it taken by an agent of another test, whose status port is at every address.
func TestPortsOfTestsAreNotFree(t *testing.T) {
	for _, port := range []int{15080, 15443, 18080, 18081, 18443, 18445, 19080, 20000} {
		if reserve(port) == nil {
			t.Errorf("port %d, which tests name, is taken for free", port)
		}
	}
}

// Each port that an offset makes is the caller's alone.
func TestDemoOffset(t *testing.T) {
	offset := DemoOffset(t)
	for _, port := range demoPorts {
		if reserve(port+offset) == nil {
			t.Errorf("port %d is still free", port+offset)
		}
	}
}
