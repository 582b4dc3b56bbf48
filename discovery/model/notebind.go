package model

import (
	"fmt"
	"strings"
)

// Unbound is a listener that an Envoy does not open.
type Unbound struct {
	Name string // of the listener
	Text string // Envoy's words
}

// unbound returns the listeners that a proxy cannot open, since the kernel does not let it. They are looked up each time, since they change.
func unbound(w Proxy) (out []finding) {
	for _, l := range w.Unbound {
		address, why := bindFault(l.Text)
		if address == "" {
			continue
		}
		out = append(out, finding{CannotBind, "listener " + l.Name, fmt.Sprintf("is not opened by this connected Envoy at %s: %s", address, remedyOf(why))})
	}
	return out
}

// bindFault reads the address and the cause out of what Envoy says: "… cannot bind '10.0.0.1:80': Address already in use". "" if it says another thing.
func bindFault(text string) (address, why string) {
	_, rest, found := strings.Cut(text, "cannot bind '")
	address, why, quoted := strings.Cut(rest, "'")
	if !found || !quoted {
		return "", ""
	}
	return address, strings.TrimSpace(strings.TrimPrefix(why, ":"))
}

// remedyOf says what a cause means. It begins with the kernel's words, and Envoy may have added its own.
func remedyOf(why string) string {
	switch {
	case strings.HasPrefix(why, "Address already in use"):
		return "another process holds the port (ss -ltnp there names it), and gets what is meant for the proxy; want it ended, or this port in no Service, ServiceEntry, Gateway or " +
			"HTTP_PROXY_PORT of the proxy, and then a start of the proxy"
	case strings.HasPrefix(why, "Permission denied"):
		return "its user may not open ports below 1024; want a port from there on, the capability NET_BIND_SERVICE, or a lower net.ipv4.ip_unprivileged_port_start"
	case strings.HasPrefix(why, "Cannot assign requested address"):
		return "its host does not have this address; want an address of the host in --ip of its agent, in the Sidecar's or Gateway's bind, or in the endpoint"
	}
	return why
}
