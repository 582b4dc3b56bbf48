package plane

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

// listeners are the listeners of the served addresses; secure, monitoring and webhooks are nil if they are not
// configured.
type listeners struct {
	grpc, web, secure, monitoring, webhooks net.Listener

	tls *ads.TLS
}

// listen opens all of them, or none, and returns every error. own is what the secure port has besides.
func listen(c Config, own *ads.Own) (l listeners, err error) {
	var faults []error
	open := func(wanted bool, flag, address string) net.Listener {
		if !wanted {
			return nil
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", flag, err))
			return nil
		}
		return l
	}
	at := c.Addresses
	l.grpc = open(true, "--grpcAddr", at.GRPC)
	l.web = open(true, "--httpAddr", at.HTTP)
	l.monitoring = open(at.Monitoring != "", "--monitoringAddr", at.Monitoring)
	l.secure = open(c.secure(), "--secureGRPCAddr", at.SecureGRPC)
	l.webhooks = open(c.Webhooks.Used(), "--webhookAddr", at.Webhooks)
	if c.secure() {
		if l.tls, err = ads.NewTLS(c.Certificates, own); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		l.close()
		return listeners{}, err
	}
	return l, nil
}

// close closes the open listeners. No connection has been accepted by then.
func (l listeners) close() {
	for _, l := range []net.Listener{l.grpc, l.web, l.monitoring, l.secure, l.webhooks} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// addressOf returns the address of a listener, "" for none.
func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// certified returns the addresses at which callers are admitted by certificates, as IP:PORT with commas: each address of the machine where
// the listener has all.
func (l listeners) certified() string {
	if l.secure == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(l.secure.Addr().String())
	if err != nil || !at.Addr().IsUnspecified() {
		return l.secure.Addr().String()
	}
	var out []string
	all, _ := net.InterfaceAddrs() // without them the handshake still refuses such connections
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, netip.AddrPortFrom(p.Addr(), at.Port()).String())
		}
	}
	return strings.Join(out, ",")
}
