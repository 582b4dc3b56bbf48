package connlimit

import (
	"net/netip"
	"strings"
	"testing"
)

func TestVictim(t *testing.T) {
	for name, test := range map[string]struct {
		guests      string // source, and whether it is served; the oldest first, then the newcomer
		ends, lasts int
	}{
		"silent, the oldest":            {"a a+ a a", 0, 0},
		"an older one is served":        {"a+ a a", 1, 1},
		"of the greediest":              {"a b b+ b a", 1, 1},
		"all are served":                {"a b+ b+ b+ a", 1, 3},
		"the newcomer's are served":     {"a+ a+ b+ a", 0, 3},
		"others' silence is no excuse":  {"b a+ a+ b a+ a", 1, 5},
		"a newcomer never for a silent": {"a a", 0, 0},
		"equal sources: the silent one": {"a+ b c+ d", 1, 1},
		"equal sources, all served":     {"a+ b+ c+ d", 0, 3},
		"another one's is not taken":    {"b+ a+ a+ a+ b", 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var guests []Guest
			for _, word := range strings.Fields(test.guests) {
				guests = append(guests, Guest{SourceOf(netip.AddrFrom4([4]byte{10, 0, 0, word[0]})), word != word[:1]})
			}
			if got := Victim(guests, Ends); got != test.ends {
				t.Errorf("of requests %d leaves, want %d", got, test.ends)
			}
			if got := Victim(guests, Lasts); got != test.lasts {
				t.Errorf("of streams %d leaves, want %d", got, test.lasts)
			}
		})
	}
}

// An address of IPv4 is a source; of IPv6 it is the network of a host.
func TestSourceOf(t *testing.T) {
	same := func(a, b string) bool { return SourceOf(netip.MustParseAddr(a)) == SourceOf(netip.MustParseAddr(b)) }
	if same("10.0.0.1", "10.0.0.2") || !same("fd00::1", "fd00::2") || same("fd00::1", "fd00:0:0:1::1") {
		t.Error("want each address of IPv4, and each /64 of IPv6, to be one source")
	}
	if SourceOf(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("want no source of no address")
	}
}
