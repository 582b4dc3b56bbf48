package explain

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// hostFor returns the virtual host of a request, and the domain of it that matches: the host itself, else the longest
// "*suffix", else the longest "prefix*", else "*".
func hostFor(c *routev3.RouteConfiguration, host string) (*routev3.VirtualHost, string) {
	if c.IgnorePortInHostMatching {
		host, _ = splitPort(host)
	}
	host = strings.ToLower(host)
	var best *routev3.VirtualHost
	domain, rank := "", 0
	for _, h := range c.VirtualHosts {
		for _, d := range h.Domains {
			if r := rankOf(strings.ToLower(d), host); r > rank {
				best, domain, rank = h, d, r
			}
		}
	}
	return best, domain
}

const (
	anyHost    = 1
	prefixHost = 1 << 16 // plus the length of the domain, which Envoy bounds
	suffixHost = 1 << 20
	exactHost  = 1 << 24
)

// rankOf returns how much a domain is preferred for a host, 0 if it does not match. A wildcard stands for one character at least.
func rankOf(domain, host string) int {
	suffix, ends := strings.CutPrefix(domain, "*")
	prefix, begins := strings.CutSuffix(domain, "*")
	switch {
	case domain == host:
		return exactHost
	case domain == "*":
		return anyHost
	case ends && len(host) > len(suffix) && strings.HasSuffix(host, suffix):
		return suffixHost + len(domain)
	case begins && len(host) > len(prefix) && strings.HasPrefix(host, prefix):
		return prefixHost + len(domain)
	}
	return 0
}
