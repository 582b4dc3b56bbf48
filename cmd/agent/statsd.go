package main

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// lookupLimit is what a start may lose to a name of statsd.
const lookupLimit = 2 * time.Second

// resolveStatsd puts an address in the place of a name, which Envoy does not look up for what it sends over UDP. A proxy
// without statistics is better than none: a name that nobody knows is told, and left out.
func (p *proxy) resolveStatsd(ctx context.Context, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) {
	s := p.settings
	address := addressIn(s.statsdUDPAddress)
	if !address.IsSet() || address.IsIP() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := lookup(ctx, "ip", address.Host)
	if err != nil || len(found) == 0 {
		p.log.Warn("go on without statsd: nobody knows its name", "address", s.statsdUDPAddress, "error", err)
		s.statsdUDPAddress = ""
		return
	}
	s.statsdUDPAddress = net.JoinHostPort(found[0].Unmap().String(), strconv.Itoa(address.Port))
}
