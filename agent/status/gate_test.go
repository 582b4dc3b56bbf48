package status

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// A room is written as "10.0.0.1 10.0.0.2! 10.0.0.1": oldest first, with ! where the request has been read.
func TestEvicted(t *testing.T) {
	many := func(n int, source string) (out []string) {
		for range n {
			out = append(out, source)
		}
		return out
	}
	const most = 12
	for _, test := range []struct {
		name string
		kind kind
		room []string
		want int
	}{
		{"room for one more", stranger, many(8, "10.0.0.1"), -1},
		{"one source has its share", stranger, append(many(2, "10.0.0.2"), many(9, "10.0.0.1")...), 2},
		{"its requests that are read stay", stranger, append([]string{"10.0.0.1!", "10.0.0.1!"}, many(7, "10.0.0.1")...), 2},
		{"all that it has are read: its oldest", stranger, append([]string{"10.0.0.2"}, many(9, "10.0.0.1!")...), 1},
		{"a network of IPv6 is one source", stranger, append(many(8, "2001:db8::1"), "2001:db8::2"), 0},
		{"full: the one with most gives way to another", stranger, append(append(many(5, "10.0.0.2"), many(7, "10.0.0.1")...), "10.0.0.3"), 5},
		{"the node has no such share", nodes, many(12, "10.0.0.1"), -1},
		{"but its room has an end", nodes, many(13, "10.0.0.1"), 0},
		{"and a probe that is asked stays", nodes, append([]string{"10.0.0.1!"}, many(12, "10.0.0.1")...), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var guests []*guest
			for _, text := range test.room {
				address, heard := text, text[len(text)-1] == '!'
				if heard {
					address = text[:len(text)-1]
				}
				guests = append(guests, &guest{kind: test.kind, source: connlimit.SourceOf(netip.MustParseAddr(address)), heard: heard})
			}
			if got := evicted(guests, most); got != test.want {
				t.Errorf("%d leaves, want %d", got, test.want)
			}
		})
	}
	var guests []*guest // each of a source of its own
	for i := range most + 1 {
		guests = append(guests, &guest{source: connlimit.SourceOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})), heard: i == 0})
	}
	if got := evicted(guests, most); got != 1 {
		t.Errorf("all are modest: %d leaves, want the oldest that says nothing, 1", got)
	}
}

func TestKindOf(t *testing.T) {
	g := &gate{node: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	for remote, want := range map[string]kind{
		"127.0.0.1": localhosts, "::1": localhosts,
		"10.0.0.1": nodes, "10.0.0.9": nodes, // the node, and the pod itself
		"127.0.0.6": stranger, "10.0.0.2": stranger, // Envoy forwards traffic of other hosts from 127.0.0.6
	} {
		if got := g.kindOf(netip.MustParseAddr(remote), netip.MustParseAddr("10.0.0.9")); got != want {
			t.Errorf("%s: %d, want %d", remote, got, want)
		}
	}
	if got := g.kindOf(netip.MustParseAddr("127.0.0.6"), netip.MustParseAddr("127.0.0.6")); got != stranger {
		t.Errorf("127.0.0.6 at itself: %d, want a stranger", got)
	}
}

func TestRooms(t *testing.T) {
	for files, want := range map[uint64][3]int{1 << 62: {64, 16, 16}, 1024: {64, 16, 16}, 256: {32, 16, 16}, 64: {8, 4, 4}, 4: {1, 1, 1}} {
		got := rooms(files)
		if got := [3]int{got[stranger], got[nodes], got[localhosts]}; got != want {
			t.Errorf("%d descriptors: %v, want %v", files, got, want)
		}
	}
}

func TestNodeAddresses(t *testing.T) {
	root := fstest.MapFS{
		"proc/net/route": {Data: []byte("Iface\tDestination\tGateway \tFlags\n" +
			"eth0\t00000000\t0100F40A\t0003\neth0\t0000F40A\t00000000\t0001\n")},
		"proc/net/ipv6_route": {Data: []byte(
			"00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 1 0 3 eth0\n" +
				"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 1 0 200200 lo\n")},
	}
	want := []string{"192.0.2.7", "10.244.0.1", "fe80::1"}
	if got := NodeAddresses(root, "192.0.2.7"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := NodeAddresses(fstest.MapFS{}, "no address"); len(got) > 0 {
		t.Errorf("%v of nothing", got)
	}
}

// A client that holds silent connections, and renews them, does not keep others from being answered.
func TestSilentConnectionsStarveNobody(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	g := newGate(inner, nil)
	var silent []net.Conn
	for range 3 * localRoom {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := g.Accept(); err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	if n := len(g.guests[localhosts]); n != localRoom {
		t.Errorf("%d connections are held, want %d", n, localRoom)
	}
	if _, err := silent[0].Read(make([]byte, 1)); err == nil {
		t.Error("the oldest is still open")
	}
	last := g.guests[localhosts][localRoom-1]
	last.Close()
	last.Close() // twice frees one place
	if n := len(g.guests[localhosts]); n != localRoom-1 || slices.Contains(g.guests[localhosts], last) {
		t.Errorf("%d connections are held after one has ended, want %d", n, localRoom-1)
	}
}
