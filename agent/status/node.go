package status

import (
	"encoding/hex"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
)

// NodeAddresses returns the addresses from which a kubelet may send probes: the gateways of the default routes, and
// hostIP, the host's address in the environment, which may be empty.
func NodeAddresses(root fs.FS, hostIP string) (node []netip.Addr) {
	if ip, err := netip.ParseAddr(hostIP); err == nil {
		node = append(node, ip.Unmap())
	}
	four, _ := fs.ReadFile(root, "proc/net/route")
	for line := range strings.Lines(string(four)) { // Iface Destination Gateway …, of which the numbers are little-endian
		if f := strings.Fields(line); len(f) > 2 && f[1] == "00000000" {
			node = appendGateway(node, f[2], true)
		}
	}
	six, _ := fs.ReadFile(root, "proc/net/ipv6_route")
	for line := range strings.Lines(string(six)) { // destination, its length, source, its length, next hop …
		if f := strings.Fields(line); len(f) > 4 && f[1] == "00" {
			node = appendGateway(node, f[4], false)
		}
	}
	return node
}

func appendGateway(node []netip.Addr, text string, reversed bool) []netip.Addr {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return node
	}
	if reversed {
		slices.Reverse(raw)
	}
	if ip, ok := netip.AddrFromSlice(raw); ok && !ip.IsUnspecified() && !slices.Contains(node, ip) {
		node = append(node, ip)
	}
	return node
}
