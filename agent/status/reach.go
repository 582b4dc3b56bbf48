package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// loopback has the addresses of an application on this host that does not listen on all addresses.
var loopback = []string{"127.0.0.1", "::1"}

// reach returns the addresses to try for the application. Without a host the proxy's own address is the first, where the kubelet
// would send the probe: many programs listen there only. Loopback follows, for programs that listen only there, behind
// their proxy. own is empty if the proxy's address is not one of this host.
func reach(host, own string) (addresses []string) {
	switch {
	case host == "localhost":
		return loopback
	case host != "":
		return []string{host}
	case own == "" || slices.Contains(loopback, own):
		return loopback
	}
	return append([]string{own}, loopback...)
}

// sourceOf returns the address from which to connect to an address of this host, nil for any. From 127.0.0.6 and ::6,
// Envoy's own source addresses for inbound traffic, connections to the pod's address are not redirected to Envoy, whose
// listener would want TLS.
func sourceOf(address string) net.Addr {
	to, err := netip.ParseAddr(address)
	switch {
	case err != nil || to.IsLoopback():
		return nil
	case to.Unmap().Is4():
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 6)}
	}
	return &net.TCPAddr{IP: net.ParseIP("::6")}
}

// dialFirst connects to the first address that accepts the connection. An address whose source is missing, as ::6 is on
// hosts without redirection, is tried last, from any source. If none accepts, the error is that of the first one, and
// names the others.
func dialFirst(ctx context.Context, addresses []string, port string) (net.Conn, error) {
	var first error
	var later []string
	for _, address := range addresses {
		conn, err := (&net.Dialer{LocalAddr: sourceOf(address)}).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, unix.EADDRNOTAVAIL) && sourceOf(address) != nil {
			later = append(later, address)
			continue
		}
		first = cmp.Or(first, err)
	}
	for _, address := range later {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
		first = cmp.Or(first, err)
	}
	if len(addresses) > 1 {
		first = fmt.Errorf("%w, nor at %s", first, strings.Join(addresses[1:], ", "))
	}
	return nil, first
}
