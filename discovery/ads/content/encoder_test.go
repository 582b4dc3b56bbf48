package content

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Route configurations that differ in a few virtual hosts have the bytes of the other hosts in memory once, and are
// sent like one that shares nothing.
func TestRouteConfigurationsShareHosts(t *testing.T) {
	host := func(name, domain string) *routev3.VirtualHost {
		return &routev3.VirtualHost{Name: name, Domains: []string{domain}}
	}
	config := func(hosts []*routev3.VirtualHost) *routev3.RouteConfiguration {
		return &routev3.RouteConfiguration{Name: "80", VirtualHosts: hosts, IgnorePortInHostMatching: true}
	}
	var hosts []*routev3.VirtualHost
	for i := range 4 * manyHosts {
		hosts = append(hosts, host(fmt.Sprintf("host%04d", i), fmt.Sprintf("host%04d.test", i)))
	}
	first := Encode("80", config(hosts))
	if len(first.pieces()) != 0 {
		t.Errorf("without others it lies in %d pieces more", len(first.pieces()))
	}
	changed := slices.Clone(hosts)
	changed[7], changed[100], changed[101] = host("host0007", "short"), host("host0100", "short"), host("host0101", "short")
	for _, c := range []struct {
		name   string
		hosts  []*routev3.VirtualHost
		pieces int // at most
		fresh  int // hosts that are encoded
	}{
		{"the same", hosts, 1, 0},
		{"three others", changed, 5, 3},
		{"one less", slices.Delete(slices.Clone(hosts), 50, 51), 2, 0},
		{"one more", slices.Insert(slices.Clone(hosts), 50, host("new", "new.test")), 3, 1},
		{"the first is another", append([]*routev3.VirtualHost{host("a", "b")}, hosts[1:]...), 2, 1},
		{"another order", append(slices.Clone(hosts[100:]), hosts[:100]...), 2, 0},
		{"few hosts", hosts[:manyHosts-1], 0, 0},
	} {
		m := config(c.hosts)
		shared, alone := Encode("80", m, first), Encode("80", m)
		if !bytes.Equal(shared.Whole(), alone.Whole()) || shared.hash != alone.hash || shared.Version != alone.Version || shared.size() != len(alone.Whole()) {
			t.Errorf("%s: the bytes are not those of one that shares nothing", c.name)
		}
		packed, got := &anypb.Any{}, &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(shared.Whole(), packed); err != nil {
			t.Fatal(err)
		}
		if err := packed.UnmarshalTo(got); err != nil || !proto.Equal(got, m) {
			t.Errorf("%s: another route configuration: %v", c.name, err)
		}
		if n := len(shared.pieces()); n > c.pieces {
			t.Errorf("%s: %d pieces, want %d", c.name, n, c.pieces)
		}
		if own := 0; shared.tail != nil {
			for _, b := range shared.tail.bytes {
				if !slices.ContainsFunc(first.tail.bytes, func(known []byte) bool { return &known[0] == &b[0] }) {
					own++
				}
			}
			if own != c.fresh {
				t.Errorf("%s: %d hosts have bytes of their own, want %d", c.name, own, c.fresh)
			}
		}
		for v := range Variants {
			encode := func(r *Resource) []byte {
				pieces, _ := (&resourceList{kind: RDS, Resources: []*Resource{r}}).Pieces(v)
				return bytes.Join(pieces, nil)
			}
			if !bytes.Equal(encode(shared), encode(alone)) {
				t.Errorf("%s: %s tells it otherwise", c.name, v)
			}
		}
	}
	// A second change reuses the bytes of both.
	again := Encode("80", config(append([]*routev3.VirtualHost{host("a", "b")}, changed[1:]...)), Encode("80", config(changed), first), first)
	if want := Encode("80", config(append([]*routev3.VirtualHost{host("a", "b")}, changed[1:]...))); !bytes.Equal(again.Whole(), want.Whole()) {
		t.Error("after a second change the bytes are not those of one that shares nothing")
	}
	if first.size() != len(Encode("80", config(hosts)).Whole()) {
		t.Error("to share has changed what is shared")
	}
}
