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

// lookupLimit is what a start may lose to a name of statsd.
const lookupLimit = 2 * time.Second

// resolveStatsd returns an address in the place of a name, which Envoy does not look up for what it sends over UDP. A proxy
// without statistics is better than none: a name that no resolver knows is logged, and left out.
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
		log.Warn("go on without statsd: its name cannot be resolved", "address", net.JoinHostPort(address.Host, strconv.Itoa(address.Port)), "err", err)
		return bootstrap.Address{}
	}
	return bootstrap.Address{Host: found[0].Unmap().String(), Port: address.Port}
}
