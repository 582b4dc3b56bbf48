package status

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
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

// OwnPort is a port of the agent.
type OwnPort struct {
	Name   string // of its setting, for messages: "--statusPort"
	Number int    // 0 for none
	Given  bool   // it was set, and is not the default
}

// Ports are the ports of an agent.
type Ports struct {
	Status OwnPort // on every address
	Admin  OwnPort // on loopback, forwards to Envoy's admin
	HostIP string  // of the Kubernetes node, for whose probes connections are reserved; empty if not known

	// Inherited are sockets that another image of the agent has opened, by a port's Name or SocketName. Keep is called for each
	// listener when the ports are closed, and reports whether its socket is kept for another image: then the requests that are
	// under way are answered. Both may be nil.
	Inherited map[string]net.Listener
	Keep      func(name string, l net.Listener) bool
	Unchanged func(why string) // a port that another image has opened stays, since the one that is set cannot be had; may be nil
}

func (p Ports) unchanged(why string) {
	if p.Unchanged != nil {
		p.Unchanged(why)
	}
}

// still returns an inherited listener if it has the port that is set.
func (p OwnPort) still(inherited net.Listener) net.Listener {
	if inherited == nil || numberOf(inherited) != p.Number {
		return nil
	}
	return inherited
}

func numberOf(l net.Listener) int {
	if address, is := l.Addr().(*net.TCPAddr); is {
		return address.Port
	}
	return 0
}

// Serve opens the ports, and the owner's socket at a path. A busy port is an error if the port was set; a busy default port is
// not, since two agents with default settings may share a host. The listeners are closed when stop returns.
func Serve(c Config, ports Ports, path string) (stop func(), err error) {
	var servers []*http.Server
	opened := map[string]*served{}
	var serving sync.WaitGroup
	stop = func() {
		var kept []*served
		for at, p := range opened {
			if ports.Keep != nil && ports.Keep(at, p.listener) {
				kept = append(kept, p)
			}
		}
		finish(kept)
		for _, server := range servers {
			server.Close()
		}
		serving.Wait()
	}
	start := func(at string, listener net.Listener, server *http.Server) {
		accepted := make(chan struct{})
		servers, opened[at] = append(servers, server), &served{listener, accepted}
		serving.Go(func() {
			defer close(accepted)
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				c.Log.Error("port no longer served", "at", at, "err", err)
			}
		})
	}
	for _, door := range []struct {
		OwnPort
		open func(port int, inherited net.Listener) (net.Listener, *http.Server, error)
	}{{ports.Admin, c.openFront}, {ports.Status, func(port int, inherited net.Listener) (net.Listener, *http.Server, error) {
		return c.openStatus(port, ports.HostIP, inherited)
	}}} {
		inherited := ports.Inherited[door.Name]
		if door.Number == 0 {
			if inherited != nil {
				inherited.Close()
			}
			continue
		}
		listener, server, err := door.open(door.Number, door.still(inherited))
		if before := inherited != nil && door.still(inherited) == nil; before && err == nil {
			inherited.Close()
		} else if before {
			c.Log.Warn("port not changed", "flag", door.Name, "err", err)
			ports.unchanged(fmt.Sprintf("%s %d: %v: agent upgrade again when it is free; until then port %d is served", door.Name, door.Number, err, numberOf(inherited)))
			listener, server, err = door.open(door.Number, inherited)
		}
		switch {
		case err != nil && door.Given:
			stop()
			return nil, fmt.Errorf("%s: %w: name a free port, or 0 for none", door.Name, err)
		case err != nil:
			c.Log.Warn("port not opened", "flag", door.Name, "err", err)
			continue
		}
		start(door.Name, listener, server)
	}
	at := Place{Path: path, Refuse: c.Envoys.RefuseOwn, Remake: c.Remake, Log: c.Log}
	if inherited := ports.Inherited[SocketName]; inherited != nil {
		start(SocketName, InheritOwner(inherited, at), NewFrontServer(Owner(c, c.Envoy), c.Log))
		return stop, nil
	}
	socket, err := ListenOwner(at)
	if err != nil {
		c.Log.Warn("owner's socket not opened", "err", err)
		return stop, nil
	}
	start(SocketName, socket, NewFrontServer(Owner(c, c.Envoy), c.Log))
	return stop, nil
}

func (c Config) openFront(port int, inherited net.Listener) (net.Listener, *http.Server, error) {
	server := NewFrontServer(c.front(), c.Log)
	if inherited != nil {
		return newGate(inherited, nil), server, nil
	}
	listener, err := ListenFront(port)
	return listener, server, err
}

func (c Config) openStatus(port int, hostIP string, inherited net.Listener) (net.Listener, *http.Server, error) {
	node := NodeAddresses(os.DirFS("/"), hostIP)
	if inherited != nil {
		return newGate(inherited, node), NewServer(Handler(c), c.Log), nil
	}
	listener, onlyIPv4, err := Listen(port, node)
	if err == nil && onlyIPv4 {
		c.Log.Info("no IPv6 here: the status port is on IPv4 only", "port", port)
	}
	return listener, NewServer(Handler(c), c.Log), err
}
