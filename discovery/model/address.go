package model

import "net/netip"

// Address returns an IP address, or a range of them, in its one form: IPv6 has several spellings, and Envoy knows them for
// the same. Anything else is returned as it is.
func Address(s string) string {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.String()
	}
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.String()
	}
	return s
}
