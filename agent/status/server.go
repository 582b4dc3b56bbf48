package status

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Bounds of a request at one of the ports.
const (
	longestHead  = 16 << 10 // bytes of a request
	headTimeout  = 5 * time.Second
	readTimeout  = 10 * time.Second
	writeTimeout = 15 * time.Second // but for scrapes and probes, which set their own
)

// Listen opens the port on every address of the host, IPv4 and IPv6 alike: one socket has both where the kernel has. It
// tells when that is IPv4 only. node are addresses for which room is kept.
func Listen(port int, node []netip.Addr) (l net.Listener, onlyIPv4 bool, err error) {
	l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, false, err
	}
	probe, err := net.Listen("tcp6", "[::1]:0") // a kernel that has IPv6 may have no address of it
	if err == nil {
		probe.Close()
	}
	return newGate(l, node), err != nil, nil
}

// NewServer returns a server of h that no client can block or make grow: each request has its own connection, its time and
// its size. A status port has few clients, which ask seldom, and kept connections would cost memory in between.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    longestHead,
		ConnState:         hear,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	return server
}

// ListenFront opens the port of Envoy's admin, on loopback only.
func ListenFront(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return newGate(l, nil), nil
}

// frontTimeout is what an answer of Envoy's admin may take: some are long, and people are slow.
const frontTimeout = time.Minute

// NewFrontServer is NewServer, with the time that Envoy's answers may take.
func NewFrontServer(h http.Handler, log *slog.Logger) *http.Server {
	server := NewServer(h, log)
	server.WriteTimeout = frontTimeout
	return server
}
