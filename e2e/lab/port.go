package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// FreePort returns a TCP port on which no process listens, at any address, and which no other call returns, in this
// process or in another one, while this process runs. It is below the ports that the kernel gives to outgoing
// connections, since such a connection could take it before the caller listens on it.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(22_000)
		if err = reserve(port); err == nil {
			return port, nil
		}
	}
	return 0, err
}

// Port is FreePort for a test; it ends the test if there is no free port.
func Port(t testing.TB) int {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// demoPorts are those of the demo before its offset: of discovery, of each sidecar's outbound HTTP, of each agent's front, and of Consul.
var demoPorts = []int{
	8080, 15010, 15012, 15014, 15101, 15102, 15103, 15104, 15105, 15201, 15202, 15203, 15204, 15205, 15206, 8500, 8300, 8301,
}

// DemoOffset returns a -port-offset of the demo that makes each of its ports one as FreePort returns it.
func DemoOffset(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		offset := 1000 + rand.IntN(14_000)
		err = nil
		for _, port := range demoPorts {
			err = errors.Join(err, reserve(port+offset))
		}
		if err == nil {
			return offset
		}
	}
	t.Fatal(err)
	return 0
}

// fixed reports whether a port is one that an agent has without settings, or that a test names at addresses of its own: another
// test may listen there at any moment.
func fixed(port int) bool {
	return 15_000 <= port && port < 15_500 || 18_000 <= port && port < 21_000
}

// reserve fails for a port on which a process listens, even at only one loopback address: an agent's status port
// listens at every address. It also fails for a port that was reserved before, since its user may not listen on it at
// this moment: an abstract socket, open until the process ends, marks the port as taken.
func reserve(port int) error {
	if fixed(port) {
		return fmt.Errorf("reserve port %d: agents or tests have it", port)
	}
	mark, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("reserve port %d: %w", port, err)
	}
	if err := unix.Bind(mark, &unix.SockaddrUnix{Name: fmt.Sprintf("@pilotlight-test-port-%d", port)}); err != nil {
		unix.Close(mark)
		return fmt.Errorf("reserve port %d: %w", port, err)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		unix.Close(mark)
		return err
	}
	return listener.Close()
}
