package connlimit

import "net/netip"

// Guest is a connection of a port.
type Guest struct {
	Source netip.Prefix
	Served bool // it has what it came for: its request was read, or it has a stream
}

// Served is what becomes of connections that are served when all of a source are.
type Served int

const (
	// Ends is for requests: each ends soon by itself, so the longest one is the one to doubt.
	Ends Served = iota
	// Lasts is for streams: a connection with a stream keeps it, and the newest connection leaves.
	Lasts
)

// Victim returns the index of the connection to close. The guests are ordered by age, the oldest first; the last one is
// the newcomer. It leaves only under Lasts, where all others of its source are served.
func Victim(guests []Guest, served Served) int {
	count, most := map[netip.Prefix]int{}, 0
	for _, g := range guests {
		count[g.Source]++
		most = max(most, count[g.Source])
	}
	newcomer, oldest, newest := len(guests)-1, -1, -1
	for i, g := range guests {
		switch {
		case count[g.Source] < most || i == newcomer:
		case !g.Served:
			return i
		default:
			if oldest < 0 {
				oldest = i
			}
			newest = i
		}
	}
	if served == Lasts {
		if count[guests[newcomer].Source] == most {
			return newcomer
		}
		return newest
	}
	return max(oldest, 0)
}

// SourceOf returns the range of addresses that counts as one source: a client with one IPv6 address has 2^64 of them.
func SourceOf(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	prefix, _ := a.Prefix(bits)
	return prefix
}
