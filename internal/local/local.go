package local

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

var (
	four = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	six  = netip.IPv6Loopback()
)

// Address reports whether a connection from a comes from a program on this host.
func Address(a netip.Addr) bool {
	a = a.Unmap()
	return a == four || a == six
}

// Peer is Address for HOST:PORT, the form of net/http's RemoteAddr and net.Addr's String; any other text is not local.
func Peer(address string) bool {
	peer, err := netip.ParseAddrPort(address)
	return err == nil && Address(peer.Addr())
}

// Host reports whether host, with a port or without, is a local name of a server on this host: localhost, or any
// loopback address, since a server may listen on another one than 127.0.0.1. It proves nothing about the sender, but
// refuses a web page whose name was made to resolve to this host.
func Host(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Request returns why r is not from a program on this host: its address, its Host, a browser with a page of another
// site, or a proxy that forwards requests of other clients. A browser that shows the server's own pages is local.
func Request(r *http.Request) error {
	switch {
	case !Peer(r.RemoteAddr):
		return fmt.Errorf("asked from %s, want 127.0.0.1 or ::1", r.RemoteAddr)
	case !Host(r.Host):
		return fmt.Errorf("asked as host %q, want localhost or a loopback address", r.Host)
	case r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "":
		return fmt.Errorf("passed on by a proxy")
	}
	return SameOrigin(r)
}

// SameOrigin returns an error for a request that a browser sends for a page of another site.
func SameOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || u.Host != r.Host {
			return fmt.Errorf("asked by a page of %q", origin)
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		return fmt.Errorf("asked by a page of another site (Sec-Fetch-Site: %s)", site)
	}
}
