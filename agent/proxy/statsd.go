package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/bootstrap"
)

// lookupLimit bounds the time that a start waits for the resolution of statsd's name.
const lookupLimit = 2 * time.Second

// resolveStatsd replaces a name by an address, since Envoy does not resolve names for UDP sinks. A name that cannot be
// resolved is logged and left out, since a proxy without statistics is better than no proxy.
func resolveStatsd(
	ctx context.Context, address bootstrap.Address, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error), log *slog.Logger,
) bootstrap.Address {
	if !address.IsSet() || address.IsIP() {
		return address
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	found, err := lookup(ctx, "ip", address.Host)
	if err != nil || len(found) == 0 {
		log.Warn("statsd not used: its name cannot be resolved", "address", net.JoinHostPort(address.Host, strconv.Itoa(address.Port)), "err", err)
		return bootstrap.Address{}
	}
	return bootstrap.Address{Host: found[0].Unmap().String(), Port: address.Port}
}
