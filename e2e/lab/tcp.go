package lab

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
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
