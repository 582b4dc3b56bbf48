package keys

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// inside are ranges that are not of the Internet, beside those that package netip knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this host
	netip.MustParsePrefix("100.64.0.0/10"),   // a carrier's own
	netip.MustParsePrefix("192.0.0.0/24"),    // of protocols
	netip.MustParsePrefix("192.0.2.0/24"),    // of documents, as the next ones
	netip.MustParsePrefix("198.51.100.0/24"), //
	netip.MustParsePrefix("203.0.113.0/24"),  //
	netip.MustParsePrefix("2001:db8::/32"),   //
	netip.MustParsePrefix("198.18.0.0/15"),   // of measurements
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // IPv4 behind a translator, as the next ones: it may be inside
	netip.MustParsePrefix("64:ff9b:1::/48"),  //
	netip.MustParsePrefix("::ffff:0:0:0/96"), //
	netip.MustParsePrefix("2002::/16"),       //
	netip.MustParsePrefix("2001::/32"),       //
	netip.MustParsePrefix("fec0::/10"),       // a site's own
	netip.MustParsePrefix("100::/64"),        // discarded
}

// Inside reports whether an address is not one of the Internet: nobody who writes a policy may have discovery ask it.
func Inside(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return true
	}
	if ip.Is6() && ip.AsSlice()[0] == 0 && ip.As16()[1] == 0 && netip.MustParsePrefix("::/96").Contains(ip) {
		return true // IPv4 in the oldest form
	}
	for _, p := range inside {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// resolver is what a dialer asks for addresses.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialer connects to addresses that it has judged itself: a name that gives other addresses to the next question leads
// nowhere else.
type dialer struct {
	resolver resolver
	inside   bool   // addresses inside are allowed
	flag     string // that allows them
	connect  func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial returns what connects to addresses of the Internet, and with inside to others too, which a flag allows.
func Dial(inside bool, flag string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dialer{net.DefaultResolver, inside, flag, (&net.Dialer{}).DialContext}.dial
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address %s: %w", address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("read address %s: port is %q, want 1 to 65535", address, port)
	}
	all, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	var last error
	for _, ip := range all {
		if !d.inside && Inside(ip) {
			last = fmt.Errorf("dial %s: %s is an address inside, which is not asked: want one of the Internet, or --%s", host, ip, d.flag)
			continue
		}
		conn, err := d.connect(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = fmt.Errorf("dial %s: %w", host, err)
	}
	if last == nil {
		last = fmt.Errorf("resolve %s: it has no address", host)
	}
	return nil, last
}
