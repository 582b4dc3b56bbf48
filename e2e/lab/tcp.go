package lab

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// AnswerEach answers each connection of a listener, and then closes it, until the listener is closed.
func AnswerEach(l net.Listener, answer func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			answer(c)
		}()
	}
}

// SayBack is an answer: what the client says.
func SayBack(c net.Conn) { _, _ = io.Copy(c, c) }

// Doubling starts a server of TCP on 127.0.0.1 that answers what it reads with the same bytes, twice, and returns its port.
func Doubling(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go AnswerEach(l, func(c net.Conn) {
		for part := make([]byte, 100); ; {
			n, err := c.Read(part)
			if err != nil {
				return
			}
			_, _ = c.Write(bytes.Repeat(part[:n], 2))
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// Talk connects to host:port, sends five bytes to a doubling server, reads its ten, and returns the connection.
func Talk(to string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", to, StopLimit)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(StopLimit))
	if _, err = c.Write([]byte("hello")); err == nil {
		_, err = io.ReadFull(c, make([]byte, 10))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Presents makes a TLS handshake with address, and returns an error unless the server presents the certificate with this
// serial number. config has the server's name and the roots.
func Presents(address string, config *tls.Config, serial int64) error {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
		return fmt.Errorf("%s presents certificate %d for %s, want %d", address, got, config.ServerName, serial)
	}
	return nil
}

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
