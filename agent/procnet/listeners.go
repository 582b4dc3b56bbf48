package procnet

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Envoy's listeners have SO_REUSEPORT, so that one epoch can follow another. Envoys of two agents of one user may so
// listen on the same address without a word, and the kernel deals out the connections between them.

// Listener is a TCP socket that listens.
type Listener struct {
	Address netip.AddrPort
	Inode   uint32
}

// Listeners asks the kernel for the listening sockets of this network namespace. The answer does not grow with the
// number of connections.
func Listeners() (out []Listener, err error) {
	err = Sockets(1<<listening, func(s Socket) { out = append(out, Listener{s.Address, s.Inode}) })
	return out, err
}

// Shared returns the first address on which one of own listens and a socket that is none of them; listens is false
// while none of own listens.
func Shared(all []Listener, own map[string]bool) (found Listener, listens bool) {
	mine := map[netip.AddrPort]bool{}
	for _, l := range all {
		if own[strconv.FormatUint(uint64(l.Inode), 10)] {
			mine[l.Address] = true
		}
	}
	for _, l := range all {
		first := !found.Address.IsValid() || l.Address.Compare(found.Address) < 0
		if first && mine[l.Address] && !own[strconv.FormatUint(uint64(l.Inode), 10)] {
			found = l
		}
	}
	return found, len(mine) > 0
}

// AddressesOf returns the TCP addresses at which a process listens.
func AddressesOf(pid int) (out []netip.AddrPort, err error) {
	all, err := Listeners()
	if err != nil {
		return nil, err
	}
	own, err := SocketsOf(pid)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if own[strconv.FormatUint(uint64(l.Inode), 10)] && !slices.Contains(out, l.Address) {
			out = append(out, l.Address)
		}
	}
	return out, nil
}

// TakerOf names the process that listens at an address.
func TakerOf(a netip.AddrPort) string {
	all, err := Listeners()
	if err != nil {
		return "it is in use"
	}
	for _, l := range all {
		if l.Address.Port() == a.Port() &&
			(l.Address.Addr() == a.Addr() || l.Address.Addr().IsUnspecified() || a.Addr().IsUnspecified()) {
			return HolderOf(l.Inode) + " does"
		}
	}
	return "it was in use, and is free"
}

// Migrates reports whether the kernel moves connections that wait for a closed listener to another one of the port.
func Migrates() bool {
	value, err := os.ReadFile("/proc/sys/net/ipv4/tcp_migrate_req")
	return err == nil && strings.TrimSpace(string(value)) == "1"
}
