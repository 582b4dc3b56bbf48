package model

import "net/netip"

// Address returns an IP address, or a CIDR range, in its canonical spelling: IPv6 has several spellings, and Envoy
// treats them as the same address. Any other string is returned unchanged.
func Address(s string) string {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.String()
	}
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.String()
	}
	return s
}
