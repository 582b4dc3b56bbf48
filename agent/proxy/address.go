package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/identity"
)

// addressStep is the time between two reads of the addresses.
const addressStep = 100 * time.Millisecond

// awaitPrivate calls list until the result has a private address, the limit is over, or ctx ends. It returns the last
// result.
func awaitPrivate(ctx context.Context, list func() ([]netip.Addr, error)) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, identity.AddressLimit)
	defer cancel()
	for {
		addresses, err := list()
		if err != nil || slices.ContainsFunc(addresses, netip.Addr.IsPrivate) {
			return addresses, err
		}
		select {
		case <-ctx.Done():
			return addresses, nil
		case <-time.After(addressStep):
		}
	}
}

// hostAddresses lists the addresses of every interface that is up and not loopback: interfaces by the kernel's number,
// and for each of them IPv4 first.
func hostAddresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	// Sorted by their numbers: a sort of the interfaces themselves would add 10 KB to the agent, as one of addresses would below.
	numbered, numbers := map[int]net.Interface{}, []int(nil)
	for _, i := range interfaces {
		numbered[i.Index], numbers = i, append(numbers, i.Index)
	}
	slices.Sort(numbers)
	var out []netip.Addr
	for _, n := range numbers {
		i := numbered[n]
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of interface %s: %w", i.Name, err)
		}
		out = append(out, usable(addresses)...)
	}
	return out, nil
}

// usable returns those of an interface's addresses that another machine can use, IPv4 first.
func usable(addresses []net.Addr) []netip.Addr {
	var four, six []netip.Addr
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			if address := prefix.Addr().Unmap(); address.Is4() {
				four = append(four, address)
			} else {
				six = append(six, address)
			}
		}
	}
	return append(four, six...)
}
