package envoy

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

func TestPast(t *testing.T) {
	own := map[netip.Addr]bool{netip.MustParseAddr("10.0.0.1"): true, netip.MustParseAddr("fd00::1"): true, netip.MustParseAddr("10.9.0.1"): true}
	for name, test := range map[string]struct {
		at, from              string
		ended                 bool
		redirect, transparent bool
	}{
		"a client":                {"10.0.0.1:8080", "10.0.0.7:1", false, true, true},
		"one of IPv6":             {"[fd00::1]:8080", "[fd00::7]:1", false, true, true},
		"one that has ended":      {"10.0.0.1:8080", "10.0.0.7:1", true, true, false},
		"Envoy":                   {"10.0.0.1:8080", "127.0.0.6:1", false, false, false},
		"Envoy, by IPv6":          {"[fd00::1]:8080", "[::6]:1", false, false, false},
		"a program here":          {"127.0.0.1:8080", "127.0.0.1:1", false, false, false},
		"by IPv6":                 {"[::1]:8080", "[::1]:1", false, false, false},
		"by its own address":      {"10.0.0.1:8080", "10.0.0.1:1", false, false, false},
		"by another own address":  {"10.0.0.1:8080", "10.9.0.1:1", false, false, false},
		"by one that is not told": {"10.8.0.1:8080", "10.8.0.1:1", false, false, false},
	} {
		s := procnet.Socket{Address: netip.MustParseAddrPort(test.at), Peer: netip.MustParseAddrPort(test.from), Inode: 7}
		if test.ended {
			s.Inode = 0
		}
		redirect, transparent := (&Redirection{}).past(s, own), (&Redirection{Transparent: true}).past(s, own)
		if redirect != test.redirect || transparent != test.transparent {
			t.Errorf("%s: REDIRECT %t, TPROXY %t, want %t and %t", name, redirect, transparent, test.redirect, test.transparent)
		}
	}
}

func TestPassedIn(t *testing.T) {
	got := passedIn(parseStats(`cluster.inbound|8080||.upstream_cx_total: 2
cluster.inbound|8080||.upstream_rq_total: 5
cluster.inbound|9000|http|.upstream_cx_total: 0
cluster.inbound|70000||.upstream_cx_total: 1
cluster.InboundPassthroughCluster.upstream_cx_total: 3
cluster.InboundPassthroughClusterIpv6.upstream_cx_total: No recorded values
`))
	if diff := cmp.Diff(health.Look{Passed: 11, Ports: map[uint16]int64{8080: 7, 9000: 0}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// With TPROXY a connection whose other end is here, under the client's address and any port, has not come past Envoy.
func TestCallsByEnvoy(t *testing.T) {
	for transparent, want := range map[bool]string{false: "[7 8 9]", true: "[8 9]"} {
		n := netns{
			Redirection: &Redirection{Transparent: transparent}, ports: map[uint16]bool{8080: true, 9000: true},
			own: map[netip.Addr]bool{netip.MustParseAddr("10.0.0.1"): true}, led: map[call]bool{},
		}
		for i, ends := range [][2]string{
			{"10.0.0.1:8080", "10.0.0.7:2000"},
			{"10.0.0.1:8080", "10.0.0.8:40000"},
			{"10.0.0.1:9000", "10.0.0.7:40000"},
			{"10.0.0.7:40000", "10.0.0.1:8080"}, // Envoy's
			{"10.0.0.1:5000", "10.0.0.9:8080"},  // of a program here
		} {
			address, peer := netip.MustParseAddrPort(ends[0]), netip.MustParseAddrPort(ends[1])
			n.add(procnet.Socket{Address: address, Peer: peer, Inode: uint32(7 + i), State: procnet.Established})
		}
		got := []uint32{}
		for _, s := range n.direct() {
			got = append(got, s.Inode)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("TPROXY %t: %v, want %s", transparent, got, want)
		}
	}
}

// A look is due once a minute, and with each query of Envoy while there is something to confirm or to see mended. The first look
// of a row that cannot read connections is logged.
func TestBypassIsDue(t *testing.T) {
	var b bypass
	now := time.Unix(1000, 0)
	due := func(want bool) {
		t.Helper()
		if got := b.begin(now); got != want {
			t.Errorf("due: %t, want %t", got, want)
		}
	}
	due(true)
	due(false)
	now = now.Add(bypassInterval)
	due(true)
	direct := health.Look{Ports: map[uint16]int64{80: 0}, Direct: []health.Direct{{Port: 80}}}
	b.next(direct, now)
	due(true)
	if before, found := b.next(direct, now); before != nil || found == nil {
		t.Errorf("got %v after %v", found, before)
	}
	due(true)
	if before, found := b.next(health.Look{Passed: 1}, now); before == nil || found != nil {
		t.Errorf("got %v after %v", found, before)
	}
	now = now.Add(bypassInterval)
	due(true)
	due(false)
	for i, test := range []struct {
		err  error
		told bool
	}{{errors.New("x"), true}, {errors.New("x"), false}, {nil, false}, {errors.New("x"), true}} {
		if got := b.blinded(test.err); got != test.told {
			t.Errorf("step %d: told %t, want %t", i, got, test.told)
		}
	}
}
