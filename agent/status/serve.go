package status

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
)

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
}

// Serve opens the ports, and the owner's socket at a path. A busy port is an error if the port was set; a busy default port is
// not, since two agents with default settings may share a host. The listeners are closed when stop returns.
func Serve(c Config, ports Ports, path string) (stop func(), err error) {
	var servers []*http.Server
	var serving sync.WaitGroup
	stop = func() {
		for _, server := range servers {
			server.Close()
		}
		serving.Wait()
	}
	start := func(at string, listener net.Listener, server *http.Server) {
		servers = append(servers, server)
		serving.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				c.Log.Error("port no longer served", "at", at, "err", err)
			}
		})
	}
	for _, door := range []struct {
		OwnPort
		open func(port int) (net.Listener, *http.Server, error)
	}{{ports.Admin, c.openFront}, {ports.Status, func(port int) (net.Listener, *http.Server, error) { return c.openStatus(port, ports.HostIP) }}} {
		if door.Number == 0 {
			continue
		}
		listener, server, err := door.open(door.Number)
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
	socket, err := ListenOwner(path, c.Envoys.RefuseOwn)
	if err != nil {
		c.Log.Warn("owner's socket not opened", "err", err)
		return stop, nil
	}
	start(SocketName, socket, NewFrontServer(Owner(c, c.Envoy), c.Log))
	return stop, nil
}

func (c Config) openFront(port int) (net.Listener, *http.Server, error) {
	listener, err := ListenFront(port)
	return listener, NewFrontServer(c.front(), c.Log), err
}

func (c Config) openStatus(port int, hostIP string) (net.Listener, *http.Server, error) {
	listener, onlyIPv4, err := Listen(port, NodeAddresses(os.DirFS("/"), hostIP))
	if err == nil && onlyIPv4 {
		c.Log.Info("no IPv6 here: the status port is on IPv4 only", "port", port)
	}
	return listener, NewServer(Handler(c), c.Log), err
}
