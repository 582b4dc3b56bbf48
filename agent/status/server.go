package status

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of the status port.
const (
	connections  = 64       // at once; the others wait in the kernel's queue
	longestHead  = 16 << 10 // bytes of a request
	headTimeout  = 5 * time.Second
	readTimeout  = 10 * time.Second
	writeTimeout = 15 * time.Second // but for scrapes and probes, which set their own
)

// Listen opens the port on every address of the host, IPv4 and IPv6 alike: one socket has both where the kernel has. It
// tells when that is IPv4 only.
func Listen(port int) (l net.Listener, onlyIPv4 bool, err error) {
	l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, false, err
	}
	probe, err := net.Listen("tcp6", "[::1]:0") // a kernel that has IPv6 may have no address of it
	if err == nil {
		probe.Close()
	}
	return &bounded{Listener: l, slots: make(chan struct{}, connections)}, err != nil, nil
}

// NewServer returns a server of h that nobody can make wait or grow: each request has its own connection, its time and
// its size. A status port has few clients, which ask seldom, and kept connections would cost memory in between.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    longestHead,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

// bounded accepts a connection only while there are not too many.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.slots <- struct{}{}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slotted{Conn: conn, release: sync.OnceFunc(func() { <-b.slots })}, nil
}

// slotted gives its place up when it is closed.
type slotted struct {
	net.Conn
	release func()
}

func (s *slotted) Close() error {
	err := s.Conn.Close()
	s.release()
	return err
}
