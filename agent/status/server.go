package status

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/agent/metrics"
)

// Bounds of a request at one of the ports.
const (
	longestHead  = 16 << 10 // bytes of a request
	headTimeout  = 5 * time.Second
	readTimeout  = 10 * time.Second
	writeTimeout = 15 * time.Second // except for scrapes and probes, which set their own
)

// Listen opens the port on every address of the host, IPv4 and IPv6, with one socket if the kernel has both. onlyIPv4
// is true if the port is open for IPv4 only. Connections are reserved for the addresses in node.
func Listen(port int, node []netip.Addr) (l net.Listener, onlyIPv4 bool, err error) {
	l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, false, err
	}
	probe, err := net.Listen("tcp6", "[::1]:0") // a kernel with IPv6 may have no IPv6 address
	if err == nil {
		probe.Close()
	}
	return newGate(l, node), err != nil, nil
}

// NewServer returns a server of h that no client can block, and whose memory no client can increase: each request has
// its own connection, and limits of time and size. A status port has few clients with rare requests, and kept
// connections would cost memory in between.
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

// frontTimeout is how long an answer of Envoy's admin may take.
const frontTimeout = metrics.EnvoyTimeout

// NewFrontServer is NewServer with the time limit for answers of Envoy's admin.
func NewFrontServer(h http.Handler, log *slog.Logger) *http.Server {
	server := NewServer(h, log)
	server.WriteTimeout = frontTimeout
	return server
}
